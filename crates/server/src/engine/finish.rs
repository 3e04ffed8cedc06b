//! The end of failed operations, and of COMPOUNDs (RFC 8881 section 16.2.4).

use super::{Compound, CompoundOutcome, ErrorBody, Fh, OpError, status};
use nfs4::{NfsOpnum4, Nfsstat4};
use xdr::Encoder;

/// Largest reply, in bytes, that is cached for a retry without the client's request. Errors and a
/// lone SEQUENCE cost next to nothing.
const CACHED_UNASKED_MAX: usize = 256;

/// Encodes number and status of an operation that failed afterwards, when its changes could not be
/// synced.
pub(crate) fn write_failure(minor: u32, opnum: NfsOpnum4, status: Nfsstat4, reply: &mut Encoder) -> Nfsstat4 {
    reply.u32(opnum as u32);
    let status_at = reply.len();
    reply.u32(0);
    let body = reply.len();
    fail(minor, opnum, status.into(), reply, status_at, body)
}

/// Encodes the status of a failed operation, and removes its bytes from the reply unless they are
/// the body of that status.
pub(crate) fn fail(
    minor: u32,
    opnum: NfsOpnum4,
    error: OpError,
    reply: &mut Encoder,
    status_at: usize,
    body: usize,
) -> Nfsstat4 {
    if error.body == ErrorBody::Discard {
        reply.truncate(body);
        if opnum == NfsOpnum4::OP_SETATTR {
            // SETATTR4res has attrsset with every status (section 18.30.2).
            reply.u32(0);
        }
    }
    let status = status::allowed(minor, opnum, error.status);
    reply.patch_u32(status_at, status as u32);
    status
}

impl Compound<'_> {
    /// Completes the reply and ends the use of the slot.
    pub(crate) fn end(&mut self, status: Nfsstat4, reply: &mut Encoder) -> CompoundOutcome {
        let (start, count_at) = (self.progress.reply_start, self.progress.count_at);
        let (operations, subject) = (self.progress.position.index, self.progress.subject);
        if let Some(cached) = self.progress.replay.take() {
            reply.truncate(start);
            reply.raw(&cached);
            return CompoundOutcome {
                status,
                operations,
                replayed: true,
                subject,
                expensive: false,
                export: None,
            };
        }
        if self.progress.is_sample
            && let Some(fh) = &self.progress.current
        {
            self.nfs.busy_files.note(fh);
        }
        let data = self.progress.attached.take();
        let is_whole = data.is_none();
        if let Some(attached) = self.call.attached {
            attached.replace(data);
        }
        reply.patch_u32(start, status as u32);
        reply.patch_u32(count_at, operations);
        let result = reply.as_slice().get(start..).unwrap_or_default();
        if self.progress.v40.once.get() {
            self.nfs.keep_reply(self.call, result);
        }
        self.keep(result, status, is_whole);
        let (expensive, export) = (self.progress.expensive.get(), self.export());
        CompoundOutcome { status, operations, replayed: false, subject, expensive, export }
    }

    /// Returns the number of the export of the current filehandle.
    fn export(&self) -> Option<u32> {
        match self.progress.current.as_ref()? {
            Fh::Object(object) => Some(object.export.id),
            Fh::Pseudo(_) => None,
        }
    }

    /// Ends the use of the slot. Caches the reply for a retry if the client has asked for it or it
    /// is cheap. A result without its file data is no reply.
    fn keep(&mut self, result: &[u8], status: Nfsstat4, is_whole: bool) {
        let asked = self.progress.session.as_ref().is_some_and(|session| session.cache_this);
        let cheap = result.len() <= CACHED_UNASKED_MAX
            && (status != Nfsstat4::NFS4_OK || self.progress.position.count == 1);
        self.finish((is_whole && (asked || cheap)).then_some(result));
    }
}
