//! Metadata as git makes it: git itself, on a repository that a seed draws, or a clone of the
//! user's.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use rng::SplitMix64;

use super::place::remove;
use crate::counters::{Counters, count_phase};
use crate::repository::{differing, earlier, git, tracked};
use crate::tools::run;

/// Folders of the working copy, and files of each.
const FOLDERS: u64 = 30;
const FILES: u64 = 10;

/// One file in so many differs in the other branch.
const CHANGED: u64 = 4;

/// The largest file, in bytes.
const SIZE_MAX: u64 = 16 << 10;

/// A bare repository in a temporary folder, for clones; it goes when this is dropped.
#[derive(Debug)]
pub(super) struct BareRepository {
    folder: tempfile::TempDir,
    /// Files of the working copy, and the ones that differ in the other branch.
    files: u64,
    changed: u64,
    /// Files of the other branch that are changed to be committed.
    edited: Vec<String>,
}

impl BareRepository {
    /// Makes the repository from a seed; `None` when it was interrupted.
    pub(super) fn draw(seed: u64, stop: &AtomicBool) -> Result<Option<Self>> {
        let folder = folder()?;
        let bare = bare(&folder);
        let mut made = git()?;
        if run(made.args(["init", "--quiet", "--bare", "--initial-branch=main"]).arg(&bare), stop)?.is_none()
        {
            return Ok(None);
        }
        let stream = folder.path().join("stream");
        File::create(&stream)?.write_all(history(seed).as_bytes())?;
        let mut import = git()?;
        import.arg("-C").arg(&bare).args(["fast-import", "--quiet"]).stdin(File::open(&stream)?);
        run(&mut import, stop)?.map(|_| Self::known(folder, stop)).transpose()
    }

    /// Clones a repository; its other branch is an earlier commit. `None` when it was interrupted.
    pub(super) fn of(repository: &Path, stop: &AtomicBool) -> Result<Option<Self>> {
        let folder = folder()?;
        let bare = bare(&folder);
        let mut clone = git()?;
        clone.args(["clone", "--quiet", "--bare", "--no-local"]).arg(repository).arg(&bare);
        if run(&mut clone, stop)?.is_none() {
            return Ok(None);
        }
        let mut branch = git()?;
        branch.arg("-C").arg(&bare).args(["update-ref", "refs/heads/other", &earlier(&bare, stop)?]);
        run(&mut branch, stop)?.map(|_| Self::known(folder, stop)).transpose()
    }

    fn known(folder: tempfile::TempDir, stop: &AtomicBool) -> Result<Self> {
        let bare = bare(&folder);
        let files = tracked(&bare, "HEAD", stop)?.len() as u64;
        let changed = differing(&bare, "other", "HEAD", stop)?.len() as u64;
        let other = tracked(&bare, "other", stop)?.into_iter().map(|file| file.path);
        Ok(Self { folder, files, changed, edited: other.step_by(usize::try_from(CHANGED)?).collect() })
    }

    /// Clones into `copy`, works there and removes it; `None` when it was interrupted. A copy that
    /// a failed turn has left goes first, because git clones into no folder with files. Operations
    /// are files that a command makes, looks at or removes; its other requests are not counted.
    pub(super) fn turn(&self, copy: &Path, stop: &AtomicBool) -> Result<Option<Counters>> {
        remove(copy)?;
        let mut counters = Counters::new();
        let (all, edited) = (self.files, self.edited.len() as u64);
        let inside = |arguments: &[&str]| -> Result<Command> {
            let mut command = git()?;
            command.arg("-C").arg(copy).args(arguments);
            Ok(command)
        };
        let mut clone = git()?;
        clone.args(["clone", "--quiet", "--no-local"]).arg(bare(&self.folder)).arg(copy);
        let steps: [(&str, u64, Command); 5] = [
            ("clone", all, clone),
            ("status", all, inside(&["status", "--porcelain"])?),
            ("checkout", self.changed, inside(&["checkout", "--quiet", "--detach", "origin/other"])?),
            ("commit", edited, inside(&["commit", "--quiet", "--all", "--message=bench"])?),
            ("gc", 1, inside(&["gc", "--quiet"])?),
        ];
        for (name, operations, mut command) in steps {
            if name == "commit" {
                self.change(copy).context("changing the working copy")?;
            }
            let Some(ran) = run(&mut command, stop)? else { return Ok(None) };
            count_phase(&mut counters, name, operations, ran.time);
        }
        let start = std::time::Instant::now();
        remove(copy)?;
        count_phase(&mut counters, "remove", all, start.elapsed());
        Ok(Some(counters))
    }

    /// Changes the files of the next commit.
    fn change(&self, copy: &Path) -> Result<()> {
        for path in self.edited.iter().map(|path| copy.join(path)) {
            let mut file =
                File::options().append(true).open(&path).with_context(|| path.display().to_string())?;
            writeln!(file, "changed")?;
        }
        Ok(())
    }
}

fn folder() -> Result<tempfile::TempDir> {
    Ok(private::temporary("orthrus-git-")?)
}

fn bare(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("repository.git")
}

fn path(number: u64) -> String {
    format!("folder-{}/source-{}.c", number % FOLDERS, number / FOLDERS)
}

/// A stream for git fast-import: one commit on main, one on another branch that changes a part of
/// the files.
fn history(seed: u64) -> String {
    let mut stream = String::new();
    let mut random = SplitMix64(seed);
    for (branch, from, step) in [("main", "", 1), ("other", "from refs/heads/main\n", CHANGED)] {
        let _ = write!(
            stream,
            "commit refs/heads/{branch}\ncommitter bench <bench@localhost> 1 +0000\ndata 5\nbench\n{from}"
        );
        for number in (0..FOLDERS * FILES).filter(|number| number % step == 0) {
            let size = 64 + random.below(SIZE_MAX - 64);
            let mut text = String::new();
            while (text.len() as u64) < size {
                let _ = writeln!(text, "line {} of a file", random.below(u64::MAX >> 34));
            }
            let _ = write!(stream, "M 100644 inline {}\ndata {}\n{text}\n", path(number), text.len());
        }
    }
    stream
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_git_turn_uses_a_seeded_repository_and_removes_its_files() {
        if let Err(missing) = crate::tools::GIT.find() {
            return eprintln!("skipped: {missing}");
        }
        let (dir, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
        let repository = BareRepository::draw(7, &stop).unwrap().unwrap();
        let copy = dir.path().join("copy");
        // A former turn has failed in its middle.
        std::fs::create_dir(&copy).unwrap();
        std::fs::write(copy.join("left"), "x").unwrap();
        let counters = repository.turn(&copy, &stop).unwrap().unwrap();
        for command in ["clone", "status", "checkout", "commit", "gc", "remove"] {
            assert!(counters[&format!("{command}_us")] > 0, "{command}: {counters:?}");
        }
        assert_eq!(counters["clone_operations"], FOLDERS * FILES);
        assert_eq!((counters["checkout_operations"], counters["commit_operations"]), (75, 75));
        // A clone of one that is there: its other branch is that of the one before HEAD.
        let given = BareRepository::of(&bare(&repository.folder), &stop).unwrap().unwrap();
        assert_eq!((given.files, given.changed), (FOLDERS * FILES, 0), "one commit only");
        let nothing = BareRepository::of(dir.path(), &stop).unwrap_err();
        assert!(format!("{nothing:#}").contains("git: "), "{nothing:#}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(history(7), history(7));
        assert_ne!(history(7), history(8));
    }
}
