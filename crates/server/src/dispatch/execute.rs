//! Stage 3: run programs and procedures and build their replies.

use super::deferred::{DeferredCall, PendingWork};
use super::slow::DeferredTimes;
use super::sys::AdmissionCache;
use super::{Engine, ReplySink, Scratch, Server};
use crate::call::{Auth, Job, Verdict};
use crate::compound::CompoundStatus;
use crate::engine::{Call, WaitPolicy};
use crate::metrics::{Metrics, ServedCounters, Trouble};
use crate::rpcsec::{Created, Outgoing, Protection, ReceivedGssCall, begin_reply, reply_overhead};
use nfs4::{NFS_V4, NFS4_PROGRAM, NFSPROC4_COMPOUND, NFSPROC4_NULL};
use rpc::gss::{GSS_S_COMPLETE, GSS_S_FAILURE, InitRes, RpcGssProcT, RpcGssServiceT};
use rpc::{Accepted, AuthStat, ConnectionId, Denied, OpaqueAuth, RECORD_MARK_LEN, memory};
use std::cell::{Cell, RefCell};
use std::num::NonZeroU32;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use xdr::Encoder;

/// Initial capacity of a reply in bytes: enough for most replies without data.
const REPLY_CAPACITY: usize = 1024;

/// Bytes around the results of a reply to AUTH_SYS: XID, message type, reply status, empty
/// verifier, status.
const SYS_OVERHEAD: usize = 6 * 4;

/// The outcome of a call.
pub(super) enum CallAnswer<S> {
    /// A reply that lacks only its protection.
    Ready { reply: Outgoing, cost: CallCost },
    /// No reply: the connection closes.
    Close(ConnectionId),
    /// The call would block.
    Deferred(DeferredCall<S>),
}

/// The thread that runs a call, as far as it is observed.
#[derive(Clone, Copy)]
pub(super) struct CallThread<'t> {
    /// Receives the number of the current operation; 0 for none.
    pub(super) operation: &'t AtomicU32,
    pub(super) counters: &'t ServedCounters,
    /// Lets the thread serve others: see [`Call::pause`].
    pub(super) pause: Option<&'t dyn Fn()>,
}

/// Makes the reply to a call that has run.
pub(super) fn outgoing(job: &Job, buffer: Encoder, protection: Option<Protection>) -> Outgoing {
    let (connection, kind, served) = (job.connection, job.kind, job.served.get());
    Outgoing { connection, kind, buffer, attached: job.attached.take(), served, protection }
}

/// The cost of a call, for the network layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CallCost {
    /// Whether it was expensive: see
    /// [`CompoundOutcome::expensive`](crate::engine::CompoundOutcome).
    expensive: bool,
    /// How long its connection must be paused.
    pause: Duration,
}

/// The progress of a call after it was started.
pub(super) enum CallProgress<S> {
    /// It finished. The reply lacks only this protection.
    Done(Option<Protection>),
    /// It stopped before the operation with this number, which would block. Without a number it
    /// has not begun.
    Waits { work: PendingWork<S>, operation: Option<NonZeroU32> },
}

impl<E: Engine> Server<E> {
    /// Acts on the verdict of a call, and leaves the reply in `scratch` or defers the call. Returns
    /// whether it was expensive: see
    /// [`CompoundOutcome::expensive`](crate::engine::CompoundOutcome).
    pub(super) fn execute(
        &self,
        mut job: Job,
        scratch: &mut Scratch,
        sink: &mut impl ReplySink<E::Suspended>,
        now: Duration,
    ) -> bool {
        if matches!(job.verdict, Verdict::Close | Verdict::Ignore) {
            return false;
        }
        if self.tenants.bounds_clients() {
            job.client = Some(scratch.clients.find(&self.tenants, job.peer.ip()).clone());
        }
        if scratch.vouched != Some(job.connection) && self.vouches_for(&job, &mut scratch.admissions, now) {
            self.vouch(&job, scratch, sink);
        }
        let counters = scratch.counters.as_deref().unwrap_or(self.metrics.served.shared());
        let policy = if sink.can_defer() { WaitPolicy::Suspends } else { WaitPolicy::Waits };
        let (paused, pausing) = (Cell::new(Duration::ZERO), RefCell::new(&mut *sink));
        let pause = || paused.set(paused.get() + pausing.borrow_mut().pause());
        let thread = CallThread { operation: &scratch.operation, counters, pause: Some(&pause) };
        let answer = self.answer(job, policy, thread, now);
        scratch.watch.skip(paused.get());
        self.pass_on(answer, scratch, sink, now)
    }

    /// Adds a reply to the batch, or notes that the call is deferred or its connection closes.
    /// Returns whether the call was expensive.
    fn pass_on(
        &self,
        answer: CallAnswer<E::Suspended>,
        scratch: &mut Scratch,
        sink: &mut impl ReplySink<E::Suspended>,
        now: Duration,
    ) -> bool {
        match answer {
            CallAnswer::Ready { reply, cost } => {
                if cost.expensive {
                    sink.note_expensive(reply.connection);
                }
                if !cost.pause.is_zero() {
                    scratch.pauses.push((reply.connection, cost.pause));
                }
                scratch.send(reply);
                return cost.expensive;
            }
            CallAnswer::Close(connection) => scratch.closing.push(connection),
            CallAnswer::Deferred(deferred) => {
                let connection = deferred.connection();
                if let Err(deferred) = sink.defer(deferred) {
                    match self.answer_declined(deferred, now) {
                        Some(reply) => scratch.send(reply),
                        None => scratch.closing.push(connection),
                    }
                }
            }
        }
        false
    }

    /// Reports to the network layer that the connection of a call is trusted, and its tenant.
    fn vouch(&self, job: &Job, scratch: &mut Scratch, sink: &mut impl ReplySink<E::Suspended>) {
        scratch.vouched = Some(job.connection);
        let share = match job.principal() {
            Some(principal) => principal.share(),
            None => scratch.clients.find(&self.tenants, job.peer.ip()).share(),
        };
        sink.vouch(job.connection, share);
    }

    /// Returns whether a call proves that its sender may be served: it is signed with a context's
    /// key, or comes with AUTH_SYS from an address where an export allows it. INIT proves nothing,
    /// since it may be a copy of another client's.
    fn vouches_for(&self, job: &Job, admissions: &mut AdmissionCache, now: Duration) -> bool {
        job.verdict == Verdict::Run
            && match &job.auth {
                Auth::Gss(_) => true,
                Auth::Sys(_) | Auth::SysUnknown { .. } => {
                    let ask = || self.engine.admits_sys(job.peer, now);
                    job.procedure == NFSPROC4_COMPOUND && admissions.admits(job.connection, now, ask)
                }
                Auth::None | Auth::Init => false,
            }
    }

    /// Charges a call that has been answered to the limits of rates. Returns how long its
    /// connection must be paused.
    pub(super) fn charge(&self, job: &Job, reply: &Outgoing, now: Duration) -> Duration {
        if !self.tenants.bounds_rates() {
            return Duration::ZERO;
        }
        let bytes = job.size + reply.len();
        self.tenants.charge(job.principal(), job.client.as_deref(), job.usage.get(), bytes, now)
    }

    fn answer(
        &self,
        mut job: Job,
        policy: WaitPolicy,
        thread: CallThread<'_>,
        now: Duration,
    ) -> CallAnswer<E::Suspended> {
        let mut buffer = Encoder::from_vec(memory::take(REPLY_CAPACITY));
        buffer.raw(&[0; RECORD_MARK_LEN]);
        let run = match job.verdict {
            Verdict::Close | Verdict::Ignore => return CallAnswer::Close(job.connection),
            Verdict::Deny(why) => {
                self.deny(&job, why, &mut buffer, now);
                CallProgress::Done(None)
            }
            Verdict::Refuse(status) => CallProgress::Done(self.refuse(&job, status, &mut buffer, now)),
            Verdict::Run => {
                match policy {
                    WaitPolicy::Waits => self.find_groups(&mut job, now),
                    WaitPolicy::Suspends | WaitPolicy::WaitsIn(_) => self.waive_groups(&mut job, now),
                }
                self.run(&job, &mut buffer, policy, thread, now)
            }
        };
        match run {
            CallProgress::Waits { work, operation } => {
                // The buffer that READ has reserved is not held while the call waits.
                memory::fit(buffer.as_mut_vec());
                let times = DeferredTimes::new(operation);
                CallAnswer::Deferred(DeferredCall { job, buffer, work, since: self.now(), times })
            }
            CallProgress::Done(protection) => {
                memory::give(std::mem::take(&mut job.record));
                let reply = outgoing(&job, buffer, protection);
                let (expensive, pause) = (job.expensive.get(), self.charge(&job, &reply, now));
                CallAnswer::Ready { reply, cost: CallCost { expensive, pause } }
            }
        }
    }

    fn deny(&self, job: &Job, why: Denied, buffer: &mut Encoder, now: Duration) {
        if let Denied::Auth(status) = why {
            Metrics::add(&self.metrics.auth_errors, 1);
            self.metrics.denials.count(status);
            let context = job.auth.gss().map(|call| call.context.principal());
            self.engine.observe_denial(job.peer, context, status.name());
            self.reports.note(Trouble::AuthError, now, job.peer, status.name());
        }
        why.encode(buffer, job.xid);
    }

    fn refuse(&self, job: &Job, status: Accepted, buffer: &mut Encoder, now: Duration) -> Option<Protection> {
        if status == Accepted::GarbageArgs {
            Metrics::add(&self.metrics.garbage_args, 1);
            self.reports.note(Trouble::GarbageArgs, now, job.peer, status.status().name());
        }
        accept(job, status, buffer)
    }

    pub(super) fn run(
        &self,
        job: &Job,
        buffer: &mut Encoder,
        policy: WaitPolicy,
        thread: CallThread<'_>,
        now: Duration,
    ) -> CallProgress<E::Suspended> {
        if let Some(status) = unavailable(job) {
            return CallProgress::Done(self.refuse(job, status, buffer, now));
        }
        match (&job.auth, &self.rpcsec) {
            (Auth::Init, Some(_)) if policy == WaitPolicy::Suspends => {
                return CallProgress::Waits { work: PendingWork::Init, operation: None };
            }
            (Auth::Init, Some(_)) => return CallProgress::Done(self.init(job, buffer, now)),
            (Auth::Gss(call), Some(rpcsec)) if call.procedure == RpcGssProcT::RPCSEC_GSS_DESTROY => {
                rpcsec.contexts().destroy(call.context.handle());
                return CallProgress::Done(accept(job, Accepted::Success, buffer));
            }
            (Auth::None | Auth::Init, _) if job.procedure != NFSPROC4_NULL => {
                self.deny(job, Denied::Auth(AuthStat::AUTH_TOOWEAK), buffer, now);
                return CallProgress::Done(None);
            }
            (Auth::SysUnknown { .. }, _)
                if policy == WaitPolicy::Suspends && job.procedure != NFSPROC4_NULL =>
            {
                return CallProgress::Waits { work: PendingWork::Groups, operation: None };
            }
            _ => {}
        }
        let protection = accept(job, Accepted::Success, buffer);
        if job.procedure == NFSPROC4_NULL {
            return CallProgress::Done(protection);
        }
        if let Auth::SysUnknown { .. } = &job.auth {
            self.with_call(job, thread, now, |call| self.engine.delay(call, buffer));
            return CallProgress::Done(protection);
        }
        thread.counters.compound();
        let run = self.with_call(job, thread, now, |call| {
            (self.engine.compound(call, buffer, policy), thread.operation.load(Relaxed))
        });
        match run {
            Some((CompoundStatus::Deferred(suspended), operation)) => {
                let work = PendingWork::Compound { protection, suspended };
                CallProgress::Waits { work, operation: NonZeroU32::new(operation) }
            }
            Some((CompoundStatus::Done(outcome), _)) => {
                job.expensive.set(outcome.expensive);
                job.note(outcome.subject, outcome.usage());
                CallProgress::Done(protection)
            }
            None => CallProgress::Done(protection),
        }
    }

    /// Runs `with` on the COMPOUND of a call; `None` for a call without authentication.
    pub(super) fn with_call<R>(
        &self,
        job: &Job,
        thread: CallThread<'_>,
        now: Duration,
        with: impl FnOnce(&Call<'_>) -> R,
    ) -> Option<R> {
        let of_context;
        let (security, reply_overhead) = match &job.auth {
            Auth::Sys(security) | Auth::SysUnknown { security, .. } => (&**security, SYS_OVERHEAD),
            Auth::Gss(call) => {
                of_context = call.context.security();
                (of_context.of(call.service), reply_overhead(&call.context, call.service))
            }
            Auth::None | Auth::Init => return None,
        };
        let result = with(&Call {
            connection: job.connection,
            peer: job.peer,
            security,
            xid: job.xid,
            args: job.arguments(),
            request_size: job.record.len(),
            reply_overhead,
            attached: job.attached(),
            operation: thread.operation,
            counters: thread.counters,
            pause: thread.pause,
            now,
        });
        thread.operation.store(0, Relaxed);
        Some(result)
    }

    /// Creates a context and encodes the reply to its INIT (RFC 2203 section 5.2.3).
    pub(super) fn init(&self, job: &Job, buffer: &mut Encoder, now: Duration) -> Option<Protection> {
        let rpcsec = self.rpcsec.as_ref()?;
        match rpcsec.create(job.arguments(), now, &self.environment.random) {
            Created::Context { context, token } => {
                let window = context.window_size();
                let none = RpcGssServiceT::rpc_gss_svc_none;
                let protection = begin_reply(buffer, job.xid, Accepted::Success, &context, none, window);
                let handle = context.handle();
                buffer.value(&InitRes {
                    handle: handle.as_bytes(),
                    gss_major: GSS_S_COMPLETE,
                    gss_minor: 0,
                    seq_window: window,
                    gss_token: &token,
                });
                Some(protection)
            }
            Created::Refused(error) => {
                Metrics::add(&self.metrics.contexts_refused, 1);
                self.reports.note(Trouble::ContextRefused, now, job.peer, &error);
                self.engine.observe_denial(job.peer, None, &error.to_string());
                Accepted::Success.encode(buffer, job.xid, &OpaqueAuth::NONE);
                let major = if error.major == GSS_S_COMPLETE { GSS_S_FAILURE } else { error.major };
                buffer.value(&InitRes::failure(major, error.minor));
                None
            }
            Created::Unavailable(error) => {
                // SYSTEM_ERR does not blame the credential, so the client tries again (RFC 5531
                // section 9).
                Metrics::add(&self.metrics.contexts_delayed, 1);
                self.reports.note(Trouble::ContextDelayed, now, job.peer, &error);
                accept(job, Accepted::SystemErr, buffer)
            }
            Created::GarbageArgs(error) => {
                Metrics::add(&self.metrics.garbage_args, 1);
                self.reports.note(Trouble::GarbageArgs, now, job.peer, error);
                accept(job, Accepted::GarbageArgs, buffer)
            }
        }
    }
}

/// Returns the error for an unknown program, version or procedure (RFC 5531 section 9).
fn unavailable(job: &Job) -> Option<Accepted> {
    if job.program != NFS4_PROGRAM {
        Some(Accepted::ProgUnavail)
    } else if job.version != NFS_V4 {
        Some(Accepted::ProgMismatch { low: NFS_V4, high: NFS_V4 })
    } else if job.procedure > NFSPROC4_COMPOUND {
        Some(Accepted::ProcUnavail)
    } else {
        None
    }
}

/// Begins an accepted reply with the verifier of the call's flavor.
fn accept(job: &Job, status: Accepted, buffer: &mut Encoder) -> Option<Protection> {
    if let Auth::Gss(call) = &job.auth {
        let ReceivedGssCall { context, sequence, .. } = call;
        return Some(begin_reply(buffer, job.xid, status, context, call.body_service(), *sequence));
    }
    status.encode(buffer, job.xid, &OpaqueAuth::NONE);
    None
}

impl Scratch {
    /// Adds a reply to the batch that is protected and sent together.
    pub(super) fn send(&mut self, mut reply: Outgoing) {
        // A slow reader must not pin the buffer that was reserved for a larger reply.
        memory::fit(reply.buffer.as_mut_vec());
        self.outgoing_bytes += reply.len();
        self.outgoing_bodies += usize::from(reply.protection.as_ref().is_some_and(Protection::has_body));
        self.outgoing.push(reply);
    }
}
