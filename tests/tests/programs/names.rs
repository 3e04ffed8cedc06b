//! Names that several clients change in one folder while its disk loses power.

use client::{Error, Filesystem, OpenHow, Options, Security};
use e2e::{Disk, Journaling, Serve, Server, empty_folder, in_own_mounts};
use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Clients, each with a thread, and power cuts.
const CLIENTS: usize = 6;
const CUTS: usize = 3;
/// Changes that are acknowledged before the power goes.
const CHANGES: usize = 60;

/// A client's knowledge of one of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KnownName {
    /// The last acknowledged state: present, or not.
    Is(bool),
    /// Its change was under way.
    Open,
}

/// The names of a client: `file` as it is made, and `moved` as it is called then.
#[derive(Clone, Debug)]
struct ClientNames {
    made: Vec<(String, KnownName)>,
}

impl ClientNames {
    fn set(&mut self, name: &str, known: KnownName) {
        match self.made.iter_mut().find(|(own, _)| own == name) {
            Some((_, own)) => *own = known,
            None => self.made.push((name.to_owned(), known)),
        }
    }
}

/// Makes, renames and removes files from the time when all clients have mounted until the disk
/// fails. Returns the names that must be there and the names that must not.
fn change(options: Options, client: usize, mounted: &Barrier, acknowledged: &AtomicUsize) -> ClientNames {
    let mut names = ClientNames { made: Vec::new() };
    let mut files = Filesystem::mount(options, "/export").expect("it is exported");
    mounted.wait();
    let mut turn = |number: usize, names: &mut ClientNames| -> Result<(), Error> {
        let (name, moved) = (format!("new-{client}-{number}"), format!("moved-{client}-{number}"));
        let mut step = |names: &mut ClientNames,
                        changes: &[(&str, bool)],
                        run: &mut dyn FnMut(&mut Filesystem) -> Result<(), Error>| {
            changes.iter().for_each(|(name, _)| names.set(name, KnownName::Open));
            run(&mut files)?;
            changes.iter().for_each(|(name, there)| names.set(name, KnownName::Is(*there)));
            acknowledged.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        step(names, &[(&name, true)], &mut |files| {
            let file = files.open(&name, &OpenHow::create(0o600))?;
            files.close(&file)
        })?;
        step(names, &[(&name, false), (&moved, true)], &mut |files| files.rename(&name, &moved))?;
        match number % 3 {
            0 => step(names, &[(&moved, false)], &mut |files| files.remove(&moved)),
            1 => step(names, &[(&name, true)], &mut |files| files.link(&moved, &name)),
            _ => step(names, &[(&name, true)], &mut |files| files.mkdir(&name).map(drop)),
        }
    };
    // Until the server reports that the disk has failed.
    (0..).find_map(|number| turn(number, &mut names).err()).expect("it ends so");
    names
}

/// Cuts the power under clients at work, and returns how many acknowledged changes were lost.
fn cut(options: &Options, server: &mut Server, disk: &Disk, round: usize) -> usize {
    let (mounted, acknowledged) = (Barrier::new(CLIENTS), AtomicUsize::new(0));
    let all: Vec<ClientNames> = std::thread::scope(|scope| {
        let work = |client| {
            let (options, mounted, acknowledged) = (options.clone(), &mounted, &acknowledged);
            scope.spawn(move || change(options, round * CLIENTS + client, mounted, acknowledged))
        };
        let working: Vec<_> = (0..CLIENTS).map(work).collect();
        let end = Instant::now() + Duration::from_secs(60);
        while acknowledged.load(Ordering::SeqCst) < CHANGES {
            assert!(Instant::now() < end, "the clients change no more");
            std::thread::sleep(Duration::from_micros(200));
        }
        assert!(disk.lose_power(), "it could before");
        working.into_iter().map(|working| working.join().expect("it says itself what is wrong")).collect()
    });
    server.kill();
    disk.restore_power();
    let is_there = |name: &str| fs::symlink_metadata(disk.path().join(name)).is_ok();
    let known = all.iter().flat_map(|names| &names.made);
    known.filter(|(name, known)| *known != KnownName::Open && *known != KnownName::Is(is_there(name))).count()
}

/// Cuts the power again and again; returns how many acknowledged changes were lost, or nothing
/// where that cannot be tried.
fn lost(kind: Journaling, stable: bool) -> Option<usize> {
    let folder = empty_folder();
    let disk = match Disk::make(kind, folder.path(), "export", kind.size_min()) {
        Ok(disk) => disk,
        Err(reason) => {
            println!("skipped: no {kind:?} here: {reason}");
            return None;
        }
    };
    if !disk.power_cut() {
        println!("skipped: xfs_io (package xfsprogs) cannot shut {kind:?} down here");
        return None;
    }
    let mut server = serve(folder.path(), disk.path(), stable);
    let options = Options::new("127.0.0.1", Security::sys_as(12345, 12345)).port(server.port());
    // Without this no client would have a backchannel, and no delegation could be granted.
    let options = Options { backchannel: true, reconnect_max: Duration::from_secs(10), ..options };
    let mut lost = 0;
    for round in 0..CUTS {
        lost += cut(&options, &mut server, &disk, round);
        server.restart();
    }
    Some(lost)
}

fn serve(folder: &Path, export: &Path, stable: bool) -> Server {
    let config = folder.join("orthrus.toml");
    let text = format!(
        "grace_time = 0\n[[export]]\npath = {export:?}\npseudo = \"/export\"\nsec = [\"sys\"]\nsecure = false\nstable_names = {stable}\n"
    );
    fs::write(&config, text).expect("the folder is ours");
    Serve::new(folder.join("state")).arg("--config").arg(&config).start()
}

#[test]
fn names_of_one_folder_that_many_change_at_once_are_on_the_disk_before_they_are_acknowledged() {
    in_own_mounts(|| {
        for kind in [Journaling::Ext4, Journaling::Ext4FastCommit, Journaling::Xfs] {
            if let Some(lost) = lost(kind, true) {
                assert_eq!(lost, 0, "acknowledged changes are lost on {kind:?}");
            }
        }
    });
}

#[test]
fn a_power_cut_takes_names_that_are_not_to_be_stable() {
    in_own_mounts(|| {
        if let Some(lost) = lost(Journaling::Ext4, false) {
            println!("stable_names = false: {lost} acknowledged changes were lost");
            assert!(lost > 0, "nothing was lost: the other test shows nothing");
        }
    });
}
