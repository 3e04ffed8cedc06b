# lock.pl: byte-range locks from the command line, by fcntl (RFC 8881 section 9).
#
#   lock.pl FILE try  TYPE START LENGTH        exit status 0 if granted (and released at once), 1 if held by another
#   lock.pl FILE hold TYPE START LENGTH STOP   prints "held" and keeps it until the file STOP exists
#   lock.pl FILE wait TYPE START LENGTH        waits for it and prints "had"
# TYPE is read or write; a LENGTH of 0 reaches to the end of the file.
use strict;
use warnings;
use Errno qw(EAGAIN EACCES);
use Fcntl qw(F_SETLK F_SETLKW F_RDLCK F_WRLCK F_UNLCK SEEK_SET O_RDWR O_CREAT);

my ($file, $verb, $type, $start, $length, $stop) = @ARGV;
sysopen(my $handle, $file, O_RDWR | O_CREAT, 0644) or die "$file: $!\n";
$| = 1;

# struct flock of 64-bit Linux: two shorts, padding, two long longs, a pid.
sub lock_range {
    my ($command, $kind) = @_;
    my $flock = pack('s s x4 q q i x4', $kind, SEEK_SET, $start, $length, 0);
    return fcntl($handle, $command, $flock);
}

my $kind = $type eq 'read' ? F_RDLCK : F_WRLCK;
if ($verb eq 'try') {
    lock_range(F_SETLK, $kind) or do { print "$!\n"; exit($!{EAGAIN} || $!{EACCES} ? 1 : 2) };
} elsif ($verb eq 'hold') {
    lock_range(F_SETLK, $kind) or die "$!\n";
    print "held\n";
    select(undef, undef, undef, 0.05) until -e $stop;
    lock_range(F_SETLK, F_UNLCK) or die "unlock: $!\n";
    print "released\n";
} else {
    lock_range(F_SETLKW, $kind) or die "$!\n";
    print "had\n";
}
