//! The further KDCs of a realm: each has a folder in the realm's, with a directory that follows the
//! first one.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::removal::{remove_file, remove_folder};
use crate::{RealmError, RealmOptions, directory, kdc};

/// The start of the names of their folders.
const FOLDER: &str = "replica-";
/// Time in which a change reaches all replicas.
const PROPAGATION_WAIT: Duration = Duration::from_secs(20);

/// Files of a KDC in its folder, besides those of its directory.
const FILES: [&str; 5] = ["krb5.conf", "kdc.conf", "kdc.log", "krb5.log", kdc::PID_FILE];

/// Returns the folder of a replica, counted from 1.
pub(crate) fn home(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("{FOLDER}{number}"))
}

/// Returns the folders of all replicas that exist.
pub(crate) fn homes(dir: &Path) -> impl Iterator<Item = PathBuf> {
    (1..=crate::REPLICAS_MAX).map(|number| home(dir, number)).filter(|home| home.is_dir())
}

/// Starts the replicas of the realm in `dir`, and returns the addresses of their KDCs.
pub(crate) fn start(dir: &Path, options: &RealmOptions) -> Result<Vec<SocketAddr>, RealmError> {
    // Any port of the first KDC's address.
    let listen = options.listen.map(|first| SocketAddr::new(first.ip(), 0));
    let mut kdcs = Vec::new();
    for number in 1..=options.replicas {
        let home = home(dir, number);
        fs::create_dir(&home).map_err(RealmError::io(&home))?;
        directory::replicate(dir, &home)?;
        wait_for(dir, &home)?;
        kdcs.push(kdc::start(dir, &home, options, listen)?);
    }
    Ok(kdcs)
}

/// Waits until the directory in `home` has all changes of the one in `dir`.
pub(crate) fn wait_for(dir: &Path, home: &Path) -> Result<(), RealmError> {
    let wanted = directory::state(dir)?;
    let begin = Instant::now();
    // The base of a new replica does not exist until the first changes arrive.
    while directory::state(home).ok().as_ref() != Some(&wanted) {
        if begin.elapsed() > PROPAGATION_WAIT {
            let why =
                format!("it does not follow the first directory within {} s", PROPAGATION_WAIT.as_secs());
            return Err(RealmError::io(home)(std::io::Error::new(std::io::ErrorKind::TimedOut, why)));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Stops the KDCs and directories of all replicas.
pub(crate) fn stop(dir: &Path) -> Result<(), RealmError> {
    homes(dir).try_for_each(|home| {
        kdc::stop(&home)?;
        directory::stop(&home).map(drop)
    })
}

/// Removes the files of all replicas.
pub(crate) fn remove_files(dir: &Path) -> Result<(), RealmError> {
    homes(dir).try_for_each(|home| {
        directory::remove_files(&home)?;
        FILES.iter().try_for_each(|name| remove_file(&home.join(name)))?;
        remove_folder(&home)
    })
}
