# random.pl: random operations on a file of the server's and on one of the guest's own, which have to stay equal.
#
#   random.pl THEIRS OURS SEED OPERATIONS          so many operations
#   random.pl THEIRS OURS SEED 0 STOP              until the file STOP exists
#
# CephFS has no ALLOCATE: it must be refused, and changes nothing.
use strict;
use warnings;
use Errno qw(EOPNOTSUPP);
use Fcntl;
use IO::Handle;

my ($theirs, $ours, $seed, $operations, $stop) = @ARGV;
srand($seed);
my ($SIZE, $FALLOCATE, $COPY_FILE_RANGE) = (1 << 20, 285, 326);
my ($KEEP_SIZE, $PUNCH_HOLE) = (1, 2);
my (@files, @sources, @log);

sub opened {
  @files = map { sysopen(my $file, $_, O_RDWR | O_CREAT) or die "$_: $!"; $file } $theirs, $ours;
  @sources = map { sysopen(my $file, "$_.source", O_RDWR | O_CREAT) or die "$_.source: $!"; $file } $theirs, $ours;
}
sub data { my $byte = int(rand 255) + 1; return join '', map { chr(($byte + $_ % 251) % 256) } 1 .. $_[0] }
sub put { my ($file, $at, $data) = @_; sysseek($file, $at, 0); syswrite($file, $data) == length $data or die "write: $!" }
sub allocate { my ($file, $mode, $at, $length) = @_; syscall($FALLOCATE, fileno $file, $mode, $at, $length) == 0 or die "fallocate: $!" }
sub copy {
  my ($from, $to, $at, $target, $length) = @_;
  while ($length > 0) {
    my ($source_at, $target_at) = (pack('q', $at), pack('q', $target));
    my $done = syscall($COPY_FILE_RANGE, fileno $from, $source_at, fileno $to, $target_at, $length, 0);
    die "copy_file_range: $!" if $done < 0;
    last if $done == 0;
    ($at, $target, $length) = ($at + $done, $target + $done, $length - $done);
  }
}
sub content { my ($file) = @_; sysseek($file, 0, 0); my $all = ''; 1 while sysread($file, $all, 1 << 20, length $all); return $all }
sub compare {
  my @both = map { content($_) } @files;
  return if $both[0] eq $both[1];
  my $least = length $both[0] < length $both[1] ? length $both[0] : length $both[1];
  my $at = 0;
  $at++ while $at < $least && substr($both[0], $at, 1) eq substr($both[1], $at, 1);
  die sprintf("seed %d: they differ at %d (%d and %d bytes) after %s\n", $seed, $at, length $both[0], length $both[1], join '; ', splice @log, -8);
}

opened();
my $first = data(300_000);
# Linux writes back the range that is copied and no more. What lies in a hole may then be behind the end of the file as the
# server knows it, which is NFS4ERR_INVAL (RFC 7862 section 15.2.3).
put($_, 0, $first), put($_, 700_000, $first), $_->sync for @sources;
my $round = 0;
until (defined $stop ? -e $stop : $round++ >= $operations) {
  my ($at, $length, $kind) = (int rand $SIZE, 1 + int rand 100_000, int rand 9);
  if ($kind <= 2) { my $data = data($length); put($_, $at, $data) for @files; push @log, "write $at $length" }
  elsif ($kind == 3) { truncate($_, $at) or die "truncate: $!" for @files; push @log, "truncate $at" }
  elsif ($kind == 4) { allocate($_, $KEEP_SIZE | $PUNCH_HOLE, $at, $length) for @files; push @log, "punch $at $length" }
  elsif ($kind == 5 && $ENV{EXPORT_ON} eq 'ceph') {
    syscall($FALLOCATE, fileno $files[0], 0, $at, $length) < 0 && $! == EOPNOTSUPP or die "fallocate is not refused: $!";
    push @log, "no allocate $at $length";
  }
  elsif ($kind == 5) { allocate($_, 0, $at, $length) for @files; push @log, "allocate $at $length" }
  elsif ($kind == 6) { my $target = int rand $SIZE; copy($sources[$_], $files[$_], $at, $target, $length) for 0, 1; push @log, "copy $at $target $length" }
  elsif ($kind == 7) { close $_ for @files, @sources; opened(); push @log, 'open' }
  else { compare(); push @log, 'compare' }
}
compare();
