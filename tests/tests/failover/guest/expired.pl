# expired.pl FOLDER: appends to FOLDER/locked under a lock until that fails, as it has to once the server has removed the
# lock; then it goes on with another file that it has open, locks FOLDER/locked anew, and makes a file.
#
# It notes a `w` for a record that is on stable storage, an `e` once the lost lock is reported, a `p` for a record in the
# file without a lock, a `d` for a lock that another client has, a `g` once it has had the lock again, an `n` for the new
# file.
use strict;
use warnings;
use Errno qw(EAGAIN EACCES EIO);
use Fcntl qw(F_SETLK F_WRLCK F_UNLCK O_RDWR O_CREAT O_EXCL O_APPEND);
require '/run/lib.pl';

my ($folder) = @ARGV;

sub file {
    my ($name, $flags) = @_;
    sysopen(my $file, "$folder/$name", O_RDWR | O_CREAT | O_APPEND | $flags, 0644) or die "open $name: $!\n";
    return $file;
}

# Linux recovers the file first that was opened last.
my ($plain, $locked) = (file('plain', O_EXCL), file('locked', O_EXCL));
append_or_die($plain, 1);
lock_range($locked, F_SETLK, F_WRLCK) or die "lock: $!\n";
my $number = 0;
while (append($locked, $number + 1)) {
    $number++;
    note('w');
    pause();
}
# fcntl(2) has no error for a lock that is lost; Linux reports it at the next use of the file.
$!{EIO} or die "the lost lock is reported as: $!\n";
note('e');
append_or_die($plain, 2);
note('p');
close($locked);                          # it may report the same error once more
$locked = file('locked', 0);
until (lock_range($locked, F_SETLK, F_WRLCK)) {
    $!{EAGAIN} || $!{EACCES} or die "lock again: $!\n";
    note('d');
    pause();
}
append_or_die($locked, 0);
lock_range($locked, F_SETLK, F_UNLCK) or die "unlock: $!\n";
note('g');
append_or_die(file('new', O_EXCL), 1);
note('n');
