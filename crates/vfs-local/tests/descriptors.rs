//! Calls while the process has no descriptor left. A program of its own, since all of it is short.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use common::{export, me, mode, walk};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::fs::File;
use vfs::{Backend, NewObject, VfsError};

#[test]
fn an_object_that_cannot_be_opened_is_not_made() {
    let Some((directory, backend)) = export() else { return };
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, rustix::process::Rlimit { current: Some(256), ..limit }).unwrap();
    let mut fillers = Vec::new();
    let error = loop {
        match File::open("/dev/null") {
            Ok(filler) => fillers.push(filler),
            Err(error) => break error,
        }
    };
    assert_eq!(Errno::from_io_error(&error), Some(Errno::MFILE));
    let objects = [NewObject::Directory, NewObject::Symlink(b"target"), NewObject::Fifo];
    let made = objects.map(|object| backend.create(&me(), &backend.root(), b"new", object, &mode(0o755)));
    drop(fillers);
    assert_eq!(made, [Err(VfsError::Exhausted); 3]);
    assert_eq!(walk(&backend, "new"), Err(VfsError::Noent));
    backend.create(&me(), &backend.root(), b"new", NewObject::Directory, &mode(0o755)).unwrap();
    assert!(directory.path().join("new").is_dir());
}
