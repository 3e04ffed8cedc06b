//! Restarts under load: acknowledged operations are executed once, others once or not at all.

use crate::crashes::CrashRandom;
use crate::restart::{is_outage, reclaimed};
use client::{Client, Error, Flavor, Handle, OpenFile, OpenHow, Options};
use e2e::in_world;
use nfs4::Nfsstat4::{NFS4ERR_EXIST, NFS4ERR_NOENT};
use nfs4::StableHow4::FILE_SYNC4;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Clients that work at the same time.
const WORKERS: usize = 3;
/// Times that the server is killed.
const CRASHES: u32 = 5;

/// A client whose changes differ from their repetitions: it makes, gives away and takes back names
/// in turns, and keeps a log.
struct NamesWorker<'a> {
    name: usize,
    client: Client,
    folder: Handle,
    log: OpenFile,
    lines: String,
    done: &'a AtomicU64,
    restarts: u32,
}

/// The outcome of an operation whose reply may have been lost.
enum RetriedOutcome {
    Done,
    /// It failed as it does when it is done a second time.
    DoneBefore,
}

impl NamesWorker<'_> {
    fn start(options: Options, name: usize, done: &AtomicU64) -> NamesWorker<'_> {
        let mut client = Client::connect(options).expect("a session");
        let folder = client.lookup_path("/export").expect("it is exported").0;
        let how = OpenHow::create_new(0o600).owner(format!("log-{name}"));
        let log = client.open(&folder, format!("log-{name}").as_bytes(), &how).expect("a new name");
        NamesWorker { name, client, folder, log, lines: String::new(), done, restarts: 0 }
    }

    fn run(&mut self, stop: &AtomicBool) {
        let (a, b, c) = (format!("a-{}", self.name), format!("b-{}", self.name), format!("c-{}", self.name));
        let mut round = 0;
        while !stop.load(Ordering::SeqCst) {
            self.change(NFS4ERR_EXIST, |worker| worker.create(&a));
            self.look(&a, true);
            self.change(NFS4ERR_EXIST, |worker| worker.link(&a, &c));
            self.change(NFS4ERR_NOENT, |worker| worker.rename(&a, &b));
            self.look(&a, false);
            self.look(&b, true);
            // A RENAME or a REMOVE that came a second time would take these away.
            self.change(NFS4ERR_EXIST, |worker| worker.create(&a));
            self.change(NFS4ERR_NOENT, |worker| worker.remove(&c));
            self.look(&c, false);
            self.look(&a, true);
            self.change(NFS4ERR_NOENT, |worker| worker.remove(&a));
            self.look(&b, true);
            round += 1;
            self.append(&format!("{} round {round}\n", self.name));
        }
        self.client.close_file(&self.log).expect("it is open");
    }

    fn create(&mut self, name: &str) -> Result<(), Error> {
        let how = OpenHow::create_new(0o600);
        let file = self.client.open(&self.folder, name.as_bytes(), &how)?;
        self.client.close_file(&file)
    }

    fn link(&mut self, name: &str, new: &str) -> Result<(), Error> {
        let mut folder = self.client.compound();
        folder.putfh(&self.folder).lookup(name.as_bytes()).savefh().putfh(&self.folder).link(new.as_bytes());
        self.client.call(folder)?.check()
    }

    fn rename(&mut self, name: &str, new: &str) -> Result<(), Error> {
        self.client.rename(&self.folder, name.as_bytes(), &self.folder, new.as_bytes())
    }

    fn remove(&mut self, name: &str) -> Result<(), Error> {
        self.client.remove(&self.folder, name.as_bytes()).map(drop)
    }

    /// Makes a change that must succeed, or fail with `before` if an attempt without an answer has
    /// made it.
    fn change(&mut self, before: nfs4::Nfsstat4, run: impl Fn(&mut Self) -> Result<(), Error>) {
        let mut attempts = 0;
        let outcome = loop {
            attempts += 1;
            match run(self) {
                Ok(()) => break RetriedOutcome::Done,
                Err(error) if error.is(before) && attempts > 1 => break RetriedOutcome::DoneBefore,
                Err(error) => {
                    assert!(is_outage(&error), "worker {}, attempt {attempts}: {error}", self.name);
                    self.recover();
                }
            }
        };
        let count = matches!(outcome, RetriedOutcome::Done | RetriedOutcome::DoneBefore);
        self.done.fetch_add(u64::from(count), Ordering::SeqCst);
    }

    /// Whether a name is there must be known.
    fn look(&mut self, name: &str, there: bool) {
        loop {
            match self.client.lookup_path(&format!("/export/{name}")) {
                Ok(_) => return assert!(there, "{name} is there"),
                Err(error) if error.is(NFS4ERR_NOENT) => return assert!(!there, "{name} is gone"),
                Err(error) => {
                    assert!(is_outage(&error), "{error}");
                    self.recover();
                }
            }
        }
    }

    fn append(&mut self, line: &str) {
        let at = self.lines.len() as u64;
        loop {
            let (handle, stateid) = (&self.log.handle, self.log.stateid);
            match self.client.write(handle, stateid, at, FILE_SYNC4, line.as_bytes()) {
                Ok(written) => {
                    assert_eq!(written.count as usize, line.len());
                    return self.lines.push_str(line);
                }
                Err(error) => {
                    assert!(is_outage(&error), "{error}");
                    self.recover();
                }
            }
        }
    }

    fn recover(&mut self) {
        self.log = reclaimed(&mut self.client, &self.log);
        self.restarts += 1;
    }
}

#[test]
fn restarts_under_load_lose_nothing_and_repeat_nothing() {
    // RFC 8881 sections 2.10.6.2 (a session ends with its server: no request of it is carried out
    // later) and 8.4.2.1
    in_world(|world| {
        let mut server = world.server().start();
        let mut random = CrashRandom::seeded("restarts under load");
        let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let options = world.options(&server, "alice", Flavor::Krb5p).connections(4);
        let workers: Vec<NamesWorker<'_>> =
            (0..WORKERS).map(|name| NamesWorker::start(options.clone(), name, &done)).collect();
        std::thread::scope(|scope| {
            let running: Vec<_> = workers
                .into_iter()
                .map(|mut worker| {
                    let stop = &stop;
                    scope.spawn(move || {
                        worker.run(stop);
                        worker
                    })
                })
                .collect();
            for _ in 0..CRASHES {
                let more = done.load(Ordering::SeqCst) + 20 + random.below(60) as u64;
                let end = Instant::now() + Duration::from_secs(60);
                while done.load(Ordering::SeqCst) < more && !running.iter().any(|worker| worker.is_finished())
                {
                    assert!(Instant::now() < end, "the clients go on no more");
                    std::thread::sleep(Duration::from_micros(200));
                }
                std::thread::sleep(Duration::from_micros(random.below(3000) as u64));
                server.kill();
                server.restart();
            }
            stop.store(true, Ordering::SeqCst);
            for worker in running {
                let worker = worker.join().expect("it says itself what is wrong");
                assert!(worker.restarts >= CRASHES, "{} restarts", worker.restarts);
                let log =
                    fs::read_to_string(world.export().join(format!("log-{}", worker.name))).expect("text");
                assert_eq!(log, worker.lines, "the log of worker {}", worker.name);
            }
        });
        println!("{} changes over {CRASHES} restarts", done.load(Ordering::SeqCst));
        let mut left: Vec<_> = fs::read_dir(world.export())
            .expect("it is there")
            .map(|entry| entry.expect("it can be read").file_name().into_string().expect("text"))
            .collect();
        left.sort();
        let kinds = ["b", "log"].into_iter();
        let expected: Vec<_> =
            kinds.flat_map(|kind| (0..WORKERS).map(move |name| format!("{kind}-{name}"))).collect();
        assert_eq!(left, expected);
    });
}
