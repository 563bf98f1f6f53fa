# idgen: builds with PGXS where PostgreSQL's development files are installed.
#
# The test and demo targets need nothing but git and make: they install what is missing
# (test/setup.sh), then work on a private copy of the server in a scratch directory as an
# ordinary user (test/sandbox.sh, test/private-tree.sh). They touch no system directory.

.DEFAULT_GOAL := all

EXTENSION = idgen
MODULE_big = idgen
PGFILEDESC = "idgen - distributed unique, time-sorted 64-bit IDs"

OBJS = $(patsubst %.c,%.o,$(wildcard src/*.c src/*/*.c))
DATA = $(wildcard sql/idgen--*.sql)
PG_CPPFLAGS = -Isrc

# Every file in sql/ that is not an install script is a regression test; each stands alone.
REGRESS = $(patsubst sql/%.sql,%,$(filter-out $(DATA),$(sort $(wildcard sql/*.sql))))
REGRESS_OPTS = --load-extension=idgen
EXTRA_CLEAN = tmp_check results coverage regression.diffs regression.out test/unit/build test/fuzz/build test/sim/build

harness_targets := help indent indent-check shellcheck coverage unit setup sim model regress isolation pgtap tap instructions test quick drills clients servers fresh counterparts demo bench fuzz

# IDGEN_BREAK=<name> takes one safety rule out (test/break.sh), to see that the rule's test
# notices. Such a build must never reach a real server: only the harness honours it, in its own
# copy of the sources.
ifneq (,$(IDGEN_BREAK))
ifneq (,$(filter-out $(harness_targets) clean,$(or $(MAKECMDGOALS),all)))
$(error IDGEN_BREAK builds go into a private tree only, see test/private-tree.sh)
endif
endif

# Where nobody says which, it is the one on PATH, else the newest of the distribution. It is not exported:
# the scripts see what was given in the environment or on the command line of make, and else look for
# themselves.
ifeq (undefined,$(origin PG_CONFIG))
pg_configs := $(wildcard $(IDGEN_SETUP_ROOT)/usr/lib/postgresql/*/bin/pg_config)
PG_CONFIG := $(or $(shell command -v pg_config),$(lastword $(sort $(pg_configs))),pg_config)
endif

# PGXS comes with the client programs, the headers do not.
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
pg_headers := $(shell test -f "`$(PG_CONFIG) --includedir-server 2>/dev/null`/postgres.h" && echo there)

ifneq (,$(and $(PGXS),$(wildcard $(PGXS)),$(pg_headers)))

# A server built with LLVM asks for bitcode of every extension. It only serves inlining by the
# JIT compiler, so where that clang is missing, build without it.
pgxs_clang := $(shell sed -n 's/^CLANG[[:space:]]*=[[:space:]]*//p' $(dir $(PGXS))../Makefile.global)
ifeq (,$(shell command -v $(firstword $(pgxs_clang) no-clang)))
override with_llvm = no
endif

include $(PGXS)

# PGXS follows headers only where the server was configured with --enable-depend, and Debian's
# was not. All objects depend on all headers: few files, and nothing stale can survive.
$(OBJS) $(OBJS:.o=.bc): $(wildcard src/*.h src/*/*.h) Makefile | compiler

# PGXS calls the compiler that PostgreSQL was built with, whatever "cc" may be.
compiler:
	@echo '#include <stdio.h>' | $(CC) -E - >/dev/null 2>&1 || \
		{ echo '$(CC) does not compile a C program.' >&2; test/setup.sh --tell; }

.PHONY: compiler

else

# Nothing is installed here: it says what to install.
all install uninstall installcheck:
	@test/setup.sh --tell

clean:
	rm -rf $(OBJS) $(OBJS:.o=.bc) $(MODULE_big).so $(EXTRA_CLEAN)

endif

in_sandbox = test/setup.sh && exec test/sandbox.sh

help:
	@echo 'make             build the extension for the server of pg_config (PG_CONFIG=...)'
	@echo 'make install     install it there'
	@echo 'make installcheck  run the SQL tests against a running server that preloads idgen'
	@echo 'make demo        see IDs come out of a throw-away server (KEEP=1 leaves it running)'
	@echo 'make test        everything below but drills, fuzz and bench, and a build with warnings as errors'
	@echo 'make quick       the edit loop: unit and regress'
	@echo 'make unit        the core alone, with its fuzz corpora, under address and undefined-behaviour sanitizers'
	@echo 'make setup       what is said and installed where packages are missing, on made-up machines'
	@echo 'make model       every state of a model of the grant protocol, by spin'
	@echo 'make sim         many generators and faults, simulated (SEED=..., N=..., TRACE=1, SCALE=1, MUTANTS=1)'
	@echo 'make regress     SQL surface and error texts'
	@echo 'make pgtap       behaviour by namespace and role'
	@echo 'make isolation   two sessions interleaved'
	@echo 'make tap         real clusters: crash, restart, concurrency'
	@echo 'make instructions  has issuing become slower? counted, not timed'
	@echo 'make drills      the long ones (QUICK=1, SEED=..., N=...), servers and fresh'
	@echo 'make clients     programs of others against idgen: drivers, ORMs, exporters'
	@echo 'make fresh       as root: the demo in a fresh Debian, made by debootstrap and then removed'
	@echo 'make servers     some of it on a server with assertions, and on the newest version of PostgreSQL'
	@echo 'make counterparts  each safety rule taken out in turn: its test has to fail'
	@echo 'make fuzz        more inputs for the core than those that make unit replays (FUZZ_SECONDS=60, SEED=...)'
	@echo 'make bench       measurements (QUICK=1 for a glance, TESTS="issue inserts ..." for parts, SOAK=1)'
	@echo 'make coverage    lines of src that regress, pgtap and tap reach; needs lcov'
	@echo 'make indent      format the C code as PostgreSQL does; indent-check only shows what would change'
	@echo 'make shellcheck  remarks on the shell scripts'
	@echo 'make clean       remove what was built'
	@echo
	@echo 'TESTS="name ..." runs only these tests of a stage; KEEP=1 keeps the scratch directory.'
	@echo 'IDGEN_BREAK=name runs the tests on a build with that safety rule taken out.'

# A commit has seeds of its own, so that more are seen than one run has time for.
export IDGEN_COMMIT ?= $(shell git rev-parse --short=7 HEAD 2>/dev/null)

unit setup sim regress isolation pgtap tap bench:
	@$(in_sandbox) test/run.sh $@

counterparts:
	@test/setup.sh counterparts && exec test/sandbox.sh test/run.sh counterparts

# Each of these needs what no other stage does.
instructions:
	@test/setup.sh instructions && exec test/sandbox.sh test/run.sh instructions

model:
	@test/setup.sh model && exec test/sandbox.sh test/run.sh model

coverage:
	@test/setup.sh coverage && exec test/sandbox.sh test/run.sh coverage

fuzz:
	@test/setup.sh fuzz && exec test/sandbox.sh test/run.sh fuzz

quick:
	@$(in_sandbox) test/run.sh unit regress

test:
	@test/setup.sh model instructions && exec test/sandbox.sh test/run.sh unit setup sim model build regress pgtap isolation tap instructions

# A fresh system is made outside the sandbox, as root; its result counts among the others.
fresh_first = test/setup.sh && IDGEN_FRESH=$$(test/fresh/drill.sh) && export IDGEN_FRESH && exec test/sandbox.sh

fresh:
	@$(fresh_first) test/run.sh fresh

# Tests are named for one stage: with TESTS there are only the drills.
ifeq (,$(TESTS)$(IDGEN_BREAK))
drills:
	@test/setup.sh source && test/servers.sh && IDGEN_FRESH=$$(test/fresh/drill.sh) && export IDGEN_FRESH && exec test/sandbox.sh test/run.sh drills servers fresh
else
drills:
	@$(in_sandbox) test/run.sh drills
endif

# Other servers are fetched by whoever calls, and used as the tests' user.
servers:
	@test/setup.sh source && test/servers.sh && exec test/sandbox.sh test/run.sh servers

# So are programs of others.
clients:
	@test/setup.sh && test/packages.sh && exec test/sandbox.sh test/run.sh clients

demo:
	@$(in_sandbox) test/demo.sh

# In the caller's own tree.
indent:
	@test/indent/indent.sh

indent-check:
	@test/indent/indent.sh --check

shellcheck:
	@command -v shellcheck >/dev/null || { echo 'shellcheck: skipped: it is not installed' >&2; exit 0; }; \
		shellcheck .ci/run $$(find test -name '*.sh')

.PHONY: all install uninstall installcheck clean $(harness_targets)
