//! The clients of a soak: each with a session of its own, a few threads for all of them.

use client::{Client, Error, Lock, OpenFile, OpenHow, Options};
use nfs4::{NfsLockType4, StableHow4};
use rng::SplitMix64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// Threads; each has its part of the sessions.
pub(super) const THREADS: usize = 4;
/// Files that a client has open at most.
const OPENS: usize = 3;
/// Errors that are kept.
const ERRORS_KEPT: usize = 20;

/// The clients' activities, in the order of [`SoakCounts`].
const NAMES: [&str; 9] = [
    "contexts and sessions made",
    "sessions ended",
    "clients cut off",
    "connections cut",
    "opens",
    "closes",
    "locks",
    "unlocks",
    "reads and writes",
];

/// How often each was done.
type SoakCounts = [u64; NAMES.len()];

/// The clients at work.
pub(super) struct Load {
    threads: Vec<JoinHandle<(SoakCounts, Vec<String>)>>,
    shared: Arc<SoakShared>,
    sessions: usize,
}

#[derive(Default)]
struct SoakShared {
    ends: AtomicBool,
    connected: AtomicUsize,
    /// Threads that have given up.
    broken: AtomicUsize,
}

/// A client, and its state between turns.
struct Seat {
    number: usize,
    options: Options,
    client: Option<Client>,
    opens: Vec<(OpenFile, Option<Lock>)>,
}

struct SoakWorker {
    shared: Arc<SoakShared>,
    random: SplitMix64,
    done: SoakCounts,
    errors: Vec<String>,
}

impl Load {
    /// Starts the clients; neighbours have different flavors.
    pub(super) fn start(options: [Options; 4], sessions: usize) -> Self {
        let shared = Arc::<SoakShared>::default();
        let start = |thread: usize| {
            let seats: Vec<Seat> = (thread..sessions)
                .step_by(THREADS)
                .map(|number| {
                    let options =
                        options[number / THREADS % options.len()].clone().connections(1 + number % 2);
                    // The client returns under its former name and replaces its former state.
                    let options = Options {
                        owner: Some(format!("soak-{number}").into_bytes()),
                        slots_max: 4,
                        ..options
                    };
                    Seat { number, options, client: None, opens: Vec::new() }
                })
                .collect();
            let random = SplitMix64(thread as u64);
            let worker = SoakWorker {
                shared: shared.clone(),
                random,
                done: SoakCounts::default(),
                errors: Vec::new(),
            };
            std::thread::spawn(move || worker.run(seats))
        };
        Self { threads: (0..THREADS).map(start).collect(), shared: shared.clone(), sessions }
    }

    /// Waits until all sessions are there, or a thread has given up.
    pub(super) fn wait_until_connected(&self) {
        while self.shared.connected.load(Relaxed) < self.sessions && self.shared.broken.load(Relaxed) == 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Disconnects all clients; returns their counts of activities and their errors.
    pub(super) fn stop(self) -> (Vec<(&'static str, u64)>, Vec<String>) {
        self.shared.ends.store(true, Relaxed);
        let (mut total, mut errors) = (SoakCounts::default(), Vec::new());
        for thread in self.threads {
            let (done, failed) =
                thread.join().unwrap_or_else(|_| (SoakCounts::default(), vec!["a panic".to_owned()]));
            total.iter_mut().zip(done).for_each(|(total, done)| *total += done);
            errors.extend(failed);
        }
        (NAMES.into_iter().zip(total).collect(), errors)
    }
}

impl SoakWorker {
    fn run(mut self, mut seats: Vec<Seat>) -> (SoakCounts, Vec<String>) {
        while !self.shared.ends.load(Relaxed) && self.errors.len() < ERRORS_KEPT {
            for seat in &mut seats {
                let result = if seat.client.is_none() { self.connect(seat) } else { self.step(seat) };
                self.keep(seat.number, result);
                if self.shared.ends.load(Relaxed) {
                    break;
                }
            }
        }
        self.shared.broken.fetch_add(1, Relaxed);
        for seat in &mut seats {
            // A client that was cut off left state behind, which its return removes.
            let back = if seat.client.is_none() { self.connect(seat) } else { Ok(()) };
            let result = back.and_then(|()| self.leave(seat));
            self.keep(seat.number, result);
        }
        (self.done, self.errors)
    }

    fn keep(&mut self, number: usize, result: Result<(), Error>) {
        if let Err(error) = result {
            self.errors.push(format!("session {number}: {error}"));
        }
    }

    /// Draws a number below `end`.
    fn draw(&mut self, end: usize) -> usize {
        self.random.index(end)
    }

    fn connect(&mut self, seat: &mut Seat) -> Result<(), Error> {
        seat.client = Some(Client::connect(seat.options.clone())?);
        self.done[0] += 1;
        self.shared.connected.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Closes everything and ends session, client and context.
    fn leave(&mut self, seat: &mut Seat) -> Result<(), Error> {
        let Some(mut client) = seat.client.take() else { return Ok(()) };
        for (open, lock) in seat.opens.drain(..) {
            if let Some(mut lock) = lock {
                client.unlock(&open.handle, &mut lock, 0, u64::MAX)?;
                self.done[7] += 1;
            }
            client.close_file(&open)?;
            self.done[5] += 1;
        }
        self.done[1] += 1;
        client.close()
    }

    fn step(&mut self, seat: &mut Seat) -> Result<(), Error> {
        match self.draw(100) {
            0..2 => {
                self.leave(seat)?;
                self.connect(seat)
            }
            // As if the machine had lost its power; the next life takes the place of this one.
            2..4 => {
                seat.opens.clear();
                seat.client = None;
                self.done[2] += 1;
                self.connect(seat)
            }
            4..6 => {
                if let Some(client) = &mut seat.client {
                    client.cut_connection(0);
                    self.done[3] += 1;
                }
                Ok(())
            }
            6..35 => self.open(seat),
            35..55 => self.close(seat),
            55..75 => self.lock(seat),
            _ => self.transfer(seat),
        }
    }

    fn open(&mut self, seat: &mut Seat) -> Result<(), Error> {
        if seat.opens.len() >= OPENS {
            return self.close(seat);
        }
        // Some files are the client's own, some are everybody's.
        let name = match self.draw(3) {
            0 => format!("shared-{}", self.draw(20)),
            file => format!("own-{}-{file}", seat.number),
        };
        let Some(client) = &mut seat.client else { return Ok(()) };
        let (directory, _) = client.lookup_path("/export")?;
        let mut how = OpenHow::create(0o666);
        if let client::Create::Unchecked(values) = &mut how.create {
            values.size = None;
        }
        seat.opens.push((client.open(&directory, name.as_bytes(), &how)?, None));
        self.done[4] += 1;
        Ok(())
    }

    fn close(&mut self, seat: &mut Seat) -> Result<(), Error> {
        let Some((open, lock)) = seat.opens.pop() else { return Ok(()) };
        let Some(client) = &mut seat.client else { return Ok(()) };
        if let Some(mut lock) = lock {
            client.unlock(&open.handle, &mut lock, 0, u64::MAX)?;
            self.done[7] += 1;
        }
        client.close_file(&open)?;
        self.done[5] += 1;
        Ok(())
    }

    fn lock(&mut self, seat: &mut Seat) -> Result<(), Error> {
        // Mostly its own ranges, so that few clients wait.
        let (at, number) = (self.draw(8) as u64 * 100, seat.number as u64 * 1000);
        let kind = if self.draw(2) == 0 { NfsLockType4::READ_LT } else { NfsLockType4::WRITE_LT };
        let offset = if self.draw(10) == 0 { at } else { number + at };
        let Some((open, lock)) = seat.opens.last_mut() else { return self.open(seat) };
        let Some(client) = &mut seat.client else { return Ok(()) };
        match lock {
            Some(lock) => drop(client.lock_more(&open.handle, lock, kind, offset, 150)?),
            None => *lock = client.lock(open, b"locker", kind, offset, 150)?.ok(),
        }
        self.done[6] += 1;
        Ok(())
    }

    fn transfer(&mut self, seat: &mut Seat) -> Result<(), Error> {
        let (size, stable) = (1 + self.draw(8192), self.draw(20) == 0);
        // Where no other client has a lock.
        let offset = (1 << 30) + seat.number as u64 * 8192;
        let Some((open, _)) = seat.opens.last() else { return self.open(seat) };
        let Some(client) = &mut seat.client else { return Ok(()) };
        let stable = if stable { StableHow4::FILE_SYNC4 } else { StableHow4::UNSTABLE4 };
        client.write(&open.handle, open.stateid, offset, stable, &vec![seat.number as u8; size])?;
        client.read(&open.handle, open.stateid, offset, 4096)?;
        self.done[8] += 2;
        Ok(())
    }
}
