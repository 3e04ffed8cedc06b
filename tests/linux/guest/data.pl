# data.pl FIRST SECOND LABEL: what two clients see of each other's data in one file. FIRST and SECOND are the same folder,
# through the mounts of the two.
use strict;
use warnings;
BEGIN { require '/run/checks.pl' }
use Fcntl qw(:DEFAULT);
our $label;
(my $first, my $second, $label) = @ARGV;

# Memory by the system calls themselves: perl brings no mmap along. A pipe is how bytes get to an address.
my ($MMAP, $MUNMAP, $MSYNC, $READ) = (9, 11, 26, 0);
my ($SHARED_FIXED, $BOTH, $SYNC) = (0x11, 3, 4);
my $ADDRESS = 0x10000000;
sub mapped { my ($file, $length) = @_; syscall($MMAP, $ADDRESS, $length, $BOTH, $SHARED_FIXED, fileno $file, 0) != -1 or die "mmap: $!" }
sub unmapped { syscall($MUNMAP, $ADDRESS, $_[0]) == 0 or die "munmap: $!" }
sub synced { syscall($MSYNC, $ADDRESS, $_[0], $SYNC) == 0 or die "msync: $!" }
sub load { my ($at, $length) = @_; return unpack "P$length", pack 'J', $ADDRESS + $at }
sub store {
    my ($at, $data) = @_;
    pipe(my $from, my $to) or die "pipe: $!";
    syswrite($to, $data);
    syscall($READ, fileno $from, $ADDRESS + $at, length $data) == length $data or die "store: $!";
}

my $SIZE = 256 << 10;
check 'shared mapping: stores are read by the other client after msync and after close', sub {
    my $expected = pattern('m', $SIZE);
    made("$first/mapped", $expected);
    my $file = opened("$first/mapped", O_RDWR);
    mapped($file, $SIZE);
    same('loads', load(0, $SIZE), $expected);
    for my $place ([4090, 'over the end of a page'], [0, 'first'], [$SIZE - 4, 'last']) {
        store(@$place);
        substr($expected, $place->[0], length $place->[1]) = $place->[1];
    }
    synced($SIZE);
    same('after msync', content("$second/mapped"), $expected);
    store(100_000, 'stored and not synchronised');
    substr($expected, 100_000, 27) = 'stored and not synchronised';
    put($file, 150_000, 'written');
    substr($expected, 150_000, 7) = 'written';
    same('a write and a load', load(150_000, 7), 'written');
    unmapped($SIZE);
    closed($file);
    same('after close', content("$second/mapped"), $expected);
    my $other = opened("$second/mapped", O_RDWR);
    mapped($other, $SIZE);
    same('the mapping of the other', load(0, $SIZE), $expected);
    store(70_000, 'the other');
    substr($expected, 70_000, 9) = 'the other';
    unmapped($SIZE);
    closed($other);
    same('the way back', content("$first/mapped"), $expected);
};

check 'O_DIRECT: the other client reads at once what one has written', sub {
    my $expected = '';
    my $writer = opened("$first/direct", O_RDWR | O_CREAT | O_EXCL | O_DIRECT);
    my $reader = opened("$second/direct", O_RDONLY | O_DIRECT);
    for my $piece ([0, 65_536], [4096, 4096], [1 << 20, 1 << 20], [1, 511], [100_001, 70_003], [(2 << 20) - 5, 10]) {
        my ($at, $length) = @$piece;
        my $data = pattern("d$at", $length);
        put($writer, $at, $data);
        same("read of $length at $at", get($reader, $at, $length), $data);
        $expected .= "\0" x ($at - length $expected) if $at > length $expected;
        substr($expected, $at, $length) = $data;
    }
    same('all of it', get($reader, 0, 4 << 20), $expected);
    closed($_) for $writer, $reader;
};

# One client, so that there is one truth at any time; the other client looks at the end.
check 'O_DIRECT: mixed with cached reads and writes it is one file', sub {
    my ($limit, $model) = (300_000, '');
    srand(my $seed = 7);
    my $cached = opened("$first/mixed", O_RDWR | O_CREAT | O_EXCL);
    my $direct = opened("$first/mixed", O_RDWR | O_DIRECT);
    for my $round (1 .. 60) {
        my ($at, $length, $kind) = (int rand $limit, 1 + int rand 40_000, int rand 7);
        ($at, $length) = ($at & ~4095, 8192) if $round % 2;
        my $file = $kind % 2 ? $direct : $cached;
        if ($kind < 4) {
            my $data = pattern("r$round", $length);
            put($file, $at, $data);
            $model .= "\0" x ($at - length $model) if $at > length $model;
            substr($model, $at, $length) = $data;
        } elsif ($kind < 6) {
            my $expected = $at < length $model ? substr($model, $at, $length) : '';
            same("seed $seed round $round", get($file, $at, $length), $expected);
        } else {
            truncate($cached, $at) or die "truncate: $!";
            $model = substr($model . "\0" x $at, 0, $at);
        }
    }
    closed($_) for $cached, $direct;
    same('what the other client has', content("$second/mixed"), $model);
};

check 'O_APPEND: of two clients with locks no record is lost or torn', sub {
    my $RECORDS = 30;
    my $writer = sub {
        my ($folder, $who) = @_;
        my $file = opened("$folder/appended", O_WRONLY | O_APPEND | O_CREAT);
        for my $record (1 .. $RECORDS) {
            locked($file);
            my $line = sprintf "%s %05d %s\n", $who, $record, $who x ($record * 7 % 90);
            syswrite($file, $line) == length $line or die "append: $!";
            unlocked($file);
        }
        closed($file);
        return 'done';
    };
    together(sub { $writer->($first, 'a') }, sub { $writer->($second, 'b') });
    for my $folder ($first, $second) {
        my (%next, $lines);
        for (split /^/, content("$folder/appended")) {
            /^([ab]) (\d{5}) (\1*)\n\z/ && length $3 == $2 * 7 % 90 or die "a torn record: $_";
            $2 == ++$next{$1} or die "record $2 of $1, not $next{$1}";
            $lines++;
        }
        $lines == 2 * $RECORDS or die "$lines records, not 2 times $RECORDS";
    }
};

check 'a sparse file of 7 TiB: both clients find its data, its holes and its size', sub {
    my ($SEEK_DATA, $SEEK_HOLE, $TEBI) = (3, 4, 1 << 40);
    my $file = opened("$first/sparse", O_RDWR | O_CREAT | O_EXCL);
    my @places = (0, (1 << 32) - 3, 5 * $TEBI + 1);
    put($file, $_, "at $_") for @places;
    truncate($file, 7 * $TEBI) or die "truncate: $!";
    closed($file);
    my ($size, $blocks) = (stat "$second/sparse")[7, 12];
    $size == 7 * $TEBI or die "$size bytes";
    # CephFS knows no holes: the size counts as used, and all is data.
    my $holes = $ENV{EXPORT_ON} ne 'ceph';
    !$holes || $blocks < 1024 or die "$blocks blocks";
    $file = opened("$second/sparse", O_RDONLY);
    same("at $_", get($file, $_, length "at $_"), "at $_") for @places;
    same('in a hole', get($file, 6 * $TEBI, 100), "\0" x 100);
    my $data = sysseek($file, $TEBI, $SEEK_DATA) or die "SEEK_DATA: $!";
    my $known = $holes ? $places[2] : $TEBI;
    $data <= $known && $known - $data < 1 << 20 or die "data at $data";
    my $hole = sysseek($file, $data, $SEEK_HOLE) or die "SEEK_HOLE: $!";
    $known = $holes ? $places[2] : 7 * $TEBI - 1;
    $hole > $known && $hole - $known < 1 << 20 or die "a hole at $hole";
    closed($file);
};

unlink map { "$first/$_" } qw(mapped direct mixed appended sparse);
finish();
