//! Races between several threads that call the server at once.

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

const THREADS: usize = 6;
const ROUNDS: usize = 60;

/// Runs one client on each thread.
fn on_threads(server: &Server, work: impl Fn(&mut Client<'_>, usize) + Sync) {
    thread::scope(|scope| {
        for number in 0..THREADS {
            let work = &work;
            scope.spawn(move || {
                let owner = format!("client-{number}");
                let mut client = Client::with(server, owner.as_bytes(), sys(ALICE), FORE);
                work(&mut client, number);
            });
        }
    });
}

#[test]
fn one_of_many_creates_wins() // RFC 8881 section 18.16.3
{
    let server = Setup::default().start();
    let winners = AtomicUsize::new(0);
    on_threads(&server, |client, _| {
        for round in 0..ROUNDS {
            let how = Openflag4::OPEN4_CREATE(Createhow4::GUARDED4(mode(0o600)));
            let op = open_how(how, by_name(&format!("f{round}")), 3, 0, b"o");
            let status = client.at("export", vec![op]).status;
            assert!(matches!(status, NFS4_OK | NFS4ERR_EXIST), "{status}");
            winners.fetch_add(usize::from(status == NFS4_OK), Ordering::Relaxed);
        }
    });
    assert_eq!(winners.into_inner(), ROUNDS);
}

#[test]
fn creating_and_removing_one_name_never_fails_in_other_ways() // RFC 8881 section 18.16.3
{
    let server = Setup::default().start();
    on_threads(&server, |client, number| {
        for _ in 0..ROUNDS {
            if number % 2 == 0 {
                let status = client.at("export", vec![remove("f")]).status;
                assert!(matches!(status, NFS4_OK | NFS4ERR_NOENT), "{status}");
                continue;
            }
            let reply = client.at("export", vec![open_create("f", 3), getfh()]);
            assert!(matches!(reply.status, NFS4_OK | NFS4ERR_DELAY | NFS4ERR_STALE), "{}", reply.status);
            if reply.status == NFS4_OK {
                let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
                client.run(vec![put(&fh), write(stateid, 0, b"x"), read(stateid, 0, 1), close(stateid)]).ok();
            }
        }
    });
    assert_eq!(server.nfs.counts().opens, 0);
}

#[test]
fn a_deny_holds_among_threads() // RFC 8881 section 9.7
{
    let server = Setup::default().start();
    Client::new(&server).make_file("export", "f", b"");
    let holders = AtomicUsize::new(0);
    on_threads(&server, |client, _| {
        for _ in 0..ROUNDS {
            let reply = client.at("export", vec![open_how(NOCREATE, by_name("f"), 3, 3, b"o"), getfh()]);
            if reply.status == NFS4ERR_SHARE_DENIED {
                continue;
            }
            let reply = reply.ok();
            assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
            thread::yield_now();
            holders.fetch_sub(1, Ordering::SeqCst);
            client.run(vec![put(&reply.fh(0)), close(reply.opened().stateid)]).ok();
        }
    });
}

#[test]
fn a_read_under_way_outlives_the_close_of_its_file() // RFC 8881 section 18.2.4
{
    let server = Setup::default().start();
    let mut first = Client::new(&server);
    let fh = first.make_file("export", "f", &[5; 100_000]);
    for _ in 0..20 {
        let stateid = first.at("export", vec![open("f", 1)]).ok().opened().stateid;
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut all = vec![first.slot_1(), put(&fh)];
                all.extend(vec![read(stateid, 0, 50_000); 8]);
                let reply = server.call(&first.security, 1, first.now, 1, &all);
                assert!(matches!(reply.status, NFS4_OK | NFS4ERR_BAD_STATEID), "{}", reply.status);
                for result in &reply.results {
                    if let NfsResop4::OP_READ(Read4Res::NFS4_OK(ok)) = result {
                        assert_eq!(&*ok.data, &[5; 50_000][..]);
                    }
                }
            });
            let mut ops = vec![first.sequence_for(first.sequence + 1)];
            ops.extend([put(&fh), close(stateid)]);
            server.call(&first.security, 1, first.now, 1, &ops).ok();
            reader.join().unwrap();
        });
        first.sequence += 1;
    }
    assert_eq!(server.nfs.counts().opens, 0);
}

impl Client<'_> {
    fn sequence_for(&self, sequenceid: u32) -> Op {
        let NfsArgop4::OP_SEQUENCE(mut args) = self.sequence_again() else { panic!() };
        args.sa_sequenceid = sequenceid;
        NfsArgop4::OP_SEQUENCE(args)
    }

    /// Returns a SEQUENCE on slot 1, used once for each of slot 0's rounds.
    fn slot_1(&self) -> Op {
        static USED: AtomicUsize = AtomicUsize::new(0);
        let NfsArgop4::OP_SEQUENCE(mut args) = self.sequence_again() else { panic!() };
        args.sa_slotid = 1;
        args.sa_highest_slotid = 1;
        args.sa_sequenceid = u32::try_from(USED.fetch_add(1, Ordering::Relaxed) + 1).unwrap();
        NfsArgop4::OP_SEQUENCE(args)
    }
}
