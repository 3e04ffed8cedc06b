//! Access control lists (RFC 8881 section 6). Unit tests of the mapping are in `attr::acl`.

use crate::helper::*;
use crate::local::{Folder, folder};
use nfs4::Nfsstat4::*;
use nfs4::*;

const ALLOW: u32 = ACE4_ACCESS_ALLOWED_ACE_TYPE;
const DENY: u32 = ACE4_ACCESS_DENIED_ACE_TYPE;
const READ: u32 = ACE4_READ_DATA;
const WRITE: u32 = ACE4_WRITE_DATA | ACE4_APPEND_DATA;
const INHERIT: u32 = ACE4_FILE_INHERIT_ACE | ACE4_DIRECTORY_INHERIT_ACE;

fn ace(number: u32, flag: u32, access_mask: u32, who: &str) -> Nfsace4<'static> {
    Nfsace4 { r#type: number, flag, access_mask, who: bytes(who.as_bytes()) }
}

fn acl(list: Vec<Nfsace4<'static>>) -> Fattr4<'static> {
    fattr(AttributeValues { acl: Some(list), ..Default::default() })
}

fn set(list: Vec<Nfsace4<'static>>) -> Op {
    setattr(Stateid4::ANONYMOUS, acl(list))
}

/// Returns type, flag, mask and `who` of each entry.
fn listed(client: &mut Client<'_>, path: &str) -> Vec<(u32, u32, u32, String)> {
    let reply = client.at(path, vec![getattr(&[FATTR4_ACL])]).ok();
    let list = reply.attributes().acl.unwrap();
    let who = |ace: &Nfsace4<'_>| String::from_utf8(ace.who.to_vec()).unwrap();
    list.iter().map(|ace| (ace.r#type, ace.flag, ace.access_mask, who(ace))).collect()
}

/// The three special entries, with bob between them.
fn with_bob(mask: u32) -> Vec<Nfsace4<'static>> {
    vec![
        ace(ALLOW, 0, READ | WRITE, "OWNER@"),
        ace(ALLOW, 0, mask, "1001"),
        ace(ALLOW, ACE4_IDENTIFIER_GROUP, READ, "GROUP@"),
        ace(ALLOW, 0, 0, "EVERYONE@"),
    ]
}

#[test]
fn without_a_list_there_is_the_one_that_the_mode_stands_for() // RFC 8881 section 6.4.2
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.make_file("export", "f", b"");
    client.at("export/f", vec![setattr(Stateid4::ANONYMOUS, mode(0o604))]).ok();
    let all = ACE4_READ_ATTRIBUTES | ACE4_READ_ACL | ACE4_SYNCHRONIZE;
    let expected = [
        (ALLOW, 0, READ | WRITE | all | ACE4_WRITE_ATTRIBUTES | ACE4_WRITE_ACL, "OWNER@".to_owned()),
        (ALLOW, ACE4_IDENTIFIER_GROUP, all, "GROUP@".to_owned()),
        (DENY, ACE4_IDENTIFIER_GROUP, READ, "GROUP@".to_owned()),
        (ALLOW, 0, READ | all, "EVERYONE@".to_owned()),
    ];
    assert_eq!(listed(&mut client, "export/f"), expected);
    let support = [FATTR4_ACLSUPPORT, FATTR4_DACL, FATTR4_SACL];
    let reply = client.at("export/f", vec![getattr(&support)]).ok();
    assert_eq!(reply.attributes().aclsupport, Some(ACL4_SUPPORT_ALLOW_ACL | ACL4_SUPPORT_DENY_ACL));
    assert_eq!(reply.attributes().present().len(), 1);
    // The pseudo file system has no access control lists.
    assert!(
        client.at("", vec![getattr(&[FATTR4_ACL, FATTR4_ACLSUPPORT])]).ok().attributes().present().is_empty()
    );
}

#[test]
fn a_list_is_set_read_back_and_enforced() // RFC 8881 section 6.2.1
{
    let server = Setup::default().start();
    let mut alice = Client::new(&server);
    let fh = alice.make_file("export", "f", b"secret");
    let mut bob = Client::with(&server, b"bob", sys(BOB), FORE);
    let reads = |client: &mut Client<'_>| client.run(vec![put(&fh), read(Stateid4::ANONYMOUS, 0, 9)]).status;
    let writes =
        |client: &mut Client<'_>| client.run(vec![put(&fh), write(Stateid4::ANONYMOUS, 0, b"S")]).status;
    alice.run(vec![put(&fh), set(with_bob(READ))]).ok();
    assert_eq!((reads(&mut bob), writes(&mut bob)), (NFS4_OK, NFS4ERR_ACCESS));
    let mut carol = Client::with(&server, b"carol", sys(1002), FORE);
    assert_eq!(reads(&mut carol), NFS4ERR_ACCESS);
    alice.run(vec![put(&fh), set(with_bob(READ | WRITE))]).ok();
    assert_eq!(writes(&mut bob), NFS4_OK);
    let told = listed(&mut alice, "export/f");
    let bobs: Vec<_> = told.iter().filter(|ace| ace.3 == "1001").collect();
    assert!(matches!(bobs[..], [(ALLOW, 0, mask, _)] if mask & (READ | WRITE) == READ | WRITE), "{told:?}");
    let reply = alice.run(vec![put(&fh), getattr(&[FATTR4_MODE])]).ok();
    assert_eq!(reply.attributes().mode, Some(0o660), "the mask stands for the group");
    bob.run(vec![put(&fh), set(with_bob(READ | WRITE))]).expect(NFS4ERR_PERM);
    // A list from GETATTR can be set again, with the same meaning.
    let list = told.iter().map(|(number, flag, mask, who)| ace(*number, *flag, *mask, who)).collect();
    alice.run(vec![put(&fh), set(list)]).ok();
    assert_eq!(listed(&mut alice, "export/f"), told);
}

#[test]
fn a_user_who_is_denied_rights_does_not_have_those_of_others() // RFC 8881 section 6.2.1
{
    // Linux looks at no list with an empty mask.
    let outside = Folder::new();
    let exports = vec![export("/export", &memory()), folder("/local", outside.path())];
    let server = Setup::with_exports(exports).start();
    let mut alice = Client::new(&server);
    let [mut bob, mut carol] =
        [(b"bob", BOB), (b"car", 1002)].map(|(name, uid)| Client::with(&server, name, sys(uid), FORE));
    for place in ["export", "local"] {
        let fh = alice.make_file(place, "f", b"secret");
        let list = vec![
            ace(DENY, 0, READ, "1001"),
            ace(ALLOW, 0, READ | WRITE, "OWNER@"),
            ace(DENY, ACE4_IDENTIFIER_GROUP, READ, "GROUP@"),
            ace(ALLOW, 0, READ, "EVERYONE@"),
        ];
        alice.run(vec![put(&fh), set(list)]).ok();
        let reads = || vec![put(&fh), read(Stateid4::ANONYMOUS, 0, 9)];
        bob.run(reads()).expect(NFS4ERR_ACCESS);
        carol.run(reads()).ok();
        // While a mode hides the list, the reply does not name its users.
        alice.run(vec![put(&fh), setattr(Stateid4::ANONYMOUS, mode(0o604))]).ok();
        bob.run(reads()).ok();
        assert!(listed(&mut alice, &format!("{place}/f")).iter().all(|ace| ace.3 != "1001"), "{place}");
    }
}

#[test]
fn a_mode_after_a_list_changes_the_list() // RFC 8881 section 6.4.1.1
{
    let server = Setup::default().start();
    let mut alice = Client::new(&server);
    let fh = alice.make_file("export", "f", b"secret");
    let both =
        fattr(AttributeValues { acl: Some(with_bob(READ | WRITE)), mode: Some(0o600), ..Default::default() });
    alice.run(vec![put(&fh), setattr(Stateid4::ANONYMOUS, both)]).ok();
    let mut bob = Client::with(&server, b"bob", sys(BOB), FORE);
    bob.run(vec![put(&fh), read(Stateid4::ANONYMOUS, 0, 9)]).expect(NFS4ERR_ACCESS);
    alice.run(vec![put(&fh), setattr(Stateid4::ANONYMOUS, mode(0o640))]).ok();
    bob.run(vec![put(&fh), read(Stateid4::ANONYMOUS, 0, 9)]).ok();
    bob.run(vec![put(&fh), write(Stateid4::ANONYMOUS, 0, b"x")]).expect(NFS4ERR_ACCESS);
}

#[test]
fn entries_without_posix_equivalent_are_refused() // RFC 8881 sections 6.2.1.1, 6.2.1.4 and 6.2.1.5
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let fh = client.make_file("export", "f", b"");
    client.make_directory("export", "d");
    let with = |entry: Nfsace4<'static>| [vec![entry], with_bob(READ)].concat();
    let cases = [
        (ace(ACE4_SYSTEM_AUDIT_ACE_TYPE, 0, READ, "EVERYONE@"), NFS4ERR_ATTRNOTSUPP),
        (ace(ACE4_SYSTEM_ALARM_ACE_TYPE, 0, READ, "EVERYONE@"), NFS4ERR_ATTRNOTSUPP),
        (ace(99, 0, READ, "EVERYONE@"), NFS4ERR_ATTRNOTSUPP),
        (ace(ALLOW, INHERIT, READ, "OWNER@"), NFS4ERR_INVAL),
        (ace(ALLOW, 0, READ, "nobody-here@example.org"), NFS4ERR_BADOWNER),
        (ace(ALLOW, 0, READ, "INTERACTIVE@"), NFS4ERR_BADOWNER),
        (ace(DENY, ACE4_IDENTIFIER_GROUP, READ, "1001"), NFS4ERR_ATTRNOTSUPP),
    ];
    for (entry, status) in cases {
        client.run(vec![put(&fh), set(with(entry.clone()))]).expect(status);
    }
    let one_sided = with(ace(ALLOW, ACE4_FILE_INHERIT_ACE, READ, "OWNER@"));
    client.at("export/d", vec![set(one_sided)]).expect(NFS4ERR_ATTRNOTSUPP);
    let acl41 = || Some(Nfsacl41 { na41_flag: 0, na41_aces: with_bob(READ) });
    for values in [
        AttributeValues { dacl: acl41(), ..Default::default() },
        AttributeValues { sacl: acl41(), ..Default::default() },
    ] {
        client.run(vec![put(&fh), setattr(Stateid4::ANONYMOUS, fattr(values))]).expect(NFS4ERR_ATTRNOTSUPP);
    }
    client
        .at("export", vec![create(Createtype4::NF4LNK(bytes(b"f")), "l", acl(with_bob(READ)))])
        .expect(NFS4ERR_ATTRNOTSUPP);
    client.at("export", vec![create(Createtype4::NF4LNK(bytes(b"f")), "l", mode(0o777))]).ok();
    client.at("export/l", vec![set(with_bob(READ))]).expect(NFS4ERR_ATTRNOTSUPP);
    let endless: Vec<_> = (0..9000).map(|uid| ace(ALLOW, 0, READ, &uid.to_string())).collect();
    client.run(vec![put(&fh), set(endless)]).expect(NFS4ERR_NOSPC);
}

#[test]
fn new_objects_inherit_a_list_or_bring_their_own() // RFC 8881 section 6.4.3
{
    let server = Setup::default().start();
    let mut alice = Client::new(&server);
    let searches = READ | ACE4_EXECUTE;
    let inherited = vec![
        ace(ALLOW, 0, searches | WRITE | ACE4_DELETE_CHILD, "OWNER@"),
        ace(ALLOW, INHERIT, READ | WRITE | ACE4_DELETE_CHILD, "1001"),
        ace(ALLOW, 0, searches, "GROUP@"),
        ace(ALLOW, 0, searches, "EVERYONE@"),
    ];
    alice.at("export", vec![create(Createtype4::NF4DIR, "d", acl(inherited))]).ok();
    let told = listed(&mut alice, "export/d");
    let passed_on: Vec<_> = told.iter().filter(|ace| ace.1 & INHERIT != 0).collect();
    assert!(
        passed_on.iter().all(|ace| ace.1 & ACE4_INHERIT_ONLY_ACE != 0) && passed_on.len() >= 4,
        "{told:?}"
    );
    let asked = Createhow4::GUARDED4(mode(0o660));
    let opening = open_how(Openflag4::OPEN4_CREATE(asked), by_name("f"), 3, 0, b"o");
    let fh = alice.at("export/d", vec![opening, getfh()]).ok().fh(0);
    let mut bob = Client::with(&server, b"bob", sys(BOB), FORE);
    bob.run(vec![put(&fh), write(Stateid4::ANONYMOUS, 0, b"x")]).ok();
    let asked = Createhow4::GUARDED4(acl(with_bob(READ)));
    let opening = open_how(Openflag4::OPEN4_CREATE(asked), by_name("g"), 3, 0, b"o");
    let reply = alice.at("export/d", vec![opening, getfh()]).ok();
    assert!(reply.opened().attrset.contains(FATTR4_ACL));
    bob.run(vec![put(&reply.fh(0)), read(Stateid4::ANONYMOUS, 0, 9)]).ok();
    bob.run(vec![put(&reply.fh(0)), write(Stateid4::ANONYMOUS, 0, b"x")]).expect(NFS4ERR_ACCESS);
}

#[test]
fn a_list_of_hundreds_of_entries_is_returned_whole() // RFC 8881 section 6.2.1
{
    let server = Setup::default().start();
    let mut alice = Client::new(&server);
    let fh = alice.make_file("export", "f", b"");
    let many = (2000..2400).map(|uid| ace(ALLOW, 0, READ, &uid.to_string()));
    let list: Vec<_> = with_bob(READ).into_iter().chain(many).collect();
    alice.run(vec![put(&fh), set(list)]).ok();
    let told = listed(&mut alice, "export/f");
    assert_eq!(told.iter().filter(|ace| ace.0 == ALLOW).count(), 404);
    let verify = |obj_attributes| NfsArgop4::OP_VERIFY(Verify4Args { obj_attributes });
    let list = told.iter().map(|(number, flag, mask, who)| ace(*number, *flag, *mask, who)).collect();
    alice.run(vec![put(&fh), verify(acl(list))]).ok();
}
