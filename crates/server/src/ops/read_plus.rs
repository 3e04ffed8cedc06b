//! READ_PLUS (RFC 7862 section 15.10).

use crate::engine::{Compound, DeferReason, OpResult};
use nfs4::{DataContent4, ReadPlus4Args};
use vfs::{Eof, Extent, OFFSET_MAX, OpenFile, VfsResult};
use xdr::{Decode, Decoder, Encoder};

/// Bytes of read_plus_res4 before the segments: eof and their number.
const HEADER: usize = 8;
/// Bytes of a data segment before its data: type, offset, length.
const DATA_HEADER: usize = 16;
/// Bytes of a hole: type, offset, length.
const HOLE: usize = 20;
/// Largest padding behind data, in bytes.
const PADDING: usize = 3;
/// Segments of one reply: each costs the file system a search.
const SEGMENTS_MAX: u32 = 256;
/// Bytes reserved behind the data, as in READ.
const TAIL: usize = 512;
/// Reads directly into the reply, as READ does, and describes holes instead of sending their zeros.
/// A file without holes is one segment, and blocks no more than READ does. Segments that do not fit
/// into the reply are omitted.
///
/// # Errors
/// The errors of stateids, NFS4ERR_LOCKED, NFS4ERR_REP_TOO_BIG, and the
/// backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = ReadPlus4Args::decode(args)?;
    let file = c.file_to_read(args.rpa_stateid)?;
    let attributes = file.getattr()?;
    let wanted = u64::from(args.rpa_count.min(c.nfs.config.read_max));
    let end = args.rpa_offset.saturating_add(wanted).min(attributes.size).min(OFFSET_MAX);
    let sparse = attributes.space_used < attributes.size;
    if sparse && !c.may_wait() && c.object(nfs4::Nfsstat4::NFS4ERR_ISDIR)?.export.backend.may_wait() {
        return Err(DeferReason::CurrentExport.into());
    }
    let room = c.room(reply);
    if room < HEADER + DATA_HEADER.max(HOLE) + PADDING + 1 {
        return Err(c.too_big().into());
    }
    let mut segments =
        SegmentEncoder { file: &*file, reply_end: reply.len() + room, at: args.rpa_offset, end, count: 0 };
    let expected = usize::try_from(end.saturating_sub(args.rpa_offset)).unwrap_or(usize::MAX).min(room);
    rpc::memory::reserve(reply.as_mut_vec(), expected.saturating_add(HEADER + DATA_HEADER + TAIL));
    let start = reply.len();
    reply.boolean(true).u32(0);
    let reached = match (sparse, c.may_wait()) {
        (true, _) => segments.all(reply)?,
        (false, true) => segments.data(end, reply)?.is_reached(),
        (false, false) => segments.data_now(reply)?.ok_or(DeferReason::CurrentExport)?.is_reached(),
    };
    reply.patch_u32(start, (reached || segments.at >= attributes.size).into());
    reply.patch_u32(start + 4, segments.count);
    Ok(())
}

/// Encodes the segments of a range in order.
struct SegmentEncoder<'f> {
    file: &'f dyn OpenFile,
    /// The limit of the reply's length, in bytes.
    reply_end: usize,
    /// The offset of the next segment.
    at: u64,
    /// The end of the range.
    end: u64,
    count: u32,
}

impl SegmentEncoder<'_> {
    /// Encodes holes and data in turn. Returns whether it reached the end of the file.
    fn all(&mut self, reply: &mut Encoder) -> VfsResult<bool> {
        while self.at < self.end && self.count < SEGMENTS_MAX && self.room(reply) > HOLE {
            match self.file.seek(Extent::Data, self.at) {
                Ok(Some(data)) if data > self.at => self.hole(data.min(self.end), reply),
                Ok(None) => self.hole(self.end, reply),
                Ok(Some(_)) => {
                    let hole = self.file.seek(Extent::Hole, self.at)?.unwrap_or(self.end);
                    let before = self.at;
                    if self.data(hole.min(self.end), reply)?.is_reached() {
                        return Ok(true);
                    }
                    if self.at == before {
                        break;
                    }
                }
                // Another writer has truncated the file.
                Err(vfs::VfsError::Nxio) => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    fn room(&self, reply: &Encoder) -> usize {
        self.reply_end.saturating_sub(reply.len())
    }

    fn hole(&mut self, end: u64, reply: &mut Encoder) {
        reply.u32(DataContent4::NFS4_CONTENT_HOLE as u32).u64(self.at).u64(end - self.at);
        self.at = end;
        self.count += 1;
    }

    /// Encodes the data up to an offset, as far as it fits. Returns whether it reached the end of
    /// the file.
    fn data(&mut self, end: u64, reply: &mut Encoder) -> VfsResult<Eof> {
        let file = self.file;
        let read = |bytes: &mut Vec<u8>, count, at| file.read_at(bytes, count, at).map(Some);
        Ok(self.segment(end, reply, read)?.unwrap_or(Eof::NotReached))
    }

    /// As `data`, up to the end of the range; `None` when reading would block.
    fn data_now(&mut self, reply: &mut Encoder) -> VfsResult<Option<Eof>> {
        let file = self.file;
        self.segment(self.end, reply, |bytes, count, at| file.read_now(bytes, count, at))
    }

    fn segment(
        &mut self,
        end: u64,
        reply: &mut Encoder,
        read: impl FnOnce(&mut Vec<u8>, usize, u64) -> VfsResult<Option<Eof>>,
    ) -> VfsResult<Option<Eof>> {
        let fits = self.room(reply).saturating_sub(DATA_HEADER + PADDING);
        let count = usize::try_from(end.saturating_sub(self.at)).unwrap_or(usize::MAX).min(fits);
        if count == 0 {
            return Ok(Some(Eof::NotReached));
        }
        let start = reply.len();
        reply.u32(DataContent4::NFS4_CONTENT_DATA as u32).u64(self.at).u32(0);
        let Some(reached) = read(reply.as_mut_vec(), count, self.at)? else { return Ok(None) };
        let length = reply.len() - start - DATA_HEADER;
        if length == 0 {
            reply.truncate(start);
            return Ok(Some(reached));
        }
        reply.pad(length);
        reply.patch_u32(start + 12, u32::try_from(length).unwrap_or(u32::MAX));
        self.at = self.at.saturating_add(length as u64);
        self.count += 1;
        Ok(Some(reached))
    }
}
