# clone.pl FOLDER LABEL: what CLONE makes of files whose file system shares blocks (RFC 7862 section 15.13).
use strict;
use warnings;
BEGIN { require '/run/checks.pl' }
use Errno qw(EINVAL);
use Fcntl qw(:DEFAULT);
use IO::Handle;
our $label;
(my $folder, $label) = @ARGV;

my ($FICLONE, $FICLONERANGE) = (0x40049409, 0x4020940d);
my ($BLOCK, $MEGA) = (4096, 1 << 20);
# A length of 0 reaches to the end of the source.
sub cloned { my ($from, $at, $length, $to, $target) = @_; return ioctl($to, $FICLONERANGE, pack('q Q Q Q', fileno $from, $at, $length, $target)) }
# Bytes that the file system has free, as the server says it.
sub room { open(my $df, '-|', 'stat', '-f', '-c', '%f %S', $folder) or die "stat: $!"; my ($blocks, $size) = split ' ', <$df>; return $blocks * $size }

my $data = pattern('c', 4 * $MEGA + 1234);

check 'clone: a whole file', sub {
    made("$folder/source", $data);
    my ($from, $to) = (opened("$folder/source", O_RDONLY), opened("$folder/whole", O_RDWR | O_CREAT | O_EXCL));
    ioctl($to, $FICLONE, fileno $from) or die "FICLONE: $!";
    closed($_) for $from, $to;
    same('the clone', content("$folder/whole"), $data);
};

check 'clone: what is written to it leaves the source alone, and the other way round', sub {
    my $to = opened("$folder/whole", O_RDWR);
    put($to, $MEGA + 5, 'of the clone');
    closed($to);
    same('the source', content("$folder/source"), $data);
    my $expected = $data;
    substr($expected, $MEGA + 5, 12) = 'of the clone';
    my $from = opened("$folder/source", O_RDWR);
    put($from, 7, 'of the source');
    closed($from);
    same('the clone', content("$folder/whole"), $expected);
    substr($data, 7, 13) = 'of the source';
};

check 'clone: ranges, behind the end and to the end', sub {
    my ($from, $to) = (opened("$folder/source", O_RDONLY), opened("$folder/ranges", O_RDWR | O_CREAT | O_EXCL));
    cloned($from, $BLOCK, 10 * $BLOCK, $to, 3 * $BLOCK) or die "a range: $!";
    cloned($from, 4 * $MEGA, 0, $to, 20 * $BLOCK) or die "to the end: $!";
    my $expected = "\0" x (20 * $BLOCK) . substr $data, 4 * $MEGA;
    substr($expected, 3 * $BLOCK, 10 * $BLOCK) = substr $data, $BLOCK, 10 * $BLOCK;
    closed($_) for $from, $to;
    same('the ranges', content("$folder/ranges"), $expected);
};

check 'clone: what was written and not yet sent is in it', sub {
    my ($from, $to) = (opened("$folder/source", O_RDWR), opened("$folder/late", O_RDWR | O_CREAT | O_EXCL));
    put($from, 100, 'just written');
    substr($data, 100, 12) = 'just written';
    cloned($from, 0, 0, $to, 0) or die "clone: $!";
    closed($_) for $from, $to;
    same('the clone', content("$folder/late"), $data);
};

check 'clone: blocks are not cut', sub {
    my ($from, $to) = (opened("$folder/source", O_RDONLY), opened("$folder/cut", O_RDWR | O_CREAT | O_EXCL));
    for my $wrong ([1, $BLOCK, 0], [0, $BLOCK, 1], [0, 100, 0]) {
        my ($at, $length, $target) = @$wrong;
        cloned($from, $at, $length, $to, $target) and die "$length at $at to $target: it was done";
        $! == EINVAL or die "$length at $at to $target: $!";
    }
    -s $to and die 'something was done';
};

check 'clone: it takes no room', sub {
    made("$folder/large", "x" x (16 * $MEGA));
    my $from = opened("$folder/large", O_RDWR);
    $from->sync or die "sync: $!";
    my $before = room();
    for my $number (1 .. 8) {
        my $to = opened("$folder/large-$number", O_RDWR | O_CREAT | O_EXCL);
        cloned($from, 0, 0, $to, 0) or die "clone: $!";
        closed($to);
        -s "$folder/large-$number" == 16 * $MEGA or die 'another size';
    }
    my $taken = $before - room();
    $taken < 16 * $MEGA or die "8 clones of 16 MiB take $taken bytes";
};

unlink map { "$folder/$_" } listing($folder);
finish();
