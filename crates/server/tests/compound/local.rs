//! Folders of this machine as exports: what several exports of one folder, and local programs, mean to each other.

use crate::helper::*;
use nfs4::NfsLockType4::WRITE_LT;
use nfs4::Nfsstat4::*;
use nfs4::*;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use vfs::Export;
use vfs_local::{LocalBackend, LocalOptions, become_server};

/// A folder where everybody may write; it is removed as the server, since a thread may have a caller's identity still.
pub struct Folder(Option<TempDir>);

impl Folder {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        Self(Some(folder))
    }

    pub fn path(&self) -> &Path {
        self.0.as_ref().unwrap().path()
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Makes a folder in it where everybody may write.
    pub fn make(&self, name: &str) -> PathBuf {
        let path = self.join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        become_server();
        drop(self.0.take());
    }
}

/// An export of a folder.
pub fn folder(pseudo: &str, path: &Path) -> Export {
    let backend = LocalBackend::open(path, &LocalOptions::default()).unwrap();
    Export::new(pseudo, Arc::new(backend)).unwrap()
}

/// A server that exports a folder as "export" and one in it as "inner", and two clients.
fn overlapping(folder_of: &Folder) -> Server {
    let inner = folder_of.make("sub");
    Setup::with_exports(vec![folder("/export", folder_of.path()), folder("/inner", &inner)]).start()
}

#[test]
fn exports_of_one_file_share_its_shares_and_locks() // RFC 8881 sections 9.1 and 9.7
{
    let place = Folder::new();
    let server = overlapping(&place);
    let mut alice = Client::new(&server);
    let fh = alice.make_file("export/sub", "f", b"data");
    let by_inner = alice.fh_of("inner/f");
    assert_ne!(fh, by_inner, "the exports have filehandles of their own");
    let mut other = Client::with(&server, b"other", sys(ALICE), FORE);
    let deny = |access, deny| vec![open_how(NOCREATE, by_name("f"), access, deny, b"o"), getfh()];
    let denying = alice.at("export/sub", deny(3, 2)).ok().opened().stateid;
    other.at("inner", deny(2, 0)).expect(NFS4ERR_SHARE_DENIED);
    other.run(vec![put(&by_inner), write(Stateid4::ANONYMOUS, 0, b"x")]).expect(NFS4ERR_LOCKED);
    alice.run(vec![put(&fh), close(denying)]).ok();

    let open_a = alice.at("export/sub", deny(3, 0)).ok().opened().stateid;
    let open_b = other.at("inner", deny(3, 0)).ok().opened().stateid;
    alice.run(vec![put(&fh), lock_new(WRITE_LT, 0, 10, open_a, b"a")]).ok();
    other.run(vec![put(&by_inner), lock_new(WRITE_LT, 5, 1, open_b, b"b")]).expect(NFS4ERR_DENIED);
    other.run(vec![put(&by_inner), lockt(WRITE_LT, 5, 1, b"b")]).expect(NFS4ERR_DENIED);
    other.run(vec![put(&by_inner), lock_new(WRITE_LT, 10, 1, open_b, b"b")]).ok();
}

#[test]
fn a_client_may_have_one_owner_open_a_file_by_two_exports()
// RFC 8881 section 10.3.4: it takes them for two files
{
    let place = Folder::new();
    let server = overlapping(&place);
    let mut alice = Client::new(&server);
    let fh = alice.make_file("export/sub", "f", b"data");
    let one = alice.at("export/sub", vec![open("f", 3)]).ok().opened().stateid;
    let reply = alice.at("inner", vec![open("f", 3), getfh()]).ok();
    let (two, by_inner) = (reply.opened().stateid, reply.fh(0));
    assert_ne!(one.other, two.other);
    alice.run(vec![put(&by_inner), read(one, 0, 4)]).expect(NFS4ERR_BAD_STATEID);
    alice.run(vec![put(&fh), close(one)]).ok();
    alice.run(vec![put(&by_inner), read(two, 0, 4), close(two)]).ok();
}

#[test]
fn a_delegation_is_recalled_by_whoever_comes_by_another_export() // RFC 8881 section 10.4
{
    let place = Folder::new();
    let server = overlapping(&place);
    let wire = Wire::under(&server);
    let mut alice = Client::delegated(&server, &wire, b"a", 11);
    let mut other = Client::delegated(&server, &wire, b"b", 12);
    for (name, by_herself) in [("f", false), ("g", true)] {
        let access = OPEN4_SHARE_ACCESS_BOTH | OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
        let reply = alice.at("export/sub", vec![open_create(name, access), getfh()]).ok();
        let fh = reply.fh(0);
        alice.run(vec![put(&fh), close(reply.opened().stateid)]).ok();
        let stateid = granted(&alice.at("export/sub", vec![open(name, 1)]).ok());
        let comer = if by_herself { &mut alice } else { &mut other };
        comer.at("inner", vec![open(name, 2)]).expect(NFS4ERR_DELAY);
        let recall = wire.one();
        assert_eq!(recalled(&recall), (stateid, fh.clone()), "by the name that the holder knows");
        server.answer_ok(alice.now, &recall);
        alice.run(vec![put(&fh), delegreturn(stateid)]).ok();
        let comer = if by_herself { &mut alice } else { &mut other };
        comer.at("inner", vec![open(name, 2)]).ok();
    }
}
