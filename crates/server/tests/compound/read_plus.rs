//! READ_PLUS (RFC 7862 section 15.10), compared with READ.

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;
use proptest::prelude::*;

const ANONYMOUS: Stateid4 = Stateid4::ANONYMOUS;
const MEGA: u64 = 1 << 20;

/// Joins the segments; each has to begin at the end of the one before.
fn joined(segments: &[ReadPlusContent<'_>], offset: u64) -> Vec<u8> {
    let mut all = Vec::new();
    for segment in segments {
        let at = offset + all.len() as u64;
        match segment {
            ReadPlusContent::NFS4_CONTENT_DATA(data) => {
                assert_eq!(data.d_offset, at);
                assert!(!data.d_data.is_empty());
                all.extend_from_slice(&data.d_data);
            }
            ReadPlusContent::NFS4_CONTENT_HOLE(hole) => {
                assert_eq!(hole.di_offset, at);
                assert!(hole.di_length > 0);
                all.resize(all.len() + hole.di_length as usize, 0);
            }
        }
    }
    all
}

fn client(server: &Server) -> Client<'_> {
    let mut client = Client::new(server);
    client.minor = 2;
    client
}

#[test]
fn read_plus_returns_holes_and_data() // RFC 7862 section 15.10.3
{
    let server = Setup::default().start();
    let mut client = client(&server);
    let fh = client.make_file("export", "f", b"start");
    client.run(vec![put(&fh), write(ANONYMOUS, MEGA, b"end")]).ok();
    let reply = client.run(vec![put(&fh), read_plus(ANONYMOUS, 0, 1 << 20)]).ok();
    assert!(reply.bytes.len() < 1000, "a hole takes no room");
    let (content, eof) = segments(reply.last());
    let data = Data4 { d_offset: 0, d_data: bytes(b"start") };
    let hole = DataInfo4 { di_offset: 5, di_length: MEGA - 5 };
    let expected = vec![ReadPlusContent::NFS4_CONTENT_DATA(data), ReadPlusContent::NFS4_CONTENT_HOLE(hole)];
    assert_eq!((content, eof), (expected, false));
    let reply = client.run(vec![put(&fh), read_plus(ANONYMOUS, MEGA - 1, 100)]).ok();
    let (content, eof) = segments(reply.last());
    assert_eq!((joined(&content, MEGA - 1), content.len(), eof), (b"\0end".to_vec(), 2, true));
}

#[test]
fn at_the_end_of_the_file_there_is_no_segment() // RFC 7862 section 15.10.3
{
    let server = Setup::default().start();
    let mut client = client(&server);
    let fh = client.make_file("export", "f", b"abc");
    for (offset, count, eof) in
        [(3, 9, true), (u64::MAX, u32::MAX, true), (i64::MAX as u64, 1, true), (0, 0, false)]
    {
        let reply = client.run(vec![put(&fh), read_plus(ANONYMOUS, offset, count)]).ok();
        assert_eq!(segments(reply.last()), (vec![], eof), "{offset}");
    }
    let empty = client.make_file("export", "empty", b"");
    assert_eq!(
        segments(client.run(vec![put(&empty), read_plus(ANONYMOUS, 0, 9)]).ok().last()),
        (vec![], true)
    );
    client.at("export", vec![read_plus(ANONYMOUS, 0, 1)]).expect(NFS4ERR_ISDIR);
}

#[test]
fn an_open_for_writing_is_read_by_those_that_may_read_the_file() // RFC 8881 section 9.1.2
{
    let server = Setup::default().start();
    let mut client = client(&server);
    let fh = client.make_file("export", "f", b"abc");
    let hole = |stateid| seek(stateid, 0, DataContent4::NFS4_CONTENT_HOLE);
    let stateid = client.at("export", vec![open("f", 2)]).ok().opened().stateid;
    let reply = client.run(vec![put(&fh), read_plus(stateid, 0, 3)]).ok();
    assert_eq!(joined(&segments(reply.last()).0, 0), b"abc");
    client.run(vec![put(&fh), read(stateid, 0, 3)]).ok();
    client.run(vec![put(&fh), hole(stateid)]).ok();
    client.run(vec![put(&fh), setattr(ANONYMOUS, mode(0o200))]).ok();
    for op in [read_plus(stateid, 0, 3), read(stateid, 0, 3), hole(stateid)] {
        client.run(vec![put(&fh), op]).expect(NFS4ERR_ACCESS);
    }
}

#[test]
fn entries_that_do_not_fit_are_left_for_the_next_call() // RFC 7862 section 15.10.3
{
    let server = Setup::default().start();
    let fore = ChannelAttrs4 { ca_maxresponsesize: 4096, ..FORE };
    let mut client = Client::with(&server, b"small", sys(ALICE), fore);
    client.minor = 2;
    let fh = client.make_file("export", "f", b"");
    for at in (0..200).map(|n| n * 128 * 1024) {
        client.run(vec![put(&fh), write(ANONYMOUS, at, &[1; 50])]).ok();
    }
    let (mut at, mut all) = (0, Vec::new());
    loop {
        let reply = client.run(vec![put(&fh), read_plus(ANONYMOUS, at, u32::MAX)]).ok();
        assert!(reply.bytes.len() <= 4096);
        let (content, eof) = segments(reply.last());
        let more = joined(&content, at);
        assert!(!more.is_empty());
        at += more.len() as u64;
        all.extend(more);
        if eof {
            break;
        }
    }
    assert_eq!(all.len(), 199 * 128 * 1024 + 50);
    assert_eq!(all.iter().filter(|byte| **byte == 1).count(), 200 * 50);
}

/// A change of a file before it is read.
#[derive(Clone, Debug)]
enum FileChange {
    Write(u64, u8, usize),
    Deallocate(u64, u64),
    Allocate(u64, u64),
    Size(u64),
}

fn change() -> impl Strategy<Value = FileChange> {
    let offset = || 0_u64..600_000;
    prop_oneof![
        3 => (offset(), 1_u8.., 1_usize..70_000).prop_map(|(at, byte, count)| FileChange::Write(at, byte, count)),
        1 => (offset(), 1_u64..300_000).prop_map(|(at, count)| FileChange::Deallocate(at, count)),
        1 => (offset(), 1_u64..100_000).prop_map(|(at, count)| FileChange::Allocate(at, count)),
        1 => offset().prop_map(FileChange::Size),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn read_plus_returns_the_bytes_that_read_returns(
        changes in proptest::collection::vec(change(), 0..8),
        reads in proptest::collection::vec((0_u64..700_000, 0_u32..700_000), 1..8),
    ) // RFC 7862 section 15.10.3
    {
        let server = Setup::default().start();
        let mut client = client(&server);
        let fh = client.make_file("export", "f", b"");
        for change in changes {
            let op = match change {
                FileChange::Write(at, byte, count) => write(ANONYMOUS, at, &vec![byte; count]),
                FileChange::Deallocate(at, count) => deallocate(ANONYMOUS, at, count),
                FileChange::Allocate(at, count) => allocate(ANONYMOUS, at, count),
                FileChange::Size(size) => {
                    setattr(ANONYMOUS, fattr(AttributeValues { size: Some(size), ..Default::default() }))
                }
            };
            client.run(vec![put(&fh), op]).ok();
        }
        for (offset, count) in reads {
            let expected = data(client.run(vec![put(&fh), read(ANONYMOUS, offset, count)]).ok().last());
            let (content, eof) = segments(client.run(vec![put(&fh), read_plus(ANONYMOUS, offset, count)]).ok().last());
            prop_assert_eq!((joined(&content, offset), eof), expected);
        }
    }
}
