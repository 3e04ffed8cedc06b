//! Absent file systems, referrals and locations (RFC 8881 section 11, RFC 7530 section 8).

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;
use vfs::{Export, ExportTable, SecFlavor, Timestamp};

/// The place that the server refers to.
const ELSEWHERE: [&str; 3] = ["a.example.org:/x/y", "192.0.2.9:/x/y", "[2001:db8::9]:2050:/z"];

fn referral(path: &str) -> Export {
    let locations = ELSEWHERE.map(|text| text.parse().unwrap()).into();
    all_flavors(Export::referral(path, locations).unwrap())
}

/// A server with a present and an absent file system in one directory.
fn server() -> Server {
    Setup::with_exports(vec![export("/this/present", &memory()), referral("/this/path")]).start()
}

fn table(exports: Vec<Export>, addresses: &[&str]) -> ExportTable {
    let table = ExportTable::new(exports, Timestamp { seconds: 2000, nanoseconds: 0 }).unwrap();
    let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
    table.with_addresses(addresses).unwrap()
}

/// Returns fs_root, and each location as "SERVER ...:PATH".
fn locations(attributes: &AttributeValues<'_>) -> (String, Vec<String>) {
    let path = |names: &[std::borrow::Cow<'_, [u8]>]| {
        names.iter().map(|name| format!("/{}", String::from_utf8_lossy(name))).collect::<String>()
    };
    let all = attributes.fs_locations.as_ref().expect("fs_locations");
    let location = |location: &FsLocation4<'_>| {
        let servers: Vec<_> = location.server.iter().map(|server| String::from_utf8_lossy(server)).collect();
        format!("{}:{}", servers.join(" "), path(&location.rootpath))
    };
    (path(&all.fs_root), all.locations.iter().map(location).collect())
}

const REFERRED: [&str; 2] = ["a.example.org 192.0.2.9:/x/y", "2001:db8::9.8.2:/z"];

fn readdir(ask: &[u32]) -> Op {
    let attr_request = Bitmap4::of(ask);
    let (cookieverf, maxcount) = ([0; 8], 8192);
    NfsArgop4::OP_READDIR(Readdir4Args { cookie: 0, cookieverf, dircount: 0, maxcount, attr_request })
}

/// Returns the attributes of an entry of READDIR.
fn entry<'r>(reply: &'r Reply, name: &str) -> AttributeValues<'r> {
    let NfsResop4::OP_READDIR(Readdir4Res::NFS4_OK(ok)) = reply.last() else { panic!("{:?}", reply.results) };
    let found = ok.reply.entries.iter().find(|entry| *entry.name == *name.as_bytes());
    decode_fattr4(&found.expect(name).attrs, Purpose::Learn, &attributes::KNOWN).unwrap()
}

#[test]
fn lookup_reaches_an_absent_file_system_whose_filehandle_is_never_sent() // RFC 8881 section 11.15.1
{
    let server = server();
    let mut client = Client::new(&server);
    client.at("this/path", vec![]).ok();
    let reply = client.at("this/path", vec![getfh()]).expect(NFS4ERR_MOVED);
    assert!(matches!(reply.last(), NfsResop4::OP_GETFH(Getfh4Res::Default(NFS4ERR_MOVED))));
    client.at("this/path", vec![lookup("below")]).expect(NFS4ERR_MOVED);
    client.at("this/path", vec![NfsArgop4::OP_LOOKUPP]).expect(NFS4ERR_MOVED);
    client.at("this/present", vec![getfh()]).ok();
    // RFC 7530 section 8.7.1
    let old = Client40::new(&server);
    old.at("this/path", vec![getfh()]).expect(NFS4ERR_MOVED);
}

#[test]
fn getattr_returns_the_locations_fsid_and_mounted_on_fileid_of_an_absent_file_system_alone()
// RFC 8881 section 11.4.1, RFC 7530 section 8.3.1
{
    let server = server();
    let mut client = Client::new(&server);
    let old = Client40::new(&server);
    let everything: Vec<u32> = attributes::GETTABLE.iter().collect();
    let parent = client.at("this", vec![getattr(&[FATTR4_FSID])]).ok();
    let present = client.at("this/present", vec![getattr(&[FATTR4_FSID])]).ok();
    for minor in 0..=2 {
        client.minor = minor;
        let mut run = |ops| if minor == 0 { old.at("this/path", ops) } else { client.at("this/path", ops) };
        let reply = run(vec![getattr(&everything)]).ok();
        let found = reply.attributes();
        assert_eq!(locations(&found), ("/this/path".to_owned(), REFERRED.map(String::from).into()));
        let available = [FATTR4_FSID, FATTR4_RDATTR_ERROR, FATTR4_FS_LOCATIONS, FATTR4_MOUNTED_ON_FILEID];
        assert_eq!(found.present(), Bitmap4::of(&available));
        assert_eq!(found.rdattr_error, Some(NFS4_OK));
        let fsid = found.fsid.unwrap();
        assert!(Some(fsid) != parent.attributes().fsid && Some(fsid) != present.attributes().fsid);
        // Attributes of absence show the client's interest, even those that are not supported.
        let interest = run(vec![getattr(&[FATTR4_FSID, FATTR4_FS_LOCATIONS_INFO])]);
        assert_eq!(interest.status, if minor == 0 { NFS4ERR_MOVED } else { NFS4_OK });
        run(vec![getattr(&[FATTR4_FSID, FATTR4_MOUNTED_ON_FILEID])]).expect(NFS4ERR_MOVED);
        run(vec![getattr(&[])]).expect(NFS4ERR_MOVED);
    }
}

#[test]
fn the_mounted_on_fileid_of_a_referral_is_that_of_the_name_in_the_directory_above()
// RFC 8881 section 11.4.1
{
    let server = server();
    let mut client = Client::new(&server);
    let ask = [FATTR4_FS_LOCATIONS, FATTR4_MOUNTED_ON_FILEID];
    let root = client.at("this/path", vec![getattr(&ask)]).ok();
    let listed = client.at("this", vec![readdir(&ask)]).ok();
    let fileid = root.attributes().mounted_on_fileid;
    assert!(fileid.is_some() && fileid == entry(&listed, "path").mounted_on_fileid);
    assert_ne!(fileid, entry(&listed, "present").mounted_on_fileid);
}

#[test]
fn verify_compares_only_what_an_absent_file_system_has() // RFC 8881 section 11.4.1
{
    let server = server();
    let mut client = Client::new(&server);
    let ask = [FATTR4_FSID, FATTR4_FS_LOCATIONS];
    let reply = client.at("this/path", vec![getattr(&ask)]).ok();
    let known = reply.attributes();
    let verify =
        |values: AttributeValues<'_>| NfsArgop4::OP_VERIFY(Verify4Args { obj_attributes: fattr(values) });
    let nverify =
        |values: AttributeValues<'_>| NfsArgop4::OP_NVERIFY(Nverify4Args { obj_attributes: fattr(values) });
    let other = AttributeValues { fsid: Some(Fsid4 { major: 9, minor: 9 }), ..known.clone() };
    client.at("this/path", vec![verify(known.clone())]).ok();
    client.at("this/path", vec![verify(other.clone())]).expect(NFS4ERR_NOT_SAME);
    client.at("this/path", vec![nverify(known.clone())]).expect(NFS4ERR_SAME);
    client.at("this/path", vec![nverify(other)]).ok();
    // Without locations, or with an attribute that is not available.
    let fsid = AttributeValues { fsid: known.fsid, ..Default::default() };
    let size = AttributeValues { size: Some(1), ..known.clone() };
    for values in [fsid, size] {
        client.at("this/path", vec![verify(values.clone())]).expect(NFS4ERR_MOVED);
        client.at("this/path", vec![nverify(values)]).expect(NFS4ERR_MOVED);
    }
}

#[test]
fn readdir_reports_a_referral_in_rdattr_error_or_with_its_locations_or_fails()
// RFC 8881 section 11.4.2, RFC 7530 section 8.3.2
{
    let server = server();
    let mut client = Client::new(&server);
    let old = Client40::new(&server);
    let ask = [FATTR4_FSID, FATTR4_SIZE, FATTR4_TIME_MODIFY, FATTR4_MOUNTED_ON_FILEID];
    for minor in 0..=2 {
        client.minor = minor;
        let mut list = |ask: &[u32]| {
            if minor == 0 {
                old.at("this", vec![readdir(ask)])
            } else {
                client.at("this", vec![readdir(ask)])
            }
        };
        // Neither rdattr_error nor locations: the whole READDIR fails.
        list(&ask).expect(NFS4ERR_MOVED);
        list(&[FATTR4_MOUNTED_ON_FILEID]).expect(NFS4ERR_MOVED);
        // rdattr_error alone.
        let reply = list(&[&ask[..], &[FATTR4_RDATTR_ERROR]].concat()).ok();
        let moved = entry(&reply, "path");
        assert_eq!(moved.rdattr_error, Some(NFS4ERR_MOVED));
        assert!(moved.fsid.is_some() && moved.mounted_on_fileid.is_some() && moved.size.is_none());
        let present = entry(&reply, "present");
        assert!(present.rdattr_error == Some(NFS4_OK) && present.size.is_some());
        // Also where the directory knows all of the attributes.
        let known = list(&[FATTR4_RDATTR_ERROR, FATTR4_MOUNTED_ON_FILEID]).ok();
        assert_eq!(entry(&known, "path").rdattr_error, Some(NFS4ERR_MOVED));
        // With locations there is no error, and unavailable attributes are left out.
        let both = [&ask[..], &[FATTR4_RDATTR_ERROR, FATTR4_FS_LOCATIONS]].concat();
        for ask in [both, [&ask[..], &[FATTR4_FS_LOCATIONS]].concat()] {
            let reply = list(&ask).ok();
            let moved = entry(&reply, "path");
            assert_ne!(moved.rdattr_error, Some(NFS4ERR_MOVED));
            assert_eq!(locations(&moved).1, REFERRED);
            assert!(moved.size.is_none() && entry(&reply, "present").size.is_some());
        }
    }
}

#[test]
fn a_referral_lies_on_the_root_of_an_export_and_hides_the_name_below() // RFC 8881 section 11.5.6
{
    let outer = memory();
    let server = Setup::with_exports(vec![export("/data", &outer), referral("/data/moved")]).start();
    let mut client = Client::new(&server);
    client.make_file("data", "stays", b"x");
    client.at("data/moved", vec![getfh()]).expect(NFS4ERR_MOVED);
    client.at("data", vec![remove("moved")]).expect(NFS4ERR_ACCESS);
    client.at("data", vec![mkdir("moved")]).expect(NFS4ERR_EXIST);
    client.at("data", vec![savefh(), rename("stays", "moved")]).expect(NFS4ERR_XDEV);
    // The root of a file system is a directory, wherever it is.
    client.at("data", vec![open("moved", 1)]).expect(NFS4ERR_ISDIR);
    let reply = client.at("data", vec![readdir(&[FATTR4_RDATTR_ERROR, FATTR4_SIZE])]).ok();
    assert_eq!(entry(&reply, "moved").rdattr_error, Some(NFS4ERR_MOVED));
    assert!(entry(&reply, "stays").size.is_some());
}

#[test]
fn the_flavors_of_a_referral_hold_at_its_name() // RFC 8881 sections 2.6.3.1 and 18.29.3
{
    let closed = for_flavors(referral("/this/path"), &[SecFlavor::Krb5p]);
    let server = Setup::with_exports(vec![export("/this/present", &memory()), closed]).start();
    let mut sys = Client::new(&server);
    sys.at("this/path", vec![]).expect(NFS4ERR_WRONGSEC);
    let secinfo = NfsArgop4::OP_SECINFO(Secinfo4Args { name: bytes(b"path") });
    let reply = sys.at("this", vec![secinfo]).ok();
    let NfsResop4::OP_SECINFO(Secinfo4Res::NFS4_OK(flavors)) = reply.last() else { panic!() };
    assert!(
        matches!(&flavors[..], [Secinfo4::RPCSEC_GSS(info)] if info.service == RpcGssSvcT::RPC_GSS_SVC_PRIVACY)
    );
    // READDIR does not reveal the locations either.
    let ask = [FATTR4_RDATTR_ERROR, FATTR4_FS_LOCATIONS];
    let reply = sys.at("this", vec![readdir(&ask)]).ok();
    assert_eq!(entry(&reply, "path").rdattr_error, Some(NFS4ERR_WRONGSEC));
    assert!(!reply.bytes.windows(13).any(|window| window == b"a.example.org"));
    let mut krb5p = Client::with(&server, b"k", krb5(SecFlavor::Krb5p, "alice", ALICE), FORE);
    let reply = krb5p.at("this/path", vec![getattr(&[FATTR4_FS_LOCATIONS])]).ok();
    assert_eq!(locations(&reply.attributes()).1, REFERRED);
}

#[test]
fn a_referral_is_not_there_for_clients_of_other_networks() // RFC 8881 section 7.7
{
    let closed = for_network(referral("/this/path"), "10.0.0.0/8");
    let server = Setup::with_exports(vec![export("/this/present", &memory()), closed]).start();
    let mut client = Client::new(&server);
    client.at("this/path", vec![]).expect(NFS4ERR_NOENT);
    let reply = client.at("this", vec![readdir(&[FATTR4_FILEID])]).ok();
    let NfsResop4::OP_READDIR(Readdir4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
    assert_eq!(ok.reply.entries.len(), 1);
}

#[test]
fn an_export_that_becomes_a_referral_moves_the_filehandles_that_clients_have()
// RFC 8881 section 11.5.5: migration
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let (root, file) = (client.fh_of("export"), client.make_file("export", "f", b"data"));
    server.exports.replace(table(vec![referral("/export")], &[]));
    for fh in [&root, &file] {
        client.run(vec![put(fh), read(Stateid4::ANONYMOUS, 0, 4)]).expect(NFS4ERR_MOVED);
        client.run(vec![put(fh), savefh()]).expect(NFS4ERR_MOVED);
        let reply = client.run(vec![put(fh), getattr(&[FATTR4_FS_LOCATIONS, FATTR4_TYPE])]).ok();
        assert_eq!(locations(&reply.attributes()), ("/export".to_owned(), REFERRED.map(String::from).into()));
    }
    // And back: the file system is present again, with the same filehandles.
    server.exports.replace(table(vec![export("/export", &memory())], &[]));
    client.run(vec![put_root(), lookup("export"), getfh()]).ok();
}

#[test]
fn exchange_id_announces_referrals_and_migration() // RFC 8881 section 18.35.3
{
    let server = Setup::default().start();
    let now = std::time::Duration::from_secs(100);
    let reply = server.call(&sys(ALICE), 1, now, 1, &[exchange_id(b"owner", StateProtect4A::SP4_NONE)]).ok();
    let NfsResop4::OP_EXCHANGE_ID(ExchangeId4Res::NFS4_OK(id)) = reply.last() else { panic!() };
    let both = EXCHGID4_FLAG_SUPP_MOVED_REFER | EXCHGID4_FLAG_SUPP_MOVED_MIGR;
    assert_eq!(id.eir_flags & both, both);
}

#[test]
fn a_present_file_system_without_locations_has_a_root_path_alone() // RFC 8881 section 11.16
{
    let server = server();
    let mut client = Client::new(&server);
    let file = client.make_file("this/present", "f", b"x");
    let ask = [FATTR4_FS_LOCATIONS, FATTR4_SUPPORTED_ATTRS];
    for (ops, root) in
        [(vec![put(&file)], "/this/present"), (vec![put_root(), lookup("this")], ""), (vec![put_root()], "")]
    {
        let reply = client.run([ops, vec![getattr(&ask)]].concat()).ok();
        let found = reply.attributes();
        assert_eq!(locations(&found), (root.to_owned(), Vec::new()));
        // A server that returns NFS4ERR_MOVED MUST support the attribute (section 11.3).
        assert!(found.supported_attrs.unwrap().contains(FATTR4_FS_LOCATIONS));
    }
}

#[test]
fn a_present_file_system_is_at_all_addresses_of_the_server_and_at_its_replicas()
// RFC 8881 sections 11.5.2 and 11.16, RFC 8587 section 5.1
{
    let server = Setup::default().start();
    let mut replicated = export("/data/one", &memory());
    replicated.locations = vec!["b.example.org:/two".parse().unwrap()];
    let addresses = ["gw1.example.org", "192.0.2.1", "2001:db8::1"];
    let exports = || vec![replicated.clone(), referral("/data/gone")];
    server.exports.replace(table(exports(), &addresses));
    let mut client = Client::new(&server);
    let at = |client: &mut Client<'_>, path: &str| {
        locations(&client.at(path, vec![getattr(&[FATTR4_FS_LOCATIONS])]).ok().attributes())
    };
    let own = |path: &str| format!("gw1.example.org 192.0.2.1 2001:db8::1:{path}");
    assert_eq!(at(&mut client, ""), (String::new(), vec![own("")]));
    assert_eq!(at(&mut client, "data"), (String::new(), vec![own("")]));
    assert_eq!(at(&mut client, "data/one").1, [own("/data/one"), "b.example.org:/two".into()]);
    // A referral's file system is not at this server.
    assert_eq!(at(&mut client, "data/gone").1, REFERRED);
    // Without addresses, the one of the call stands for the server.
    server.exports.replace(table(exports(), &[]));
    assert_eq!(at(&mut client, "data/one").1, [":/data/one", "b.example.org:/two"]);
    assert_eq!(at(&mut client, "data").1, Vec::<String>::new());
}

#[test]
fn pseudo_directories_on_an_export_have_a_root_path_of_their_own() // RFC 8881 section 11.16
{
    let exports = vec![export("/", &memory()), export("/a/b/c", &memory())];
    let server = Setup::with_exports(exports).start();
    let mut client = Client::new(&server);
    let mut at =
        |path: &str| locations(&client.at(path, vec![getattr(&[FATTR4_FS_LOCATIONS])]).ok().attributes()).0;
    assert_eq!([at(""), at("a"), at("a/b"), at("a/b/c")], ["", "/a", "/a", "/a/b/c"]);
}

#[test]
fn the_locations_of_an_attribute_have_a_limit() {
    let place = |number: usize| format!("s{number}.example.org:/{}", "x".repeat(200)).parse().unwrap();
    let export = |count: usize| Export::referral("/r", (0..count).map(place).collect()).unwrap();
    let new = |count| ExportTable::new(vec![export(count)], Timestamp::default());
    let fits = (1..1000).take_while(|count| new(*count).is_ok()).last().unwrap();
    let error = new(fits + 1).unwrap_err().to_string();
    assert!(error.contains("/r") && error.contains("clients read 3072"), "{error}");
    // The computed size is the encoded one.
    let server = Setup::with_exports(vec![all_flavors(export(fits))]).start();
    let mut client = Client::new(&server);
    let reply = client.at("r", vec![getattr(&[FATTR4_FS_LOCATIONS])]).ok();
    let encoded = |values: &AttributeValues<'_>| {
        let mut encoder = xdr::Encoder::new();
        encoder.value(values.fs_locations.as_ref().unwrap());
        encoder.len()
    };
    let size = encoded(&reply.attributes());
    let one = 4 + (4 + 20) + 4 + 4 + 200;
    assert!(size <= vfs::LOCATIONS_BYTES_MAX && size + one > vfs::LOCATIONS_BYTES_MAX, "{fits}: {size}");
}

#[test]
fn a_referral_that_clients_cannot_follow_is_refused() {
    let refused = |exports: Vec<Export>| {
        ExportTable::new(exports, Timestamp::default()).map(drop).unwrap_err().to_string()
    };
    assert!(refused(vec![referral("/")]).contains("the root cannot be a referral"));
    assert!(refused(vec![Export::referral("/r", Vec::new()).unwrap()]).contains("needs a location"));
    let below = refused(vec![export("/r/s", &memory()), referral("/r")]);
    assert!(below.contains("\"/r\"") && below.contains("\"/r/s\""), "{below}");
    ExportTable::new(vec![export("/rs", &memory()), referral("/r")], Timestamp::default()).unwrap();
}
