# rival.pl FILE WITNESS: tries to lock FILE, again and again, while another guest appends to it under the lock (append.pl).
# Once it has the lock it reads all acknowledged numbers, appends the number 0 and unlocks.
#
# WITNESS has the notes of the other guest: the lock is granted only after that has begun to give it up. It notes a `d` for
# a lock that is denied, and a `g` once it has had the lock.
use strict;
use warnings;
use Errno qw(EAGAIN EACCES);
use Fcntl qw(F_SETLK F_WRLCK F_UNLCK O_RDWR O_APPEND);
require '/run/lib.pl';

my ($name, $witness) = @ARGV;

sub witnessed {
    open(my $noted, '<', $witness) or return '';
    local $/ = undef;
    return scalar <$noted> // '';
}

pause() until witnessed() =~ /w/;
sysopen(my $file, $name, O_RDWR | O_APPEND) or die "open: $!\n";
until (lock_range($file, F_SETLK, F_WRLCK)) {
    $!{EAGAIN} || $!{EACCES} or die "lock: $!\n";
    note('d');
    pause();
}
my $notes = witnessed();
$notes =~ /u/ or die "the lock is held twice\n";
my ($acknowledged, @numbers) = ($notes =~ tr/w//, records($file));
@numbers == $acknowledged or die scalar(@numbers), " of $acknowledged acknowledged numbers are there\n";
for my $at (0 .. $#numbers) {
    $numbers[$at] == $at + 1 or die "number $numbers[$at] is in place $at\n";
}
append_or_die($file, 0);
lock_range($file, F_SETLK, F_UNLCK) or die "unlock: $!\n";
note('g');
