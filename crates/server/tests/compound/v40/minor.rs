//! The operations of minor version 0, and the ones that it lacks.

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;
use std::time::Duration;
use vfs::SecFlavor;

#[test]
fn operations_of_later_minor_versions_are_illegal() // RFC 7530 section 15.2.4
{
    let server = Setup::default().start();
    let client = Client40::new(&server);
    let later = [
        exchange_id(b"x", StateProtect4A::SP4_NONE),
        reclaim_complete(),
        NfsArgop4::OP_SECINFO_NO_NAME(SecinfoStyle4::SECINFO_STYLE4_CURRENT_FH),
        seek(Stateid4::ANONYMOUS, 0, DataContent4::NFS4_CONTENT_DATA),
        get_xattr(b"a"),
    ];
    for op in later {
        let reply = client.at("export", vec![op]).expect(NFS4ERR_OP_ILLEGAL);
        assert!(matches!(reply.last(), NfsResop4::OP_ILLEGAL(_)), "{:?}", reply.results);
    }
}

#[test]
fn operations_that_4_1_removed_are_not_supported_there() // RFC 8881 section 17
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let gone = [
        setclientid(b"x", [1; 8]),
        NfsArgop4::OP_RENEW(Renew4Args { clientid: 1 }),
        NfsArgop4::OP_OPEN_CONFIRM(OpenConfirm4Args { open_stateid: Stateid4::ANONYMOUS, seqid: 1 }),
    ];
    for op in gone {
        client.run(vec![op]).expect(NFS4ERR_NOTSUPP);
    }
}

#[test]
fn supported_attrs_are_those_of_4_0_and_no_later_ones_are_set() // RFC 7530 section 5.6
{
    let server = Setup::default().start();
    let client = Client40::new(&server);
    let reply = client.at("export", vec![getattr(&[FATTR4_SUPPORTED_ATTRS, FATTR4_SUPPATTR_EXCLCREAT])]).ok();
    let attributes = reply.attributes();
    let supported = attributes.supported_attrs.unwrap();
    assert!(supported.contains(FATTR4_MOUNTED_ON_FILEID) && supported.contains(FATTR4_FILEHANDLE));
    assert!(supported.iter().all(|attribute| attribute <= FATTR4_MOUNTED_ON_FILEID));
    assert!(attributes.suppattr_exclcreat.is_none());
    let masked = fattr(AttributeValues {
        mode_umask: Some(ModeUmask4 { mu_mode: 0o777, mu_umask: 0o22 }),
        ..Default::default()
    });
    client.at("export", vec![create(Createtype4::NF4DIR, "d", masked)]).expect(NFS4ERR_ATTRNOTSUPP);
    client
        .at(
            "export",
            vec![setattr(
                Stateid4::ANONYMOUS,
                fattr(AttributeValues { owner: Some(bytes(b"")), ..Default::default() }),
            )],
        )
        .expect(NFS4ERR_INVAL);
}

#[test]
fn claims_and_modes_of_later_minor_versions_cannot_be_decoded() // RFC 7531
{
    let server = Setup::default().start();
    let client = Client40::new(&server);
    let (fh, _) = client.opened("f");
    client.run(vec![put(&fh), client.open_op(NOCREATE, OpenClaim4::CLAIM_FH, 1, 0)]).expect(NFS4ERR_BADXDR);
    let how = Createhow4::EXCLUSIVE4_1(Creatverfattr { cva_verf: [1; 8], cva_attrs: mode(0o600) });
    let seqid = client.open_seqid.get() - 1;
    let open = client.open_as(OPEN_OWNER, seqid, Openflag4::OPEN4_CREATE(how), by_name("g"), 3, 0);
    client.at("export", vec![open]).expect(NFS4ERR_BADXDR);
    // Wants are undefined bits, and a sequence number that the server has not consumed is used
    // again.
    let open = client.open_as(OPEN_OWNER, seqid, NOCREATE, by_name("f"), 1 | 0x400, 0);
    client.at("export", vec![open]).expect(NFS4ERR_INVAL);
    let open =
        client.open_as(OPEN_OWNER, seqid + 1, NOCREATE, OpenClaim4::CLAIM_DELEGATE_PREV(bytes(b"f")), 1, 0);
    client.at("export", vec![open]).expect(NFS4ERR_NOTSUPP);
}

#[test]
fn there_is_no_current_stateid() // RFC 7530 section 9.1.4.3
{
    let server = Setup::default().start();
    let client = Client40::new(&server);
    client.opened("f");
    let open = client.open_op(NOCREATE, by_name("f"), 3, 0);
    client.at("export", vec![open, read(Stateid4::CURRENT, 0, 1)]).expect(NFS4ERR_BAD_STATEID);
}

#[test]
fn secinfo_leaves_the_current_filehandle() // RFC 7530 section 16.31.4
{
    let server = Setup::default().start();
    let client = Client40::new(&server);
    let secinfo = NfsArgop4::OP_SECINFO(Secinfo4Args { name: bytes(b"export") });
    client.run(vec![put_root(), secinfo, getfh()]).ok();
    client.run(vec![put_root(), NfsArgop4::OP_RESTOREFH]).expect(NFS4ERR_RESTOREFH);
    client.run(vec![NfsArgop4::OP_PUTPUBFH, getfh()]).ok();
}

#[test]
fn a_weaker_flavor_than_the_exports_gets_wrongsec() // RFC 7530 section 3.2.1
{
    let backend = memory();
    let mut only = export("/export", &backend);
    only = for_flavors(only, &[SecFlavor::Krb5i]);
    let server = Setup::with_exports(vec![only]).start();
    let client = Client40::with(&server, b"c", krb5(SecFlavor::Krb5i, "alice", ALICE), [1; 8]);
    let (fh, stateid) = client.opened("f");
    client.run(vec![put(&fh), write(stateid, 0, b"data")]).ok();
    let weak = server.call(&sys(ALICE), 41, client.now.get(), 0, &[put(&fh), read(stateid, 0, 9)]);
    weak.expect(NFS4ERR_WRONGSEC);
    server
        .call(&sys(ALICE), 41, client.now.get(), 0, &[put_root(), lookup("export")])
        .expect(NFS4ERR_WRONGSEC);
}

#[test]
fn delegations_of_others_are_recalled_and_none_are_granted() // RFC 7530 section 10.2
{
    let server = Setup::default().start();
    let mut pair = Pair::new(&server);
    let (held, _) = pair.delegate(OPEN4_SHARE_ACCESS_WRITE | OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG);
    let fh = pair.fh.clone();
    let client = Client40::new(&server);
    client.run(vec![put(&fh), read(Stateid4::ANONYMOUS, 0, 4)]).expect(NFS4ERR_DELAY);
    client.run(vec![put(&fh), getattr(&[FATTR4_SIZE])]).expect(NFS4ERR_DELAY);
    let open = client.open_op(NOCREATE, by_name("f"), 1, 0);
    client.at("export", vec![open]).expect(NFS4ERR_DELAY);
    pair.a.run(vec![put(&fh), delegreturn(held)]).ok();
    let open = client.open_op(NOCREATE, by_name("f"), 1, 0);
    let reply = client.at("export", vec![open]).ok();
    assert_eq!(reply.opened().delegation, OpenDelegation4::OPEN_DELEGATE_NONE);
    client
        .run(vec![put(&fh), NfsArgop4::OP_DELEGRETURN(Delegreturn4Args { deleg_stateid: held })])
        .expect(NFS4ERR_BAD_STATEID);
    client
        .run(vec![NfsArgop4::OP_DELEGPURGE(Delegpurge4Args { clientid: client.clientid })])
        .expect(NFS4ERR_NOTSUPP);
}

#[test]
fn a_compound_and_its_reply_have_limits_without_a_session() // RFC 7530 section 13.1.3.5
{
    let server = Setup::default().start();
    let client = Client40::new(&server);
    let limits = state::Limits::default();
    let many = vec![put_root(); limits.operations_max as usize + 1];
    assert!(client.run(many).expect(NFS4ERR_RESOURCE).results.is_empty());
    let (fh, stateid) = client.opened("f");
    client.run(vec![put(&fh), write(stateid, 0, &vec![1; 1 << 20])]).ok();
    let reads = std::iter::repeat_n(read(stateid, 0, 1 << 20), 4);
    let reply = client.run(std::iter::once(put(&fh)).chain(reads).collect()).expect(NFS4ERR_RESOURCE);
    assert!(reply.bytes.len() <= limits.response_size_max as usize);
}

#[test]
fn the_lease_is_renewed_by_use_and_ends_without() // RFC 7530 section 9.5
{
    let server = Setup::default().start();
    let client = Client40::new(&server);
    let renew = || client.run(vec![NfsArgop4::OP_RENEW(Renew4Args { clientid: client.clientid })]);
    for _ in 0..3 {
        client.now.set(client.now.get() + Duration::from_secs(50));
        renew().ok();
        server.nfs.housekeeping(client.now.get());
    }
    client.now.set(client.now.get() + Duration::from_secs(61));
    server.nfs.housekeeping(client.now.get());
    renew().expect(NFS4ERR_EXPIRED);
    client.run(vec![NfsArgop4::OP_RENEW(Renew4Args { clientid: 7 })]).expect(NFS4ERR_STALE_CLIENTID);
}
