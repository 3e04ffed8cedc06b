//! The last step but one: programs, procedures and the replies to them.

use super::job::{Auth, Job, Verdict};
use super::{Engine, Metrics, Scratch, Server, Trouble};
use crate::engine::Call;
use crate::rpcsec::{Created, GssCall, Outgoing, Protection, Rpcsec, begin_reply, reply_overhead};
use crate::security::Security;
use nfs4::{NFS_V4, NFS4_PROGRAM, NFSPROC4_COMPOUND, NFSPROC4_NULL};
use rpc::gss::{GSS_S_COMPLETE, GSS_S_FAILURE, InitRes, RpcGssProcT, RpcGssServiceT};
use rpc::{Accepted, AuthStat, Denied, OpaqueAuth, RECORD_MARK_LEN};
use std::time::Duration;
use xdr::Encoder;

/// Room that a reply starts with, in bytes: enough for most replies without data.
const REPLY_CAPACITY: usize = 1024;

/// Bytes around the results of a reply to AUTH_SYS: XID, message type, reply status, empty verifier, status.
const SYS_OVERHEAD: usize = 6 * 4;

/// The most bytes kept of a reply buffer for every byte in it, beyond which it is moved to a smaller one: a
/// slow reader must not pin the room that a large reply was expected to take.
const SLACK_MAX: usize = 4;

impl<E: Engine> Server<E> {
    /// Carries out what has been decided on a call, and leaves the reply in `scratch`.
    pub(super) fn execute(&self, job: Job, scratch: &mut Scratch, now: Duration) {
        let mut buffer = Encoder::from_vec(Vec::with_capacity(REPLY_CAPACITY));
        buffer.raw(&[0; RECORD_MARK_LEN]);
        let protection = match job.verdict {
            Verdict::Close | Verdict::Ignore => return,
            Verdict::Deny(why) => {
                self.deny(&job, why, &mut buffer, now);
                None
            }
            Verdict::Refuse(status) => self.refuse(&job, status, &mut buffer, now),
            Verdict::Run => self.run(&job, &mut buffer, now),
        };
        let bytes = buffer.as_mut_vec();
        if bytes.capacity() / SLACK_MAX > bytes.len().max(REPLY_CAPACITY) {
            bytes.shrink_to(bytes.len() + REPLY_CAPACITY);
        }
        scratch.outgoing_bytes += buffer.len();
        scratch.outgoing.push(Outgoing { connection: job.connection, buffer, protection });
    }

    fn deny(&self, job: &Job, why: Denied, buffer: &mut Encoder, now: Duration) {
        if let Denied::Auth(status) = why {
            Metrics::add(&self.metrics.auth_errors, 1);
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

    fn run(&self, job: &Job, buffer: &mut Encoder, now: Duration) -> Option<Protection> {
        if let Some(status) = unavailable(job) {
            return self.refuse(job, status, buffer, now);
        }
        match (&job.auth, &self.rpcsec) {
            (Auth::Init, Some(rpcsec)) => return self.init(job, rpcsec, buffer, now),
            (Auth::Gss(call), Some(rpcsec)) if call.procedure == RpcGssProcT::RPCSEC_GSS_DESTROY => {
                rpcsec.contexts().destroy(call.context.handle());
                return accept(job, Accepted::Success, buffer);
            }
            _ => {}
        }
        if job.procedure == NFSPROC4_NULL {
            return accept(job, Accepted::Success, buffer);
        }
        let (security, reply_overhead) = match &job.auth {
            Auth::Sys(security) => (&**security, SYS_OVERHEAD),
            Auth::Gss(call) => {
                (call.context.security(call.service), reply_overhead(&call.context, call.service))
            }
            Auth::None | Auth::Init => {
                self.deny(job, Denied::Auth(AuthStat::AUTH_TOOWEAK), buffer, now);
                return None;
            }
        };
        let protection = accept(job, Accepted::Success, buffer);
        self.compound(job, security, reply_overhead, buffer, now);
        protection
    }

    fn compound(
        &self,
        job: &Job,
        security: &Security,
        reply_overhead: usize,
        buffer: &mut Encoder,
        now: Duration,
    ) {
        let call = Call {
            connection: job.connection,
            peer: job.peer,
            security,
            args: job.arguments(),
            request_size: job.record.len(),
            reply_overhead,
            now,
        };
        Metrics::add(&self.metrics.compounds, 1);
        self.engine.compound(&call, buffer);
    }

    /// Creates a context and tells the client (RFC 2203 section 5.2.3).
    fn init(&self, job: &Job, rpcsec: &Rpcsec, buffer: &mut Encoder, now: Duration) -> Option<Protection> {
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
                Accepted::Success.encode(buffer, job.xid, &OpaqueAuth::NONE);
                let major = if error.major == GSS_S_COMPLETE { GSS_S_FAILURE } else { error.major };
                buffer.value(&InitRes::failure(major, error.minor));
                None
            }
            Created::GarbageArgs(error) => {
                Metrics::add(&self.metrics.garbage_args, 1);
                self.reports.note(Trouble::GarbageArgs, now, job.peer, error);
                accept(job, Accepted::GarbageArgs, buffer)
            }
        }
    }
}

/// Why there is nothing to run, if so (RFC 5531 section 9).
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

/// Begins an accepted reply with the verifier that the call's flavor asks for.
fn accept(job: &Job, status: Accepted, buffer: &mut Encoder) -> Option<Protection> {
    if let Auth::Gss(call) = &job.auth {
        let GssCall { context, sequence, .. } = call;
        return Some(begin_reply(buffer, job.xid, status, context, call.body_service(), *sequence));
    }
    status.encode(buffer, job.xid, &OpaqueAuth::NONE);
    None
}
