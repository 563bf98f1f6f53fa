#!/usr/bin/perl
# Prints the names that pg_bsd_indent has to take for types, one a line: those that these files define, and
# those of PostgreSQL's own list that they use.
#
#   test/indent/typedefs.pl POSTGRESQL_LIST FILE...
use strict;
use warnings FATAL => 'all';

my $list = shift;
die "usage: typedefs.pl POSTGRESQL_LIST FILE...\n" unless defined $list && @ARGV;

sub slurp
{
	my ($name) = @_;
	open my $file, '<', $name or die "could not open \"$name\": $!\n";
	local $/;
	my $text = <$file>;
	close $file;
	return $text;
}

my (%used, %typedefs);
foreach my $name (@ARGV)
{
	my $code = slurp($name);

	# Words in comments and strings are no code.
	$code =~ s{/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+'}{ }gs;
	$used{$1} = 1 while $code =~ /([A-Za-z_]\w*)/g;

	my $braces = qr/\{(?:[^{}]|\{[^{}]*\})*\}/;
	while ($code =~ /^typedef\b((?:[^;{]|$braces)*);/gm)
	{
		my $declaration = $1;
		$declaration =~ s/$braces//g;
		# A pointer to a function has its name in the first parentheses, all others at the end.
		my ($type) = $declaration =~ /\(\s*\*\s*(\w+)\s*\)\s*\(/;
		($type) = $declaration =~ /(\w+)\s*(?:\[[^]]*\]\s*)*$/ unless defined $type;
		die "$name: no name in \"typedef$declaration\"\n" unless defined $type;
		$typedefs{$type} = 1;
	}
}
$used{$_} and $typedefs{$_} = 1 foreach split /\n/, slurp($list);
print map { "$_\n" } sort keys %typedefs;
