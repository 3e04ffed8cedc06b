//! Stage 2: admit the calls that are genuine and not replayed.

use super::ingress::{decrypt, verify_headers, verify_integrity};
use super::{Engine, Scratch, Server};
use crate::call::{Job, Verdict};
use crate::metrics::{Kind, Metrics, ServedCounters, Stage, TickLags, Trouble, only};
use rpc::{AuthStat, Denied, WindowOutcome};
use std::time::Duration;

/// Verifies or decrypts the bodies of one kind of calls with pauses, and returns how many were not
/// genuine.
type OpenBodies = fn(&mut [Job], &ServedCounters, &mut dyn FnMut()) -> u64;

/// The function for each kind of call with a protected body.
const OPENERS: [(Kind, OpenBodies); 2] = [(Kind::Krb5i, verify_integrity), (Kind::Krb5p, decrypt)];

impl<E: Engine> Server<E> {
    /// Checks header MIC, sequence window and body of each call, in this order.
    pub(super) fn admit(
        &self,
        jobs: &mut [Job],
        scratch: &mut Scratch,
        pause: &mut dyn FnMut() -> Duration,
        now: Duration,
    ) {
        let Scratch { closing, watch, counters, .. } = scratch;
        let counters = counters.as_deref().unwrap_or(self.metrics.served.shared());
        let (calls, signed) = (watch.calls(), watch.signed());
        let is_signed = signed.iter().any(|count| *count > 0);
        if is_signed {
            watch.share(self.now(), Stage::Execute, &calls);
        }
        Metrics::add(&self.metrics.mic_failures, verify_headers(jobs, counters));
        let mut lags = TickLags::default();
        for job in jobs.iter_mut() {
            // The client sends later calls on a closing connection again on another one.
            if closing.contains(&job.connection) {
                job.verdict = Verdict::Ignore;
                continue;
            }
            self.check_window(job, &mut lags, now);
            if job.verdict == Verdict::Close {
                closing.push(job.connection);
            }
        }
        self.metrics.lags.add(&lags);
        // With protected bodies of one kind only, their time is measured together with that of the
        // headers.
        if is_signed && !matches!(only(&signed), Some(Kind::Krb5i | Kind::Krb5p)) {
            watch.share(self.now(), Stage::Unwrap, &signed);
        }
        for (kind, open) in OPENERS.into_iter().filter(|(kind, _)| signed[*kind as usize] > 0) {
            let mut paused = Duration::ZERO;
            Metrics::add(&self.metrics.body_failures, open(jobs, counters, &mut || paused += pause()));
            watch.skip(paused);
            watch.lap(self.now(), Stage::Unwrap, kind);
        }
    }

    /// Checks the sequence number against the context's window. The RFC wants a used or too old
    /// number to be discarded silently. Closing the connection lets the client send again without a
    /// timeout (RFC 2203 section 5.3.3.1, RFC 8881 section 2.9.2).
    fn check_window(&self, job: &mut Job, lags: &mut TickLags, now: Duration) {
        let Some(call) = job.runnable_gss() else { return };
        let (outcome, lag) = call.context.check_sequence(call.sequence, now);
        let verdict = match outcome {
            WindowOutcome::Accepted => return lags.count(lag),
            WindowOutcome::BeyondMaxseq => Verdict::Deny(Denied::Auth(AuthStat::RPCSEC_GSS_CTXPROBLEM)),
            WindowOutcome::Replayed | WindowOutcome::TooOld => {
                Metrics::add(&self.metrics.window_drops, 1);
                let (sequence, principal) = (call.sequence, call.context.principal());
                let detail = format_args!("number {sequence} of {principal} is {outcome:?}");
                self.reports.note(Trouble::Window, now, job.peer, detail);
                Verdict::Close
            }
        };
        job.verdict = verdict;
    }
}
