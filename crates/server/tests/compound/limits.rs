//! Sizes of replies (RFC 8881 section 2.10.6.4).

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;

const OVERHEAD: usize = 700;

fn small(server: &Server) -> Client<'_> {
    let fore = ChannelAttrs4 { ca_maxresponsesize: 2048, ca_maxresponsesize_cached: 1024, ..FORE };
    Client::with(server, b"small", sys(ALICE), fore)
}

/// Runs operations with an overhead of headers and wrapping, and checks the size of the whole
/// reply.
fn run(client: &mut Client<'_>, ops: Vec<Op>, max: u32) -> Reply {
    let mut all = vec![client.next_sequence()];
    all.extend(ops);
    let args = encode(1, &all);
    let reply = client.server.call_with_overhead(&client.security, 1, client.now, &args, OVERHEAD);
    assert!(reply.bytes.len() + OVERHEAD <= max as usize, "{} bytes", reply.bytes.len());
    reply
}

#[test]
fn a_reply_with_all_headers_never_exceeds_the_negotiated_size() // RFC 8881 section 2.10.6.4
{
    let server = Setup::default().start();
    let mut client = small(&server);
    let max = client.fore.ca_maxresponsesize;
    let fh = client.make_file("export", "f", &[7; 4000]);
    let fits = |count| vec![put(&fh), read(Stateid4::ANONYMOUS, 0, count)];
    run(&mut client, fits(1100), max).ok();
    run(&mut client, fits(1400), max).expect(NFS4ERR_REP_TOO_BIG);
    run(&mut client, fits(u32::MAX), max).expect(NFS4ERR_REP_TOO_BIG);
    // A short file is read to its end, with any count.
    let short = client.make_file("export", "short", b"abc");
    let reply = run(&mut client, vec![put(&short), read(Stateid4::ANONYMOUS, 0, 100_000)], max).ok();
    assert_eq!(data(reply.last()), (b"abc".to_vec(), true));
    // Every prefix that fits is kept, and there is room for the error.
    let many = vec![[put(&fh), getfh(), getattr(&[FATTR4_OWNER, FATTR4_FILEHANDLE])]; 20].concat();
    let reply = run(&mut client, many, max).expect(NFS4ERR_REP_TOO_BIG);
    assert!(reply.results.len() > 5);
}

#[test]
fn a_reply_to_be_cached_has_the_smaller_limit() // RFC 8881 section 2.10.6.4
{
    let server = Setup::default().start();
    let mut client = small(&server);
    let max = client.fore.ca_maxresponsesize_cached;
    let fh = client.make_file("export", "f", &[7; 4000]);
    client.cache_this = true;
    run(&mut client, vec![put(&fh), read(Stateid4::ANONYMOUS, 0, 100)], max).ok();
    let too_big = vec![put(&fh), read(Stateid4::ANONYMOUS, 0, 900)];
    run(&mut client, too_big, max).expect(NFS4ERR_REP_TOO_BIG_TO_CACHE);
}

#[test]
fn an_irrevocable_operation_does_not_begin_if_its_result_may_not_fit() // RFC 8881 section 2.10.6.4
{
    let server = Setup::default().start();
    let mut client = small(&server);
    client.cache_this = true;
    let (max, filler) = (client.fore.ca_maxresponsesize_cached, getattr(&[FATTR4_FILEHANDLE]));
    for count in 0..12 {
        let mut ops = vec![put_root(), lookup("export")];
        ops.extend(vec![filler.clone(); count]);
        ops.push(mkdir(&format!("d{count}")));
        let status = run(&mut client, ops, max).status;
        let there = client.at(&format!("export/d{count}"), vec![]).status == NFS4_OK;
        assert_eq!(there, status == NFS4_OK, "{count}: {status}");
    }
}

#[test]
fn a_listing_is_as_long_as_the_reply_lets_it() // RFC 8881 section 18.23.3
{
    let server = Setup::default().start();
    let mut client = small(&server);
    let max = client.fore.ca_maxresponsesize;
    (0..50).for_each(|number| drop(client.make_file("export", &format!("name-{number}"), b"")));
    let readdir = |maxcount| {
        let attr_request = Bitmap4::of(&[FATTR4_OWNER, FATTR4_SIZE]);
        let args = Readdir4Args { cookie: 0, cookieverf: [0; 8], dircount: 0, maxcount, attr_request };
        vec![put_root(), lookup("export"), NfsArgop4::OP_READDIR(args)]
    };
    let reply = run(&mut client, readdir(u32::MAX), max).ok();
    let NfsResop4::OP_READDIR(Readdir4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
    assert!(!ok.reply.eof && ok.reply.entries.len() > 5);
}

#[test]
fn a_long_link_that_does_not_fit_is_too_big() // RFC 8881 section 2.10.6.4
{
    let server = Setup::default().start();
    let mut client = small(&server);
    let max = client.fore.ca_maxresponsesize;
    let target = Createtype4::NF4LNK(bytes(&[b'x'; 2000]));
    client.at("export", vec![create(target, "l", mode(0o777))]).ok();
    let ops = vec![put_root(), lookup("export"), lookup("l"), NfsArgop4::OP_READLINK];
    run(&mut client, ops, max).expect(NFS4ERR_REP_TOO_BIG);
}
