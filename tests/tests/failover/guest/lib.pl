# lib.pl: locks, records and notes of the guests' programs. Required by each.
#
# Records are numbers of 8 bytes in the network's order. Notes are letters on descriptor 3, which others read.
use strict;
use warnings;
use Fcntl qw(SEEK_SET);
use IO::Handle;

open(my $notes, '>&=', 3) or die "descriptor 3: $!\n";

sub note { syswrite($notes, $_[0]) == 1 or die "note: $!\n" }
sub pause { select(undef, undef, undef, 0.02) }

# lock_range FILE COMMAND TYPE: bytes 0 to 9 of a file (RFC 8881 section 9). struct flock of 64-bit Linux: two shorts,
# padding, two long longs, a pid.
sub lock_range {
    my ($file, $command, $type) = @_;
    return fcntl($file, $command, pack('s s x4 q q i x4', $type, SEEK_SET, 0, 10, 0));
}

# append FILE NUMBER: a record, on stable storage when it returns. Returns whether it is; $! says why not.
sub append {
    my ($file, $number) = @_;
    my $written = syswrite($file, pack('Q>', $number));
    return defined $written && $written == 8 && $file->sync;
}

# append_or_die FILE NUMBER: the same where no failure is due.
sub append_or_die { append(@_) or die "append $_[1]: $!\n" }

# records FILE: all numbers of an open file of at most a MiB, by one read from its start.
sub records {
    my ($file) = @_;
    sysseek($file, 0, SEEK_SET) or die "seek: $!\n";
    my $length = sysread($file, my $data, 1 << 20) // die "read: $!\n";
    $length % 8 == 0 or die 'a record has ', $length % 8, " of 8 bytes\n";
    return unpack('Q>*', $data);
}

1;
