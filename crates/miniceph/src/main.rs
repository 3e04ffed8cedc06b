//! Starts a cluster for scripts: `miniceph DIRECTORY[:UID]...` makes the directories, prints the
//! configuration file, and ends the cluster when standard input ends.

use ceph::fs::{CephFs, CephMount, Credentials, NewInode, SetStat};
use orthrus_miniceph::{FILE_SIZE_MAX, MiniCeph, MiniCephOptions};
use std::error::Error;
use std::ffi::CString;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "miniceph: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let cluster = MiniCeph::start(&MiniCephOptions::default())?;
    for argument in std::env::args().skip(1) {
        let (path, uid) = match argument.rsplit_once(':') {
            Some((path, uid)) => (path, uid.parse()?),
            None => (&*argument, 0),
        };
        match path.rsplit_once('/') {
            Some((parent, name)) => make_below(&cluster, (parent, name), uid)?,
            None => cluster.make_directory(path, FILE_SIZE_MAX)?,
        }
    }
    writeln!(io::stdout(), "{}", cluster.configuration().display())?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

/// Makes a directory of a user in one that exists.
fn make_below(cluster: &MiniCeph, (parent, name): (&str, &str), uid: u32) -> Result<(), Box<dyn Error>> {
    let library = CephFs::load()?;
    let mount = CephMount::open(library, &cluster.mount_options(), Box::new(|_, _| ()))?;
    let root = Credentials::new(library, 0, 0, &[].into()).ok_or("there is no memory")?;
    let mut at = mount.root()?;
    for part in parent.split('/') {
        at = at.lookup(&CString::new(part)?, &root)?.0;
    }
    let (made, _) = at.create(&CString::new(name)?, NewInode::Directory, 0o755, &root)?;
    made.set_stat(&SetStat { uid: Some(uid), gid: Some(uid), ..SetStat::default() }, &root)?;
    at.set_stat(&SetStat { mode: Some(0o755), ..SetStat::default() }, &root)?;
    Ok(at.sync()?)
}
