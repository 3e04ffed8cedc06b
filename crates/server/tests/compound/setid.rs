//! An export without set-id bits (`setid = false`), for every operation that sets a mode.

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;
use vfs::Export;

const BOTH: u32 = 3;
/// Modes that make a program run as another user or group.
const SET_ID: [u32; 4] = [0o4755, 0o2755, 0o6755, 0o7000];

fn strict() -> Setup {
    Setup::with_exports(vec![Export { setid: false, ..export("/export", &memory()) }])
}

/// Returns the bits as mode and as mode_umask (RFC 8275).
fn both_attributes(bits: u32) -> [Fattr4<'static>; 2] {
    let mode_umask = Some(ModeUmask4 { mu_mode: bits, mu_umask: 0o22 });
    [mode(bits), fattr(AttributeValues { mode_umask, ..Default::default() })]
}

fn mode_of(client: &mut Client<'_>, path: &str) -> Option<u32> {
    client.at(path, vec![getattr(&[FATTR4_MODE])]).ok().attributes().mode
}

#[test]
fn setattr_sets_no_set_id_bits() // RFC 8881 section 18.30: NFS4ERR_PERM
{
    let server = strict().start();
    let mut client = Client::new(&server);
    client.make_file("export", "f", b"");
    for bits in SET_ID {
        client.at("export/f", vec![setattr(Stateid4::ANONYMOUS, mode(bits))]).expect(NFS4ERR_PERM);
        let more = fattr(AttributeValues { mode: Some(bits), size: Some(7), ..Default::default() });
        client.at("export/f", vec![setattr(Stateid4::ANONYMOUS, more)]).expect(NFS4ERR_PERM);
    }
    let reply = client.at("export/f", vec![getattr(&[FATTR4_MODE, FATTR4_SIZE])]).ok();
    assert_eq!((reply.attributes().mode, reply.attributes().size), (Some(0o644), Some(0)));
    client.at("export/f", vec![setattr(Stateid4::ANONYMOUS, mode(0o1755))]).ok();
    assert_eq!(mode_of(&mut client, "export/f"), Some(0o1755));
}

#[test]
fn open_creates_no_file_with_set_id_bits() // RFC 8881 section 18.16, RFC 8275
{
    let server = strict().start();
    let mut client = Client::new(&server);
    client.minor = 2;
    for bits in SET_ID {
        for attributes in both_attributes(bits) {
            let exclusive = Creatverfattr { cva_verf: *b"verifier", cva_attrs: attributes.clone() };
            let hows = [
                Createhow4::UNCHECKED4(attributes.clone()),
                Createhow4::GUARDED4(attributes),
                Createhow4::EXCLUSIVE4_1(exclusive),
            ];
            for how in hows {
                let open = open_how(Openflag4::OPEN4_CREATE(how), by_name("f"), BOTH, 0, b"owner");
                client.at("export", vec![open]).expect(NFS4ERR_PERM);
                client.at("export", vec![lookup("f")]).expect(NFS4ERR_NOENT);
            }
        }
    }
    client.at("export", vec![open_create("f", BOTH)]).ok();
}

#[test]
fn an_open_of_nfsv40_creates_no_file_with_set_id_bits() // RFC 7530 section 16.16
{
    let server = strict().start();
    let client = Client40::new(&server);
    client.opened("first");
    for bits in SET_ID {
        for how in [Createhow4::UNCHECKED4(mode(bits)), Createhow4::GUARDED4(mode(bits))] {
            let open = client.open_op(Openflag4::OPEN4_CREATE(how), by_name("f"), BOTH, 0);
            client.at("export", vec![open]).expect(NFS4ERR_PERM);
            client.at("export", vec![lookup("f")]).expect(NFS4ERR_NOENT);
        }
    }
    client.at("export/first", vec![setattr(Stateid4::ANONYMOUS, mode(0o4755))]).expect(NFS4ERR_PERM);
    client.at("export", vec![create(Createtype4::NF4FIFO, "p", mode(0o4755))]).expect(NFS4ERR_PERM);
    client.opened("last");
}

#[test]
fn create_makes_nothing_with_set_id_bits_but_directories_of_a_group() // RFC 8881 section 18.4
{
    let server = strict().start();
    let mut client = Client::new(&server);
    for kind in [Createtype4::NF4FIFO, Createtype4::NF4SOCK, Createtype4::NF4LNK(bytes(b"to"))] {
        for attributes in SET_ID.into_iter().map(mode) {
            client.at("export", vec![create(kind.clone(), "x", attributes)]).expect(NFS4ERR_PERM);
        }
    }
    for bits in [0o4755, 0o6755] {
        client.at("export", vec![create(Createtype4::NF4DIR, "x", mode(bits))]).expect(NFS4ERR_PERM);
    }
    client.at("export", vec![lookup("x")]).expect(NFS4ERR_NOENT);
    // On a directory the bit only selects the group of new files.
    client.at("export", vec![create(Createtype4::NF4DIR, "d", mode(0o2775))]).ok();
    assert_eq!(mode_of(&mut client, "export/d"), Some(0o2775));
    client.at("export/d", vec![setattr(Stateid4::ANONYMOUS, mode(0o2770))]).ok();
    client.at("export/d", vec![setattr(Stateid4::ANONYMOUS, mode(0o4770))]).expect(NFS4ERR_PERM);
}

#[test]
fn other_exports_keep_set_id_bits() // RFC 8881 section 6.2.4
{
    let server = Setup::with_exports(vec![
        export("/export", &memory()),
        Export { setid: false, ..export("/strict", &memory()) },
    ])
    .start();
    let mut client = Client::new(&server);
    for place in ["export", "strict"] {
        client.make_file(place, "f", b"");
    }
    client.at("export/f", vec![setattr(Stateid4::ANONYMOUS, mode(0o4755))]).ok();
    assert_eq!(mode_of(&mut client, "export/f"), Some(0o4755));
    client.at("strict/f", vec![setattr(Stateid4::ANONYMOUS, mode(0o4755))]).expect(NFS4ERR_PERM);
}
