//! READDIR (RFC 8881 section 18.23).

mod listing;

use crate::attr;
use crate::engine::{Compound, Fh, Object, OpResult};
use listing::{DirectoryListing, ListedEntry};
use nfs4::{Nfsstat4, Readdir4Args, Verifier4};
use std::ops::ControlFlow;
use vfs::{Caller, Place, PseudoEntry, VfsError};
use xdr::{Decode, Decoder, Encoder};

/// Cookies stay valid as long as the directory exists: one verifier for all.
const COOKIE_VERIFIER: Verifier4 = *b"orthrus1";
/// The verifier of clients that do not store it, libnfs among them. It is always accepted.
const NO_VERIFIER: Verifier4 = [0; 8];
/// The first cookie of exports mounted on the root directory of another. Backends have none from
/// here to [`OVERLAY_END`]: these positions lie behind the last hash of ext4, in front of the end.
/// All cookies fit into the signed positions that lseek(2) takes on a client.
const OVERLAY: u64 = 0x7fff_ffff_0000_0000;
const OVERLAY_END: u64 = OVERLAY + (1 << 31);
/// Set in the cookies of such exports that earlier versions gave.
const OVERLAY_BEFORE: u64 = 1 << 63;
/// Bytes behind the entries: end of list, eof.
const TRAILER: usize = 8;
/// Estimate of the bytes of an entry besides its name and attributes, used to decide how many
/// entries to read.
const ENTRY_SIZE: usize = 24;
/// Estimate of the bytes of one attribute, for the same purpose.
const ATTRIBUTE_SIZE: usize = 6;
/// Batches of names that one READDIR reads while it lists none of them. A longer row of such names
/// is the work of other clients that remove them: exports hide far fewer.
const BATCHES_MAX: usize = 64;
/// The least limit of every batch after the first one, in estimated bytes of a reply. The first
/// batch has the limit of the reply itself.
const BATCH_SIZE_MIN: usize = 32 << 10;

/// Lists the current directory with the requested attributes.
///
/// # Errors
/// NFS4ERR_BAD_COOKIE, NFS4ERR_NOT_SAME, NFS4ERR_TOOSMALL when not even one entry fits,
/// NFS4ERR_DELAY when too many names go while they are listed, NFS4ERR_NOTDIR, and the backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Readdir4Args::decode(args)?;
    if attr::asks_write_only(c.progress.minor, &args.attr_request) {
        return Err(Nfsstat4::NFS4ERR_INVAL.into());
    }
    match args.cookie {
        0 => {}
        1 | 2 => return Err(Nfsstat4::NFS4ERR_BAD_COOKIE.into()),
        _ if ![COOKIE_VERIFIER, NO_VERIFIER].contains(&args.cookieverf) => {
            return Err(Nfsstat4::NFS4ERR_NOT_SAME.into());
        }
        _ => {}
    }
    let room = c.room(reply);
    let asked = usize::try_from(args.maxcount).unwrap_or(usize::MAX);
    let mut listing = DirectoryListing {
        c,
        wanted: args.attr_request,
        end: (reply.len() + room.min(asked)).saturating_sub(TRAILER),
        names_left: if args.dircount == 0 { u64::MAX } else { args.dircount.into() },
        entries: 0,
        full: false,
        has_mounts: false,
        has_overlay: false,
    };
    reply.opaque_fixed(&COOKIE_VERIFIER);
    let eof = match c.fh()? {
        fh @ Fh::Pseudo(_) => list_pseudo(&mut listing, fh, args.cookie, reply)?,
        Fh::Object(object) => {
            c.progress.expensive.set(true);
            list_object(&mut listing, object, args.cookie, reply)?
        }
    };
    if listing.entries == 0 && !eof {
        return Err(match listing.full {
            true if room < asked => c.too_big(),
            true => Nfsstat4::NFS4ERR_TOOSMALL,
            // A reply without entries has no cookie to continue from.
            false => Nfsstat4::NFS4ERR_DELAY,
        }
        .into());
    }
    if listing.end < reply.len() {
        return Err(Nfsstat4::NFS4ERR_TOOSMALL.into());
    }
    reply.boolean(false).boolean(eof);
    Ok(())
}

/// Lists the pseudo file system's names in a place. Returns whether all of them fitted.
fn list_pseudo(
    listing: &mut DirectoryListing<'_, '_>,
    directory: &Fh,
    cookie: u64,
    reply: &mut Encoder,
) -> OpResult<bool> {
    let c = listing.c;
    let Some(place) = directory.place() else { return Ok(true) };
    c.await_entries(place)?;
    for entry in c.progress.exports.pseudo().entries(place, cookie, c.peer()) {
        list_crossing(listing, &entry, entry.cookie, reply)?;
        if listing.full {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Lists the exports mounted on the root directory of another. Returns whether all of them fitted.
fn list_overlay(
    listing: &mut DirectoryListing<'_, '_>,
    place: Place,
    cookie: u64,
    reply: &mut Encoder,
) -> OpResult<bool> {
    let c = listing.c;
    let mut last = OVERLAY;
    for entry in c.progress.exports.pseudo().entries(place, 0, c.peer()) {
        // Half the bits of a cookie, in the same order, and no two alike.
        last = (OVERLAY + (entry.cookie >> 32)).max(last + 1);
        let is_listed = match cookie & OVERLAY_BEFORE {
            0 => last <= cookie,
            _ => entry.cookie <= cookie & !OVERLAY_BEFORE,
        };
        if is_listed {
            continue;
        }
        list_crossing(listing, &entry, last, reply)?;
        if listing.full {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Adds the root of an export, if the client may see it.
fn list_crossing(
    listing: &mut DirectoryListing<'_, '_>,
    entry: &PseudoEntry<'_>,
    cookie: u64,
    reply: &mut Encoder,
) -> OpResult {
    let c = listing.c;
    let Ok(Some(fh)) = Fh::of_place(&c.progress.exports, entry.place, c.peer()) else { return Ok(()) };
    let entry = ListedEntry { cookie, name: entry.name.as_bytes(), fileid: entry.fileid };
    listing.add_crossing(&entry, &fh, reply)
}

/// Lists a directory of an export, then the exports mounted in it. Returns whether all entries
/// fitted.
fn list_object(
    listing: &mut DirectoryListing<'_, '_>,
    object: &Object,
    cookie: u64,
    reply: &mut Encoder,
) -> OpResult<bool> {
    let c = listing.c;
    let directory = Fh::Object(object.clone());
    let overlay = match directory.place() {
        Some(place @ Place::Export(_)) => {
            let known = c.await_entries(place)?;
            let has_entries = || c.progress.exports.pseudo().entries(place, 0, c.peer()).next().is_some();
            (!known || has_entries()).then_some(place)
        }
        _ => None,
    };
    listing.has_overlay = overlay.is_some();
    let in_overlay = listing.has_overlay && is_overlay(cookie);
    if !in_overlay {
        // A name that an export may cover is left out while that is unknown.
        let covers = |name: &[u8]| !matches!(c.lookup_pseudo(&directory, name), Ok(None));
        let hidden = |name: &[u8]| overlay.is_some() && covers(name);
        if !list_backend(listing, object, cookie, &hidden, reply)? {
            return Ok(false);
        }
    }
    match overlay {
        Some(place) => list_overlay(listing, place, if in_overlay { cookie } else { OVERLAY }, reply),
        None => Ok(true),
    }
}

/// Returns whether a cookie is that of an export mounted on the listed directory.
fn is_overlay(cookie: u64) -> bool {
    (OVERLAY..OVERLAY_END).contains(&cookie) || cookie & OVERLAY_BEFORE != 0
}

/// Names read ahead, in one allocation.
#[derive(Default)]
struct Batch {
    names: Vec<u8>,
    /// Cookie, fileid and end of the name for each entry.
    entries: Vec<(u64, u64, usize)>,
}

/// Lists the backend's names in a directory, batch by batch until one of them has an entry for the
/// reply. Returns whether all of them fitted.
fn list_backend(
    listing: &mut DirectoryListing<'_, '_>,
    object: &Object,
    mut cookie: u64,
    hidden: &dyn Fn(&[u8]) -> bool,
    reply: &mut Encoder,
) -> OpResult<bool> {
    let caller = listing.c.caller(object);
    let backend = &object.export.backend;
    listing.has_mounts = backend.has_mounts(&object.handle);
    let each = ENTRY_SIZE + ATTRIBUTE_SIZE * listing.wanted.len();
    let mut room = listing.end.saturating_sub(reply.len());
    for _ in 0..BATCHES_MAX {
        let mut batch = Batch::default();
        // The backend may hold locks while it lists, so attributes are fetched afterwards.
        let end = backend.readdir(&caller, &object.handle, cookie, &mut |entry| {
            batch.names.extend_from_slice(entry.name);
            batch.entries.push((entry.cookie, entry.fileid, batch.names.len()));
            match batch.names.len() + each * batch.entries.len() < room {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        list_batch(listing, object, &caller, &batch, hidden, reply)?;
        if end.is_reached() && !listing.full {
            return Ok(true);
        }
        let Some((last, ..)) = batch.entries.last().filter(|_| listing.entries == 0 && !listing.full) else {
            return Ok(false);
        };
        (cookie, room) = (*last, room.max(BATCH_SIZE_MIN));
    }
    Ok(false)
}

/// Adds the names of a batch as long as they fit, without hidden ones.
fn list_batch(
    listing: &mut DirectoryListing<'_, '_>,
    object: &Object,
    caller: &Caller,
    batch: &Batch,
    hidden: &dyn Fn(&[u8]) -> bool,
    reply: &mut Encoder,
) -> OpResult {
    let mut start = 0;
    for (cookie, fileid, end) in batch.entries.iter().copied() {
        let name = batch.names.get(start..end).unwrap_or_default();
        start = end;
        if listing.has_overlay && is_overlay(cookie) {
            // The next READDIR would go on with the exports, and miss the names in between.
            return Err(VfsError::Io.into());
        }
        if !hidden(name) {
            listing.add(&ListedEntry { cookie, name, fileid }, object, caller, reply)?;
        }
        if listing.full {
            return Ok(());
        }
    }
    Ok(())
}
