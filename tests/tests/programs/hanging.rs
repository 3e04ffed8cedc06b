//! A server under SIGTERM while an exported file system hangs, in one operation after another.
//! Other exports are served meanwhile, and the process ends within its deadline.

use crate::fuse::opcode::*;
use crate::fuse::{DATA, Fuse, FuseTraits, HANGS, NAME};
use client::{Client, Filesystem, OpenFile, OpenHow, Options, Security};
use e2e::{Serve, Server, empty_folder, in_own_mounts, orthrus, run};
use nfs4::NfsLockType4::WRITE_LT;
use nfs4::StableHow4::{FILE_SYNC4, UNSTABLE4};
use nfs4::{Bitmap4, FATTR4_SIZE, FATTR4_SPACE_FREE};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A user without rights of its own.
const USER: u32 = 12345;
/// Clients that hang at once: more than the server has shards.
const CLIENTS: usize = 3;
/// How long a busy machine may take for a step.
const PATIENCE: Duration = Duration::from_secs(30);
/// The server's deadline (`END_TIME_MAX` is 10 s), its last log lines, and time for a busy machine.
const END_TIME: Duration = Duration::from_secs(15);
/// The exit status of a server that was ended by force.
const HUNG_STATUS: i32 = 70;

/// Stands for all kinds of requests.
const EVERYTHING: u32 = 0;

/// One kind of request that hangs, and an operation that leads to it.
#[derive(Clone, Copy)]
struct HangCase {
    opcode: u32,
    run: fn(&mut Client, &OpenFile),
}

impl HangCase {
    const fn new(opcode: u32, run: fn(&mut Client, &OpenFile)) -> Self {
        Self { opcode, run }
    }
}

// The results do not matter: the server goes away under these calls.
const LOOKUPS: HangCase = HangCase::new(LOOKUP, |client, _| drop(client.lookup_path("/foreign/absent")));
const GETATTRS: HangCase = HangCase::new(GETATTR, |client, file| {
    drop(client.getattr(&file.handle, Bitmap4::of(&[FATTR4_SIZE])));
});
const STATFSES: HangCase = HangCase::new(STATFS, |client, file| {
    drop(client.getattr(&file.handle, Bitmap4::of(&[FATTR4_SPACE_FREE])));
});
const OPENS: HangCase = HangCase::new(OPEN, |client, _| {
    drop(client.open_path(&format!("/foreign/{NAME}"), &OpenHow::read()));
});
const READS: HangCase =
    HangCase::new(READ, |client, file| drop(client.read(&file.handle, file.stateid, 0, 100)));
const WRITES: HangCase = HangCase::new(WRITE, |client, file| {
    drop(client.write(&file.handle, file.stateid, 0, UNSTABLE4, DATA));
});
const FSYNCS: HangCase = HangCase::new(FSYNC, |client, file| {
    drop(client.write(&file.handle, file.stateid, 0, FILE_SYNC4, DATA));
});
const LOCKS: HangCase =
    HangCase::new(SETLK, |client, file| drop(client.lock(file, b"owner", WRITE_LT, 0, 1)));
const FLUSHES: HangCase = HangCase::new(FLUSH, |client, file| drop(client.close_file(file)));
const RELEASES: HangCase = HangCase::new(RELEASE, |client, file| drop(client.close_file(file)));
const ALL: HangCase = HangCase::new(EVERYTHING, |client, _| drop(client.lookup_path("/foreign/absent")));
const READDIRS: HangCase = HangCase::new(OPENDIR, |client, _| {
    let (root, _) = client.lookup_path("/foreign").expect("its attributes are no part of this");
    drop(client.readdir(&root, Bitmap4::of(&[])));
});

/// A server with a file system that can hang as `/foreign` and a folder as `/own`.
struct HangingWorld {
    server: Server,
    /// A server that cannot be ended while its file system hangs.
    former: Option<Server>,
    fuse: Fuse,
    folder: TempDir,
    own: TempDir,
}

/// The weight of `/foreign`, ten times that of `/own`. While its calls hang, it takes no thread
/// from another export.
const WEIGHT: u32 = 1000;

/// A server of these exports that keeps its state below `folder`.
fn serve(folder: &Path, exports: &[(&Path, &str)]) -> Serve {
    let config = write_settings(folder, exports);
    Serve::new(folder.join("state")).arg("--config").arg(&config)
}

/// Writes a configuration file with these exports.
fn write_settings(folder: &Path, exports: &[(&Path, &str)]) -> PathBuf {
    let mut text = String::from("grace_time = 0\n");
    for (path, pseudo) in exports {
        let export = format!("path = {path:?}\npseudo = {pseudo:?}\nsec = [\"sys\"]\nsecure = false\n");
        text.push_str(&format!("[[export]]\n{export}"));
        if *pseudo == "/foreign" {
            text.push_str(&format!("weight = {WEIGHT}\n"));
        }
    }
    let config = folder.join("orthrus.toml");
    fs::write(&config, text).expect("the folder is ours");
    config
}

impl HangingWorld {
    /// The reason where no such file system can be mounted.
    fn new(heeds_interrupts: bool) -> Result<Self, String> {
        let fuse = Fuse::mount(FuseTraits { heeds_interrupts, ..FuseTraits::default() })?;
        let (folder, own) = (empty_folder(), empty_folder());
        fs::set_permissions(own.path(), fs::Permissions::from_mode(0o777)).expect("the folder is ours");
        let exports = [(fuse.path(), "/foreign"), (own.path(), "/own")];
        let server = serve(folder.path(), &exports).start();
        Ok(Self { server, former: None, fuse, folder, own })
    }

    fn options(&self) -> Options {
        let options = Options::new("127.0.0.1", Security::sys_as(USER, USER)).port(self.server.port());
        // A server that has gone does not come back.
        Options {
            call_timeout: PATIENCE,
            reconnect_max: Duration::ZERO,
            delay_max: Duration::ZERO,
            ..options
        }
    }

    /// Starts clients that wait for requests of a kind that hangs, while others are served.
    fn hang(&self, case: HangCase) -> Vec<std::thread::JoinHandle<()>> {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let mut client =
                Client::connect(Options { delay_max: PATIENCE, ..self.options() }).expect("it serves");
            let how = OpenHow { access: nfs4::OPEN4_SHARE_ACCESS_BOTH, ..OpenHow::new(0) };
            let file = client.open_path(&format!("/foreign/{NAME}"), &how).expect("it is there");
            clients.push((client, file));
        }
        match case.opcode {
            EVERYTHING => self.fuse.hang_everywhere(),
            opcode => {
                assert!(HANGS.contains(&opcode), "the list of all kinds lacks {opcode}");
                self.fuse.hang_in(opcode);
            }
        }
        let hang = |(mut client, file): (Client, OpenFile)| {
            std::thread::spawn(move || (case.run)(&mut client, &file))
        };
        let threads = clients.into_iter().map(hang).collect();
        let end = Instant::now() + PATIENCE;
        while !self.fuse.swallowed().iter().any(|opcode| [EVERYTHING, *opcode].contains(&case.opcode)) {
            assert!(Instant::now() < end, "no request {} has come: {:?}", case.opcode, self.fuse.swallowed());
            std::thread::sleep(Duration::from_millis(5));
        }
        threads
    }

    /// Everything that a client does on the other export works, on several connections.
    fn goes_on(&self) {
        for turn in 0..4 {
            // A successor has a grace period.
            let options = Options { connections: 2, delay_max: PATIENCE, ..self.options() };
            let mut files = Filesystem::mount(options, "/own").expect("it is exported");
            let name = format!("file{turn}");
            files.write_file(&name, b"own").expect("there is room");
            assert_eq!(files.read_file(&name).expect("it is there"), b"own");
            files.remove(&name).expect("it is there");
            files.unmount().expect("it is there");
        }
    }
}

impl Drop for HangingWorld {
    fn drop(&mut self) {
        // A process that waits for a file system that hangs cannot be killed before.
        (self.fuse.end())();
    }
}

/// Runs a test of all cases at once, each with a server of its own.
fn each(cases: &[HangCase], heeds_interrupts: bool, test: fn(HangCase, HangingWorld)) {
    in_own_mounts(|| {
        std::thread::scope(|scope| {
            for case in cases {
                match HangingWorld::new(heeds_interrupts) {
                    Ok(world) => drop(scope.spawn(|| test(*case, world))),
                    Err(why) => return println!("skipped: {why}"),
                }
            }
        });
    });
}

#[test]
fn sigterm_ends_a_server_in_time_whatever_its_file_system_hangs_in() // docs/serve.md, Signals
{
    let cases = [LOOKUPS, GETATTRS, STATFSES, OPENS, READS, WRITES, FSYNCS, LOCKS, RELEASES, READDIRS];
    each(&cases, true, |case, mut world| {
        let waiting = world.hang(case);
        world.goes_on();
        world.server.signal(Signal::SIGTERM);
        let (status, time) = world.server.wait();
        let ended = matches!(status.code(), Some(0 | HUNG_STATUS));
        assert!(ended, "request {}: {status}\n{}", case.opcode, world.server.log());
        assert!(time < END_TIME, "request {}: it took {time:?}", case.opcode);
        waiting.into_iter().for_each(|thread| thread.join().expect("it has no reason to panic"));
    });
}

#[test]
fn a_server_with_a_call_that_hangs_is_not_upgraded_and_serves_on() // docs/upgrade.md
{
    each(&[FSYNCS, GETATTRS], false, |case, mut world| {
        let waiting = world.hang(case);
        let ended = run(&mut world.server.upgrade_command(None));
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        // The next process opens the export, and hangs as well.
        let opens = case.opcode == GETATTR;
        let why = if opens { "does not answer" } else { "call(s) have not ended within 600 ms" };
        assert!(ended.stderr.contains(why), "request {}: {}", case.opcode, ended.stderr);
        world.goes_on();
        (world.fuse.end())();
        waiting.into_iter().for_each(|thread| thread.join().expect("it has no reason to panic"));
        assert!(world.server.is_running());
    });
}

#[test]
fn a_hanging_export_can_be_removed_and_others_changed_by_a_reload() // docs/serve.md, Reload
{
    each(&[ALL], true, |case, world| {
        let waiting = world.hang(case);
        let state = world.folder.path().join("state");
        let reload = || run(orthrus(["reload", "--state-dir"]).arg(&state));
        let (own, foreign) = ((world.own.path(), "/own"), (world.fuse.path(), "/foreign"));
        write_settings(world.folder.path(), &[foreign, own, (world.own.path(), "/more")]);
        let ended = reload();
        assert!(ended.status.success() && ended.stdout.contains("added: /more"), "{ended:?}");
        world.goes_on();
        write_settings(world.folder.path(), &[own]);
        let ended = reload();
        assert!(ended.status.success() && ended.stdout.contains("removed: /foreign"), "{ended:?}");
        world.goes_on();
        (world.fuse.end())();
        waiting.into_iter().for_each(|thread| thread.join().expect("it has no reason to panic"));
    });
}

#[test]
fn traces_of_a_file_that_hangs_leave_reports_and_changes_alone() // docs/monitoring.md, Traces
{
    each(&[ALL], true, |case, world| {
        let waiting = world.hang(case);
        let state = world.folder.path().join("state");
        let ask = |arguments: &[&str]| run(orthrus(arguments).arg("--state-dir").arg(&state));
        std::thread::scope(|scope| {
            let traces: Vec<_> =
                (0..5).map(|_| scope.spawn(|| ask(&["trace", "--file", "/foreign/absent"]))).collect();
            for trace in traces {
                let ended = trace.join().expect("it has no reason to panic");
                assert!(ended.stderr.contains("does not answer"), "{ended:?}");
            }
        });
        for arguments in [&["clients"][..], &["drain", "--no-wait"]] {
            let ended = ask(arguments);
            assert!(ended.status.success(), "{arguments:?}: {ended:?}");
        }
        (world.fuse.end())();
        waiting.into_iter().for_each(|thread| thread.join().expect("it has no reason to panic"));
    });
}

#[test]
fn a_slow_call_is_logged_with_its_operation_user_export_and_stages() {
    each(&[READS, FSYNCS], true, |case, world| {
        let waiting = world.hang(case);
        std::thread::sleep(Duration::from_millis(1200));
        // The requests end with an error.
        (world.fuse.end())();
        waiting.into_iter().for_each(|thread| thread.join().expect("it has no reason to panic"));
        let operation = if case.opcode == READ { "READ" } else { "WRITE" };
        let text = format!("slow: {operation} of \"sys:{USER}\" on /foreign took 1.");
        world.server.wait_for_log(&text);
        let log = world.server.log();
        let line = log.lines().find(|line| line.contains(&text)).expect("it is there");
        assert!(line.contains("WARN") && line.contains(" s until a thread was free, "), "{line}");
        assert!(world.server.counter("slow_calls") >= 1);
    });
}

/// Linux ends no process that waits for a FUSE request which its daemon has read and answers not
/// even when it is interrupted, nor one that closes a file while FUSE_FLUSH hangs.
#[test]
fn a_server_that_the_kernel_cannot_end_leaves_port_and_state_to_its_successor()
// docs/serve.md, Signals
{
    each(&[GETATTRS, READS, WRITES, FLUSHES, ALL], false, |case, mut world| {
        let waiting = world.hang(case);
        world.goes_on();
        world.server.signal(Signal::SIGTERM);
        let (address, end) = (world.server.address(), Instant::now() + END_TIME);
        while TcpListener::bind(address).is_err() {
            assert!(Instant::now() < end, "request {}: it still listens", case.opcode);
            std::thread::sleep(Duration::from_millis(20));
        }
        let state = || fs::File::open(world.folder.path().join("state/lock")).expect("the server made it");
        while Flock::lock(state(), FlockArg::LockExclusiveNonblock).is_err() {
            assert!(Instant::now() < end, "request {}: it keeps the state folder", case.opcode);
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(world.server.is_running(), "request {}: the kernel could end it", case.opcode);
        let exports = [(world.own.path(), "/own")];
        let successor = serve(world.folder.path(), &exports).listen(address).start();
        world.former = Some(std::mem::replace(&mut world.server, successor));
        world.goes_on();
        waiting.into_iter().for_each(|thread| thread.join().expect("it has no reason to panic"));
    });
}
