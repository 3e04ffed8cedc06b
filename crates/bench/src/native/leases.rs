//! Leases of sessions that make no call while another session works.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};

/// Runs `work` on a thread of its own. Until it has ended, calls `renew` on the idle sessions in
/// turn, on each one every `interval`.
///
/// # Errors
/// The error of `work`, and its panic.
pub(super) fn while_renewing<S, T: Send>(
    interval: Duration,
    mut idle: Vec<&mut S>,
    renew: impl Fn(&mut S),
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    let each = interval / u32::try_from(idle.len().max(1)).unwrap_or(u32::MAX);
    thread::scope(|scope| {
        let (working, ended) = channel::<()>();
        let worker = scope.spawn(move || {
            // It is dropped at the end of the work, also at that of a panic.
            let _working = working;
            work()
        });
        let mut turns = (0..idle.len()).cycle();
        while ended.recv_timeout(each) == Err(RecvTimeoutError::Timeout) {
            if let Some(session) = turns.next().and_then(|next| idle.get_mut(next)) {
                renew(session);
            }
        }
        worker.join().unwrap_or_else(|_| Err(anyhow!("a client has ended in a panic")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const INTERVAL: Duration = Duration::from_millis(2);

    #[test]
    fn idle_sessions_renew_their_leases_until_the_work_has_ended() {
        let (renewed, renewals) = mpsc::channel();
        let mut sessions = [0, 1];
        let renew = |session: &mut usize| renewed.send(*session).expect("the work listens");
        let worked = while_renewing(INTERVAL, sessions.iter_mut().collect(), renew, move || {
            // It works for as long as each of them takes for two renewals.
            Ok(renewals.iter().take(4).collect::<Vec<_>>())
        });
        assert_eq!(worked.expect("it succeeds"), [0, 1, 0, 1]);
    }

    #[test]
    fn work_without_idle_sessions_ends_with_its_own_result() {
        let failed: Result<()> = while_renewing(INTERVAL, Vec::new(), |()| (), || Err(anyhow!("full")));
        assert_eq!(failed.expect_err("it fails").to_string(), "full");
        let panicked: Result<()> = while_renewing(INTERVAL, Vec::new(), |()| (), || panic!("a test"));
        assert!(panicked.expect_err("it fails").to_string().contains("panic"));
    }
}
