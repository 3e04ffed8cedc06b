//! Operations of NFSv4.2 on the data of files (RFC 7862 section 15): space, holes, advice and
//! copies.

use crate::helper::*;
use nfs4::DataContent4::*;
use nfs4::Nfsstat4::*;
use nfs4::*;

const ANONYMOUS: Stateid4 = Stateid4::ANONYMOUS;
const BOTH: (Stateid4, Stateid4) = (ANONYMOUS, ANONYMOUS);
/// A distance that the memory backend turns into a hole, in bytes.
const MEGA: u64 = 1 << 20;
const HALF: u64 = MEGA / 2;

/// Makes a client of minor version 2 and a file of 3 MiB whose middle is a hole.
fn with_hole(server: &Server) -> (Client<'_>, Vec<u8>) {
    let mut client = Client::new(server);
    client.minor = 2;
    let fh = client.make_file("export", "f", b"start");
    for at in [2 * MEGA, 2 * MEGA + HALF] {
        client.run(vec![put(&fh), write(ANONYMOUS, at, &vec![7; HALF as usize])]).ok();
    }
    (client, fh)
}

fn sought(reply: &Reply) -> (bool, u64) {
    match reply.last() {
        NfsResop4::OP_SEEK(Seek4Res::NFS4_OK(ok)) => (ok.sr_eof, ok.sr_offset),
        other => panic!("{other:?}"),
    }
}

#[test]
fn seek_finds_data_and_holes_and_the_virtual_hole_at_the_end() // RFC 7862 section 15.11.3
{
    let server = Setup::default().start();
    let (mut client, fh) = with_hole(&server);
    let cases = [
        (0, NFS4_CONTENT_DATA, (false, 0)),
        (MEGA, NFS4_CONTENT_DATA, (false, 2 * MEGA)),
        (MEGA, NFS4_CONTENT_HOLE, (false, MEGA)),
        (2 * MEGA + 9, NFS4_CONTENT_HOLE, (true, 3 * MEGA)),
    ];
    for (offset, what, expected) in cases {
        assert_eq!(
            sought(&client.run(vec![put(&fh), seek(ANONYMOUS, offset, what)]).ok()),
            expected,
            "{offset}"
        );
    }
    client.run(vec![put(&fh), deallocate(ANONYMOUS, 2 * MEGA, MEGA)]).ok();
    let reply = client.run(vec![put(&fh), seek(ANONYMOUS, MEGA, NFS4_CONTENT_DATA)]).ok();
    assert_eq!(sought(&reply), (true, 3 * MEGA), "no data is no error");
    for offset in [3 * MEGA, u64::MAX] {
        client.run(vec![put(&fh), seek(ANONYMOUS, offset, NFS4_CONTENT_HOLE)]).expect(NFS4ERR_NXIO);
    }
    client.at("export", vec![seek(ANONYMOUS, 0, NFS4_CONTENT_DATA)]).expect(NFS4ERR_ISDIR);
}

#[test]
fn content_that_is_neither_data_nor_hole_is_not_supported() // RFC 7862 section 15.11.3
{
    let server = Setup::default().start();
    let (mut client, fh) = with_hole(&server);
    let ops = [client.next_sequence(), put(&fh), seek(ANONYMOUS, 0, NFS4_CONTENT_DATA)];
    let mut args = encode(2, &ops);
    let what_at = args.len() - 4;
    args[what_at..].copy_from_slice(&7_u32.to_be_bytes());
    server.call_bytes(&client.security, client.connection, client.now, &args).expect(NFS4ERR_UNION_NOTSUPP);
}

#[test]
fn space_is_allocated_and_given_back() // RFC 7862 sections 15.1 and 15.4
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.minor = 2;
    let fh = client.make_file("export", "f", b"abc");
    let look = getattr(&[FATTR4_SIZE, FATTR4_SPACE_USED, FATTR4_SPACE_FREED]);
    let reply = client.run(vec![put(&fh), allocate(ANONYMOUS, MEGA, MEGA), look.clone()]).ok();
    let got = reply.attributes();
    assert_eq!((got.size, got.space_freed), (Some(2 * MEGA), got.space_used));
    assert!(got.space_used >= Some(MEGA));
    let reply = client.run(vec![put(&fh), deallocate(ANONYMOUS, 0, 2 * MEGA), look.clone()]).ok();
    assert_eq!((reply.attributes().size, reply.attributes().space_used), (Some(2 * MEGA), Some(0)));
    for op in [allocate(ANONYMOUS, 0, 0), deallocate(ANONYMOUS, 0, 0)] {
        client.run(vec![put(&fh), op]).expect(NFS4ERR_INVAL);
    }
    client.run(vec![put(&fh), allocate(ANONYMOUS, u64::MAX, 1)]).expect(NFS4ERR_FBIG);
    client.run(vec![put(&fh), allocate(ANONYMOUS, 0, 1 << 50)]).expect(NFS4ERR_NOSPC);
    let reply = client.at("export", vec![open("f", 1)]).ok();
    client.run(vec![put(&fh), allocate(reply.opened().stateid, 0, 1)]).expect(NFS4ERR_OPENMODE);
    // Two names: removing one frees nothing (section 12.2.2).
    let reply =
        client.run(vec![put(&fh), savefh(), put_root(), lookup("export"), link("g"), put(&fh), look]).ok();
    assert_eq!(reply.attributes().space_freed, Some(0));
}

#[test]
fn nothing_is_allocated_where_nothing_may_change() // RFC 7862 section 15.1.4
{
    let backend = memory();
    let read_only = on_terms(export("/export", &backend), |rule| rule.read_only = true);
    let server = Setup::with_exports(vec![read_only]).start();
    let mut client = Client::new(&server);
    client.minor = 2;
    for op in
        [allocate(ANONYMOUS, 0, 1), deallocate(ANONYMOUS, 0, 1), clone(BOTH, 0, 0, 0), copy(BOTH, 0, 0, 0)]
    {
        client.at("export", vec![op]).expect(NFS4ERR_ROFS);
    }
}

#[test]
fn io_advise_without_effect_is_no_error() // RFC 7862 section 15.5.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.minor = 2;
    client.make_file("export", "f", b"");
    let advise = |iaa_stateid| {
        let iaa_hints = Bitmap4::of(&[1, 4, 10, 77]);
        NfsArgop4::OP_IO_ADVISE(IoAdvise4Args { iaa_stateid, iaa_offset: 0, iaa_count: 0, iaa_hints })
    };
    let reply = client.at("export/f", vec![advise(ANONYMOUS)]).ok();
    let NfsResop4::OP_IO_ADVISE(IoAdvise4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
    assert_eq!(ok.ior_hints, Bitmap4::EMPTY);
    client.at("export", vec![open("f", 2), advise(Stateid4::CURRENT)]).ok();
    client.at("export/f", vec![advise(Stateid4 { seqid: 1, other: [9; 12] })]).expect(NFS4ERR_BAD_STATEID);
    client.at("export", vec![advise(ANONYMOUS)]).expect(NFS4ERR_ISDIR);
}

/// Returns the result of a COPY: bytes, stability and requirements.
fn copied(reply: &Reply) -> (u64, StableHow4, CopyRequirements4) {
    match reply.last() {
        NfsResop4::OP_COPY(Copy4Res::NFS4_OK(ok)) => {
            assert!(ok.cr_response.wr_callback_id.is_empty());
            assert_eq!(ok.cr_response.wr_writeverf, *b"verifier");
            (ok.cr_response.wr_count, ok.cr_response.wr_committed, ok.cr_requirements)
        }
        other => panic!("{other:?}"),
    }
}

const SYNCHRONOUS: CopyRequirements4 = CopyRequirements4 { cr_consecutive: true, cr_synchronous: true };

#[test]
fn a_copy_is_done_when_it_is_answered() // RFC 7862 section 15.2.3
{
    let server = Setup::default().start();
    let (mut client, from) = with_hole(&server);
    let to = client.make_file("export", "to", b"0123456789");
    let run = |client: &mut Client<'_>, op| client.run(vec![put(&from), savefh(), put(&to), op]);
    let reply = run(&mut client, copy(BOTH, 1, 3, 4)).ok();
    assert_eq!(copied(&reply), (4, StableHow4::UNSTABLE4, SYNCHRONOUS));
    let reply = client.run(vec![put(&to), read(ANONYMOUS, 0, 100)]).ok();
    assert_eq!(data(reply.last()).0, b"012tart789");
    let reply = run(&mut client, copy(BOTH, 2 * MEGA - 2, 8, 0)).ok();
    assert_eq!(copied(&reply).0, MEGA + 2, "no count: up to the end");
    assert_eq!(copied(&run(&mut client, copy(BOTH, 3 * MEGA, 0, 0)).ok()).0, 0);
    for (offset, count) in [(3 * MEGA, 1), (0, 3 * MEGA + 1), (u64::MAX, 0), (u64::MAX, u64::MAX)] {
        run(&mut client, copy(BOTH, offset, 0, count)).expect(NFS4ERR_INVAL);
    }
    client.run(vec![put(&from), savefh(), copy(BOTH, 0, MEGA, 1)]).expect(NFS4ERR_INVAL);
    client.run(vec![put(&to), copy(BOTH, 0, 0, 1)]).expect(NFS4ERR_NOFILEHANDLE);
    client.run(vec![put_root(), savefh(), put(&to), copy(BOTH, 0, 0, 1)]).expect(NFS4ERR_ISDIR);
    let source = Netloc4::NL4_NAME(bytes(b"elsewhere"));
    let args = Copy4Args { ca_source_server: vec![source], ..copy_args(BOTH, 0, 0, 1) };
    run(&mut client, NfsArgop4::OP_COPY(args)).expect(NFS4ERR_NOTSUPP);
}

#[test]
// RFC 7862 section 15.2.3
fn a_copy_needs_opens_that_allow_it_and_the_saved_stateid_is_the_sources() {
    let server = Setup::default().start();
    let (mut client, from) = with_hole(&server);
    let to = client.make_file("export", "to", b"");
    let opened = |client: &mut Client<'_>, name, access| {
        client.at("export", vec![open(name, access)]).ok().opened().stateid
    };
    let (reads, writes) = (opened(&mut client, "f", 1), opened(&mut client, "to", 2));
    let current = (Stateid4::CURRENT, Stateid4::CURRENT);
    client.run(vec![put(&from), savefh(), put(&to), copy((reads, writes), 0, 0, 5)]).ok();
    client
        .run(vec![put(&from), savefh(), put(&to), copy((writes, reads), 0, 0, 5)])
        .expect(NFS4ERR_BAD_STATEID);
    client.run(vec![put(&to), savefh(), put(&from), copy((writes, reads), 0, 0, 0)]).expect(NFS4ERR_OPENMODE);
    let at = |name| [put_root(), lookup("export"), open(name, 3)];
    let ops = [&at("f")[..], &[savefh()], &at("to")[..], &[copy(current, 0, 0, 5)]].concat();
    client.run(ops).ok();
    client.run(vec![put(&from), savefh(), put(&to), copy(current, 0, 0, 5)]).expect(NFS4ERR_BAD_STATEID);
}

#[test]
fn a_copy_from_an_open_of_another_client_ends_for_clients_that_repeat_it() {
    // RFC 7862 section 15.2.3
    let server = Setup::default().start();
    let (mut client, from) = with_hole(&server);
    let to = client.make_file("export", "to", b"");
    let mut other = Client::with(&server, b"other", sys(ALICE), FORE);
    let theirs = other.at("export", vec![open("f", 1)]).ok().opened().stateid;
    let mut by = |source| {
        let ops = vec![put(&from), savefh(), put(&to), copy((source, Stateid4::ANONYMOUS), 0, 0, 5)];
        client.run(ops)
    };
    by(theirs).expect(NFS4ERR_INVAL);
    other.run(vec![put(&from), close(theirs)]).ok();
    by(theirs).expect(NFS4ERR_BAD_STATEID);
}

#[test]
fn a_long_copy_is_done_in_part() // RFC 7862 section 15.2.3
{
    let mut setup = Setup::default();
    setup.config.copy_max = 1000;
    let server = setup.start();
    let (mut client, from) = with_hole(&server);
    let to = client.make_file("export", "to", b"");
    let ops = vec![put(&from), savefh(), put(&to), copy(BOTH, 0, 0, 0), getattr(&[FATTR4_SIZE])];
    assert_eq!(client.run(ops).ok().attributes().size, Some(1000));
}

#[test]
fn a_copy_goes_from_export_to_export_and_a_clone_does_not() // RFC 7862 sections 15.2.3 and 15.13.3
{
    let exports = vec![export("/export", &memory()), export("/other", &memory())];
    let server = Setup::with_exports(exports).start();
    let (mut client, from) = with_hole(&server);
    let to = client.make_file("other", "to", b"");
    let reply = client.run(vec![put(&from), savefh(), put(&to), copy(BOTH, 0, 0, 0)]).ok();
    assert_eq!(copied(&reply).0, 3 * MEGA);
    client.run(vec![put(&from), savefh(), put(&to), clone(BOTH, 0, 0, 0)]).expect(NFS4ERR_XDEV);
}

#[test]
fn a_clone_is_whole_and_aligned() // RFC 7862 section 15.13.3
{
    let server = Setup::default().start();
    let (mut client, from) = with_hole(&server);
    let to = client.make_file("export", "to", b"");
    let run = |client: &mut Client<'_>, op| client.run(vec![put(&from), savefh(), put(&to), op]);
    let block =
        client.run(vec![put(&to), getattr(&[FATTR4_CLONE_BLKSIZE])]).ok().attributes().clone_blksize.unwrap();
    let block = u64::from(block);
    run(&mut client, clone(BOTH, 0, block, 0)).ok();
    let reply = client.run(vec![put(&to), getattr(&[FATTR4_SIZE]), read(ANONYMOUS, block, 5)]).ok();
    assert_eq!((reply.attributes().size, data(reply.last()).0), (Some(3 * MEGA + block), b"start".to_vec()));
    for (source, target, count) in
        [(1, 0, block), (0, 1, block), (0, 0, 1), (4 * MEGA, 0, 0), (0, 0, 4 * MEGA)]
    {
        run(&mut client, clone(BOTH, source, target, count)).expect(NFS4ERR_INVAL);
    }
    client.run(vec![put(&from), savefh(), clone(BOTH, 0, block, 2 * block)]).expect(NFS4ERR_INVAL);
    client.run(vec![put(&from), savefh(), clone(BOTH, 0, 4 * MEGA, 2 * block)]).ok();
}

#[test]
fn no_copy_goes_on_that_could_be_asked_for() // RFC 7862 sections 15.8.3 and 15.9.3
{
    let server = Setup::default().start();
    let (mut client, fh) = with_hole(&server);
    let stateid = Stateid4 { seqid: 1, other: [3; 12] };
    let status = NfsArgop4::OP_OFFLOAD_STATUS(OffloadStatus4Args { osa_stateid: stateid });
    let cancel = NfsArgop4::OP_OFFLOAD_CANCEL(OffloadCancel4Args { oca_stateid: stateid });
    for op in [status, cancel] {
        client.run(vec![put(&fh), op]).expect(NFS4ERR_BAD_STATEID);
    }
}

#[test]
fn the_umask_applies_to_created_objects_only() // RFC 8275 section 4
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.minor = 2;
    let both = |mu_mode, mu_umask| {
        fattr(AttributeValues { mode_umask: Some(ModeUmask4 { mu_mode, mu_umask }), ..Default::default() })
    };
    let made = |client: &mut Client<'_>, op| {
        client.at("export", vec![op, getattr(&[FATTR4_MODE])]).ok().attributes().mode
    };
    let guarded = |set| Openflag4::OPEN4_CREATE(Createhow4::GUARDED4(set));
    let exclusive = |cva_attrs| {
        Openflag4::OPEN4_CREATE(Createhow4::EXCLUSIVE4_1(Creatverfattr { cva_verf: [5; 8], cva_attrs }))
    };
    assert_eq!(made(&mut client, create(Createtype4::NF4DIR, "d", both(0o777, 0o022))), Some(0o755));
    let opening = |how, name| open_how(how, by_name(name), 3, 0, b"o");
    assert_eq!(made(&mut client, opening(guarded(both(0o666, 0o077)), "f")), Some(0o600));
    assert_eq!(made(&mut client, opening(exclusive(both(0o666, 0o027)), "g")), Some(0o640));
    client.at("export/f", vec![setattr(ANONYMOUS, both(0o777, 0))]).expect(NFS4ERR_INVAL);
    for (mode, umask) in [(0o777, 0o1000), (0o10000, 0)] {
        client.at("export", vec![create(Createtype4::NF4DIR, "e", both(mode, umask))]).expect(NFS4ERR_INVAL);
    }
    let mode_umask = Some(ModeUmask4 { mu_mode: 0, mu_umask: 0 });
    let twice = fattr(AttributeValues { mode: Some(0), mode_umask, ..Default::default() });
    client.at("export", vec![create(Createtype4::NF4DIR, "e", twice)]).expect(NFS4ERR_INVAL);
    client.at("export", vec![getattr(&[FATTR4_MODE_UMASK])]).expect(NFS4ERR_INVAL);
    client.minor = 1;
    client.at("export", vec![create(Createtype4::NF4DIR, "e", both(0, 0))]).expect(NFS4ERR_ATTRNOTSUPP);
}
