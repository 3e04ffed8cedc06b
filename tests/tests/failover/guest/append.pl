# append.pl FILE STOP: locks bytes 0 to 9 of FILE (RFC 8881 section 9) and appends the numbers from 1 to it, 8 bytes
# each, until the file STOP exists; then it unlocks. After every tenth it makes a folder FILE-0, FILE-1 and so on.
#
# It tells descriptor 3 what is acknowledged: a `w` for a number once fsync has returned, an `m` for a folder.
use strict;
use warnings;
use Errno qw(EEXIST);
use Fcntl qw(F_SETLKW F_WRLCK F_UNLCK SEEK_SET O_RDWR O_CREAT O_APPEND);
use IO::Handle;

my ($name, $stop) = @ARGV;
sysopen(my $file, $name, O_RDWR | O_CREAT | O_APPEND, 0644) or die "open: $!\n";
open(my $acknowledged, '>&=', 3) or die "descriptor 3: $!\n";

sub acknowledge { syswrite($acknowledged, $_[0]) == 1 or die "acknowledge: $!\n" }

# struct flock of 64-bit Linux: two shorts, padding, two long longs, a pid.
sub lock_range { fcntl($file, F_SETLKW, pack('s s x4 q q i x4', $_[0], SEEK_SET, 0, 10, 0)) }

lock_range(F_WRLCK) or die "lock: $!\n";
my ($number, $made) = (0, 0);
until (-e $stop) {
    $number++;
    my $written = syswrite($file, pack('Q>', $number));
    defined $written && $written == 8 or die "write $number: $!\n";
    $file->sync or die "fsync $number: $!\n";
    acknowledge('w');
    if ($number % 10 == 0) {
        # A request that is sent again to a new instance finds the folder of the first try.
        mkdir("$name-$made") || $!{EEXIST} or die "mkdir $made: $!\n";
        $made++;
        acknowledge('m');
    }
    select(undef, undef, undef, 0.02);
}
lock_range(F_UNLCK) or die "unlock: $!\n";
