//! Properties that the server's promises need and a file system lacks, found when it is exported.
//!
//! Nothing is changed for it: the root is opened and listed, and one of its files is asked for
//! locks.

use crate::{
    attributes::{file_type, stat_fd},
    errno::uninterrupted,
    kind::Kind,
};
use foreign::ForeignThread;
use mounts::{HiddenFolder, Mount};
use nix::fcntl::{FcntlArg, fcntl};
use rustix::fs::{FileType, Mode, OFlags, RawDir, ResolveFlags, StatVfsMountFlags, Statx, fstatvfs, openat2};
use rustix::io::Errno;
use std::{fmt, mem::MaybeUninit, os::fd::OwnedFd, sync::Arc, time::Duration};

/// Entries of the root among which a file is looked for.
const PROBED_ENTRIES_MAX: usize = 64;
/// How long the file system may take to say whether it has locks.
const PATIENCE: Duration = Duration::from_secs(2);

/// A property of a file system that weakens a promise of the server. Its text has the property, the
/// consequence and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limitation {
    /// The kernel does not open handles: the process is root of a container.
    HandlesNotOpened,
    /// The daemon of the file system decides how long handles last (FUSE).
    HandlesOfDaemon,
    /// The file system refuses locks, with this error.
    NoLocks(String),
    /// Locks exclude programs of this machine alone, by this option of the mount.
    LocksOfThisMachine(&'static str),
    /// Nothing can be changed where it is mounted for this process.
    ReadOnly,
    /// The process, which is the user of all callers, may not list or enter the folder.
    Closed,
    /// The service manager shows another folder in place of this one.
    Hidden(HiddenFolder),
    /// Times have no fractions of a second.
    WholeSeconds,
    /// It is of this type, which comes from other machines or another process.
    Foreign(String),
}

impl Limitation {
    /// Returns whether an administrator can do something about it.
    pub fn has_remedy(&self) -> bool {
        !matches!(self, Self::Foreign(_))
    }
}

impl fmt::Display for Limitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HandlesNotOpened => write!(
                f,
                "the kernel opens no file handles for this process, so objects are found by their paths: after a \
                 restart, the first use of a filehandle searches the directory. Start the server outside of the \
                 container to avoid that"
            ),
            Self::HandlesOfDaemon => write!(
                f,
                "it is a FUSE file system, whose daemon decides how long filehandles last and whether locks reach \
                 other machines: if clients get \"Stale file handle\", the daemon does not find objects by number \
                 (FUSE_EXPORT_SUPPORT; some have an option noforget)"
            ),
            Self::NoLocks(error) => write!(
                f,
                "it has no byte-range locks ({error}), so clients' locks are refused: mount it with locks (Lustre: \
                 -o flock), or set `local_locks = false`, which keeps locks between the clients of this server and \
                 hides them from all other programs and machines"
            ),
            Self::LocksOfThisMachine(option) => write!(
                f,
                "it is mounted with {option}, so locks hold on this machine alone: programs and gateways on other \
                 machines can lock the same bytes. Mount it without {option}, or serve each file by one gateway only"
            ),
            Self::ReadOnly => write!(
                f,
                "it is mounted read-only for this process, so each change fails with NFS4ERR_ROFS: set `read_only = \
                 true`, or mount it for writing. Under systemd the unit decides for /usr, /boot and /etc \
                 (ProtectSystem=), and hides the folders below /home (ProtectHome=): `systemctl edit orthrus`"
            ),
            Self::Closed => write!(
                f,
                "the server's user may not list and enter the folder, so each client gets NFS4ERR_ACCESS: give that \
                 user the rights r and x, or start the server as root"
            ),
            Self::Hidden(HiddenFolder { folder, setting }) => write!(
                f,
                "systemd shows the service another {folder} in place of the machine's ({setting}=): clients do not \
                 see the real files, and theirs are lost when the service ends. To export the real folder, set \
                 {setting}=no: `systemctl edit orthrus`"
            ),
            Self::WholeSeconds => write!(
                f,
                "its times are whole seconds, so clients do not notice a change by another program or machine \
                 within a second of the last one, unless the size changes: their caches may keep the old data. \
                 Change files through this server alone, or in turns that are a second apart"
            ),
            Self::Foreign(kind) => write!(
                f,
                "it is on {kind}, where others may change files without notice to this machine: clients get no \
                 delegations, and each request asks the file system"
            ),
        }
    }
}

/// Looks for limitations of a file system. `opens_handles` tells whether the kernel opens handles
/// on it, `takes_identities` whether the process needs them.
pub(crate) fn of(
    root: &OwnedFd,
    stat: &Statx,
    kind: Kind,
    opens_handles: bool,
    takes_identities: bool,
    thread: Option<&Arc<ForeignThread>>,
) -> Vec<Limitation> {
    let mut found = Vec::new();
    if takes_identities && !opens_handles {
        found.push(Limitation::HandlesNotOpened);
    }
    // A file system from elsewhere may refuse root and admit its callers.
    if !takes_identities && is_closed(root) {
        found.push(Limitation::Closed);
    }
    if fstatvfs(root).is_ok_and(|file_system| file_system.f_flag.contains(StatVfsMountFlags::RDONLY)) {
        found.push(Limitation::ReadOnly);
    }
    let mount = mounts::all().unwrap_or_default().into_iter().find(|mount| mount.id == stat.stx_mnt_id);
    found.extend(mount.as_ref().and_then(Mount::hides).map(Limitation::Hidden));
    let file = if kind == Kind::Foreign { a_file(root) } else { None };
    if let (Kind::Foreign, Some(mount)) = (kind, &mount) {
        found.push(Limitation::Foreign(mount.fs_type.clone()));
        if mount.fs_type.starts_with("fuse") {
            found.push(Limitation::HandlesOfDaemon);
        }
        found.extend(locks_of_this_machine(mount).map(Limitation::LocksOfThisMachine));
    }
    let times = [Some(*stat), file.as_ref().and_then(|file| stat_fd(file).ok())];
    if times.iter().flatten().all(has_whole_seconds) {
        found.push(Limitation::WholeSeconds);
    }
    if let (Some(file), Some(thread)) = (file, thread)
        && let Some(error) = lock_error(file, thread)
    {
        found.push(Limitation::NoLocks(error));
    }
    found
}

/// Returns whether this process has no right to list a folder, or to find names in it.
fn is_closed(folder: &OwnedFd) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    uninterrupted(|| openat2(folder, c".", flags, Mode::empty(), ResolveFlags::BENEATH)).err()
        == Some(Errno::ACCESS)
}

/// Returns the option of a mount by which locks stay on this machine.
fn locks_of_this_machine(mount: &Mount) -> Option<&'static str> {
    let options: &[&'static str] = match mount.fs_type.as_str() {
        "lustre" => &["localflock"],
        "nfs" | "nfs4" => &["nolock", "local_lock=all", "local_lock=posix"],
        "cifs" | "smb3" => &["nobrl"],
        "ocfs2" => &["localflocks"],
        _ => &[],
    };
    options.iter().copied().find(|option| mount.has(option))
}

/// Returns whether no time of an object has a fraction of a second.
fn has_whole_seconds(stat: &Statx) -> bool {
    stat.stx_ctime.tv_nsec == 0 && stat.stx_mtime.tv_nsec == 0
}

/// Opens a regular file in a directory, if one is among its first entries.
fn a_file(directory: &OwnedFd) -> Option<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let open = |name: &std::ffi::CStr, flags| {
        let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        uninterrupted(|| openat2(directory, name, flags | OFlags::NOCTTY, Mode::empty(), resolve)).ok()
    };
    let listed = open(c".", OFlags::DIRECTORY)?;
    let mut buffer = [MaybeUninit::uninit(); 8 << 10];
    let mut entries = RawDir::new(&listed, &mut buffer);
    for _ in 0..PROBED_ENTRIES_MAX {
        let entry = entries.next()?.ok()?;
        // The type of an entry may be unknown until it is opened.
        if !matches!(entry.file_type(), FileType::RegularFile | FileType::Unknown) {
            continue;
        }
        let Some(file) = open(entry.file_name(), OFlags::empty()) else { continue };
        if file_type(&stat_fd(&file).ok()?) == FileType::RegularFile {
            return Some(file);
        }
    }
    None
}

/// Asks for a lock on a file, and returns the error that says that there are none.
fn lock_error(file: OwnedFd, thread: &ForeignThread) -> Option<String> {
    let words = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 1,
        l_pid: 0,
    };
    let answer = thread.ask(PATIENCE, move || {
        let mut words = words;
        fcntl(&file, FcntlArg::F_OFD_GETLK(&mut words)).map(drop)
    });
    match answer? {
        Err(error @ (nix::Error::ENOSYS | nix::Error::EOPNOTSUPP | nix::Error::ENOLCK)) => {
            Some(std::io::Error::from(error).to_string())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(fs_type: &str, options: &str) -> Mount {
        let line = format!("40 21 0:45 / /mnt rw,relatime - {fs_type} source {options}");
        Mount::parse(line.as_bytes()).unwrap()
    }

    #[test]
    fn options_that_keep_locks_on_this_machine_are_known() {
        for (fs_type, options, found) in [
            ("lustre", "rw,flock", None),
            ("lustre", "rw,localflock", Some("localflock")),
            ("nfs4", "rw,vers=4.2,local_lock=none", None),
            ("nfs", "rw,vers=3,nolock", Some("nolock")),
            ("nfs", "rw,vers=3,local_lock=all", Some("local_lock=all")),
            ("cifs", "rw,nobrl", Some("nobrl")),
            ("ceph", "rw,acl", None),
        ] {
            assert_eq!(locks_of_this_machine(&mount(fs_type, options)), found, "{fs_type} {options}");
        }
    }

    #[test]
    fn each_text_has_a_consequence_and_a_remedy() {
        for limitation in [
            Limitation::HandlesNotOpened,
            Limitation::HandlesOfDaemon,
            Limitation::NoLocks("ENOSYS".into()),
            Limitation::LocksOfThisMachine("nolock"),
            Limitation::WholeSeconds,
        ] {
            let text = limitation.to_string();
            assert!(text.contains(", so ") || text.contains(": if "), "{text}");
            assert!(
                ["Start", "set ", "Mount", "Change", "option"].iter().any(|word| text.contains(word)),
                "{text}"
            );
        }
    }
}
