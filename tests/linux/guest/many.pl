# many.pl FIRST SECOND COUNT LABEL: a folder with COUNT names that stay, listed by one client while another makes, moves and
# removes names in it. FIRST and SECOND are the same folder, through the mounts of the two.
use strict;
use warnings;
BEGIN { require '/run/checks.pl' }
use Fcntl qw(:DEFAULT);
our $label;
(my $first, my $second, my $count, $label) = @ARGV;

# Makes a thousand names in all, and takes most of them away again, while there is somebody who lists.
sub busy {
    made("$second/new-source", 'new');
    for my $number (1 .. 250) {
        link("$second/new-source", "$second/new-$number-$_") or die "link: $!" for 1 .. 4;
        rename("$second/new-$number-1", "$second/moved-$number") or die "rename: $!";
        unlink "$second/new-$number-2", "$second/new-$number-3" or die "unlink: $!";
    }
    return 'done';
}

sub listed {
    my (%seen, $others);
    opendir(my $folder, $first) or die "$first: $!";
    while (defined(my $name = readdir $folder)) {
        if ($name =~ /^stay-(\d+)$/) { $seen{$1}++ and die "$name came twice" }
        else { $others++ }
    }
    my @missing = grep { !$seen{$_} } 0 .. $count - 1;
    die scalar(@missing) . " did not come, among them stay-$missing[0]" if @missing;
    return "$others others";
}

check "many: each of $count names comes once while another client changes their folder", sub { together(\&listed, \&busy) };
check "many: and once more, with what has changed", sub { listed() };
unlink "$second/new-source", map { ("$second/new-$_-4", "$second/moved-$_") } 1 .. 250;
finish();
