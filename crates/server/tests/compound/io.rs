//! READ, WRITE and COMMIT (RFC 8881 sections 18.22, 18.32, 18.3).

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;

#[test]
fn what_was_written_is_read_and_the_end_is_told() // RFC 8881 section 18.22.3
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
