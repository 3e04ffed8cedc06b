//! The machine: all files, folders and programs that checks look at.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// The largest file of settings that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The places that checks look at. [`Surroundings::of_process`] are the real ones.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The folder that stands for `/` in the paths of settings, of `/proc` and of `/sys`.
    pub root: PathBuf,
    /// The files of the Kerberos library, as in `KRB5_CONFIG`.
    pub krb5_conf: Vec<PathBuf>,
    /// The machine's keytab, unless rpc.gssd or the server names another one.
    pub keytab: PathBuf,
    /// The user's credential cache, as in `KRB5CCNAME`.
    pub ccache: Option<String>,
    /// The numeric ID of the user.
    pub uid: u32,
    /// The address that the server on this machine listens on.
    pub listens: Option<std::net::IpAddr>,
    /// The time limit of a step on the network or of a program.
    pub limit: Duration,
}

impl Surroundings {
    /// Returns the places of this process: the environment's, below `root`.
    pub fn of_process(root: &Path) -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let krb5_conf = match variable("KRB5_CONFIG") {
            Some(paths) => paths.split(':').map(PathBuf::from).collect(),
            None => vec![root.join("etc/krb5.conf")],
        };
        let keytab = variable("KRB5_KTNAME")
            .map(|name| PathBuf::from(name.trim_start_matches("FILE:")))
            .unwrap_or_else(|| root.join("etc/krb5.keytab"));
        Self {
            root: root.to_owned(),
            krb5_conf,
            keytab,
            ccache: variable("KRB5CCNAME"),
            uid: rustix::process::geteuid().as_raw(),
            listens: None,
            limit: Duration::from_secs(5),
        }
    }

    /// Returns a path such as `/etc/nfs.conf` below the root.
    pub fn path(&self, absolute: &str) -> PathBuf {
        self.root.join(absolute.trim_start_matches('/'))
    }

    /// Reads a file below the root; `None` if it cannot be read.
    pub(crate) fn read(&self, absolute: &str) -> Option<String> {
        read_text(&self.path(absolute)).ok()
    }
}

/// Reads a file of settings, up to 1 MiB.
pub(crate) fn read_text(path: &Path) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the files of a folder with wanted names, in the order of these; none of a folder that
/// cannot be read.
pub(crate) fn sorted_files(folder: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let wanted = entries.filter(|entry| is_wanted(&entry.file_name().to_string_lossy()));
    let mut paths: Vec<_> = wanted.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Runs `work` on another thread; `None` if it does not end in time. The thread is then abandoned:
/// calls of resolvers and of the Kerberos library cannot be interrupted.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        // The receiver has gone if the time is over.
        let _ = sender.send(work());
    });
    receiver.recv_timeout(limit).ok()
}
