# append.pl FILE STOP: locks FILE and appends the numbers from 1 to it until the file STOP exists; then it unlocks. After
# every tenth it makes a folder FILE-0, FILE-1 and so on.
#
# It notes acknowledgements: a `w` for a number once fsync has returned, an `m` for a folder; and a `u` before it
# gives up the lock.
use strict;
use warnings;
use Errno qw(EEXIST);
use Fcntl qw(F_SETLKW F_WRLCK F_UNLCK O_RDWR O_CREAT O_APPEND);
require '/run/lib.pl';

my ($name, $stop) = @ARGV;
sysopen(my $file, $name, O_RDWR | O_CREAT | O_APPEND, 0644) or die "open: $!\n";
lock_range($file, F_SETLKW, F_WRLCK) or die "lock: $!\n";
my ($number, $made) = (0, 0);
until (-e $stop) {
    append_or_die($file, ++$number);
    note('w');
    if ($number % 10 == 0) {
        # A request that is sent again to a new instance finds the folder of the first try.
        mkdir("$name-$made") || $!{EEXIST} or die "mkdir $made: $!\n";
        $made++;
        note('m');
    }
    pause();
}
note('u');
lock_range($file, F_SETLKW, F_UNLCK) or die "unlock: $!\n";
