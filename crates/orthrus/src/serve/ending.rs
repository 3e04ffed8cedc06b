//! The end of the process: SIGTERM ends it in time, whatever hangs.

use net::Shards;
use runtime::NfsService;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long the server may take to end after SIGTERM or SIGINT; then the process ends by force.
const END_TIME_MAX: Duration = Duration::from_secs(10);
/// How long the process may take to log what hangs: the log may be what hangs.
const LAST_WORDS_TIME_MAX: Duration = Duration::from_millis(500);
/// The exit status of a process that did not end in time.
const HUNG_STATUS: i32 = 70;

/// What may hang; empty until the server has started.
pub(super) type Watched = Arc<OnceLock<(Shards, Arc<NfsService>)>>;

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
        say_what_hangs(watched);
        vfs_local::exit_at_once(HUNG_STATUS);
    };
    std::thread::Builder::new().name("end".into()).spawn(run).map(drop)
}

/// Logs what keeps the server from ending, on a thread of its own.
fn say_what_hangs(watched: Watched) {
    let (said, done) = channel();
    let say = move || {
        for line in what_hangs(&watched) {
            tracing::error!("ending by force, since this hangs: {line}");
        }
        let _ = said.send(());
    };
    if std::thread::Builder::new().name("last-words".into()).spawn(say).is_ok() {
        let _ = done.recv_timeout(LAST_WORDS_TIME_MAX);
    }
}

fn what_hangs(watched: &Watched) -> Vec<String> {
    let Some((shards, service)) = watched.get() else { return vec!["the start of the server".into()] };
    let mut lines = shards.unfinished();
    if lines.is_empty() {
        lines.push("the release of the exports".into());
    }
    let threads = |(name, count): (&'static str, u64)| {
        (name.ends_with("_threads") && count > 0).then(|| format!("{name}={count}"))
    };
    lines.extend(service.snapshot().into_iter().filter_map(threads));
    lines
}
