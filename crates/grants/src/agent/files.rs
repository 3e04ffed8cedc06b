//! The files of an agent: the tickets of users, and the agent's own copies of them.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::unistd::{Gid, Uid, fchown, geteuid};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{AgentError, AttachedRun, io_error};
use crate::cache::{TICKET_CACHE_MAX, TicketCache};

/// The file that has the name of a user's tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occupant {
    None,
    /// A plain file of the user that bears the agent's mark.
    Ours,
    /// Another file of the user, or of root.
    OfUser,
    /// A file of another user: every user can write to /tmp.
    OfStranger,
}

pub(super) fn occupant(path: &Path, uid: u32) -> Result<Occupant, AgentError> {
    match fs::symlink_metadata(path) {
        Err(error) => return unseen(error).map_err(io_error(path)),
        Ok(found) if found.uid() != uid && found.uid() != 0 => return Ok(Occupant::OfStranger),
        Ok(found) if !found.is_file() => return Ok(Occupant::OfUser),
        Ok(_) => {}
    }
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) => return unseen(error).map_err(io_error(path)),
    };
    let found = file.metadata().map_err(io_error(path))?;
    let mut bytes = Vec::new();
    if found.is_file() && found.uid() == uid && found.len() <= TICKET_CACHE_MAX as u64 {
        file.take(TICKET_CACHE_MAX as u64).read_to_end(&mut bytes).map_err(io_error(path))?;
    }
    let marked = TicketCache::parse(&bytes).is_some_and(|cache| cache.marked);
    Ok(if marked { Occupant::Ours } else { Occupant::OfUser })
}

/// Finds the meaning of an error to look at a file or to open it. Most say nothing about it: there
/// are too few descriptors, or the disk fails.
fn unseen(error: io::Error) -> io::Result<Occupant> {
    match Errno::from_io_error(&error) {
        Some(Errno::NOENT) => Ok(Occupant::None),
        // The user can cause these: by a mode or a mount of FUSE, which denies root the sight, by
        // the death of its program, by a link and a lease.
        Some(Errno::ACCESS | Errno::NOTCONN | Errno::LOOP | Errno::AGAIN) => Ok(Occupant::OfUser),
        _ => Err(error),
    }
}

/// Gives a file, or a folder with its contents, another name in the same folder.
pub(super) fn set_aside(path: &Path) -> io::Result<()> {
    let folder = path.parent().ok_or(ErrorKind::InvalidInput)?;
    let aside = tempfile::Builder::new().prefix(".orthrus-grants-aside-").tempdir_in(folder)?.keep();
    match fs::rename(path, aside.join("file")) {
        Ok(()) => {
            tracing::warn!("{} belongs to another user and is now in {}", path.display(), aside.display())
        }
        Err(error) => {
            fs::remove_dir(&aside)?;
            // Its owner may have been faster.
            if error.kind() != ErrorKind::NotFound {
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Writes a file of the run's user, as a whole or not at all.
pub(super) fn write_as(path: &Path, run: &AttachedRun, contents: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(ErrorKind::InvalidInput)?;
    let mut file = tempfile::Builder::new()
        .prefix(".orthrus-grants-")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(folder)?;
    file.write_all(contents)?;
    if geteuid().as_raw() != run.uid {
        fchown(file.as_file(), Some(Uid::from_raw(run.uid)), Some(Gid::from_raw(run.gid)))?;
    }
    file.persist(path).map(|_| ()).map_err(|error| error.error)
}

/// Tickets in the agent's folder, with the user and the group of their run.
pub(super) struct StoredTickets {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) cache: TicketCache,
}

impl StoredTickets {
    pub(super) fn is_of(&self, run: &AttachedRun) -> bool {
        (self.uid, self.gid) == (run.uid, run.gid) && self.cache.principal() == run.principal
    }
}

/// Removes a file, if there is one.
pub(super) fn remove(path: &Path) -> Result<(), AgentError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io_error(path)(error)),
        _ => Ok(()),
    }
}

/// Reads at most `max` bytes of a file; `None` if there is none, or a folder has its name.
pub(super) fn read_bounded(path: &Path, max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(max).read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads stored tickets; `None` if there are none, or they are damaged.
pub(super) fn read_cache(path: &Path) -> io::Result<Option<StoredTickets>> {
    Ok(read_bounded(path, TICKET_CACHE_MAX as u64 + 64)?.and_then(|bytes| parse_stored(&bytes)))
}

fn parse_stored(bytes: &[u8]) -> Option<StoredTickets> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (owner, rest) = bytes.split_at_checked(end + 1)?;
    let (uid, gid) = std::str::from_utf8(owner).ok()?.trim().split_once(' ')?;
    let mut cache = TicketCache::parse(rest)?;
    cache.tickets.retain(|ticket| ticket.server.first().is_some_and(|name| name == "nfs"));
    Some(StoredTickets { uid: uid.parse().ok()?, gid: gid.parse().ok()?, cache })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::setfsuid;

    #[test]
    fn a_file_that_cannot_be_opened_now_is_not_taken_for_one_of_the_user() {
        let found = |errno: Errno| unseen(errno.into()).ok();
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::IO, Errno::STALE] {
            assert_eq!(found(errno), None, "{errno}");
        }
        for errno in [Errno::ACCESS, Errno::NOTCONN, Errno::LOOP, Errno::AGAIN] {
            assert_eq!(found(errno), Some(Occupant::OfUser), "{errno}");
        }
        assert_eq!(found(Errno::NOENT), Some(Occupant::None));
    }

    #[test]
    fn a_file_that_root_may_not_see_is_one_of_the_user() {
        let folder = private::temporary("orthrus-unseen-").unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "").unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o000)).unwrap();
        let look = || {
            // Of this thread alone: the modes of files apply to it, as a mount of FUSE does to
            // root.
            setfsuid(Uid::from_raw(1));
            occupant(&path, 0)
        };
        let found = std::thread::scope(|scope| scope.spawn(look).join().unwrap());
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        assert_eq!(found.ok(), Some(Occupant::OfUser));
    }
}
