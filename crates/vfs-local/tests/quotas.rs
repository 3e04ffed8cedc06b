//! Quotas hold although the server is root, and users can read their own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use vfs::{Backend, Caller, OpenAccess, SetAttributes, VfsError};

const ALICE: u32 = 4001;
const BOB: u32 = 4002;
/// The quota of alice from the test's set-up: 2 MiB.
const LIMIT: u64 = 2 << 20;
const BOTH: OpenAccess = OpenAccess { read: true, write: true };

#[test]
fn quotas_hold_and_are_told() {
    let options = ["-O", "quota"];
    let limit = ["setquota", "-u", "4001", "1024", "2048", "0", "0"];
    common::run_with_quota("ext4", &options, "usrquota", &limit, "of_this_folder::");
}

#[test]
fn quotas_of_xfs_hold_and_are_told() {
    let limit = ["setquota", "-u", "4001", "1024", "2048", "0", "0"];
    common::run_with_quota("xfs", &[], "uquota", &limit, "of_this_folder::");
}

#[test]
fn reserved_blocks_are_for_root() {
    common::run_with_quota("ext4", &["-m", "50"], "rw", &["true"], "of_its_reserve::");
}

fn user(id: u32) -> Caller {
    Caller { uid: id, gid: id, groups: [].into() }
}

/// The test on the file system of which root has half.
mod of_its_reserve {
    use super::*;

    #[test]
    fn an_owner_that_opens_a_file_past_its_mode_gets_no_reserved_blocks() // mke2fs(8), -m
    {
        if std::env::var_os(common::QUOTA_IS_ON).is_none() {
            eprintln!("skipped: no blocks are reserved in the usual place");
            return;
        }
        let (_directory, backend) = common::export().unwrap();
        let (root, alice) = (backend.root(), user(ALICE));
        backend.setattr(&Caller::root(), &root, &common::mode(0o777)).unwrap();
        let (object, _) = backend.create_file(&alice, &root, b"f", BOTH, &common::mode(0o400)).unwrap();
        assert_eq!(backend.open(&alice, &object, BOTH).err(), Some(VfsError::Access));
        let space = backend.statfs(&object).unwrap();
        let more = space.space_avail.midpoint(space.space_free);
        let own = backend.open_own(&alice, &object, BOTH).unwrap();
        assert_eq!(own.allocate(0, more), Err(VfsError::Nospc));
        let roots = backend.open(&Caller::root(), &object, BOTH).unwrap();
        assert_eq!(roots.allocate(0, more), Ok(()));
    }
}

/// The tests on the file system with quotas.
mod of_this_folder {
    use super::*;

    #[test]
    fn nobody_writes_more_than_the_quota_and_everybody_is_told_what_is_left()
    // RFC 8881 sections 5.8.2.28 to 5.8.2.30
    {
        if std::env::var_os(common::QUOTA_IS_ON).is_none() {
            eprintln!("skipped: no quota in the usual place");
            return;
        }
        let (_directory, backend) = common::export().unwrap();
        let root = backend.root();
        assert!(backend.features().quotas);
        let everybody = SetAttributes { mode: Some(0o777), ..SetAttributes::default() };
        backend.setattr(&Caller::root(), &root, &everybody).unwrap();
        let make = |caller: &Caller, name: &[u8]| {
            backend.create_file(caller, &root, name, BOTH, &everybody).unwrap()
        };
        let (alice, bob) = (user(ALICE), user(BOB));
        let (object, file) = make(&alice, b"alices");
        let quota = || backend.quota(&alice, &object).unwrap().unwrap();
        let before = quota();
        assert_eq!(before.avail_hard + before.used, LIMIT);
        assert_eq!(before.avail_soft + before.used, LIMIT / 2);
        assert_eq!(file.write_at(&vec![1; 1 << 20], 0), Ok(1 << 20));
        file.sync().unwrap();
        assert!(quota().used >= 1 << 20 && quota().avail_soft == 0, "{:?}", quota());
        // The file's owner pays, for any writer and any kind of space.
        let theirs = backend.open(&bob, &object, BOTH).unwrap();
        for file in [&file, &theirs] {
            let written = file.write_at(&vec![1; 3 << 20], 1 << 20);
            assert!(matches!(written, Ok(..0x0020_0000) | Err(VfsError::Dquot)), "{written:?}");
            assert_eq!(file.write_at(&[1; 4096], 8 << 20), Err(VfsError::Dquot));
            assert_eq!(file.allocate(16 << 20, 4 << 20), Err(VfsError::Dquot));
        }
        let (_, source) = make(&bob, b"bobs");
        source.write_at(&vec![1; 4 << 20], 0).unwrap();
        let copied = theirs.copy_range(&*source, 0, 32 << 20, 4 << 20);
        assert!(matches!(copied, Ok(0..0x0020_0000) | Err(VfsError::Dquot)), "{copied:?}");
        assert!(quota().used <= LIMIT);
        // Only root learns the quotas of others; bob has no limit.
        assert_eq!(backend.quota(&bob, &object), Ok(None));
        // Without root's capabilities, the server learns no more than root's own quota.
        let bobs = backend.lookup(&bob, &root, b"bobs").unwrap();
        let left = backend.quota(&bob, &bobs).unwrap().unwrap();
        assert!(left.used >= 4 << 20 && left.avail_hard > LIMIT, "{left:?}");
        // The thread is itself again.
        assert!(backend.getattr(&object).is_ok() && backend.access(&bob, &object).unwrap().write);
        let (private, _) =
            backend.create_file(&alice, &root, b"private", BOTH, &common::mode(0o600)).unwrap();
        assert_eq!(backend.open(&bob, &private, BOTH).err(), Some(VfsError::Access));
    }
}
