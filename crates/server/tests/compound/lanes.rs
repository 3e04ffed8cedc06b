//! A COMPOUND waits for each file system in its own lane, so that one that hangs holds no thread of
//! the others.

use crate::helper::*;
use crate::waiting::{Waiting, commit, try_on};
use nfs4::Nfsstat4::*;
use nfs4::*;
use orthrus_server::engine::WaitsFor;
use std::sync::Arc;
use vfs::Export;

/// Two exports on slow disks, each with a file that is open.
struct TwoDisks {
    server: Server,
    disks: [Arc<Slow>; 2],
}

const NAMES: [&str; 2] = ["one", "two"];

impl TwoDisks {
    fn new() -> Self {
        let disks = [Slow::new(), Slow::new()];
        let export = |at: usize| {
            all_flavors(Export::new(&format!("/{}", NAMES[at]), disks[at].clone()).expect("an export"))
        };
        Self { server: Setup::with_exports(vec![export(0), export(1)]).start(), disks }
    }

    fn client(&self) -> (Client<'_>, [Vec<u8>; 2], [Stateid4; 2]) {
        let mut client = Client::new(&self.server);
        let opened = NAMES.map(|name| client.at(name, vec![open_create("f", 3), getfh()]).ok());
        let files = [0, 1].map(|at| opened[at].fh(0));
        (client, files, [0, 1].map(|at| opened[at].opened().stateid))
    }
}

#[test]
fn an_operation_on_another_export_waits_in_the_lane_of_that_export() {
    let site = TwoDisks::new();
    let (client, [one, two], _) = site.client();
    let both = vec![put(&one), commit(), put(&two), commit(), put(&one), commit()];
    let mut waiting = try_on(&client, 1, 1, both).waits();
    let mut lanes = vec![waiting.suspended.lane()];
    for _ in 0..2 {
        waiting = waiting.execute(&client);
        assert_eq!(WaitsFor::pending_sync(&waiting.suspended), None);
        lanes.push(waiting.suspended.lane());
    }
    assert!(lanes[0] == lanes[2] && lanes[0] != lanes[1], "{lanes:?}");
    assert_eq!(waiting.end(&client).status, NFS4_OK);
}

#[test]
fn data_that_is_at_hand_needs_no_other_lane() {
    let site = TwoDisks::new();
    let (client, [one, two], _) = site.client();
    let both = vec![put(&one), commit(), put(&two), getattr(&[FATTR4_SIZE])];
    assert_eq!(try_on(&client, 1, 1, both).waits().end(&client).status, NFS4_OK);
}

#[test]
fn an_operation_on_two_exports_ends_after_some_lanes() {
    let site = TwoDisks::new();
    let (mut client, [one, two], stateids) = site.client();
    client.run(vec![put(&one), write(stateids[0], 0, b"hello world")]).ok();
    site.disks.iter().for_each(|disk| disk.set_cold(true));
    client.minor = 2;
    let copying = vec![put(&one), savefh(), put(&two), copy((stateids[0], stateids[1]), 0, 0, 11)];
    let mut waiting = try_on(&client, 1, 1, copying).waits();
    let mut lanes = 1;
    let reply = loop {
        match waiting.go_on(&client) {
            Ok(reply) => break reply,
            Err(again) => waiting = again,
        }
        lanes += 1;
        assert!(lanes < 10, "it goes from lane to lane");
    };
    assert_eq!(reply.status, NFS4_OK, "{reply:?}");
}

#[test]
fn changes_are_on_disk_before_a_later_operation_is_declined() {
    let site = TwoDisks::new();
    let (client, [_, two], _) = site.client();
    site.disks[0].start_syncing_names();
    site.disks[0].take_synced();
    let both = vec![put_root(), lookup("one"), mkdir("folder"), put(&two), commit()];
    let waiting: Waiting = try_on(&client, 1, 1, both).waits().execute(&client);
    assert!(site.disks[0].take_synced().is_empty());
    let reply = waiting.decline(&client);
    assert_eq!((reply.status, reply.resarray.len()), (NFS4ERR_DELAY, 6), "{reply:?}");
    assert_eq!(site.disks[0].take_synced().len(), 1);
}
