//! Writes that no COMMIT has acknowledged when the server is killed, or its disk loses power, at
//! random points.
//!
//! The seed, which a run prints, decides its operations; `ORTHRUS_SEED` repeats one. The seed does
//! not decide the moments of the kills.

use crate::restart::{is_outage, reclaimed};
use client::{Client, Error, Filesystem, Flavor, OpenFile, OpenHow, Options, Security};
use e2e::{Disk, Journaling, Serve, Server, empty_folder, in_own_mounts, in_world};
use nfs4::StableHow4::UNSTABLE4;
use rng::SplitMix64;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The size that the file grows to.
const SIZE: usize = 4 << 20;
/// Maximum length of a WRITE, in bytes.
const PIECE: usize = 200_000;
/// Times that the server is killed.
const CRASHES: u32 = 8;

/// Numbers that a seed decides.
pub(crate) struct CrashRandom(SplitMix64);

impl CrashRandom {
    /// Takes the seed from the environment, or a fixed one.
    pub(crate) fn seeded(test: &str) -> Self {
        let seed = std::env::var("ORTHRUS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(4711);
        println!("{test}: ORTHRUS_SEED={seed}");
        Self(SplitMix64(seed))
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0.index(limit)
    }
}

/// A WRITE that no COMMIT has acknowledged.
struct UnstableWrite {
    offset: usize,
    data: Vec<u8>,
    /// `None` until it is answered.
    verifier: Option<[u8; 8]>,
}

/// The permitted contents of the file.
#[derive(Default)]
struct FileModel {
    /// The contents that a COMMIT has acknowledged.
    stable: Vec<u8>,
    /// WRITEs that may or may not be on the disk, in order.
    pending: Vec<UnstableWrite>,
}

impl FileModel {
    fn acknowledge(&mut self) {
        for piece in self.pending.drain(..) {
            let end = piece.offset + piece.data.len();
            self.stable.resize(self.stable.len().max(end), 0);
            self.stable[piece.offset..end].copy_from_slice(&piece.data);
        }
    }

    /// Checks the file on the disk, and returns the number of answered WRITEs that it lacks.
    fn check(&self, disk: &[u8]) -> usize {
        assert!(disk.len() >= self.stable.len(), "{} bytes, {} acknowledged", disk.len(), self.stable.len());
        // Each byte is the acknowledged one, or that of any WRITE since.
        let mut good: Vec<bool> =
            disk.iter().enumerate().map(|(at, byte)| self.stable.get(at).unwrap_or(&0) == byte).collect();
        let mut lost = 0;
        for piece in &self.pending {
            let mut there = true;
            for (at, byte) in piece.data.iter().enumerate() {
                let same = disk.get(piece.offset + at).is_some_and(|found| found == byte);
                there &= same;
                if same {
                    good[piece.offset + at] = true;
                }
            }
            lost += usize::from(!there && piece.verifier.is_some());
        }
        let wrong = good.iter().position(|good| !good);
        assert!(
            wrong.is_none(),
            "the byte at {wrong:?} is neither what was acknowledged nor what was written"
        );
        lost
    }
}

/// A client that writes at random places, commits now and then, and repeats writes that were not
/// acknowledged.
struct CrashWriter<'a> {
    client: Client,
    file: OpenFile,
    random: CrashRandom,
    model: &'a Mutex<FileModel>,
    /// Counts the answered WRITEs.
    written: &'a AtomicU64,
    written_again: usize,
    restarts: u32,
}

impl CrashWriter<'_> {
    fn model(&self) -> std::sync::MutexGuard<'_, FileModel> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&mut self, stop: &AtomicBool) {
        loop {
            let ending = stop.load(Ordering::SeqCst);
            let done = if ending || self.random.below(12) == 0 { self.commit() } else { self.write() };
            match done {
                Ok(()) if ending => break,
                Ok(()) => {}
                Err(error) => {
                    assert!(is_outage(&error), "{error}");
                    self.recover();
                }
            }
        }
        self.client.close_file(&self.file).expect("it is open");
    }

    fn write(&mut self) -> Result<(), Error> {
        let (offset, length) = (self.random.below(SIZE), 1 + self.random.below(PIECE));
        let data: Vec<u8> = e2e::pattern(self.random.below(1 << 30) as u32, length);
        let place = {
            let mut model = self.model();
            model.pending.push(UnstableWrite { offset, data, verifier: None });
            model.pending.len() - 1
        };
        self.send(place)
    }

    /// Sends a WRITE that is pending.
    fn send(&mut self, place: usize) -> Result<(), Error> {
        let (offset, data) = {
            let model = self.model();
            (model.pending[place].offset, model.pending[place].data.clone())
        };
        let (mut done, mut verifier) = (0, None);
        while done < data.len() {
            let at = (offset + done) as u64;
            let (handle, stateid) = (&self.file.handle, self.file.stateid);
            let written = self.client.write(handle, stateid, at, UNSTABLE4, &data[done..])?;
            done += written.count as usize;
            // Of two verifiers in one piece the first is the older: it will not be that of the
            // COMMIT.
            verifier = verifier.or(Some(written.writeverf));
        }
        self.model().pending[place].verifier = verifier;
        self.written.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// Commits, and writes again until the server says that it has lost nothing (RFC 8881 section
    /// 18.3.3).
    fn commit(&mut self) -> Result<(), Error> {
        loop {
            let committed = self.client.commit(&self.file.handle, 0, 0)?;
            let mut model = self.model();
            if model.pending.iter().all(|piece| piece.verifier == Some(committed)) {
                model.acknowledge();
                return Ok(());
            }
            let count = model.pending.len();
            drop(model);
            // All of them: they may overlap, and the last one counts.
            for place in 0..count {
                self.send(place)?;
                self.written_again += 1;
            }
        }
    }

    fn recover(&mut self) {
        self.file = reclaimed(&mut self.client, &self.file);
        self.restarts += 1;
    }
}

/// Writes while the server is killed again and again; `cut` is run while it is dead. Returns how
/// many answered WRITEs were lost on the disk, and how many were sent again.
fn crash(options: Options, server: &mut Server, disk: &Path, cut: impl Fn()) -> (usize, usize) {
    let mut random = CrashRandom::seeded("crashes");
    let (model, written, stop) =
        (Mutex::new(FileModel::default()), AtomicU64::new(0), AtomicBool::new(false));
    let mut client = Client::connect(options).expect("a session");
    let file = client.open_path("/export/file", &OpenHow::create(0o600)).expect("it may be made");
    client.commit(&file.handle, 0, 0).expect("it is new");
    let own = CrashRandom(SplitMix64(random.0.draw()));
    let mut writer = CrashWriter {
        client,
        file,
        random: own,
        model: &model,
        written: &written,
        written_again: 0,
        restarts: 0,
    };
    let mut lost = 0;
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            writer.run(&stop);
            writer
        });
        for _ in 0..CRASHES {
            // In the middle: some WRITEs later, and then some microseconds.
            let more = written.load(Ordering::SeqCst) + 1 + random.below(40) as u64;
            let end = Instant::now() + Duration::from_secs(60);
            while written.load(Ordering::SeqCst) < more && !running.is_finished() {
                assert!(Instant::now() < end, "the client writes no more");
                std::thread::sleep(Duration::from_micros(200));
            }
            std::thread::sleep(Duration::from_micros(random.below(3000) as u64));
            server.kill();
            cut();
            let found = fs::read(disk).expect("it was made and committed");
            lost += model.lock().unwrap_or_else(PoisonError::into_inner).check(&found);
            server.restart();
        }
        stop.store(true, Ordering::SeqCst);
        let writer = running.join().expect("it says itself what is wrong");
        assert_eq!(writer.restarts, CRASHES);
        server.kill();
        cut();
        let model = model.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(model.pending.is_empty());
        assert!(fs::read(disk).expect("it is there") == model.stable, "the file is not what was committed");
        (lost, writer.written_again)
    })
}

#[test]
fn a_server_killed_at_any_moment_keeps_acknowledged_writes_and_gets_the_rest_again() {
    // RFC 8881 sections 18.3.3 and 18.32.3: the verifier changes with the server, although the data
    // may still be there
    in_world(|world| {
        let mut server = world.server().start();
        let options = world.options(&server, "alice", Flavor::Krb5p).connections(4);
        let (lost, again) = crash(options, &mut server, &world.export().join("file"), || {});
        println!("{CRASHES} kills: {again} writes sent again, {lost} had been cut short");
        assert!(again > 0);
    });
}

#[test]
fn writes_that_a_power_cut_loses_are_sent_again() {
    // RFC 8881 sections 18.3.3 and 18.32.3
    in_own_mounts(|| {
        let folder = empty_folder();
        let disk = Disk::ext4(folder.path(), "export", 64 << 20);
        if !disk.power_cut() {
            return println!("skipped: xfs_io (package xfsprogs) cannot shut ext4 down here");
        }
        let mut server =
            Serve::new(folder.path().join("state")).args(["--sec", "sys"]).arg(disk.path()).start();
        let options = Options::new("127.0.0.1", Security::sys_as(12345, 12345)).port(server.port());
        let file = disk.path().join("file");
        let (lost, again) =
            crash(options, &mut server, &file, || assert!(disk.power_cut(), "it could before"));
        println!("{CRASHES} power cuts: {lost} writes were lost, {again} sent again");
        assert!(lost > 0, "nothing was lost: the test shows nothing");
        assert!(again > 0, "what was lost has to be sent again");
    });
}

/// Acknowledged names are there after a power cut, unless the configuration waives it. A file that
/// was written, committed and then renamed over another is one of the two, whole.
fn renamed(kind: Journaling, stable: bool) {
    in_own_mounts(|| {
        let folder = empty_folder();
        let disk = match Disk::make(kind, folder.path(), "export", kind.size_min()) {
            Ok(disk) => disk,
            Err(reason) => return println!("skipped: no {kind:?} here: {reason}"),
        };
        if !disk.power_cut() {
            return println!("skipped: xfs_io (package xfsprogs) cannot shut {kind:?} down here");
        }
        let config = folder.path().join("orthrus.toml");
        let text = format!(
            "[[export]]\npath = {:?}\npseudo = \"/export\"\nsec = [\"sys\"]\nsecure = false\nstable_names = {stable}\n",
            disk.path()
        );
        fs::write(&config, text).expect("the folder is ours");
        let mut server = Serve::new(folder.path().join("state")).arg("--config").arg(&config).start();
        let options = Options::new("127.0.0.1", Security::sys_as(12345, 12345)).port(server.port());
        let mut whole = 0;
        for round in 1..=3 {
            let mut files = Filesystem::mount(options.clone(), "/export").expect("it is exported");
            // The versions of all rounds: the former was cut off.
            for version in 1..=round * 3 {
                files.write_file("new", &e2e::pattern(version, 50_000)).expect("there is room");
                files.rename("new", "file").expect("it is there");
            }
            files.mkdir(&format!("folder-{round}")).expect("a new name");
            files.symlink("target", &format!("folder-{round}/link")).expect("a new name");
            // A client that is gone for good would be waited for after the restart.
            files.unmount().expect("nothing is open");
            server.kill();
            assert!(disk.power_cut(), "it could before");
            let found = fs::read(disk.path().join("file"));
            let version = found.as_ref().ok().and_then(|found| {
                (1..=round * 3).rev().find(|version| *found == e2e::pattern(*version, 50_000))
            });
            assert!(found.is_err() || version.is_some(), "the file is none of those that were renamed to it");
            let last =
                version == Some(round * 3) && disk.path().join(format!("folder-{round}/link")).is_symlink();
            assert!(last || !stable, "an acknowledged name is lost: version {version:?}");
            whole += u32::from(last);
            server.restart();
        }
        println!("{kind:?}, stable_names = {stable}: {whole} of 3 power cuts took nothing");
    });
}

#[test]
fn names_are_on_the_disk_before_they_are_acknowledged() {
    for kind in [Journaling::Ext4, Journaling::Ext4FastCommit, Journaling::Xfs] {
        renamed(kind, true);
    }
}

#[test]
fn a_file_renamed_over_another_is_one_of_the_two_after_a_power_cut() {
    renamed(Journaling::Ext4, false);
}
