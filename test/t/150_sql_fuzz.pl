# Random calls of every function, right and wrong, from several sessions at once, while namespaces
# and the extension come and go and the authority process is killed: no crash but those that the test causes, no
# hang, no internal error, no ID twice, no grant twice, no token where it does not belong.
#
# FUZZ_SECONDS=n for longer. SEED=n chooses the same statements for each session; how the sessions
# interleave is up to the machine. After a failure, what was sent and answered last is in
# 150_sql_fuzz_statements.log beside the server's log.
#
# To see it fail: IDGEN_BREAK=generation-under-lock, token, statement-hidden.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

use Idgen::Node;
use Idgen::Session;

my $seed = $ENV{SEED} || ($$ * 7919 + time) % 1_000_000;
my $seconds = $ENV{FUZZ_SECONDS} || ($ENV{QUICK} ? 10 : 30);
my $session_count = 8;
note("SEED=$seed FUZZ_SECONDS=$seconds");

# What a call may take: the longest idgen.wait_timeout set below, and a wait for a lock. A busy machine may hold the
# authority process up for seconds, which is no cause that an error could name.
my ($wait_s, $lock_s) = (6, 1);

# --- What is said about errors.

# The SQLSTATEs that the README lists under "Errors", and no others, are idgen's.
my $readme = PostgreSQL::Test::Utils::slurp_file("$ENV{IDGEN_TOP}/README.md");
my ($errors_section) = $readme =~ /^## Errors\n(.*?)^## /ms or die 'the README has no section "Errors"';
my %documented = map { $_ => 1 } $errors_section =~ /\b(IG\d{3}|[0-9][0-9A-Z]{4})\b/g;
cmp_ok(scalar(grep { /^IG/ } keys %documented), '==', 9, 'the README lists the SQLSTATEs');

# And what PostgreSQL itself answers to statements like these.
my %postgresql = (
	'22007' => 'a timestamp that is none',
	'25001' => 'inside a transaction', '25006' => 'in a read-only transaction', '25P02' => 'in a failed transaction',
	'25P01' => 'outside of a transaction', '26000' => 'no such prepared statement', '34000' => 'no such cursor', '3B001' => 'no such savepoint',
	'40001' => 'serialization', '40P01' => 'deadlock', '42883' => 'the extension is dropped',
	'42P01' => 'the extension is dropped', '42P03' => 'the cursor exists', '42P05' => 'the prepared statement exists',
	'55006' => 'the extension is in use', '55P03' => 'lock_timeout', '57014' => 'cancelled, or statement_timeout',
	'57P01' => 'the server ends', '57P02' => 'a crash that was asked for', '57P03' => 'the server starts');

# Internal errors that are PostgreSQL's own: [ message, statement ]. It does not lock the functions of a
# query, nor an extension while it looks for it, so one that is dropped meanwhile is not found where it
# must be; and the tables in the body of a function in SQL are locked when it runs, not when it is found.
my @internal_allowed = (
	[ qr/^cache lookup failed for function \d+$/, qr/idgen_/ ],
	[ qr/^tuple concurrently (?:updated|deleted)$/, qr/EXTENSION/ ],
	[ qr/^could not open relation with OID \d+$/, qr/idgen_trace/ ]);

# Statements with a token are hidden in the errors of the functions that take one. PostgreSQL's own
# errors, raised before such a function is called, show the statement: there is no function, or the
# transaction has failed, or the session ends.
my $before_the_function = qr/^(?:42883|25P02|57P0[123])$/;
my $secret = qr/(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])|wrong-token/;

# --- Random choices: a stream for each session.

{
	package Choices;
	sub new { my ($class, $n) = @_; use integer; return bless { state => ($n * 6364136223846793005 + 1442695040888963407) & ((1 << 48) - 1) }, $class; }
	sub below
	{
		my ($self, $n) = @_;
		{ use integer; $self->{state} = ($self->{state} * 25214903917 + 11) & ((1 << 48) - 1); }
		return ($self->{state} >> 16) % $n;
	}
}

# --- The namespaces. A name always has the same format, so that its IDs are one ID space, also over
# DROP EXTENSION. What is created otherwise gets a name of its own.

# [timestamp, worker, sequence bits, tick_ms, horizon in ms, options]
my %formats = (
	'default' => [ 41, 10, 12, 1, 10000, '' ],
	'plain' => [ 41, 5, 6, 1, 500, "run_ahead => '100 ms'" ],
	'p"lain' => [ 45, 8, 4, 1, 400, '' ],
	"it's" => [ 42, 3, 2, 1, 300, "promotion => 'fence', run_ahead => '200 ms'" ],
	"\x{c3}\x{a4}\x{d0}\x{ba} \x{e2}\x{82}\x{ac}" => [ 41, 2, 1, 1, 300, '' ],
	'x' x 63 => [ 40, 4, 18, 1, 800, 'restricted => true' ],
	"a\\b\t%s\n%n" => [ 32, 4, 10, 100, 1000, "grant_interval => '200 ms'" ],
	'$1; --' => [ 43, 6, 0, 1, 300, "run_ahead => '50 ms'" ],
	# For decoding only: ticks without a date, IDs of all 63 bits.
	'wide' => [ 63, 0, 0, 3600000, 3600000, 'issuing => false' ],
	'one' => [ 41, 0, 8, 1, 250, "grant_interval => '50 ms'" ]);
my @names = sort keys %formats;
my $epoch_ms = 1735689600000;
my $run_ahead_max_ms = 250;
my ($strangers, @strangers) = (0);
# What the clocks of test and server may differ by while a time is read.
my $skew_ms = 1000;

sub quote { my ($text) = @_; return 'NULL' if !defined $text; $text =~ s/'/''/g; return "'$text'"; }

sub create_known
{
	my ($name) = @_;
	my ($time, $worker, $sequence, $tick_ms, $horizon_ms, $options) = @{ $formats{$name} };
	# At most a horizon, and at least a tick.
	my $grant = $options =~ /grant_interval/ ? '' : ", grant_interval => '" . ($tick_ms > 200 ? $tick_ms : 200) . " ms'";
	return sprintf("SELECT idgen_create_namespace(%s, %d, %d, %d, tick_ms => %d, horizon => '%d ms'%s)",
		quote($name), $time, $worker, $sequence, $tick_ms, $horizon_ms, $grant . ($options ? ", $options" : ''));
}

# --- Arguments.

my @bigints = (qw(0 1 -1 2 20497 2147483647 2147483648 -2147483649 4294967296 9007199254740993
	9223372036854775806 9223372036854775807), "'-9223372036854775808'", 'NULL');
my @ints = (qw(0 1 -1 2 3 31 32 63 64 1000 2147483647), "'-2147483648'", 'NULL');
my @intervals = map { "'$_'" } ('0', '1 ms', '0.0004 ms', '50 ms', '200 ms', '1 s', '10 s', '1 h', '1 h 1 us', '-1 s', '1 month', '-1 year',
	'1 month -30 days', '106751991 days', '-106751991 days', '178000000 years', '2147483647 days -1 us');
my @timestamps = (map({ "'$_'" } 'infinity', '-infinity', 'epoch', '4714-11-24 00:00:00+00 BC', '294276-12-31 23:59:59.999999+00',
		'2025-01-01 00:00:00+00', '2024-12-31 23:59:59.999999+00', '2094-09-07 15:47:35.551+00', '2025-01-01 00:00:00.0005+00'),
	'now()', 'clock_timestamp()', 'NULL');
my @odd_names = ('', 'nowhere', ' default', 'Default', 'y' x 64, "\x{c3}\x{bc}" x 40, 'z' x 100_000, "a'b", '"default"', 'pg_temp');
my @texts = map { quote($_) } ('20497', '', '-1', ' 1', '1 ', '0x1', '9223372036854775807', '9223372036854775808', '0' x 5000 . '7', '9' x 5000,
	'12a', "\x{d9}\x{a1}", '1e3', '1.0');
my @roles_text = map { "'$_'::regrole" } ('fuzz_app', 'fuzz_gen', '"nobody here"', '4294967295', '12345');
push @roles_text, 'NULL';

# --- What the run has come to.

my (@faults, %kinds);
my %seen = (ids => 0, answers => 0, states => {}, called => {}, drops => 0, crashes => 0, terms => 0, cancels => 0, causeless => 0);
my (%files, %answers, @held, @grants);
my $requests = 0;
my $quiet = 0;    # no activations, so that the extension can be dropped
my @trace;
my $directory = PostgreSQL::Test::Utils::tempdir();

sub fault
{
	my ($what) = @_;
	trace("FAULT $what");
	# One of a kind is enough.
	(my $kind = substr($what, 0, 200)) =~ s/\d+|"[^"]*"|'[^']*'//g;
	push @faults, $what if !$kinds{$kind}++;
	return;
}
sub trace
{
	my ($line) = @_;
	push @trace, sprintf('%.3f %s', Time::HiRes::time(), length $line > 700 ? substr($line, 0, 700) . ' ...' : $line);
	splice @trace, 0, 2000 if @trace > 8000;
	return;
}
sub wall_ms { return Time::HiRes::time() * 1000; }

# --- Choices, of a session $s.

sub some { my ($s, $list) = @_; return $list->[ $s->{choices}->below(scalar @$list) ]; }
sub one_in { my ($s, $n) = @_; return $s->{choices}->below($n) == 0; }
# pick($s, weight => sub, ...): what one of them returns.
sub pick
{
	my ($s, @pairs) = @_;
	my $total = 0;
	for (my $i = 0; $i < @pairs; $i += 2) { $total += $pairs[$i]; }
	my $at = $s->{choices}->below($total);
	while (my ($weight, $code) = splice @pairs, 0, 2)
	{
		return $code->() if ($at -= $weight) < 0;
	}
	die;
}
# One that was created with other than a known format, or never.
sub a_stranger { my ($s) = @_; return @strangers && !one_in($s, 10) ? some($s, \@strangers) : 'stranger 0'; }
sub a_name
{
	my ($s) = @_;
	return pick($s,
		30 => sub { some($s, \@names) },
		3 => sub { some($s, \@odd_names) },
		1 => sub { undef },
		2 => sub { a_stranger($s) });
}
# Named arguments, each of them there or not.
sub options
{
	my ($s, @pairs) = @_;
	my $given = '';
	while (my ($name, $list) = splice @pairs, 0, 2)
	{
		$given .= ", $name => " . some($s, $list) if one_in($s, 4);
	}
	return $given;
}

# --- The statements: { sql, ... }
#   name      the namespace, where there is one
#   columns   [names]: the columns of a row that are IDs of these namespaces; undef for others
#   made      since when the IDs may have been made, if not since the call
#   calls     how often it may wait
#   also      SQLSTATEs that the statement makes itself
#   told      what to do with each row
#   after     what to do with the result

sub issuing
{
	my ($s) = @_;
	my $name = a_name($s);
	my $n = quote($name);
	my %ids = (name => $name, columns => [$name]);
	return pick($s,
		10 => sub { return { %ids, sql => "SELECT idgen_next($n)" } },
		2 => sub { return { name => 'default', columns => ['default'], sql => 'SELECT idgen_next()' } },
		4 => sub { return { %ids, sql => 'SELECT idgen_next_batch(' . some($s, [ 0, 1, 7, 300, 300, 5000, @ints ]) . ", $n)" } },
		3 => sub { return { %ids, sql => "SELECT idgen_next_json($n) ->> 'id'" } },
		2 => sub {
			my $other = some($s, \@names);
			return { columns => [ $name, $other ], calls => 2, sql => "SELECT idgen_next($n), idgen_next(" . quote($other) . ')' };
		},
		2 => sub { return { %ids, calls => 100, sql => "SELECT idgen_next($n) FROM generate_series(1, " . some($s, [ 1, 3, 100 ]) . ')' } },
		# An ID decodes to itself, on the server too.
		3 => sub {
			return { %ids, told => sub { $_[0][1] eq 't' || fault("$_[0][0] of $n does not decode to itself") },
				sql => "SELECT id, encoded = id AND text_encoded = id AND lower <= id AND text_timestamp = timestamp FROM (SELECT id, d.timestamp,
					idgen_encode(d.tick, d.worker, d.sequence, $n) AS encoded, idgen_lower_bound(d.timestamp, $n) AS lower,
					idgen_timestamp(id, $n) AS text_timestamp,
					(SELECT idgen_encode(e.tick, e.worker, e.sequence, $n) FROM idgen_decode_text(id::text, $n) e) AS text_encoded
					FROM (SELECT idgen_next($n) AS id OFFSET 0) x, idgen_decode(id, $n) d) q" };
		},
		# The authority cannot see it yet.
		1 => sub {
			my $stranger = 'stranger ' . ++$strangers;
			return { name => $stranger, sql => 'BEGIN; SELECT idgen_create_namespace(' . quote($stranger)
				. '); SELECT idgen_next(' . quote($stranger) . ')', calls => 2 };
		},
		2 => sub {
			return { %ids, calls => 3, sql => "BEGIN; SELECT idgen_next($n); SAVEPOINT a; SELECT idgen_next($n); ROLLBACK TO a; "
				. "SELECT idgen_next($n); " . some($s, [ 'COMMIT', 'ROLLBACK' ]) };
		},
		1 => sub { return { %ids, also => '22012', sql => "SELECT idgen_next($n); SELECT 1 / 0" } });
}

sub reading
{
	my ($s) = @_;
	my $name = a_name($s);
	my $n = quote($name);
	# A trigger's function, not to be called.
	return { sql => 'SELECT idgen_guard()', also => '39P01' } if one_in($s, 50);
	my ($id, $tick) = map { some($s, \@bigints) } (1, 2);
	return { name => $name, sql => pick($s,
		2 => sub { "SELECT * FROM idgen_decode(${id}::bigint, $n)" },
		2 => sub { 'SELECT * FROM idgen_decode_text(' . some($s, \@texts) . "::text, $n)" },
		2 => sub { "SELECT idgen_encode($tick, " . some($s, \@ints) . ', ' . some($s, \@ints) . ", $n)" },
		2 => sub { "SELECT idgen_timestamp($id, $n)" },
		3 => sub { 'SELECT idgen_lower_bound(' . some($s, \@timestamps) . ", $n)" },
		2 => sub { "SELECT idgen_format($n)" },
		1 => sub { "SELECT * FROM idgen_trace($id, $n)" },
		1 => sub { "SELECT * FROM idgen_trace(idgen_lower_bound(now(), $n), $n)" },
		1 => sub { 'SELECT * FROM idgen_stat_' . some($s, [qw(namespace cursor authority counters() cursors() authority_process())]) },
		1 => sub { 'SELECT idgen_stat_reset()' },
		1 => sub { 'SELECT * FROM idgen_check_columns()' },
		1 => sub { 'SELECT idgen_confirm_clock()' }) };
}

sub changing
{
	my ($s) = @_;
	my $name = a_name($s);
	my $n = quote($name);
	return pick($s,
		3 => sub {
			my $known = some($s, \@names);
			return { name => $known, sql => create_known($known) };
		},
		3 => sub {
			my $stranger = 'stranger ' . ++$strangers;
			return { name => $stranger, after => sub { push @strangers, $stranger if !$_[0]{error}; shift @strangers if @strangers > 10 },
				sql => 'SELECT idgen_create_namespace(' . quote($stranger) . options($s,
				timestamp_bits => [ 41, 41, 41, 41, 63, 40, 12, @ints ], worker_bits => [ 0, 1, 10, 10, 10, 10, @ints ],
				sequence_bits => [ 0, 1, 12, 12, 12, 12, @ints ],
				epoch => \@timestamps, tick_ms => [ 1, 10, 3600000, 3600001, @ints ], grant_interval => \@intervals, horizon => \@intervals,
				first_worker => \@ints, last_worker => \@ints, durability => [qw('local' 'local' 'local' 'local' 'quorum' '' 'Local' NULL)],
				promotion => [qw('split' 'fence' 'trust' 'refuse' '' NULL)], run_ahead => \@intervals,
				restricted => [qw(true false NULL)], issuing => [qw(true false false NULL)]) . ')' };
		},
		1 => sub { return { name => $name, sql => "SELECT idgen_create_namespace($n)" } unless exists $formats{ $name // '' }; return reading($s); },
		4 => sub {
			return { name => $name, sql => "SELECT idgen_alter_namespace($n" . options($s,
				grant_interval => [ "'50 ms'", "'200 ms'", "'200 ms'", @intervals ], durability => [qw('local' 'quorum' '')],
				promotion => [qw('fence' 'split' 'trust' 'refuse' '')], run_ahead => [ "'0'", "'50 ms'", "'240 ms'" ],
				restricted => [qw(false false true)], owner => \@roles_text) . ')' };
		},
		4 => sub {
			return { name => $name, sql => 'SELECT idgen_' . some($s, [qw(allow allow disallow)]) . "($n, " . some($s, \@roles_text)
				. ', ' . some($s, [ "'issue'", "'acquire'", "'acquire'", "'Issue'", "''", 'NULL' ]) . ')' };
		},
		1 => sub {
			# "default" is asked for an ID in the end.
			my $which = one_in($s, 40) && ($name // '') ne 'default' ? $name : a_stranger($s);
			return { name => $which, sql => 'SELECT idgen_retire_namespace(' . quote($which) . ')' };
		},
		1 => sub {
			my $which = one_in($s, 40) && ($name // '') ne 'default' ? $name : a_stranger($s);
			return { name => $which, sql => 'SELECT idgen_hand_over_namespace(' . quote($which) . ')' };
		},
		# What is fenced issues nothing for a while, and "default" for 10 s: not too often.
		1 => sub {
			my $which = one_in($s, defined $name && $name eq 'default' ? 200 : 20) ? $name : a_stranger($s);
			return { name => $which, sql => 'SELECT idgen_' . (one_in($s, 2) ? 'fence' : 'adopt') . '_namespace(' . quote($which)
				. options($s, above => \@bigints) . ')' };
		},
		1 => sub {
			my $which = some($s, [ @odd_names, a_stranger($s), a_stranger($s) ]);
			return { name => $which, sql => 'SELECT idgen_adopt_namespace(' . quote($which) . options($s, above => \@bigints,
				first_worker => [ 0, @ints ], last_worker => \@ints, ticket => [ 'NULL', "'{}'", "'null'", quote('{"ticket": 1}') ]) . ')' };
		},
		1 => sub {
			return { calls => 10, sql => "BEGIN; CREATE TABLE moved_$s->{number} (id bigint PRIMARY KEY); SELECT idgen_adopt_column('moved_$s->{number}', 'id'"
				. (one_in($s, 2) ? '' : ", $n") . '); ROLLBACK' };
		},
		1 => sub {
			return { calls => 10, sql => "BEGIN; SELECT idgen_alter_namespace($n, restricted => true); SAVEPOINT a; DROP EXTENSION idgen CASCADE; "
				. 'ROLLBACK TO a; ROLLBACK' };
		});
}

# A grant was told: nobody else may hold a tick of it, and the same request gets the same one again.
sub grant_told
{
	my ($s, $name, $row, $request) = @_;
	my ($worker, $incarnation, $grant_id, $start_ms, $end_ms, $format) = @$row;
	my $grant = { name => $name, life => $s->{life}, worker => $worker, incarnation => $incarnation, id => $grant_id,
		start_ms => $start_ms, end_ms => $end_ms };
	fault("grant $grant_id of " . quote($name) . ' calls itself of ' . quote($format)) if $format ne $name;
	fault("grant $grant_id is empty") if $start_ms >= $end_ms;
	if (my $known = $formats{$name})
	{
		my ($tick_ms, $horizon_ms) = @$known[ 3, 4 ];
		fault("grant $grant_id of " . quote($name) . " ends past its horizon: $start_ms to $end_ms")
		  if $end_ms - $start_ms > $horizon_ms + $tick_ms || $end_ms + $epoch_ms > wall_ms() + $horizon_ms + $tick_ms + $skew_ms;
	}
	if (defined $request)
	{
		my $before = $answers{$request};
		fault("request $request was answered with two grants: $before, @$row") if $before && $before ne "@$row";
		return if $before;
		$answers{$request} = "@$row";
	}
	push @grants, $grant;
	return $grant;
}

sub some_held { my ($s) = @_; return @held ? some($s, \@held) : undef; }

sub generating
{
	my ($s) = @_;
	my $held = some_held($s);
	my $name = one_in($s, 6) ? a_name($s) : some($s, \@names);
	if (!$held || one_in($s, 4))
	{
		return { name => $name, sql => 'SELECT * FROM idgen_activate(' . quote($name) . ')', told => sub {
				my ($row) = @_;
				my $grant = grant_told($s, $name, $row) or return;
				$grant->{token} = $row->[6];
				push @held, $grant;
				shift @held if @held > 40;
			} };
	}
	return { sql => 'SELECT idgen_end_incarnation(' . some($s, [ $held->{incarnation}, $held->{incarnation}, @bigints ]) . ')' } if one_in($s, 8);

	# Right, swapped with another's, or wrong.
	my $other = some_held($s);
	my $token = quote(pick($s, 10 => sub { $held->{token} }, 2 => sub { $other->{token} }, 1 => sub { 'wrong-token' },
		1 => sub { '' }, 1 => sub { 'wrong-token' x 2000 }));
	$token = 'NULL' if one_in($s, 30);
	my $incarnation = one_in($s, 12) ? some($s, \@bigints) : $held->{incarnation};
	return { sql => "SELECT idgen_deactivate($incarnation, $token)" } if one_in($s, 5);

	my $request = some($s, [ 'new', 'new', 'new', 'same', 'other', 'NULL' ]);
	$request = $request eq 'new' || $request eq 'same' && !$held->{request} ? sprintf('%08x-0000-4000-8000-%012x', $seed, ++$requests)
	  : $request eq 'same' ? $held->{request}
	  : $request eq 'other' ? $other->{request} // '00000000-0000-0000-0000-000000000000' : undef;
	$held->{request} = $request if defined $request;
	my $after = one_in($s, 12) ? some($s, \@bigints) : one_in($s, 20) ? $other->{id} : $held->{id};
	my $length = one_in($s, 3) ? ', ' . some($s, [ "'50 ms'", "'200 ms'", $held->{name} eq 'default' ? "'1 s'" : @intervals ]) : '';
	my $of = one_in($s, 12) ? a_name($s) : $held->{name};
	my $known = defined $request ? "$incarnation $request $token $s->{life}" : undef;
	return { name => $of,
		sql => 'SELECT * FROM idgen_acquire_grant(' . join(', ', quote($of), $incarnation, quote($request), $token, $after) . "$length)",
		told => sub {
			my ($row) = @_;
			my $grant = grant_told($s, $of, $row, $known) or return;
			fault("a grant with a wrong token: @$row") if $token ne quote($held->{token}) || $incarnation ne $held->{incarnation};
			$held->{id} = $grant->{id};
		} };
}

# Transactions, cursors, prepared statements, settings.
sub surrounding
{
	my ($s) = @_;
	my $name = some($s, \@names);
	my $n = quote($name);
	return pick($s,
		6 => sub { return { sql => 'BEGIN' . some($s, [ '', '', '', ' READ ONLY', ' ISOLATION LEVEL SERIALIZABLE', ' ISOLATION LEVEL REPEATABLE READ' ]) } },
		# A cursor WITH HOLD is run by COMMIT.
		5 => sub { return { sql => 'COMMIT', calls => 60 } },
		4 => sub { return { sql => 'ROLLBACK' } },
		4 => sub { return { sql => some($s, [ 'SAVEPOINT a', 'SAVEPOINT b', 'ROLLBACK TO a', 'ROLLBACK TO b', 'RELEASE a', 'RELEASE b' ]) } },
		3 => sub {
			return { sql => 'DECLARE c ' . some($s, [ 'CURSOR', 'NO SCROLL CURSOR', 'INSENSITIVE CURSOR', 'CURSOR WITH HOLD' ])
				. " FOR SELECT idgen_next($n) FROM generate_series(1, 50)",
				calls => 60, after => sub { @$s{qw(cursor cursor_ms)} = ($name, wall_ms()) if !$_[0]{error} } };
		},
		6 => sub {
			return { sql => 'FETCH ' . some($s, [ 1, 10, 'ALL' ]) . ' FROM c', calls => 60, name => $s->{cursor}, columns => [ $s->{cursor} ],
				made => $s->{cursor_ms} // 0 };
		},
		1 => sub { return { sql => 'CLOSE c' } },
		2 => sub { return { sql => 'PREPARE p AS SELECT idgen_next($1)' } },
		4 => sub { return { sql => "EXECUTE p($n)", name => $name, columns => [$name] } },
		1 => sub { return { sql => some($s, [ 'DEALLOCATE ALL', 'DISCARD ALL', 'RESET ALL', 'DISCARD PLANS', 'DISCARD TEMP' ]) } },
		2 => sub { return { sql => 'SET ' . some($s, [ '', 'LOCAL ' ]) . 'idgen.wait_timeout = ' . some($s, [qw('0' '50ms' '300ms' '2s' '6s')]) } },
		1 => sub { return { sql => "SET LOCAL statement_timeout = '" . some($s, [ 5, 50, 300 ]) . "ms'" } },
		1 => sub { return { sql => 'SET ROLE ' . some($s, [qw(fuzz_app fuzz_gen NONE NONE)]) } },
		1 => sub {
			return { sql => "PREPARE TRANSACTION 'fuzz $s->{number}'", after => sub {
					$s->{next} = [ some($s, [ 'COMMIT', 'ROLLBACK' ]) . " PREPARED 'fuzz $s->{number}'" ]
					  if !$_[0]{error} && grep { $_ eq 'PREPARE TRANSACTION' } @{ $_[0]{tags} };
				} };
		});
}

sub next_statement
{
	my ($s) = @_;
	if ($s->{next} && @{ $s->{next} }) { return { sql => shift @{ $s->{next} }, calls => 10 }; }
	return { sql => 'ROLLBACK' } if $s->{session}->status eq 'E' && !one_in($s, 4);
	return pick($s,
		12 => sub { issuing($s) },
		5 => sub { reading($s) },
		4 => sub { changing($s) },
		6 => sub { $quiet ? issuing($s) : generating($s) },
		6 => sub { surrounding($s) });
}

# --- What comes back.

# An ID was told: positive, of this moment, in its range, greater than the session's last. Whether it is
# the only one is seen at the end.
sub id_told
{
	my ($s, $action, $name, $id) = @_;
	return fault("$id of " . quote($name) . ' is no ID') if $id !~ /^[1-9]\d{0,18}$/ || $id > 9223372036854775807;
	my $file = $files{"$s->{life}\0$name"} //= do
	{
		my $path = "$directory/ids-" . scalar(keys %files);
		open my $new, '>', $path or die "could not write $path: $!";
		{ path => $path, handle => $new };
	};
	print { $file->{handle} } "$id\n" or die "could not write $file->{path}: $!";
	$seen{ids}++;
	if (!$action->{made})
	{
		my $last = $s->{last}{$name} // 0;
		fault("$id of " . quote($name) . " after $last in a session") if $id <= $last;
		$s->{last}{$name} = $id;
	}
	my $format = $formats{$name} or return;
	my ($time_bits, $worker_bits, $sequence_bits, $tick_ms) = @$format;
	my $at_ms = ($id >> $worker_bits + $sequence_bits) * $tick_ms + $epoch_ms;
	fault("$id of " . quote($name) . ' is too wide') if $id >> $time_bits + $worker_bits + $sequence_bits;
	fault("$id of " . quote($name) . " is of $at_ms, asked for at " . ($action->{made} // $action->{sent_ms}) . ', told at ' . wall_ms())
	  if $at_ms > wall_ms() + $run_ahead_max_ms + $skew_ms
	  || $at_ms + $tick_ms < ($action->{made} // $action->{sent_ms}) - $skew_ms;
	return;
}

sub row_told
{
	my ($s, $row) = @_;
	my $action = $s->{action} or return;
	my $columns = $action->{columns} // [];
	foreach my $i (0 .. $#$columns)
	{
		id_told($s, $action, $columns->[$i], $row->[$i]) if defined $columns->[$i] && defined $row->[$i] && $i < @$row;
	}
	$action->{told}->($row) if $action->{told};
	return;
}

sub error_told
{
	my ($s, $action, $error) = @_;
	my ($state, $message) = @$error{qw(C M)};
	my $words = join ' / ', map { "$_: $error->{$_}" } sort keys %$error;
	my $said = "$state $message, of: $action->{sql}";

	fault("a token in an error: $words") if $words =~ $secret;
	if ($state eq 'XX000')
	{
		fault("an internal error: $said") unless grep { $message =~ $_->[0] && $action->{sql} =~ $_->[1] } @internal_allowed;
	}
	elsif (!$documented{$state} && ($message =~ /namespace "/ || !$postgresql{$state} && $state ne ($action->{also} // '')))
	{
		fault("an SQLSTATE that is not documented: $said");
	}
	# Without a known cause no grant comes where nobody can wait for one: a round and a commit take less.
	if (($error->{D} // '') =~ /within (\d+) ms, and no cause is known/)
	{
		$seen{causeless}++;
		fault("no grant in $1 ms, and no cause: $said") if $1 >= 900 * $wait_s;
	}
	# A name that is too long is told by its beginning.
	my @names = map { length $_ < 64 ? "\"$_\"" : '"' . substr($_, 0, 30) } grep { defined } $action->{name}, @{ $action->{columns} // [] };
	if (@names && ($state =~ /^IG/ || $message =~ /namespace "/))
	{
		fault('an error that does not name its namespace: ' . $said) unless grep { index($message, $_) >= 0 } @names;
	}
	return;
}

sub answered
{
	my ($s) = @_;
	my $action = $s->{action};
	my $result = $s->{session}->take;
	my $took = Idgen::Session::seconds($result);
	my $state = Idgen::Session::state_of($result);

	trace("$s->{number} < $state " . scalar(@{ $result->{rows} }) . ' rows ' . ($result->{error} ? $result->{error}{M} : '') . sprintf(' %.3f s', $took));
	$s->{action} = undef;
	$seen{answers}++;
	$seen{states}{$state}++;
	$seen{ok}{$_}++ foreach $state eq '' ? @{ $action->{functions} } : ();
	$seen{drops}++ if grep { $_ eq 'DROP EXTENSION' } @{ $result->{tags} };
	if ($result->{lost} && !$s->{may_be_lost})
	{
		fault("a connection was lost: $action->{sql}");
	}
	error_told($s, $action, $result->{error}) if $result->{error} && $state !~ /^57P0[123]$/;
	foreach my $notice (@{ $result->{notices} })
	{
		fault("a token in a message: $notice->{M}") if join(' ', values %$notice) =~ $secret;
	}
	fault(sprintf('%.1f s, allowed were %d: %s', $took, bound($action), $action->{sql})) if $took > bound($action) && !$result->{lost};
	$action->{after}->($result) if $action->{after} && !$result->{lost};
	return;
}

sub bound { my ($action) = @_; return ($action->{calls} // 1) * ($wait_s + $lock_s) + $Idgen::Node::grace; }

sub ask
{
	my ($s, $action) = @_;
	$action->{sent_ms} = wall_ms();
	$action->{sent_us} = Idgen::Session::now_us();
	$action->{functions} = [ $action->{sql} =~ /\b(idgen_\w+)\(/g ];
	$seen{called}{$_}++ foreach @{ $action->{functions} };
	$s->{action} = $action;
	trace("$s->{number} > $action->{sql}");
	$s->{session}->send($action->{sql});
	return;
}

# --- The server and its sessions.

my $node = idgen_node('fuzz', conf => qq{
log_line_prefix = '%m [%p] %e %b '
log_min_error_statement = error
max_prepared_transactions = 20
deadlock_timeout = '200ms'
idgen.idle_timeout = '1s'
idgen.max_clock_error = '200ms'
idgen.grant_retention = '5s'
});
$node->safe_psql('postgres', 'CREATE ROLE fuzz_app LOGIN; CREATE ROLE fuzz_gen LOGIN; GRANT fuzz_app TO fuzz_gen');
my $life = 1;
my @users = (undef, undef, undef, undef, undef, 'fuzz_app', 'fuzz_gen', 'fuzz_gen');
my @sessions = map { { number => $_, choices => Choices->new($seed * 100 + $_), user => $users[ $_ % @users ] } } (0 .. $session_count - 1);
my $janitor = $sessions[0];
my @abandoned;

sub connect_again
{
	my ($s) = @_;
	my $error;
	wait_until(sub {
			($s->{session}, $error) = Idgen::Session->try_new($node, user => $s->{user}, application_name => "fuzz $s->{number}",
				options => "-c idgen.wait_timeout=${wait_s}s -c lock_timeout=${lock_s}s", on_row => sub { row_told($s, $_[1]) });
			return $s->{session};
		}, 60) or die "could not connect: $error->{M}";
	# What it may have prepared would hold its locks for ever.
	push @abandoned, "ROLLBACK PREPARED 'fuzz $s->{number}'" if $s->{life};
	@$s{qw(life last may_be_lost action next)} = ($life, {}, 0, undef, []);
	return;
}

# The janitor alone answers to the test: a statement that is not a random one.
sub janitor_does
{
	my ($sql, $name) = @_;
	my $result;
	ask($janitor, { sql => $sql, name => $name, calls => 10, after => sub { $result = $_[0] } });
	wait_until(sub { turn(); return !$janitor->{action} }, 60) or die "no answer: $sql";
	return $result;
}

# Reads what has come, and gives those something to do who have nothing.
sub turn
{
	my $reading = '';
	foreach my $s (@sessions)
	{
		my $session = $s->{session};
		answered($s) if $s->{action} && $session->receive;
		if ($session->lost) { connect_again($s) if !$s->{may_be_lost}; next; }
		if (!$s->{action} && $s != $janitor && !$s->{resting})
		{
			if ($s->{choices}->below(400) == 0) { $session->close; connect_again($s); $session = $s->{session}; }
			ask($s, next_statement($s));
		}
		if ($s->{action} && Idgen::Session::now_us() - $s->{action}{sent_us} > 1e6 * (bound($s->{action}) + 30))
		{
			fault("no answer: $s->{action}{sql}");
			die "a session hangs: $s->{action}{sql}";
		}
		if ($s->{action} && $s != $janitor && $s->{choices}->below(3000) == 0) { $session->cancel; $seen{cancels}++; }
		vec($reading, fileno($session->socket), 1) = 1 if $s->{action};
	}
	select(my $ready = $reading, undef, undef, 0.02);
	return;
}

# The extension and the namespaces there should be.
sub tidy
{
	janitor_does($_) foreach splice @abandoned;
	my $result = janitor_does('SELECT name FROM _idgen.idgen_namespace');
	janitor_does('CREATE EXTENSION IF NOT EXISTS idgen') if $result->{error} && $result->{error}{C} eq '42P01';
	return if $result->{error};
	my %there = map { $_->[0] => 1 } @{ $result->{rows} };
	foreach my $name (grep { !$there{$_} } @names)
	{
		janitor_does(create_known($name), $name) if $name ne 'default';
		janitor_does('SELECT idgen_allow(' . quote($name) . ", 'fuzz_gen', 'acquire')", $name);
	}
	return;
}

# External generators stop asking until their grants are over, then the extension goes.
sub drop_extension
{
	my $dropped = $seen{drops};
	$quiet = 1;
	wait_until(sub { janitor_does('DROP EXTENSION idgen CASCADE'); return $seen{drops} > $dropped }, 8);
	$quiet = 0;
	tidy();
	return;
}

# kill -9 of the authority process: all sessions lose their connection, shared memory begins anew. What was dropped
# before is forgotten then, so namespaces made anew are new ID spaces.
my @killed;
sub crash_authority
{
	my ($pid) = authority_pids($node) or return;
	$_->{may_be_lost} = 1 foreach @sessions;
	kill 'KILL', $pid or return;
	push @killed, $pid;
	my $lost = wait_until(sub {
			ask($janitor, { sql => 'SELECT 1' }) if !$janitor->{action} && !$janitor->{session}->lost;
			turn();
			return !grep { !$_->{session}->lost || $_->{action} } @sessions;
		}, 30);
	if ($lost)
	{
		$seen{crashes}++;
		$life++ if $seen{drops} > ($seen{drops_before_crash} // 0);
		$seen{drops_before_crash} = $seen{drops};
	}
	foreach my $s (@sessions)
	{
		connect_again($s) if $s->{session}->lost;
		$s->{may_be_lost} = 0;
	}
	tidy();
	return;
}

connect_again($_) foreach @sessions;
tidy();
my $started = Idgen::Session::now_us();
my %every = (term => 0.7, tidy => 0.3, drop => $seconds / 4, crash => $seconds < 100 ? $seconds / 2 : 60);
my $grants_before_term = 0;
my %due = map { $_ => $started + $every{$_} * 1e6 * ($_ eq 'crash' ? 0.9 : 1) } keys %every;
my $events = Choices->new($seed * 100 + 99);
sub is_due
{
	my ($what) = @_;
	return 0 if Idgen::Session::now_us() < $due{$what};
	# Half of the time up to twice of it.
	$due{$what} = Idgen::Session::now_us() + $every{$what} * 1e6 * (50 + $events->below(150)) / 100;
	return 1;
}

# What the script makes. One never succeeds: it is a trigger's.
my $script = PostgreSQL::Test::Utils::slurp_file("$ENV{IDGEN_TOP}/sql/idgen--1.0.sql");
my %functions = map { $_ => 1 } $script =~ /^CREATE FUNCTION \@extschema\@\.(idgen_\w+)/mg;
sub not_called { return grep { !$seen{called}{$_} } sort keys %functions; }
sub not_succeeded { return grep { !$seen{ok}{$_} && $_ ne 'idgen_guard' } sort keys %functions; }

# On a busy machine it takes longer until there was enough of everything.
sub enough { return $seen{drops} && $seen{crashes} && @grants > 20 && !not_called() && !not_succeeded(); }

my $finished = eval
{
	for (;;)
	{
		my $ran = (Idgen::Session::now_us() - $started) / 1e6;
		last if @faults >= 20 || $ran > 20 * $seconds || ($ran > $seconds && enough());
		turn();
		# On a slow machine what is disturbed every second comes to nothing: what is still missing gets its time.
		my $calm = $ran > 3 * $seconds && $seen{drops} && $seen{crashes};
		# One that nobody was served by has ended before it could do anything.
		if (!$calm && @grants > $grants_before_term && is_due('term'))
		{
			$grants_before_term = @grants;
			foreach my $pid ((authority_pids($node))[0] // ()) { $seen{terms} += kill 'TERM', $pid; }
		}
		tidy() if is_due('tidy');
		drop_extension() if !$calm && is_due('drop');
		crash_authority() if !$calm && authority_pids($node) && is_due('crash');
	}
	# Everybody comes to an end.
	$_->{resting} = 1 foreach @sessions;
	wait_until(sub { turn(); return !grep { $_->{action} } @sessions }, 150) or die 'not every call was answered';
	1;
};
is($finished ? '' : "$@", '', 'every call was answered [S10]');
$_->{session}->close foreach @sessions;
$node->safe_psql('postgres', "ROLLBACK PREPARED '$_'") foreach split /\n/, $node->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts');

# --- What was told.

foreach my $key (sort keys %files)
{
	my ($in, $name) = split /\0/, $key;
	my ($path, $format) = ($files{$key}{path}, $formats{$name});
	close $files{$key}{handle} or die "could not write $path: $!";

	# External generators hold these, by worker, in order.
	my %of_worker;
	push @{ $of_worker{ $_->{worker} } }, $_ foreach grep { $_->{life} eq $in && $_->{name} eq $name } @grants;
	foreach my $worker (sort keys %of_worker)
	{
		my @sorted = sort { $a->{start_ms} <=> $b->{start_ms} } @{ $of_worker{$worker} };
		foreach (1 .. $#sorted)
		{
			my ($before, $after) = @sorted[ $_ - 1, $_ ];
			fault(sprintf('worker %d of %s was granted twice: [%d, %d) and [%d, %d)', $worker, quote($name), @$before{qw(start_ms end_ms)},
					@$after{qw(start_ms end_ms)})) if $before->{end_ms} > $after->{start_ms};
		}
		$of_worker{$worker} = \@sorted;
	}

	my ($last, $last_place) = (0, '');
	open my $sorted, '-|', 'sort', '-n', $path or die "could not sort $path: $!";
	while (my $id = <$sorted>)
	{
		chomp $id;
		fault("$id of " . quote($name) . ' came twice') if $id == $last;
		$last = $id;
		next if !$format || !%of_worker;
		my (undef, $worker_bits, $sequence_bits, $tick_ms) = @$format;
		my $place = $id >> $sequence_bits;
		next if $place eq $last_place;
		$last_place = $place;
		my ($worker, $ms) = ($place & (1 << $worker_bits) - 1, ($place >> $worker_bits) * $tick_ms);
		foreach (@{ $of_worker{$worker} // [] })
		{
			last if $_->{start_ms} > $ms;
			fault("$id of " . quote($name) . " is in grant $_->{id} of an external generator") if $ms < $_->{end_ms};
		}
	}
	close $sorted or die "could not sort $path";
}

my $super = Idgen::Session->new($node);
$super->query('CREATE EXTENSION IF NOT EXISTS idgen');
is($super->value(q{SELECT count(*) FROM (SELECT start_tick < max(end_tick) OVER (PARTITION BY namespace, worker
		ORDER BY start_tick ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bad FROM _idgen.idgen_grant) g WHERE bad}),
	0, 'the recorded grants of a worker are disjoint [S2]');
# Every namespace that may issue still does: it may be fenced for as long as its horizon, and should need no standbys,
# because there are none. It gives them up by itself where its workers are split.
$super->query("SET idgen.wait_timeout = '30s'");
foreach my $name ($super->column("SELECT name FROM _idgen.idgen_namespace WHERE issuing AND NOT retired AND durability = 'quorum'"))
{
	$super->query('SELECT idgen_alter_namespace(' . quote($name) . ", promotion => 'fence')");
	$super->query('SELECT idgen_alter_namespace(' . quote($name) . ", durability => 'local')");
}
# Its own horizon may be longer than that, or too short for any grant to be of use.
my %odd = map { $_ => 1 } $super->column('SELECT name FROM _idgen.idgen_namespace WHERE horizon_ms NOT BETWEEN 100 AND 20000');
my %quorum = map { $_ => 1 } $super->column("SELECT name FROM _idgen.idgen_namespace WHERE durability = 'quorum'");
is($super->value("SELECT count(*) FROM _idgen.idgen_namespace WHERE durability = 'quorum' AND split_parts > 1 AND issuing AND NOT retired"), 0,
	'no namespace whose workers are split needs standbys');
my %in_the_end = map { $_ => Idgen::Session::state_of($super->query('SELECT idgen_next(' . quote($_) . ')')) }
  $super->column('SELECT name FROM _idgen.idgen_namespace WHERE issuing AND NOT retired AND NOT handed_over');
is(join(', ', map { "$_: $in_the_end{$_}" } grep { $in_the_end{$_} !~ ($quorum{$_} ? qr/^IG00[56]$/ : $odd{$_} ? qr/^(|IG00[156])$/ : qr/^(|IG006)$/) } sort keys %in_the_end), '',
	'all ' . keys(%in_the_end) . ' namespaces issue in the end, or need standbys');
$super->close;
$node->stop;

# --- The log.

my ($state, $from, $severity, $hidden) = ('', '', '', 0);
open my $log, '<', $node->logfile or die "could not read the log: $!";
while (my $line = <$log>)
{
	($state, $from, $severity) = ($1, $2, $3) if $line =~ /^\S+ \S+ \S+ \[\d+\] (\w{5}) (.*?) ([A-Z]+):  /;
	$hidden++ if $state eq 'IG008' && $severity eq 'ERROR' && $line =~ /incarnation/;
	fault("a token in the log: $line") if $line =~ $secret && !($severity eq 'STATEMENT' && $state =~ $before_the_function);
	fault("in the log: $line") if $line =~ /PANIC|TRAP: |FailedAssertion/;
	if ($line =~ /\(PID (\d+)\) was terminated by signal (\d+)/)
	{
		my ($pid, $signal) = ($1, $2);
		fault("a crash: $line") unless $signal == 9 && grep { $_ == $pid } @killed;
	}
	# Those of sessions have been seen.
	fault("in the log: $line") if $state eq 'XX000' && $from ne 'client backend';
}
close $log;

is(scalar @faults, 0, 'no fault was found') or do
{
	diag("SEED=$seed FUZZ_SECONDS=$seconds");
	diag($_) foreach map { length $_ > 1000 ? substr($_, 0, 1000) . ' ...' : $_ } @faults[ 0 .. ($#faults < 19 ? $#faults : 19) ];
	if (open my $file, '>', ($ENV{TESTLOGDIR} // $directory) . '/150_sql_fuzz_statements.log')
	{
		print $file "$_\n" foreach @trace;
		close $file;
	}
};

# --- Was anything tested?

cmp_ok(scalar(keys %functions), '>', 20, 'the script creates functions');
is(join(' ', not_called()), '', 'every function was called');
is(join(' ', not_succeeded()), '', 'every function has succeeded at least once');
cmp_ok($seen{ids}, '>', 1000, "$seen{ids} IDs were issued");
cmp_ok(scalar @grants, '>', 20, scalar(@grants) . ' grants were made to generators');
cmp_ok($hidden, '>', 0, 'requests of generators were rejected');
cmp_ok($seen{drops}, '>', 0, "the extension was dropped $seen{drops} times");
cmp_ok($seen{crashes}, '>', 0, "the server crashed $seen{crashes} times");
note("$seen{answers} answers, $life lives, $seen{terms} authority processes ended, $seen{cancels} calls cancelled, $seen{causeless} without a grant or a cause; errors: "
	. join ' ', map { $_ . '=' . $seen{states}{$_} } sort grep { $_ ne '' } keys %{ $seen{states} });
done_testing();
