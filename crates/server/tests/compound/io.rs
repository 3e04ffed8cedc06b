//! READ, WRITE and COMMIT (RFC 8881 sections 18.22, 18.32, 18.3).

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;

#[test]
fn written_data_is_read_and_the_end_is_reported() // RFC 8881 section 18.22.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let reply = client.at("export", vec![open_create("f", 3), getfh()]).ok();
    let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
    let reply = client.run(vec![put(&fh), write(stateid, 0, b"hello world")]).ok();
    let NfsResop4::OP_WRITE(Write4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
    assert_eq!((ok.count, ok.committed, ok.writeverf), (11, StableHow4::UNSTABLE4, *b"verifier"));
    let cases: [(u64, u32, &[u8], bool); 7] = [
        (0, 100, b"hello world", true),
        (0, 11, b"hello world", true),
        (0, 10, b"hello worl", false),
        (6, 5, b"world", true),
        (11, 10, b"", true),
        (u64::MAX, 10, b"", true),
        (3, 0, b"", false),
    ];
    for (offset, count, expected, eof) in cases {
        let reply = client.run(vec![put(&fh), read(stateid, offset, count)]).ok();
        assert_eq!(data(reply.last()), (expected.to_vec(), eof), "{offset} {count}");
    }
}

#[test]
fn a_write_is_as_stable_as_asked_for() // RFC 8881 section 18.32.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let fh = client.make_file("export", "f", b"");
    let anonymous = Stateid4::ANONYMOUS;
    let cases = [
        (StableHow4::UNSTABLE4, StableHow4::UNSTABLE4),
        (StableHow4::DATA_SYNC4, StableHow4::FILE_SYNC4),
        (StableHow4::FILE_SYNC4, StableHow4::FILE_SYNC4),
    ];
    for (stable, committed) in cases {
        let args = Write4Args { stateid: anonymous, offset: 3, stable, data: bytes(b"abc") };
        let reply = client.run(vec![put(&fh), NfsArgop4::OP_WRITE(args)]).ok();
        let NfsResop4::OP_WRITE(Write4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
        assert_eq!(ok.committed, committed);
    }
    assert_eq!(data(client.run(vec![put(&fh), read(anonymous, 0, 9)]).ok().last()).0, b"\0\0\0abc");
    let commit = |offset, count| NfsArgop4::OP_COMMIT(Commit4Args { offset, count });
    let reply = client.run(vec![put(&fh), commit(0, 0)]).ok();
    let NfsResop4::OP_COMMIT(Commit4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
    assert_eq!(ok.writeverf, *b"verifier");
    client.run(vec![put(&fh), commit(u64::MAX, 1)]).ok();
    client.at("export", vec![commit(0, 0)]).expect(NFS4ERR_ISDIR);
}

#[test]
fn io_ends_where_files_end() // RFC 8881 sections 18.22.3 and 18.32.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let fh = client.make_file("export", "f", b"");
    for offset in [u64::MAX, i64::MAX as u64, u64::MAX - 1] {
        client.run(vec![put(&fh), write(Stateid4::ANONYMOUS, offset, b"xx")]).expect(NFS4ERR_FBIG);
        let reply = client.run(vec![put(&fh), read(Stateid4::ANONYMOUS, offset, 9)]).ok();
        assert_eq!(data(reply.last()), (vec![], true));
    }
    client.run(vec![put(&fh), write(Stateid4::ANONYMOUS, 7, b"")]).ok();
    client.at("export", vec![read(Stateid4::ANONYMOUS, 0, 1)]).expect(NFS4ERR_ISDIR);
    client.at("export", vec![write(Stateid4::ANONYMOUS, 0, b"x")]).expect(NFS4ERR_ISDIR);
}

#[test]
fn a_reserved_stateid_that_means_nothing_is_bad() // RFC 8881 section 8.2.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let fh = client.make_file("export", "f", b"x");
    let odd = [
        Stateid4::INVALID,
        Stateid4 { seqid: 5, other: [0; 12] },
        Stateid4 { seqid: 5, other: [255; 12] },
        Stateid4 { seqid: 1, other: [9; 12] },
    ];
    for stateid in odd {
        client.run(vec![put(&fh), read(stateid, 0, 1)]).expect(NFS4ERR_BAD_STATEID);
        client.run(vec![put(&fh), write(stateid, 0, b"y")]).expect(NFS4ERR_BAD_STATEID);
        client.run(vec![put(&fh), close(stateid)]).expect(NFS4ERR_BAD_STATEID);
    }
}

#[test]
fn a_large_read_and_write_are_cut_to_the_limits() // RFC 8881 section 18.22.3
{
    let mut setup = Setup::default();
    setup.config.read_max = 4096;
    setup.config.write_max = 4096;
    let server = setup.start();
    let mut client = Client::new(&server);
    let fh = client.make_file("export", "f", b"");
    let reply = client.run(vec![put(&fh), write(Stateid4::ANONYMOUS, 0, &[7; 10_000])]).ok();
    let NfsResop4::OP_WRITE(Write4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
    assert_eq!(ok.count, 4096);
    let reply = client.run(vec![put(&fh), read(Stateid4::ANONYMOUS, 0, u32::MAX)]).ok();
    assert_eq!(data(reply.last()).0.len(), 4096);
}
