//! File systems that lack what the server's promises need, as mounts of cluster file systems may.

use crate::foreign::fuse;
use crate::fuse::{DATA, Fuse, FuseTraits, NAME};
use crate::helper::*;
use crate::local::folder;
use nfs4::NfsLockType4::{READ_LT, WRITE_LT};
use nfs4::Nfsstat4::*;
use nfs4::*;
use nix::errno::Errno;
use orthrus_server::engine::{Delegations, NfsConfig};
use std::sync::Arc;
use vfs::Export;
use vfs_local::{Limitation, LocalBackend, LocalOptions};

/// A server that exports the file system.
fn server(fuse: &Fuse, config: NfsConfig) -> Server {
    Setup { config, ..Setup::with_exports(vec![folder("/foreign", fuse.path())]) }.start()
}

/// A server that commits changes of names, as it does by default.
fn stable_server(fuse: &Fuse) -> Server {
    let options = LocalOptions { stable_names: true, ..LocalOptions::default() };
    let backend = Arc::new(LocalBackend::open(fuse.path(), &options).unwrap());
    Setup::with_exports(vec![all_flavors(Export::new("/foreign", backend).unwrap())]).start()
}

fn without_locks(error: Errno) -> FuseTraits {
    FuseTraits { lock_error: Some(error), ..FuseTraits::default() }
}

fn limitations(fuse: &Fuse) -> Vec<Limitation> {
    LocalBackend::open(fuse.path(), &LocalOptions::default()).unwrap().limitations().to_vec()
}

/// Opens the file for a client; returns its filehandle and the stateid.
fn open_file(client: &mut Client<'_>) -> (Vec<u8>, Stateid4) {
    let reply = client.at("foreign", vec![open(NAME, 3), getfh()]).ok();
    (reply.fh(0), reply.opened().stateid)
}

fn change_of(client: &mut Client<'_>, fh: &[u8]) -> u64 {
    client.run(vec![put(fh), getattr(&[FATTR4_CHANGE])]).ok().attributes().change.unwrap()
}

#[test]
fn missing_features_of_a_file_system_are_found_before_it_is_served() {
    let Some(whole) = fuse(FuseTraits::default()) else { return };
    let of_fuse = [Limitation::Foreign("fuse".into()), Limitation::HandlesOfDaemon, Limitation::WholeSeconds];
    assert_eq!(limitations(&whole), of_fuse);
    let without = fuse(without_locks(Errno::ENOLCK)).unwrap();
    let Some(Limitation::NoLocks(error)) = limitations(&without).pop() else { panic!("its locks fail") };
    assert!(error.contains("locks"), "{error}");
    // A file system of this machine has it all.
    let local = crate::local::Folder::new();
    let backend = LocalBackend::open(local.path(), &LocalOptions::default()).unwrap();
    assert_eq!(backend.limitations(), []);
}

#[test]
fn a_lock_that_the_file_system_cannot_keep_is_refused_and_never_delayed() // RFC 8881 section 18.10
{
    for error in [Errno::ENOSYS, Errno::ENOLCK] {
        let Some(fuse) = fuse(without_locks(error)) else { return };
        let server = server(&fuse, NfsConfig::default());
        let mut client = Client::new(&server);
        let (fh, stateid) = open_file(&mut client);
        // NFS4ERR_NOTSUPP is no error of LOCK (RFC 8881 section 15.2).
        let lock = vec![put(&fh), lock_new(WRITE_LT, 0, 1, stateid, b"a")];
        client.run(lock).expect(NFS4ERR_SERVERFAULT);
        // Nothing is left of it, and nobody holds a lock.
        client.run(vec![put(&fh), lockt(WRITE_LT, 0, 1, b"b")]).ok();
        client.run(vec![put(&fh), close(stateid)]).ok();
    }
}

#[test]
fn without_local_locks_clients_lock_files_of_any_file_system() // RFC 8881 section 9.1
{
    let Some(fuse) = fuse(without_locks(Errno::ENOLCK)) else { return };
    let server = server(&fuse, NfsConfig { local_locks: false, ..NfsConfig::default() });
    let mut client = Client::new(&server);
    let (fh, stateid) = open_file(&mut client);
    client.run(vec![put(&fh), lock_new(WRITE_LT, 0, 10, stateid, b"a")]).ok();
    let mut other = Client::with(&server, b"other", sys(ALICE), FORE);
    let (fh, stateid) = open_file(&mut other);
    other.run(vec![put(&fh), lock_new(READ_LT, 5, 1, stateid, b"b")]).expect(NFS4ERR_DENIED);
    other.run(vec![put(&fh), lock_new(READ_LT, 10, 1, stateid, b"b")]).ok();
}

#[test]
fn a_name_changes_where_directories_cannot_be_synchronised() // RFC 8881 section 18.25.3
{
    for error in [Errno::EINVAL, Errno::EOPNOTSUPP] {
        let traits = FuseTraits { directory_sync_error: Some(error), ..FuseTraits::default() };
        let Some(fuse) = fuse(traits) else { return };
        let server = stable_server(&fuse);
        let mut client = Client::new(&server);
        client.at("foreign", vec![remove(NAME)]).ok();
        client.at("foreign", vec![lookup(NAME)]).expect(NFS4ERR_NOENT);
    }
    // Another failure may mean that the change is lost.
    let traits = FuseTraits { directory_sync_error: Some(Errno::EIO), ..FuseTraits::default() };
    let fuse = fuse(traits).unwrap();
    Client::new(&stable_server(&fuse)).at("foreign", vec![remove(NAME)]).expect(NFS4ERR_IO);
}

#[test]
fn the_change_attribute_moves_where_times_do_not() // RFC 8881 section 5.8.1.4
{
    let Some(fuse) = fuse(FuseTraits::default()) else { return };
    let server = server(&fuse, NfsConfig::default());
    let mut client = Client::new(&server);
    let (fh, stateid) = open_file(&mut client);
    let mut seen = vec![change_of(&mut client, &fh)];
    assert_eq!(change_of(&mut client, &fh), seen[0], "nothing has changed");
    // A change by the server itself, of the same size.
    for data in [b"HELLO", b"again"] {
        client.run(vec![put(&fh), write(stateid, 0, data)]).ok();
        seen.push(change_of(&mut client, &fh));
    }
    // By another machine, within the second.
    for size in [DATA.len() as u64 + 1, 0, 4096] {
        fuse.set_size(size);
        seen.push(change_of(&mut client, &fh));
    }
    let all = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), all, "{seen:?}");
}

#[test]
fn no_delegation_of_a_file_that_others_change_unseen() // RFC 8881 section 10.4
{
    let Some(fuse) = fuse(FuseTraits::default()) else { return };
    let config = NfsConfig { delegations: Delegations::All, ..NfsConfig::default() };
    let server = server(&fuse, config);
    let wire = Wire::under(&server);
    let mut client = Client::delegated(&server, &wire, b"a", 11);
    for want in [OPEN4_SHARE_ACCESS_WANT_READ_DELEG, OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG] {
        let reply = client.at("foreign", vec![open(NAME, 3 | want)]).ok();
        let refused = matches!(
            reply.opened().delegation,
            OpenDelegation4::OPEN_DELEGATE_NONE | OpenDelegation4::OPEN_DELEGATE_NONE_EXT(_)
        );
        assert!(refused, "{:?}", reply.opened().delegation);
    }
}

#[test]
fn a_filehandle_lasts_as_long_as_the_daemon_finds_its_object() // RFC 8881 section 4.2.2
{
    let served = |finds_by_number| {
        let fuse = fuse(FuseTraits { finds_by_number, ..FuseTraits::default() })?;
        let server = server(&fuse, NfsConfig::default());
        let fh = Client::new(&server).at("foreign", vec![lookup(NAME), getfh()]).ok().fh(0);
        drop(fuse);
        Some(fh)
    };
    for (finds_by_number, status) in [(true, NFS4_OK), (false, NFS4ERR_STALE)] {
        // The daemon and the server start again: the kernel knows no object any more.
        let Some(fh) = served(finds_by_number) else { return };
        let fuse = fuse(FuseTraits { finds_by_number, ..FuseTraits::default() }).unwrap();
        let server = server(&fuse, NfsConfig::default());
        fuse.forget();
        let mut client = Client::new(&server);
        client.run(vec![put(&fh), getattr(&[FATTR4_SIZE])]).expect(status);
        // By name it is found again, with the same filehandle.
        let found = client.at("foreign", vec![lookup(NAME), getfh()]).ok().fh(0);
        assert_eq!(found, fh);
        client.run(vec![put(&fh), getattr(&[FATTR4_SIZE])]).ok();
    }
}
