# repository.sh: a git repository from a seed, the same on every machine. Sourced by client.sh.

FILES_IN_REPOSITORY=${FILES_IN_REPOSITORY:-2400}
COMMITS_IN_REPOSITORY=24

# Makes a bare repository in $1: 2,400 files (or as many as the settings say) in 120 folders, then commits that change a hundred each. The numbers come
# from a generator of our own, because awk's rand() differs between awks.
repository() {
  git init -q --bare "$1"
  git -C "$1" symbolic-ref HEAD refs/heads/main
  LC_ALL=C awk -v files=$FILES_IN_REPOSITORY -v commits=$COMMITS_IN_REPOSITORY '
    function next_number(below) { seed = (seed * 16807) % 2147483647; return seed % below }
    function content(n, version,    text, lines) {
      text = "file " n " version " version "\n"
      for (lines = 5 + next_number(90); lines > 0; lines--)
        text = text next_number(2147483647) " lorem " next_number(1000) " ipsum " next_number(2147483647) "\n"
      return text
    }
    function put(n, version,    text) {
      text = content(n, version)
      printf "M %s inline folder%d/sub%d/file%d.txt\n", (n % 50 ? "100644" : "100755"), n % 12, int(n / 12) % 10, n
      printf "data %d\n%s\n", length(text), text
    }
    BEGIN {
      seed = 20082026
      for (commit = 1; commit <= commits; commit++) {
        message = "commit " commit
        printf "commit refs/heads/main\ncommitter Lab <lab@orthrus.test> %d +0000\n", 1700000000 + commit * 60
        printf "data %d\n%s\n", length(message), message
        if (commit == 1) for (n = 0; n < files; n++) put(n, 1)
        else for (i = 0; i < 100; i++) put(next_number(files), commit)
      }
    }' | git -C "$1" fast-import --quiet
}
