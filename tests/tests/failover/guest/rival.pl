# rival.pl FILE WITNESS: reads FILE and tries to lock it, again and again, while another guest appends to it under the lock
# (append.pl). Once it has the lock it appends the number 0 and unlocks.
#
# WITNESS has the notes of the other guest. A read returns all numbers that were acknowledged before it began, in their
# order, and the lock is granted only after the other guest has begun to give it up. It notes a `d` for a lock that is
# denied, and a `g` once it has had the lock.
use strict;
use warnings;
use Errno qw(EAGAIN EACCES);
use Fcntl qw(F_SETLK F_WRLCK F_UNLCK O_RDONLY O_RDWR O_APPEND);
require '/run/lib.pl';

# posix_fadvise(2) of 64-bit Linux, for a read that does not come from the cache of the guest.
use constant { FADVISE64 => 221, FADV_DONTNEED => 4 };

my ($name, $witness) = @ARGV;

sub witnessed {
    open(my $noted, '<', $witness) or return '';
    local $/ = undef;
    return scalar <$noted> // '';
}

# check_records FILE ACKNOWLEDGED: reads the file and checks its numbers.
sub check_records {
    my ($file, $acknowledged) = @_;
    my @numbers = records($file);
    # A number that is appended between READ and GETATTR shows in the size only, and the client pads the data.
    pop @numbers while @numbers > $acknowledged && $numbers[-1] == 0;
    @numbers >= $acknowledged or die scalar(@numbers), " of $acknowledged acknowledged numbers are there\n";
    for my $at (0 .. $#numbers) {
        $numbers[$at] == $at + 1 or die "number $numbers[$at] is in place $at\n";
    }
}

# check_file: the same for the file as it is on the server. The end of an open file takes the locks of this process with
# it, which has none then.
sub check_file {
    my $acknowledged = witnessed() =~ tr/w//;
    sysopen(my $file, $name, O_RDONLY) or die "open: $!\n";
    syscall(FADVISE64, fileno($file), 0, 0, FADV_DONTNEED) == 0 or die "fadvise: $!\n";
    check_records($file, $acknowledged);
}

pause() until witnessed() =~ /w/;
sysopen(my $file, $name, O_RDWR | O_APPEND) or die "open: $!\n";
check_file();
until (lock_range($file, F_SETLK, F_WRLCK)) {
    $!{EAGAIN} || $!{EACCES} or die "lock: $!\n";
    note('d');
    pause();
    check_file();
}
my $notes = witnessed();
$notes =~ /u/ or die "the lock is held twice\n";
check_records($file, $notes =~ tr/w//);
append_or_die($file, 0);
lock_range($file, F_SETLK, F_UNLCK) or die "unlock: $!\n";
note('g');
