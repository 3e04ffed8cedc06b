# names.pl FIRST SECOND LABEL: what two clients see of each other's names, and what becomes of open files that lose theirs.
# FIRST and SECOND are the same folder, through the mounts of the two.
use strict;
use warnings;
BEGIN { require '/run/checks.pl' }
use Fcntl qw(:DEFAULT);
our $label;
(my $first, my $second, $label) = @ARGV;

my $SIZE = 100_000;
my ($old, $new) = (pattern('old', $SIZE), pattern('new', $SIZE));

# The name that Linux gives to what is removed and still open.
sub silly { return grep { /^\.nfs/ } listing($_[0]) }
# The client removes it behind the close, and the close does not wait for the answer.
sub none_silly {
    my @left;
    soon(sub { !(@left = map { silly($_) } $first, $second) }) or die "left behind: @left";
}
# Whether a condition comes true within two seconds.
sub soon {
    my ($condition) = @_;
    for (1 .. 40) { return 1 if $condition->(); select undef, undef, undef, 0.05 }
    return 0;
}
# Past the cache: what is read comes from the server.
sub unnoticed { return opened("$_[0]", O_RDWR | O_DIRECT) }

check 'rename over an open file: its reader reads on, others get the new one', sub {
    made("$first/target", $old);
    made("$first/fresh", $new);
    my $file = unnoticed("$first/target");
    same('before', get($file, 0, 1000), substr $old, 0, 1000);
    rename("$first/fresh", "$first/target") or die "rename: $!";
    same('read on', get($file, 0, $SIZE), $old);
    same('by name', content("$first/target"), $new);
    same('by name, the other client', content("$second/target"), $new);
    silly($_) == 1 or die "no .nfs file in $_" for $first, $second;
    closed($file);
    none_silly();
    unlink "$first/target" or die "unlink: $!";
};

check 'rename by the other client over an open file: its reader reads on, others get the new one', sub {
    made("$first/target", $old);
    my $file = unnoticed("$first/target");
    same('before', get($file, 0, 1000), substr $old, 0, 1000);
    made("$second/fresh", $new);
    rename("$second/fresh", "$second/target") or die "rename: $!";
    same('read on', get($file, 0, $SIZE), $old);
    same('by name', content("$first/target"), $new);
    same('by name, the other client', content("$second/target"), $new);
    closed($file);
    none_silly();
    unlink "$first/target" or die "unlink: $!";
};

check 'unlink of an open file: it is read and written on, and gone after the close', sub {
    made("$first/unlinked", $old);
    my $file = opened("$first/unlinked", O_RDWR);
    unlink "$first/unlinked" or die "unlink: $!";
    -e "$_/unlinked" and die "still in $_" for $first, $second;
    my ($hidden) = silly($second) or die 'no .nfs file';
    same('read on', get($file, 0, $SIZE), $old);
    put($file, $SIZE, $new);
    same('written on', get($file, 0, 2 * $SIZE), $old . $new);
    # Two opens: the first close removes nothing.
    my $again = opened("$first/$hidden", O_RDONLY);
    closed($file);
    same('by the second open', get($again, $SIZE, $SIZE), $new);
    closed($again);
    none_silly();
};

check 'unlink by the other client of an open file: it is read and written on', sub {
    made("$first/unlinked", $old);
    my $file = unnoticed("$first/unlinked");
    same('before', get($file, 0, 1000), substr $old, 0, 1000);
    unlink "$second/unlinked" or die "unlink: $!";
    same('read on', get($file, 0, $SIZE), $old);
    put($file, 10, 'written on');
    same('written on', get($file, 0, 30), substr($old, 0, 10) . 'written on' . substr($old, 20, 10));
    -e "$first/unlinked" and die 'its name is still there';
    closed($file);
};

check 'a folder of a removed file that is still open is removed after the close', sub {
    mkdir "$first/folder" or die "mkdir: $!";
    made("$first/folder/file", $old);
    my $file = opened("$first/folder/file", O_RDONLY);
    unlink "$first/folder/file" or die "unlink: $!";
    rmdir "$second/folder" and die 'it went with a file in it';
    closed($file);
    soon(sub { rmdir "$second/folder" }) or die "rmdir: $!";
    -e "$first/folder" and die 'still there';
};

my ($STAY, $ROUNDS) = (150, 24);

# Makes, renames and removes names of its own and lists in between; returns how many names it was the first to make.
sub busy {
    my ($folder, $who) = @_;
    my $won = 0;
    for my $round (1 .. $ROUNDS) {
        made("$folder/$who-$round", $who);
        $won++ if sysopen(my $race, "$folder/race-$round", O_WRONLY | O_CREAT | O_EXCL);
        $won++ if mkdir "$folder/folder-$round";
        rename("$folder/$who-$round", "$folder/$who-$round-moved") or die "rename: $!" if $round % 3 == 0;
        unlink("$folder/$who-$round") or die "unlink: $!" if $round % 3 == 1;
        next if $round % 4;
        my %seen;
        $seen{$_}++ for listing($folder);
        my @wrong = grep { ($seen{"stay-$_"} // 0) != 1 } 1 .. $STAY;
        die "round $round: not listed once: @wrong" if @wrong;
        my @twice = grep { $seen{$_} > 1 } keys %seen;
        die "round $round: listed twice: @twice" if @twice;
    }
    return $won;
}

check 'two clients in one folder: what stays is listed once, each name is made once, both end with the same', sub {
    made("$first/stay-1", 'stay');
    link("$first/stay-1", "$first/stay-$_") or die "link: $!" for 2 .. $STAY;
    my @won = together(sub { busy($first, 'a') }, sub { busy($second, 'b') });
    $won[0] + $won[1] == 2 * $ROUNDS or die "$won[0] and $won[1] of $ROUNDS files and $ROUNDS folders were new";
    my @left = map { "stay-$_" } 1 .. $STAY;
    push @left, map { ("race-$_", "folder-$_") } 1 .. $ROUNDS;
    for my $who ('a', 'b') {
        push @left, map { $_ % 3 == 0 ? "$who-$_-moved" : "$who-$_" } grep { $_ % 3 != 1 } 1 .. $ROUNDS;
    }
    my $left = join ' ', sort @left;
    same("what is left in $_", join(' ', sort(listing($_))), $left) for $first, $second;
    # Each its own: what another has a delegation of waits for its recall.
    for (@left) {
        my $path = (/^b/ ? $second : $first) . "/$_";
        -d $path ? rmdir $path : unlink $path;
    }
    my @after = listing($second);
    die "not removed: @after" if @after;
};
finish();
