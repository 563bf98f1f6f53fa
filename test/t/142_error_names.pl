# The names of the SQLSTATEs are the same in the source, in the manual, and in the comment of idgen_next, where a client
# can read them.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;

sub text_of { my ($name) = @_; return slurp_file("$ENV{IDGEN_TOP}/$name"); }

my %source = map { lc } map { s/[', ]//gr } text_of('src/error.h') =~ /#define ERRCODE_IDGEN_(\w+)\s+MAKE_SQLSTATE\(([^)]*)\)/g;
my %manual = reverse text_of('README.md') =~ /^\| (IG\d+) \| `(\w+)` \|/mg;
my ($comment) = text_of('sql/idgen--1.0.sql') =~ /COMMENT ON FUNCTION \@extschema\@\.idgen_next\(text\) IS\n'([^']*)'/;
my %comment = reverse $comment =~ /(IG\d+) (\w+)/g;
$_ = uc foreach values %source;

is(scalar keys %source, 9, 'the source defines nine SQLSTATEs');
is_deeply(\%manual, \%source, 'the manual has the names of all SQLSTATEs');
is_deeply(\%comment, \%source, 'the comment of idgen_next has the names of all SQLSTATEs');

done_testing();
