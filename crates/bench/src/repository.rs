//! Existing git repositories: the files of a commit, and their changes since an earlier one.

use crate::tools::{GIT, run};
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

/// Commits that the other branch is behind, at most.
const BEHIND_MAX: u32 = 20;

/// Files of a repository that is repeated without git.
const FILES_MAX: usize = 100_000;

/// A file that git keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracked {
    /// Where in the working copy.
    pub path: String,
    /// Size of the file in bytes.
    pub size: u64,
}

/// The shape of a repository that the git workload repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRepository {
    /// The files of HEAD.
    pub files: Vec<Tracked>,
    /// Indexes of the files that differ in an earlier commit.
    pub changed: Vec<usize>,
    /// Bytes that a clone transfers.
    pub pack: u64,
}

impl KnownRepository {
    /// Looks at a repository, with or without a working copy.
    ///
    /// # Errors
    /// When git is missing, finds no repository there or no commit in it; more than 100,000 files.
    pub fn of(repository: &Path, stop: &AtomicBool) -> Result<Self> {
        let looked = || -> Result<Self> {
            let files = tracked(repository, "HEAD", stop)?;
            ensure!(
                !files.is_empty() && files.len() <= FILES_MAX,
                "it has {} files, and 1 to {FILES_MAX} can be repeated",
                files.len()
            );
            let other = differing(repository, &earlier(repository, stop)?, "HEAD", stop)?;
            let changed = (0..files.len()).filter(|at| other.contains(&files[*at].path)).collect();
            Ok(Self { files, changed, pack: stored(repository, stop)? })
        };
        looked().with_context(|| format!("the repository {}", repository.display()))
    }

    /// Returns the maximum size of a working copy with git's own files, in bytes.
    pub fn size(&self) -> u64 {
        // The pack, its index, and both anew while gc works; files in whole pages.
        let files = self.files.iter().map(|file| file.size.next_multiple_of(4096)).sum::<u64>();
        files + 3 * self.pack
    }
}

/// Makes a command of git without the user's and the machine's settings.
pub(crate) fn git() -> Result<Command> {
    let mut command = GIT.command()?;
    command.envs([
        ("HOME", "/nonexistent"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ]);
    command.env("GIT_TERMINAL_PROMPT", "0");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "bench").env(format!("GIT_{role}_EMAIL"), "bench@localhost");
    }
    // Servers tell owners as they like.
    command.args(["-c", "safe.directory=*", "-c", "gc.auto=0", "-c", "advice.detachedHead=false"]);
    Ok(command)
}

fn said(repository: &Path, arguments: &[&str], stop: &AtomicBool) -> Result<String> {
    let ran = run(git()?.arg("-C").arg(repository).args(arguments), stop)?;
    Ok(ran.context("interrupted")?.stdout)
}

/// Returns the regular files of a commit, except names that are not UTF-8.
pub(crate) fn tracked(repository: &Path, commit: &str, stop: &AtomicBool) -> Result<Vec<Tracked>> {
    let listed = said(repository, &["ls-tree", "-r", "-z", "-l", commit], stop)?;
    let file = |entry: &str| {
        let (about, path) = entry.split_once('\t')?;
        let mut about = about.split_whitespace();
        let regular = about.next().is_some_and(|mode| mode.starts_with("100"));
        let size = about.nth(2)?.parse().ok()?;
        let named = !path.contains(char::REPLACEMENT_CHARACTER);
        (regular && named).then(|| Tracked { path: path.to_owned(), size })
    };
    Ok(listed.split('\0').filter_map(file).collect())
}

/// Returns the paths that differ between two commits.
pub(crate) fn differing(
    repository: &Path,
    one: &str,
    other: &str,
    stop: &AtomicBool,
) -> Result<BTreeSet<String>> {
    let listed = said(repository, &["diff", "--name-only", "--no-renames", "-z", one, other], stop)?;
    Ok(listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

/// Returns the commit 20 before HEAD, or the first commit of a shorter history.
pub(crate) fn earlier(repository: &Path, stop: &AtomicBool) -> Result<String> {
    let most = format!("--max-count={}", BEHIND_MAX + 1);
    let listed = said(repository, &["rev-list", "--first-parent", &most, "HEAD"], stop)?;
    Ok(listed.lines().next_back().context("it has no commit")?.to_owned())
}

/// Bytes of all objects, packed or not.
fn stored(repository: &Path, stop: &AtomicBool) -> Result<u64> {
    let counted = said(repository, &["count-objects", "-v"], stop)?;
    let of =
        |name: &str| counted.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    Ok((of("size:").unwrap_or(0) + of("size-pack:").unwrap_or(0)) << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::git::tests::leaves_nothing;

    fn commit(folder: &Path, files: &[(&str, &str)]) {
        let stop = AtomicBool::new(false);
        for (path, text) in files {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        said(folder, &["add", "--all"], &stop).unwrap();
        said(folder, &["commit", "--quiet", "--message=test"], &stop).unwrap();
    }

    #[test]
    fn the_files_of_a_repository_and_what_changed_are_known_and_can_be_repeated() {
        if let Err(missing) = GIT.find() {
            return eprintln!("skipped: {missing}");
        }
        let (folder, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
        let nothing = KnownRepository::of(folder.path(), &stop).unwrap_err();
        assert!(format!("{nothing:#}").contains("not a git repository"), "{nothing:#}");
        said(folder.path(), &["init", "--quiet"], &stop).unwrap();
        commit(folder.path(), &[("a \"b\"/ä.c", "one"), ("deep/er/file", ""), ("same", "12345")]);
        commit(folder.path(), &[("a \"b\"/ä.c", "changed"), ("new", "x")]);
        std::os::unix::fs::symlink("same", folder.path().join("link")).unwrap();
        commit(folder.path(), &[("deep/er/file", "y")]);
        let known = KnownRepository::of(folder.path(), &stop).unwrap();
        let files: Vec<(&str, u64)> = known.files.iter().map(|file| (&*file.path, file.size)).collect();
        assert_eq!(files, [("a \"b\"/ä.c", 7), ("deep/er/file", 1), ("new", 1), ("same", 5)]);
        assert_eq!(known.changed, [0, 1, 2], "two commits ago");
        assert!(known.pack > 0);
        let counters = leaves_nothing(&known);
        // Each changed file twice, there and back.
        assert!(counters["checkout_operations"] >= 6, "{counters:?}");
    }
}
