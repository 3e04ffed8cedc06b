//! Questions about folders on file systems that may not answer.

use foreign::ForeignThread;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Whether each path is a folder, without the paths on file systems that do not answer.
pub(super) type Answers = BTreeMap<PathBuf, io::Result<bool>>;

/// The questions of this process.
pub(super) static FOLDERS: LazyLock<Questions> = LazyLock::new(Questions::default);

/// Returns whether a path is a folder.
pub(super) fn is_folder(path: &Path) -> io::Result<bool> {
    std::fs::metadata(path).map(|found| found.is_dir())
}

/// Asks about many paths at once.
#[derive(Default)]
pub(super) struct Questions {
    /// Paths with a thread that still waits for an answer. They get no other thread.
    stuck: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl Questions {
    fn stuck(stuck: &Mutex<BTreeSet<PathBuf>>) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        stuck.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks about each path on a thread of its own, and waits for all of them together.
    pub(super) fn ask(
        &self,
        mut paths: BTreeSet<PathBuf>,
        time_max: Duration,
        question: impl Fn(&Path) -> io::Result<bool> + Clone + Send + 'static,
    ) -> Answers {
        paths.retain(|path| !Self::stuck(&self.stuck).contains(path));
        let (say, said) = channel();
        for path in &paths {
            let (path, question, say, stuck) =
                (path.clone(), question.clone(), say.clone(), self.stuck.clone());
            ForeignThread::default().send(Box::new(move || {
                let answer = question(&path);
                let mut stuck = Self::stuck(&stuck);
                stuck.remove(&path);
                let _ = say.send((path, answer));
            }));
        }
        drop(say);
        let until = Instant::now() + time_max;
        let mut answers = Answers::new();
        while let Ok((path, answer)) = said.recv_timeout(until.saturating_duration_since(Instant::now())) {
            answers.insert(path, answer);
        }
        // Under the lock, so that a thread that answers now is not taken for a stuck one for ever.
        let mut stuck = Self::stuck(&self.stuck);
        answers.extend(said.try_iter());
        stuck.extend(paths.into_iter().filter(|path| !answers.contains_key(path)));
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn a_path_without_an_answer_has_one_thread_until_it_answers() {
        let questions = Questions::default();
        let (release, released) = channel::<()>();
        let (asked, released) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(released)));
        let counted = asked.clone();
        let hangs = move |_: &Path| {
            counted.fetch_add(1, SeqCst);
            let _ = released.lock().unwrap().recv();
            Ok(true)
        };
        let path = || BTreeSet::from([PathBuf::from("/a")]);
        for _ in 0..3 {
            assert!(questions.ask(path(), Duration::ZERO, hangs.clone()).is_empty());
        }
        drop(release);
        while !Questions::stuck(&questions.stuck).is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(asked.load(SeqCst), 1);
        assert!(matches!(questions.ask(path(), LONG, hangs).get(Path::new("/a")), Some(Ok(true))));
    }
}
