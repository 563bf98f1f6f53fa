#!/usr/bin/perl
# Runs test files that speak TAP and counts test cases, as prove does, but says the counts in a
# form a script can add up.
#
#   test/prove.pl [--jobs N] [--exec PROGRAM] --summary FILE TEST...
#
# FILE gets "<passed> <failed>", then the names of the files that failed. A test that was planned
# and never ran, a file that died after its last test, and a broken plan count as failed.
use strict;
use warnings;
use Getopt::Long;
use TAP::Harness;

my ($jobs, $exec, $summary) = (1);
GetOptions('jobs=i' => \$jobs, 'exec=s' => \$exec, 'summary=s' => \$summary)
  && $summary
  && @ARGV
  or die "usage: prove.pl [--jobs N] [--exec PROGRAM] --summary FILE TEST...\n";

my $harness = TAP::Harness->new(
	{
		jobs => $jobs,
		timer => 1,
		failures => 1,
		# PERL5LIB is searched by the tests themselves.
		($exec ? (exec => sub { [ $exec, $_[1] ] }) : ()),
	});
my $results = $harness->runtests(@ARGV);

my ($passed, $failed, @failed_files) = (0, 0);
foreach my $file ($results->descriptions)
{
	my ($parser) = $results->parsers($file);
	my $not_run = ($parser->tests_planned // 0) - $parser->tests_run;
	my $bad = $parser->failed + ($not_run > 0 ? $not_run : 0);

	$bad = 1 if $bad == 0 && ($parser->exit || $parser->wait || $parser->parse_errors);
	$passed += $parser->passed;
	$failed += $bad;
	push @failed_files, $file if $bad;
}

open my $out, '>', $summary or die "could not write \"$summary\": $!\n";
print $out "$passed $failed\n", map { "$_\n" } @failed_files;
close $out or die "could not write \"$summary\": $!\n";
exit($failed ? 1 : 0);
