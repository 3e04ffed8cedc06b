//! Stage 4: sign and encrypt replies as a batch, and pass them on.

use super::{Engine, ReplySink, Scratch, Server};
use crate::metrics::{Kind, Stage, TimeClasses, Work, only};
use crate::rpcsec::{Outgoing, seal};
use std::cell::Cell;
use std::time::Duration;

impl<E: Engine> Server<E> {
    /// Signs and encrypts the ready replies, counts them and passes them on. The time before it is
    /// counted as execution of calls of the kind `kind`.
    pub(super) fn flush(&self, scratch: &mut Scratch, sink: &mut impl ReplySink<E::Suspended>, kind: Kind) {
        let mut ready = self.now();
        scratch.watch.lap(ready, Stage::Execute, kind);
        let work = signing(&scratch.outgoing);
        if work.iter().any(|bytes| *bytes > 0) {
            ready = self.protect(scratch, sink, &work);
        }
        (scratch.outgoing_bytes, scratch.outgoing_bodies) = (0, 0);
        let (served, mut times) = (&self.metrics.served, TimeClasses::new(ready));
        let counters = scratch.counters.as_deref().unwrap_or(served.shared());
        for reply in scratch.outgoing.drain(..) {
            served.count(counters, &mut times, reply.kind, &reply.served, reply.len());
            let (connection, kind, record) = (reply.connection, reply.kind, reply.buffer.into_vec());
            match reply.attached {
                None => sink.send(connection, kind, record),
                Some(data) => sink.send_attached(connection, kind, record, data),
            }
        }
    }

    /// Signs and encrypts the ready replies, and returns the time when it is done.
    fn protect(
        &self,
        scratch: &mut Scratch,
        sink: &mut impl ReplySink<E::Suspended>,
        work: &Work,
    ) -> Duration {
        let Scratch { outgoing, confounders, watch, counters, .. } = scratch;
        let counters = counters.as_deref().unwrap_or(self.metrics.served.shared());
        outgoing.iter().for_each(|reply| watch.protects(reply.kind, reply.enctype()));
        let paused = Cell::new(Duration::ZERO);
        let kind = only(work);
        let mut signed = || {
            if kind.is_none() {
                watch.skip(paused.take());
                watch.share(self.now(), Stage::Wrap, work);
            }
        };
        let mut pause = || paused.set(paused.get() + sink.pause());
        seal(outgoing, &self.environment.random, confounders, counters, &mut pause, &mut signed);
        watch.skip(paused.take());
        let done = self.now();
        // With several kinds, the work after the signatures is the encryption.
        match kind.or((work[Kind::Krb5p as usize] > 0).then_some(Kind::Krb5p)) {
            Some(kind) => watch.lap(done, Stage::Wrap, kind),
            None => watch.share(done, Stage::Wrap, work),
        }
        done
    }
}

/// Fixed cost of a signature in bytes, added to the bytes that it covers.
const SIGNATURE_WORK: usize = 64;

/// Returns the work of signing for each kind: one verifier per reply, and whole bodies with
/// integrity.
fn signing(replies: &[Outgoing]) -> Work {
    let mut work = Work::default();
    for reply in replies.iter().filter(|reply| reply.protection.is_some()) {
        let body = if reply.kind == Kind::Krb5i { reply.buffer.len() } else { 0 };
        work[reply.kind as usize] += (SIGNATURE_WORK + body) as u64;
    }
    work
}
