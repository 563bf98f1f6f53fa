# shellcheck shell=bash disable=SC2154
# Packages as far as test/setup.sh and the Makefile can see them: what each brings, as files below
# $machine, and programs that answer like the real ones. Sourced, also by the made-up apt-get.
#
#   machine        the made-up root directory; PATH leads to its bin and usr/bin only
#   FAKE_UID       who "id" says it is
#   distribution   the major version that the package lists know

has_package() { [ -e "$machine/installed/$1" ]; }

# A program in the directory $1, whose text comes from the standard input.
program()
{
	mkdir -p "$(dirname "$machine/$1")"
	{ echo '#!/bin/bash'; printf 'machine=%q\n' "$machine"; cat; } >"$machine/$1"
	chmod +x "$machine/$1"
}

file()
{
	mkdir -p "$(dirname "$machine/$1")"
	cat >"$machine/$1"
}

# pg_config FILE VERSION LIB INCLUDE: programs and PGXS below LIB, headers below INCLUDE.
pg_config_program()
{
	{
		printf 'version=%q lib=%q include=%q\n' "$2" "$machine/$3" "$machine/$4"
		cat <<-'END'
			case $1 in
				--version) echo "PostgreSQL $version.3 (made up)" ;;
				--bindir) echo "$lib/bin" ;;
				--pkglibdir) echo "$lib/lib" ;;
				--sharedir) echo "$lib/share" ;;
				--includedir-server) echo "$include" ;;
				--pgxs) echo "$lib/lib/pgxs/src/makefiles/pgxs.mk" ;;
				--cc) cat "$lib/cc" 2>/dev/null || echo gcc ;;
			esac
		END
	} | program "$1"
}

compiler()
{
	{
		echo "name=$1"
		cat <<-'END'
			case " $* " in
				*' -E '*)
					read -r line
					header=${line#*<}
					[ -e "$machine/usr/include/${header%>*}" ] ;;
				*' -fsanitize='*)
					[ -e "$machine/usr/include/stdio.h" ] || exit 1
					[ "$name" = gcc ] || [ -e "$machine/installed/libclang-rt-dev" ] || exit 1
					while [ $# -gt 1 ]; do
						[ "$1" != -o ] || { printf '#!/bin/sh\n' >"$2"; chmod +x "$2"; }
						shift
					done ;;
			esac
		END
	} | program "bin/$1"
}

# PostgreSQL's part that PGXS needs to be asked for "all".
pgxs()
{
	file "$1/pgxs/src/makefiles/pgxs.mk" <<-END
		CC = $(cat "$machine/${1%/lib}/cc" 2>/dev/null || echo gcc)
		all: \$(OBJS) ; @echo "built for \$(PG_CONFIG)"
		%.o: %.c ; @true
	END
	echo 'CLANG = clang' | file "$1/pgxs/src/Makefile.global"
}

install_package()
{
	local version=${1#postgresql-} lib
	! has_package "$1" || return 0
	version=${version#client-} version=${version#server-dev-} version=${version%-pgtap}
	lib=usr/lib/postgresql/$version
	mkdir -p "$machine/installed"
	: >"$machine/installed/$1"
	case $1 in
		gcc | clang) compiler "$1" ;;
		libc6-dev) file usr/include/stdio.h </dev/null ;;
		faketime | spin) program "usr/bin/$1" </dev/null ;;
		valgrind)
			program usr/bin/valgrind </dev/null
			file usr/include/valgrind/callgrind.h </dev/null ;;
		libclang-rt-dev | libipc-run-perl) ;;
		libpq-dev)
			pg_config_program usr/bin/pg_config.libpq-dev "$distribution" "usr/lib/postgresql/$distribution" \
				"usr/include/postgresql/$distribution/server"
			has_package postgresql-common || cp "$machine/usr/bin/pg_config.libpq-dev" "$machine/usr/bin/pg_config" ;;
		postgresql-common)
			program usr/bin/pg_config <<-'END'
				latest=$(ls -v "$machine"/usr/lib/postgresql/*/bin/pg_config 2>/dev/null | tail -n 1)
				[ -n "$latest" ] || latest=$machine/usr/bin/pg_config.libpq-dev
				[ -x "$latest" ] && exec "$latest" "$@"
				echo 'You need to install postgresql-server-dev-NN' >&2
				exit 1
			END
			;;
		postgresql-client-*)
			pg_config_program "$lib/bin/pg_config" "$version" "$lib" "usr/include/postgresql/$version/server"
			pgxs "$lib/lib"
			file "$lib/lib/pgxs/src/test/perl/PostgreSQL/Test/Cluster.pm" </dev/null ;;
		postgresql-server-dev-*)
			install_package "postgresql-client-$version"
			install_package postgresql-common
			install_package libpq-dev
			install_package clang
			file "usr/include/postgresql/$version/server/postgres.h" </dev/null ;;
		postgresql-*-pgtap)
			install_package "postgresql-$version"
			file "$lib/share/extension/pgtap.control" </dev/null ;;
		postgresql-*)
			install_package "postgresql-client-$version"
			install_package postgresql-common
			program "$lib/bin/postgres" </dev/null
			grep -qs '^create_main_cluster = false' "$machine"/etc/postgresql-common/createcluster.d/*.conf ||
				mkdir -p "$machine/etc/postgresql/$version/main" ;;
		*) return 1 ;;
	esac
}

# Whether the package lists have a package.
available()
{
	[ -e "$machine/lists" ] || return 1
	case $1 in
		postgresql | postgresql-common) ;;
		postgresql-"$distribution" | postgresql-*-"$distribution" | postgresql-"$distribution"-pgtap) ;;
		postgresql-*) return 1 ;;
	esac
}

# A machine with nothing but git and make, and what every Debian has.
new_machine()
{
	local tool
	mkdir -p "$machine/bin"
	for tool in bash sh env sed grep awk sort head tail cat cut tr cp mv rm ln ls mkdir rmdir mktemp chmod touch \
		dirname basename readlink test expr find tar cmp date uname getconf nproc make true; do
		ln -sf "$(type -P "$tool")" "$machine/bin/$tool"
	done
	for tool in apt-get apt-cache; do
		{
			printf 'packages=%q distribution=%q\n' "$top/test/fresh/packages.sh" "$distribution"
			echo '. "$packages"'
			echo "fake_${tool/-/_}"' "$@"'
		} | program "bin/$tool"
	done
	program bin/id <<-'END'
		case $1 in
			-u) echo "${FAKE_UID:-1000}" ;;
			*) echo somebody ;;
		esac
	END
	program bin/git <<<'exit 1'
	program bin/perl <<-'END'
		case $* in
			*IPC::Run*) [ -e "$machine/installed/libipc-run-perl" ] ;;
		esac
	END
}

fake_apt_get()
{
	local words=() package
	while [ $# -gt 0 ]; do
		case $1 in
			-o) shift ;;
			-*) ;;
			*) words+=("$1") ;;
		esac
		shift
	done
	[ "${FAKE_UID:-1000}" -eq 0 ] || { echo 'E: are you root?' >&2; exit 100; }
	case ${words[0]} in
		update) : >"$machine/lists" ;;
		install)
			for package in "${words[@]:1}"; do
				echo "$package" >>"$machine/asked"
				available "$package" || { echo "E: Unable to locate package $package" >&2; exit 100; }
			done
			for package in "${words[@]:1}"; do
				install_package "$package" || exit 100
			done ;;
	esac
}

fake_apt_cache()
{
	local package=${!#}
	available "$package" || { echo 'E: No packages found' >&2; exit 100; }
	echo "Package: $package"
	[ "$package" != postgresql ] || echo "Depends: postgresql-$distribution"
}
