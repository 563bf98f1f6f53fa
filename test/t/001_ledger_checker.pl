# Shows that the ledger's checker finds every fault it looks for: a checker that cannot fail proves nothing.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;

sub counts
{
	my ($ledger, %options) = @_;
	my $found = $ledger->check(%options);
	return join ' ', $found->{ids}, map { scalar @{ $found->{$_} } } qw(duplicates decreases disorders bad);
}

# A call as a session reports it.
sub call
{
	my ($start_us, $end_us, @ids) = @_;
	return { start_us => $start_us, end_us => $end_us, rows => [ map { [$_] } @ids ] };
}

my $ledger = Idgen::Ledger->new;
$ledger->add('a', 10, 20, 30);
$ledger->add('a', 15, 25, 9223372036854775807);
is(counts($ledger), '6 0 0 0 0', 'two sessions with rising IDs have no fault');

$ledger->add('b', 10, 20, 30);
is(counts($ledger), '9 0 0 0 0', 'the same IDs in another ID space are no duplicates');

$ledger->add('a', 5, 25);
is(counts($ledger), '11 1 0 0 0', 'an ID that two sessions have is found');

$ledger = Idgen::Ledger->new;
$ledger->add('a', 10, 30, 20, 40);
is(counts($ledger), '4 0 1 0 0', 'a decrease within a session is found');

$ledger = Idgen::Ledger->new;
$ledger->add('a', 10, 20, 20);
is(counts($ledger), '3 1 1 0 0', 'an ID that one session has twice is a duplicate and a decrease');

$ledger = Idgen::Ledger->new;
$ledger->add('a', 10, 'x', 20, 0, -5, '', 9223372036854775807);
is(counts($ledger), '3 0 0 0 4', 'a value that is not a positive number is found');

$ledger = Idgen::Ledger->new;
$ledger->add('a', call(1, 5, 100, 101), call(11, 12, 103));
$ledger->add('a', call(3, 9, 102, 104));
is(counts($ledger, order => 1), '5 0 0 1 0', 'an ID below one that was returned before its call began is found');
is(counts($ledger), '5 0 0 0 0', 'the order between sessions is checked only on request');

$ledger = Idgen::Ledger->new;
$ledger->add('a', call(1, 5, 100), call(11, 12, 104));
$ledger->add('a', call(3, 11, 102), call(12, 14, 103));
is(counts($ledger, order => 1), '4 0 0 0 0', 'the IDs of calls that overlap may come in any order');

# This file is cut off in the middle of a line.
$ledger = Idgen::Ledger->new;
$ledger->add('a', 10, 20);
append_to_file($ledger->directory . '/a.1.0.0', '30');
is(counts($ledger), '2 0 0 0 1', 'a torn line is not taken for an ID');

done_testing();
