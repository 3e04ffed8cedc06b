//! Random and hostile COMPOUNDs: no panic, a well-formed reply, and only statuses of section 15.2.
//! The helper checks the latter two for every call.

use crate::helper::*;
use nfs4::*;
use proptest::prelude::*;

pub(crate) fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-d]",
        1 => Just(String::new()),
        1 => Just("..".to_owned()),
        1 => Just("a/b".to_owned()),
        1 => Just("x".repeat(300)),
    ]
}

fn stateid() -> impl Strategy<Value = Stateid4> {
    prop_oneof![
        3 => Just(Stateid4::CURRENT),
        2 => Just(Stateid4::ANONYMOUS),
        1 => Just(Stateid4::READ_BYPASS),
        1 => Just(Stateid4::INVALID),
        1 => any::<(u32, [u8; 12])>().prop_map(|(seqid, other)| Stateid4 { seqid, other }),
    ]
}

fn bitmap() -> impl Strategy<Value = Bitmap4> {
    proptest::collection::vec(0_u32..90, 0..8).prop_map(|bits| Bitmap4::of(&bits))
}

fn set() -> impl Strategy<Value = Fattr4<'static>> {
    let size = proptest::option::of(prop_oneof![0_u64..100, any::<u64>()]);
    let some = (size, proptest::option::of(0_u32..0o10010), proptest::option::of("[a-z0-9@.]{0,20}"));
    let good = some.prop_map(|(size, mode, owner)| {
        let owner = owner.map(|owner| bytes(owner.as_bytes()));
        fattr(AttributeValues { size, mode, owner, ..Default::default() })
    });
    let who = prop_oneof![Just("OWNER@"), Just("GROUP@"), Just("EVERYONE@"), Just("1001"), Just("x")];
    let ace = (0_u32..3, 0_u32..128, any::<u32>(), who).prop_map(|(number, flag, access_mask, who)| {
        Nfsace4 { r#type: number, flag, access_mask, who: bytes(who.as_bytes()) }
    });
    let acl = proptest::collection::vec(ace, 0..6);
    let acl = acl.prop_map(|acl| fattr(AttributeValues { acl: Some(acl), ..Default::default() }));
    let bad = (bitmap(), proptest::collection::vec(any::<u8>(), 0..40));
    let bad = bad.prop_map(|(attrmask, values)| Fattr4 { attrmask, attr_vals: bytes(&values) });
    prop_oneof![3 => good, 1 => bad, 1 => acl]
}

pub(crate) fn how() -> impl Strategy<Value = Openflag4<'static>> {
    prop_oneof![
        2 => Just(NOCREATE),
        1 => set().prop_map(|set| Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(set))),
        1 => set().prop_map(|set| Openflag4::OPEN4_CREATE(Createhow4::GUARDED4(set))),
        1 => any::<[u8; 8]>().prop_map(|verifier| Openflag4::OPEN4_CREATE(Createhow4::EXCLUSIVE4(verifier))),
        1 => (any::<[u8; 8]>(), set()).prop_map(|(cva_verf, cva_attrs)| {
            Openflag4::OPEN4_CREATE(Createhow4::EXCLUSIVE4_1(Creatverfattr { cva_verf, cva_attrs }))
        }),
    ]
}

pub(crate) fn claim() -> impl Strategy<Value = OpenClaim4<'static>> {
    prop_oneof![
        5 => name().prop_map(|name| by_name(&name)),
        1 => Just(OpenClaim4::CLAIM_FH),
        1 => Just(OpenClaim4::CLAIM_PREVIOUS(OpenDelegationType4::OPEN_DELEGATE_NONE)),
        1 => Just(OpenClaim4::CLAIM_DELEG_PREV_FH),
        1 => stateid().prop_map(OpenClaim4::CLAIM_DELEG_CUR_FH),
    ]
}

fn kind() -> impl Strategy<Value = Createtype4<'static>> {
    prop_oneof![
        3 => Just(Createtype4::NF4DIR),
        1 => Just(Createtype4::NF4FIFO),
        1 => Just(Createtype4::NF4SOCK),
        1 => Just(Createtype4::NF4CHR(Specdata4 { specdata1: 1, specdata2: 3 })),
        1 => "[a-z/]{0,9}".prop_map(|target| Createtype4::NF4LNK(bytes(target.as_bytes()))),
    ]
}

pub(crate) fn of_files() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => name().prop_map(|name| lookup(&name)),
        4 => (how(), claim(), 0_u32..5, 0_u32..5)
            .prop_map(|(how, claim, access, deny)| open_how(how, claim, access, deny, b"o")),
        2 => (kind(), name(), set()).prop_map(|(kind, name, set)| create(kind, &name, set)),
        2 => (stateid(), any::<u64>(), 0_u32..100).prop_map(|(id, at, count)| read(id, at % 200, count)),
        2 => (stateid(), 0_u64..200).prop_map(|(id, at)| write(id, at, b"data")),
        1 => (stateid(), any::<u64>()).prop_map(|(id, at)| write(id, at, b"data")),
        2 => (stateid(), set()).prop_map(|(id, set)| setattr(id, set)),
        2 => bitmap().prop_map(|attr_request| NfsArgop4::OP_GETATTR(Getattr4Args { attr_request })),
        1 => name().prop_map(|name| remove(&name)),
        1 => (name(), name()).prop_map(|(from, to)| rename(&from, &to)),
        1 => name().prop_map(|name| link(&name)),
        1 => stateid().prop_map(close),
        1 => (any::<u64>(), any::<u32>()).prop_map(|(offset, count)| {
            NfsArgop4::OP_COMMIT(Commit4Args { offset, count })
        }),
        1 => set().prop_map(|obj_attributes| NfsArgop4::OP_VERIFY(Verify4Args { obj_attributes })),
        1 => set().prop_map(|obj_attributes| NfsArgop4::OP_NVERIFY(Nverify4Args { obj_attributes })),
        1 => (0_u64..9, 0_u32..2000, bitmap()).prop_map(|(cookie, maxcount, attr_request)| {
            let cookieverf = *b"orthrus1";
            NfsArgop4::OP_READDIR(Readdir4Args { cookie, cookieverf, dircount: maxcount, maxcount, attr_request })
        }),
    ]
}

fn extent() -> impl Strategy<Value = DataContent4> {
    prop_oneof![Just(DataContent4::NFS4_CONTENT_DATA), Just(DataContent4::NFS4_CONTENT_HOLE)]
}

fn of_minor_2() -> impl Strategy<Value = Op> {
    let range = || (prop_oneof![0_u64..200, any::<u64>()], prop_oneof![0_u64..200, any::<u64>()]);
    prop_oneof![
        (stateid(), range()).prop_map(|(id, (at, count))| allocate(id, at, count)),
        (stateid(), range()).prop_map(|(id, (at, count))| deallocate(id, at, count)),
        (stateid(), range(), extent()).prop_map(|(id, (at, _), what)| seek(id, at, what)),
        (stateid(), range(), any::<u32>()).prop_map(|(id, (at, _), count)| read_plus(id, at, count)),
        (stateid(), stateid(), range(), any::<u64>()).prop_map(|(from, to, (at, count), target)| copy(
            (from, to),
            at,
            target % 300,
            count
        )),
        (stateid(), stateid(), range(), any::<u64>()).prop_map(|(from, to, (at, count), target)| clone(
            (from, to),
            at,
            target,
            count
        )),
        (stateid(), range(), bitmap()).prop_map(|(iaa_stateid, (iaa_offset, iaa_count), iaa_hints)| {
            NfsArgop4::OP_IO_ADVISE(IoAdvise4Args { iaa_stateid, iaa_offset, iaa_count, iaa_hints })
        }),
        name().prop_map(|name| get_xattr(name.as_bytes())),
        (name(), 0_usize..70_000).prop_map(|(name, length)| {
            set_xattr(SetxattrOption4::SETXATTR4_EITHER, name.as_bytes(), &vec![1; length])
        }),
        (any::<u64>(), 0_u32..200).prop_map(|(cookie, most)| list_xattrs(cookie % 4, most)),
        name().prop_map(|name| remove_xattr(name.as_bytes())),
        stateid()
            .prop_map(|osa_stateid| { NfsArgop4::OP_OFFLOAD_STATUS(OffloadStatus4Args { osa_stateid }) }),
    ]
}

pub(crate) fn others() -> impl Strategy<Value = Op> {
    prop_oneof![
        Just(NfsArgop4::OP_LOOKUPP),
        Just(NfsArgop4::OP_READLINK),
        Just(NfsArgop4::OP_SAVEFH),
        Just(NfsArgop4::OP_RESTOREFH),
        Just(NfsArgop4::OP_GETFH),
        Just(put_root()),
        any::<u32>().prop_map(|access| NfsArgop4::OP_ACCESS(Access4Args { access })),
        name().prop_map(|name| NfsArgop4::OP_SECINFO(Secinfo4Args { name: bytes(name.as_bytes()) })),
        Just(NfsArgop4::OP_SECINFO_NO_NAME(SecinfoStyle4::SECINFO_STYLE4_PARENT)),
        stateid().prop_map(|fsa_stateid| NfsArgop4::OP_FREE_STATEID(FreeStateid4Args { fsa_stateid })),
        (stateid(), any::<u64>(), any::<u64>(), any::<bool>()).prop_map(|(id, offset, length, reclaim)| {
            let lock_owner = StateOwner4 { clientid: 0, owner: bytes(b"l") };
            let new = OpenToLockOwner4 { open_seqid: 0, open_stateid: id, lock_seqid: 0, lock_owner };
            let locktype = NfsLockType4::READ_LT;
            NfsArgop4::OP_LOCK(Lock4Args { locktype, reclaim, offset, length, locker: Locker4::TRUE(new) })
        }),
        (stateid(), any::<u64>(), any::<u64>()).prop_map(|(lock_stateid, offset, length)| {
            let locktype = NfsLockType4::READ_LT;
            NfsArgop4::OP_LOCKU(Locku4Args { locktype, seqid: 0, lock_stateid, offset, length })
        }),
        stateid().prop_map(|deleg_stateid| NfsArgop4::OP_DELEGRETURN(Delegreturn4Args { deleg_stateid })),
        Just(NfsArgop4::OP_OPENATTR(Openattr4Args { createdir: true })),
        Just(reclaim_complete()),
        any::<[u8; 16]>().prop_map(|dsa_sessionid| {
            NfsArgop4::OP_DESTROY_SESSION(DestroySession4Args { dsa_sessionid })
        }),
        any::<u64>().prop_map(|dca_clientid| {
            NfsArgop4::OP_DESTROY_CLIENTID(DestroyClientid4Args { dca_clientid })
        }),
        Just(exchange_id(b"another", StateProtect4A::SP4_NONE)),
        any::<u64>().prop_map(|clientid| create_session(clientid, 1, FORE)),
    ]
}

fn compound() -> impl Strategy<Value = Vec<Op>> {
    proptest::collection::vec(prop_oneof![6 => of_files(), 2 => others(), 1 => of_minor_2()], 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_compound_gets_a_reply_with_allowed_statuses(
        compounds in proptest::collection::vec(compound(), 1..12),
        minor in 1_u32..=2,
    ) // RFC 8881 section 15.2
    {
        let server = Setup::default().start();
        let wire = Wire::under(&server);
        // Both have backchannels, so that they get delegations that conflict.
        let mut clients = [Client::delegated(&server, &wire, b"a", 1), Client::delegated(&server, &wire, b"b", 2)];
        clients.iter_mut().for_each(|client| client.minor = minor);
        for (turn, ops) in compounds.into_iter().enumerate() {
            let reply = clients[turn % 2].at("export", ops);
            // The last substitutes for a status that the operation's list lacks; the memory backend
            // has no such errors.
            let last_resort = matches!(reply.status, Nfsstat4::NFS4ERR_SERVERFAULT | Nfsstat4::NFS4ERR_IO);
            prop_assert!(!last_resort, "{:?}", reply.results);
        }
    }

    #[test]
    fn damaged_bytes_get_a_reply_with_allowed_statuses(
        ops in compound(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<proptest::sample::Index>(),
    ) // RFC 8881 section 15.1.1.1
    {
        let server = Setup::default().start();
        let mut client = Client::new(&server);
        let mut all = vec![client.next_sequence(), put_root(), lookup("export")];
        all.extend(ops);
        let mut args = encode(1, &all);
        // The part up to and including SEQUENCE stays intact, so that the operations behind it are
        // reached.
        let whole = 8 + 4 + 4 + 4 + 36;
        for (index, value) in &damage {
            let at = whole + index.index(args.len() - whole);
            args[at] = *value;
        }
        server.call_bytes(&client.security, 1, client.now, &args);
        client.sequence += 1;
        let cut = cut.index(args.len());
        server.call_bytes(&client.security, 1, client.now, &args[..cut]);
        // The same operations in the minor version that has no SEQUENCE.
        let mut args = encode(0, &all[1..]);
        let whole = 8 + 4 + 4;
        for (index, value) in &damage {
            let at = whole + index.index(args.len() - whole);
            args[at] = *value;
        }
        server.call_bytes(&client.security, 1, client.now, &args);
    }
}
