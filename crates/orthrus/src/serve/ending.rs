//! The end of the process: SIGTERM ends it in time, whatever hangs.

use net::Shards;
use runtime::NfsService;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long the server may take to end after SIGTERM or SIGINT; then the process ends by force.
const END_TIME_MAX: Duration = Duration::from_secs(10);
/// How long each last step of the process may take: the log may hang as well.
const LAST_WORDS_TIME_MAX: Duration = Duration::from_millis(500);
/// The exit status of a process that did not end in time.
pub(super) const HUNG_STATUS: i32 = 70;

/// The server with its state folder; empty until it has started.
pub(super) type Watched = Arc<OnceLock<Serving>>;

/// A running server: all that can hang, and its state folder.
pub(super) struct Serving {
    /// The threads that serve connections.
    pub(super) shards: Shards,
    /// The pools of threads behind them.
    pub(super) service: Arc<NfsService>,
    /// The path without symbolic links.
    pub(super) state_dir: PathBuf,
}

/// Starts the thread that ends the process [`END_TIME_MAX`] after the first SIGTERM or SIGINT.
///
/// # Errors
/// When the system gives no thread, or signals cannot be caught.
pub(super) fn guard(watched: Watched) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let run = move || {
        if signals.forever().next().is_none() {
            return;
        }
        std::thread::sleep(END_TIME_MAX);
        let serving = watched.clone();
        try_to("last-words", move || {
            for line in unfinished_work(&serving) {
                tracing::error!("ending by force, since this hangs: {line}");
            }
            crate::logging::flush();
        });
        try_to("release", move || {
            if let Some(serving) = watched.get() {
                vfs_local::release_to_successor(&serving.state_dir);
            }
        });
        vfs_local::exit_at_once(HUNG_STATUS);
    };
    std::thread::Builder::new().name("end".into()).spawn(run).map(drop)
}

/// Runs a last step on a thread of its own, and waits for it only so long.
fn try_to(name: &str, step: impl FnOnce() + Send + 'static) {
    let (say, done) = channel();
    let run = move || {
        step();
        let _ = say.send(());
    };
    if std::thread::Builder::new().name(name.into()).spawn(run).is_ok() {
        let _ = done.recv_timeout(LAST_WORDS_TIME_MAX);
    }
}

fn unfinished_work(watched: &Watched) -> Vec<String> {
    let Some(Serving { shards, service, .. }) = watched.get() else {
        return vec!["the start of the server".into()];
    };
    let mut lines = shards.unfinished();
    if lines.is_empty() {
        lines.push("the release of the exports".into());
    }
    let counts = service.counts();
    let pools = [
        ("disk_threads", counts.disk),
        ("context_threads", counts.contexts),
        ("copy_threads", counts.copies),
    ];
    let busy = pools.iter().filter(|(_, pool)| pool.threads > 0);
    lines.extend(busy.map(|(name, pool)| format!("{name}={}", pool.threads)));
    lines
}
