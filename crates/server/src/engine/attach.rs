//! File data that a reply carries outside of its buffer.

use super::Compound;
use pipes::Attachment;
use vfs::FileData;
use xdr::Encoder;

/// Fewest bytes that are attached to a reply. Copying fewer costs less than moving their pages.
const ATTACHED_MIN: usize = 128 << 10;

impl Compound<'_> {
    /// Returns whether so many bytes of a file may be attached to the reply: once, to a reply that
    /// is neither signed nor encrypted nor cached.
    pub fn may_attach(&self, count: usize) -> bool {
        let cached = self.progress.session.as_ref().is_none_or(|session| session.cache_this);
        count >= ATTACHED_MIN && !cached && self.call.attached.is_some() && self.progress.attached.is_none()
    }

    /// Attaches file data behind the present end of the reply.
    pub fn attach(&mut self, reply: &Encoder, data: FileData) {
        self.progress.attached = Some(Attachment { at: reply.len(), data });
    }

    /// Returns the length of the reply so far, with attached data.
    pub(crate) fn reply_len(&self, reply: &Encoder) -> usize {
        reply.len() + self.progress.attached.as_ref().map_or(0, |attached| attached.data.len())
    }

    /// Removes the bytes of the reply from `length` on, and the data attached there.
    pub(crate) fn truncate(&mut self, reply: &mut Encoder, length: usize) {
        self.detach(length);
        reply.truncate(length);
    }

    /// Removes the data that is attached at `length` or behind it.
    pub(crate) fn detach(&mut self, length: usize) {
        self.progress.attached.take_if(|attached| attached.at >= length);
    }
}
