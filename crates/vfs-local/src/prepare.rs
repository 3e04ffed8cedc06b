//! Preparation of the process, once, before its first thread.

use crate::identity::{IDENTITY_CAPABILITIES, can_switch};
use rustix::{
    fs::Mode,
    process::{Resource, Rlimit, getrlimit, setrlimit, umask},
    thread::{CapabilitySet, capabilities, set_capabilities, set_no_new_privs},
};
use std::fmt;

/// Kept beside: root callers that give files away, leases of others' files, and binding a port
/// below 1024, see [`drop_binding`].
const KEPT: CapabilitySet = IDENTITY_CAPABILITIES
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::LEASE);

/// The identity under which the kernel checks a caller's operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServesAs {
    /// Each caller's own: the process is root.
    Callers,
    /// One user's for all callers: the process is not root, or lacks capabilities.
    OneUser {
        /// Number of the user.
        uid: u32,
        /// Name of the user, or the number where it has none.
        name: String,
    },
}

impl ServesAs {
    /// Finds out for this process.
    pub fn now() -> Self {
        if can_switch() {
            return Self::Callers;
        }
        let uid = nix::unistd::geteuid();
        let user = nix::unistd::User::from_uid(uid).ok().flatten();
        let name = user.map_or_else(|| uid.to_string(), |user| user.name);
        Self::OneUser { uid: uid.as_raw(), name }
    }
}

impl fmt::Display for ServesAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Callers => write!(f, "orthrus serves each caller with the caller's own identity"),
            Self::OneUser { uid, name } => write!(
                f,
                "orthrus serves as user {name} (uid {uid}): the kernel cannot enforce other callers' identities; \
                 every admitted caller has exactly this user's rights, and new files belong to it. \
                 Start it as root to serve several users"
            ),
        }
    }
}

/// The result of [`prepare_process`].
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The identity of operations from now on.
    pub serves_as: ServesAs,
    /// Open files that the process may have now.
    pub descriptors_max: u64,
    /// Capabilities given up, by name; empty when not root.
    pub dropped: Vec<String>,
    /// Capabilities that root lacks to act as its callers, by name.
    pub missing: Vec<String>,
}

impl fmt::Display for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {} open files allowed", self.serves_as, self.descriptors_max)?;
        if !self.dropped.is_empty() {
            write!(f, "; {} capabilities dropped", self.dropped.len())?;
        }
        Ok(())
    }
}

/// Prepares the process to serve local file systems: clears the umask (clients send whole modes),
/// raises the number of open files to the hard limit, survives writes beyond the limit of file
/// sizes, gives up privileges that programs might add when they are executed, and as root drops
/// every capability that serving does not need. With `device_nodes` it keeps CAP_MKNOD. Without
/// CAP_SYS_RESOURCE quotas and reserved blocks hold, without CAP_FSETID the kernel clears set-id
/// bits as it does for users.
///
/// These belong to threads: the program calls this before it starts any. A step that fails is
/// skipped, and the result reports the outcome.
pub fn prepare_process(device_nodes: bool) -> Prepared {
    umask(Mode::empty());
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    crate::process::survive_size_limit();
    let _ = set_no_new_privs(true);
    let kept = if device_nodes { KEPT.union(CapabilitySet::MKNOD) } else { KEPT };
    let dropped = keep_capabilities(kept);
    let descriptors_max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let missing = match rustix::process::geteuid().is_root() {
        true => names(IDENTITY_CAPABILITIES.difference(permitted())),
        false => Vec::new(),
    };
    Prepared { serves_as: ServesAs::now(), descriptors_max, dropped, missing }
}

/// Drops the capability to bind ports below 1024, after the last one was bound. As
/// [`prepare_process`], it is for the time before threads.
pub fn drop_binding() {
    keep_capabilities(permitted().difference(CapabilitySet::NET_BIND_SERVICE));
}

/// Returns whether callers that are root can give files to other users.
pub fn can_change_owners() -> bool {
    permitted().contains(CapabilitySet::CHOWN)
}

fn permitted() -> CapabilitySet {
    capabilities(None).map(|sets| sets.permitted).unwrap_or(CapabilitySet::empty())
}

/// Drops all other capabilities of root, and returns their names.
fn keep_capabilities(kept: CapabilitySet) -> Vec<String> {
    let Ok(mut sets) = capabilities(None) else { return Vec::new() };
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    let dropped = sets.permitted.difference(kept);
    sets.permitted = sets.permitted.intersection(kept);
    sets.effective = sets.permitted;
    sets.inheritable = sets.inheritable.intersection(kept);
    if set_capabilities(None, sets).is_err() {
        return Vec::new();
    }
    names(dropped)
}

fn names(set: CapabilitySet) -> Vec<String> {
    set.iter_names().map(|(name, _)| format!("CAP_{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LocalBackend, LocalOptions};
    use std::process::{Command, Stdio};
    use vfs::{Backend, Caller, OpenAccess, SetAttributes, VfsError};

    /// The variable that makes the test the process with a limit.
    const INSIDE: &str = "ORTHRUS_TEST_SIZE_LIMIT";
    /// The largest file of that process in bytes.
    const SIZE_MAX: u64 = 1 << 20;

    #[test]
    fn a_write_beyond_the_limit_of_file_sizes_ends_no_process() // setrlimit(2), RLIMIT_FSIZE
    {
        if std::env::var_os(INSIDE).is_some() {
            prepare_process(false);
            let limit = Rlimit { current: Some(SIZE_MAX), maximum: Some(SIZE_MAX) };
            setrlimit(Resource::Fsize, limit).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let backend = LocalBackend::open(folder.path(), &LocalOptions::default()).unwrap();
            let caller = Caller {
                uid: rustix::process::geteuid().as_raw(),
                gid: rustix::process::getegid().as_raw(),
                groups: [].into(),
            };
            let access = OpenAccess { read: true, write: true };
            let set = SetAttributes::default();
            let (_, file) = backend.create_file(&caller, &backend.root(), b"f", access, &set).unwrap();
            assert_eq!(file.write_at(b"data", SIZE_MAX), Err(VfsError::Fbig));
            assert_eq!(file.set_size(SIZE_MAX + 1), Err(VfsError::Fbig));
            assert_eq!(file.write_at(b"data", SIZE_MAX - 4), Ok(4));
            return;
        }
        let name = "prepare::tests::a_write_beyond_the_limit_of_file_sizes_ends_no_process";
        let mut command = Command::new(std::env::current_exe().unwrap());
        let command = command.args(["--exact", name]).env(INSIDE, "1").stdout(Stdio::null());
        let status = command.status().unwrap();
        assert!(status.success(), "{status}");
    }
}
