//! Delegations between two clients of the program, over real connections.

use client::{CallbackAnswer, Client, Damage, OpenHow, Options};
use client::{Flavor, Security};
use e2e::{Serve, in_world};
use e2e::{Server, World, account, empty_folder, is_root};
use nfs4::{
    AttributeValues, Bitmap4, CbGetattr4Res, CbGetattr4Resok, FATTR4_SIZE, NfsCbArgop4, NfsCbResop4,
    Nfsstat4, OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_ACCESS_WRITE, OpenDelegation4, Stateid4, attributes,
};
use nix::unistd::chown;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time limit for an expected event.
const PATIENCE: Duration = Duration::from_secs(20);

/// The file of most tests.
const PATH: &str = "/export/file";

/// Opens for reading and returns the delegation's stateid.
fn delegated(client: &mut Client, path: &str) -> (client::OpenFile, Stateid4) {
    let how = OpenHow { access: OPEN4_SHARE_ACCESS_READ, ..OpenHow::new(0) };
    let file = client.open_path(path, &how).expect("it may be read");
    match &file.delegation {
        OpenDelegation4::OPEN_DELEGATE_READ(read) => (file.clone(), read.stateid),
        other => panic!("{other:?}"),
    }
}

/// Answers callbacks until a recall has come.
pub(crate) fn recalled(client: &mut Client) -> Stateid4 {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        client.serve_callbacks(Duration::from_millis(20)).expect("the system helps");
        if let Some(stateid) = client.take_recalls().pop() {
            return stateid;
        }
    }
    panic!("no recall in {PATIENCE:?}");
}

/// Opens the file for writing on a thread of its own, and waits there until it may.
fn writer(options: Options, path: &str) -> thread::JoinHandle<()> {
    let path = path.to_owned();
    thread::spawn(move || {
        let mut client = Client::connect(options).expect("the server is there");
        let how = OpenHow::new(OPEN4_SHARE_ACCESS_WRITE);
        let file = client.open_path(&path, &how).expect("it may be written in the end");
        client.close_file(&file).expect("it is open");
        client.close().expect("it is there");
    })
}

fn begin(options: &Options, path: &str) -> Client {
    let mut client = Client::connect(Options { backchannel: true, ..options.clone() }).expect("it is there");
    let file = client.open_path(path, &OpenHow::create(0o644)).expect("it is a new name");
    client.close_file(&file).expect("it is open");
    client
}

#[test]
fn a_delegation_is_granted_recalled_and_given_back_with_each_flavor() {
    // RFC 8881 sections 10.4 and 20.2
    in_world(|world: &World| {
        for flavor in [Flavor::Sys, Flavor::Krb5, Flavor::Krb5p] {
            let server = world.server().args(["--delegations", "all"]).start();
            let options = world.options(&server, "alice", flavor);
            // By the context where there is one, as a client may ask for.
            let mut alice = begin(&Options { callback_service: flavor.service(), ..options.clone() }, PATH);
            let (file, stateid) = delegated(&mut alice, PATH);
            alice.close_file(&file).expect("it is open");
            alice.read(&file.handle, stateid, 0, 10).expect("the delegation reads");
            let writer = writer(options, PATH);
            assert_eq!(recalled(&mut alice), stateid);
            alice.delegreturn(&file.handle, stateid).expect("it is hers");
            writer.join().expect("the writer gets its turn");
            alice.close().expect("it is there");
        }
    });
}

#[test]
fn the_server_calls_back_by_the_clients_context_and_believes_no_broken_answer() {
    // RFC 8881 sections 2.10.8.2 and 18.36.3, RFC 2203 section 5.3.3.2
    in_world(|world: &World| {
        let server = world.server().args(["--delegations", "all"]).start();
        for flavor in [Flavor::Krb5, Flavor::Krb5i, Flavor::Krb5p] {
            let path = format!("/export/file-{flavor}");
            let options = world.options(&server, "alice", flavor);
            let mut alice = begin(&Options { callback_service: flavor.service(), ..options.clone() }, &path);
            let (file, stateid) = delegated(&mut alice, &path);
            let (known, strange) = ("callback_replies", "unexpected_replies");
            let before = (server.counter(known), server.counter(strange));
            let broken = if flavor == Flavor::Krb5 { Damage::Verifier } else { Damage::Body };
            alice.damage_callback_answers(broken);
            let writer = writer(options, &path);
            assert_eq!(recalled(&mut alice), stateid, "{flavor}");
            let begin = Instant::now();
            while server.counter(strange) == before.1 && begin.elapsed() < PATIENCE {
                alice.serve_callbacks(Duration::from_millis(20)).expect("the system helps");
            }
            assert_eq!(
                (server.counter(known), server.counter(strange)),
                (before.0, before.1 + 1),
                "{flavor}"
            );
            alice.damage_callback_answers(Damage::None);
            alice.close_file(&file).expect("it is open");
            alice.delegreturn(&file.handle, stateid).expect("it is hers");
            writer.join().expect("the writer gets its turn");
            alice.close().expect("it is there");
        }
    });
}

#[test]
fn attributes_of_a_file_that_another_writes_take_one_request() {
    // RFC 8881 section 10.4.3
    let folder = empty_folder();
    let (server, options) = plain(folder.path(), "60");
    let mut alice = begin(&options, PATH);
    let file = alice.open_path(PATH, &OpenHow { access: 3, ..OpenHow::new(0) }).expect("it may be written");
    assert!(matches!(file.delegation, OpenDelegation4::OPEN_DELEGATE_WRITE(_)), "{file:?}");
    alice.on_callback(|operation| match operation {
        NfsCbArgop4::OP_CB_GETATTR(_) => {
            let says = AttributeValues { change: Some(u64::MAX / 2), size: Some(4711), ..Default::default() };
            let obj_attributes = attributes::fattr4(&says.present(), &says);
            CallbackAnswer::Result(NfsCbResop4::OP_CB_GETATTR(CbGetattr4Res::NFS4_OK(CbGetattr4Resok {
                obj_attributes,
            })))
        }
        _ => CallbackAnswer::Status(Nfsstat4::NFS4_OK),
    });
    let handle = file.handle.clone();
    let bob = thread::spawn(move || {
        let mut bob = Client::connect(options).expect("the server is there");
        let mut compound = bob.compound();
        compound.putfh(&handle).getattr(Bitmap4::of(&[FATTR4_SIZE]));
        let reply = bob.call(compound).expect("an answer");
        reply.check().expect("not NFS4ERR_DELAY");
        bob.getattr(&handle, Bitmap4::of(&[FATTR4_SIZE])).expect("attributes")
    });
    let begin = Instant::now();
    while !bob.is_finished() && begin.elapsed() < PATIENCE {
        alice.serve_callbacks(Duration::from_millis(5)).expect("the system helps");
    }
    let seen = bob.join().expect("bob gets his answer");
    assert_eq!(seen.values().expect("attributes").size, Some(4711));
    assert_eq!(server.counter("answers_waiting"), 0);
}

/// A server without Kerberos, and the options of its only user.
fn plain(folder: &std::path::Path, recall_time: &str) -> (Server, Options) {
    let export = folder.join("export");
    fs::create_dir(&export).expect("the folder is ours");
    let alice = account("alice");
    chown(&export, Some(alice.uid), Some(alice.gid)).expect("root may, and others own it already");
    let server = Serve::new(folder.join("state"))
        .args(["--sec", "sys", "--delegations", "all", "--recall-time", recall_time])
        .arg(&export);
    let server = server.start();
    server.wait_for_log(if is_root() { "the caller's own identity" } else { "serves as user" });
    let security = Security::sys_as(alice.uid.as_raw(), alice.gid.as_raw());
    let options = Options::new("127.0.0.1", security).port(server.port());
    (server, options)
}

#[test]
fn a_recall_reaches_a_client_whose_connection_was_cut_while_it_was_out() {
    // RFC 8881 sections 2.10.6.2 and 2.10.3.1
    let folder = empty_folder();
    let (_server, options) = plain(folder.path(), "60");
    for connections in [1, 2] {
        // A file that was contended a moment ago is not delegated.
        let path = format!("/export/file-{connections}");
        let mut alice = begin(&Options { connections, ..options.clone() }, &path);
        let (file, stateid) = delegated(&mut alice, &path);
        let (heard, silent) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
        let (count, mute) = (heard.clone(), silent.clone());
        alice.on_callback(move |operation| {
            let recall = matches!(operation, NfsCbArgop4::OP_CB_RECALL(_));
            count.fetch_add(usize::from(recall), Ordering::SeqCst);
            match mute.load(Ordering::SeqCst) && recall {
                true => CallbackAnswer::Silence,
                false => CallbackAnswer::Status(Nfsstat4::NFS4_OK),
            }
        });
        let writer = writer(options.clone(), &path);
        let begin = Instant::now();
        while heard.load(Ordering::SeqCst) == 0 && begin.elapsed() < PATIENCE {
            alice.serve_callbacks(Duration::from_millis(20)).expect("the system helps");
        }
        assert!(!writer.is_finished(), "the writer waits for the delegation");
        silent.store(false, Ordering::SeqCst);
        for index in 0..connections {
            alice.cut_connection(index);
        }
        assert_eq!(recalled(&mut alice), stateid, "{connections} connections");
        alice.delegreturn(&file.handle, stateid).expect("it is hers");
        writer.join().expect("the writer gets its turn");
        alice.close_file(&file).expect("it is open");
        alice.close().expect("it is there");
    }
}

#[test]
fn a_client_that_keeps_a_delegation_loses_it_so_that_others_can_go_on() {
    // RFC 8881 section 10.4.6
    let folder = empty_folder();
    let (_server, options) = plain(folder.path(), "1");
    let mut alice = begin(&options, PATH);
    let (file, stateid) = delegated(&mut alice, PATH);
    let writer = writer(options, PATH);
    assert_eq!(recalled(&mut alice), stateid);
    let begin = Instant::now();
    while !writer.is_finished() && begin.elapsed() < PATIENCE {
        alice.serve_callbacks(Duration::from_millis(100)).expect("the system helps");
    }
    writer.join().expect("the writer gets its turn");
    let read = alice.read(&file.handle, stateid, 0, 10);
    assert_eq!(e2e::status(read), Nfsstat4::NFS4ERR_DELEG_REVOKED);
    assert_ne!(alice.status_flags() & nfs4::SEQ4_STATUS_RECALLABLE_STATE_REVOKED, 0);
    alice.free_stateid(stateid).expect("it is revoked");
    alice.close_file(&file).expect("it is open");
    assert_eq!(alice.status_flags(), 0);
}
