# changes.pl: changes of names that fail if one of them was lost or ran twice.
#
#   changes.pl FOLDER STOP      until the file STOP exists; prints how many there were, and the longest wait
use strict;
use warnings;
use Fcntl;
use Time::HiRes qw(time);

my ($folder, $stop) = @ARGV;
chdir $folder or die "$folder: $!\n";
my ($changes, $longest) = (0, 0);

# One change, which has to succeed.
sub change {
    my ($what, $done) = @_;
    my $begin = time;
    $done->() or die "$what after $changes changes: $!\n";
    my $took = time - $begin;
    $longest = $took if $took > $longest;
    $changes++;
}

sub create {
    sysopen(my $file, $_[0], O_WRONLY | O_CREAT | O_EXCL) or return 0;
    return syswrite($file, "content") == 7 && close $file;
}

until (-e $stop) {
    my $n = $changes;
    change("mkdir", sub { mkdir "a$n" });
    change("rename", sub { rename "a$n", "b$n" });
    change("create", sub { create("b$n/file") });
    change("link", sub { link "b$n/file", "c$n" });
    change("unlink", sub { unlink "b$n/file" });
    change("unlink of the link", sub { unlink "c$n" });
    change("rmdir", sub { rmdir "b$n" });
}
printf "%d changes, the longest took %.0f ms\n", $changes, $longest * 1000;
