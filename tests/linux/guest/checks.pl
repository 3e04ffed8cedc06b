# checks.pl: what the jobs' perl programs share. Starting a process is slow in the guest, so one program makes many checks.
use strict;
use warnings;
use Fcntl qw(:DEFAULT F_SETLKW F_WRLCK F_UNLCK SEEK_SET);

our ($label, $failures) = ('', 0);
$| = 1;

# check NAME, CODE: prints one line, as the function of lib.sh does; code that dies says why.
sub check {
    my ($name, $code) = @_;
    my $passed = eval { $code->(); 1 };
    my $why = $@;
    $why =~ s/\s+/ /g;
    print $passed ? "ok $name $label\n" : "FAIL $name $label: $why\n";
    $failures++ unless $passed;
}
sub finish { exit($failures ? 1 : 0) }

sub opened { my ($path, $flags) = @_; sysopen(my $file, $path, $flags, 0644) or die "open $path: $!"; return $file }
sub closed { close $_[0] or die "close: $!" }

sub put {
    my ($file, $at, $data) = @_;
    sysseek($file, $at, SEEK_SET);
    my $done = syswrite($file, $data);
    defined $done && $done == length $data or die "write at $at: $!";
}

# get FILE, AT, LENGTH: less only at the end of the file.
sub get {
    my ($file, $at, $length) = @_;
    my $all = '';
    sysseek($file, $at, SEEK_SET);
    while (length $all < $length) {
        my $done = sysread($file, $all, $length - length $all, length $all);
        defined $done or die "read at $at: $!\n";
        last if $done == 0;
    }
    return $all;
}

sub content { my ($path) = @_; my $file = opened($path, O_RDONLY); my $all = get($file, 0, 1 << 24); closed($file); return $all }
sub made { my ($path, $data) = @_; my $file = opened($path, O_RDWR | O_CREAT | O_EXCL); put($file, 0, $data); closed($file) }

sub same {
    my ($what, $found, $expected) = @_;
    return if $found eq $expected;
    my $least = length $found < length $expected ? length $found : length $expected;
    my $at = 0;
    $at++ while $at < $least && substr($found, $at, 1) eq substr($expected, $at, 1);
    die sprintf("%s: it differs at %d (%d bytes, not %d): %s\n", $what, $at, length $found, length $expected, substr $found, $at, 20);
}

# Bytes that tell every place from its neighbours.
sub pattern { my ($seed, $length) = @_; return substr(join('', map { sprintf '%s:%07d;', $seed, $_ } 0 .. $length / 8), 0, $length) }

sub listing { my ($folder) = @_; opendir(my $open, $folder) or die "$folder: $!"; return grep { !/^\.\.?$/ } readdir $open }

# struct flock of 64-bit Linux: two shorts, padding, two long longs, a pid.
sub whole { my ($file, $kind) = @_; fcntl($file, F_SETLKW, pack('s s x4 q q i x4', $kind, SEEK_SET, 0, 0, 0)) or die "lock: $!" }
sub locked { whole($_[0], F_WRLCK) }
sub unlocked { whole($_[0], F_UNLCK) }

# together CODE...: each in a process of its own, at the same time; returns what each returned.
sub together {
    my @pipes;
    for my $code (@_) {
        pipe(my $from, my $to) or die "pipe: $!";
        my $pid = fork // die "fork: $!";
        if ($pid == 0) {
            my $said = eval { $code->() } // "died: $@";
            syswrite($to, $said);
            require POSIX;
            POSIX::_exit(0);
        }
        close $to;
        push @pipes, [$from, $pid];
    }
    return map {
        my ($from, $pid) = @$_;
        local $/;
        my $said = readline($from) // '';
        waitpid $pid, 0;
        $said =~ /^died: (.*)/s and die $1;
        $said;
    } @pipes;
}
1;
