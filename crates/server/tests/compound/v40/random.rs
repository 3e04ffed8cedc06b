//! Random COMPOUNDs of NFSv4.0: no panic, a well-formed reply, and only statuses of RFC 7530
//! section 13.2. The helper checks the latter two for every call.

use crate::helper::*;
use crate::random::{claim, how, name, of_files, others};
use nfs4::*;
use proptest::prelude::*;

/// A choice of a stateid among the ones known at run time, by index, and an offset of the sequence
/// number.
fn known() -> impl Strategy<Value = (usize, u32)> {
    (0_usize..8, prop_oneof![6 => Just(0_u32), 1 => Just(1), 1 => Just(u32::MAX), 1 => any::<u32>()])
}

/// An operation with a sequence number.
#[derive(Clone, Debug)]
enum SequencedOp {
    Open(Openflag4<'static>, OpenClaim4<'static>, u32, u32),
    Confirm,
    Downgrade(u32, u32),
    Close,
    Lock(bool, u64, u64),
    Unlock(u64, u64),
    /// Any other operation, put behind the file's filehandle.
    Other(Op),
}

fn sequenced() -> impl Strategy<Value = SequencedOp> {
    let range = || (0_u64..60, prop_oneof![0_u64..40, Just(u64::MAX)]);
    prop_oneof![
        6 => (how(), claim(), 0_u32..5, 0_u32..4).prop_map(|(how, claim, access, deny)| {
            SequencedOp::Open(how, claim, access, deny)
        }),
        4 => Just(SequencedOp::Confirm),
        1 => (0_u32..5, 0_u32..5).prop_map(|(access, deny)| SequencedOp::Downgrade(access, deny)),
        2 => Just(SequencedOp::Close),
        3 => (any::<bool>(), range()).prop_map(|(new, (at, length))| SequencedOp::Lock(new, at, length)),
        1 => range().prop_map(|(at, length)| SequencedOp::Unlock(at, length)),
        4 => of_files().prop_map(SequencedOp::Other),
        2 => others().prop_map(SequencedOp::Other),
    ]
}

/// Returns the operation, with a stateid and a sequence number that the client could use.
fn of_client_40(client: &Client40<'_>, what: SequencedOp, stateid: Stateid4, off: u32) -> Op {
    let (open, lock) = (client.open_seqid.get(), client.lock_seqid.get());
    client.open_seqid.set(open.wrapping_add(off));
    client.lock_seqid.set(lock.wrapping_add(off));
    match what {
        SequencedOp::Open(how, claim, access, deny) => client.open_op(how, claim, access, deny),
        SequencedOp::Confirm => client.confirm_op(stateid),
        SequencedOp::Downgrade(share_access, share_deny) => {
            let seqid = client.next_open();
            let open_stateid = stateid;
            NfsArgop4::OP_OPEN_DOWNGRADE(OpenDowngrade4Args { open_stateid, seqid, share_access, share_deny })
        }
        SequencedOp::Close => client.close_op(stateid),
        SequencedOp::Lock(true, at, length) => client.first_lock_op(stateid, at, length),
        SequencedOp::Lock(false, at, length) => client.lock_op(stateid, at, length),
        SequencedOp::Unlock(at, length) => client.unlock_op(stateid, at, length),
        SequencedOp::Other(op) => op,
    }
}

/// Creates or opens a file and confirms the open, unless there is a conflict.
fn open_and_confirm(client: &Client40<'_>, name: &str) -> Option<(Vec<u8>, Stateid4)> {
    let before = (client.open_seqid.get(), client.lock_seqid.get());
    let ops = vec![client.create_op(name), getfh()];
    let reply = client.at("export", ops.clone());
    follow(client, before, 2, &ops, &reply);
    let stateid = *given(&reply).first()?;
    let fh = reply.fh(0);
    if reply.opened().rflags & OPEN4_RESULT_CONFIRM == 0 {
        return Some((fh, stateid));
    }
    let confirmed = client.run(vec![put(&fh), client.confirm_op(stateid)]).ok();
    Some((fh, confirmed.stateid()))
}

/// Advances the sequences as far as the server has consumed requests (RFC 7530 section 9.1.7).
fn follow(client: &Client40<'_>, before: (u32, u32), prefix: usize, ops: &[Op], reply: &Reply) {
    use Nfsstat4::*;
    let again = matches!(
        reply.status,
        NFS4ERR_STALE_CLIENTID
            | NFS4ERR_STALE_STATEID
            | NFS4ERR_BAD_STATEID
            | NFS4ERR_BAD_SEQID
            | NFS4ERR_BADXDR
            | NFS4ERR_RESOURCE
            | NFS4ERR_NOFILEHANDLE
    );
    let reached = reply.results.len().saturating_sub(prefix).saturating_sub(usize::from(again));
    let (mut open, mut lock) = before;
    for op in &ops[..reached.min(ops.len())] {
        match op {
            NfsArgop4::OP_OPEN(args) => open = args.seqid.wrapping_add(1),
            NfsArgop4::OP_OPEN_CONFIRM(args) => open = args.seqid.wrapping_add(1),
            NfsArgop4::OP_OPEN_DOWNGRADE(args) => open = args.seqid.wrapping_add(1),
            NfsArgop4::OP_CLOSE(args) => open = args.seqid.wrapping_add(1),
            NfsArgop4::OP_LOCKU(args) => lock = args.seqid.wrapping_add(1),
            NfsArgop4::OP_LOCK(args) => match &args.locker {
                Locker4::TRUE(new) => {
                    open = new.open_seqid.wrapping_add(1);
                    lock = new.lock_seqid.wrapping_add(1);
                }
                Locker4::FALSE(existing) => lock = existing.lock_seqid.wrapping_add(1),
            },
            _ => {}
        }
    }
    client.open_seqid.set(open);
    client.lock_seqid.set(lock);
}

/// Returns the stateids in a reply.
fn given(reply: &Reply) -> Vec<Stateid4> {
    let stateid = |result: &Res| match result {
        NfsResop4::OP_OPEN(Open4Res::NFS4_OK(ok)) => Some(ok.stateid),
        NfsResop4::OP_OPEN_CONFIRM(OpenConfirm4Res::NFS4_OK(ok)) => Some(ok.open_stateid),
        NfsResop4::OP_OPEN_DOWNGRADE(OpenDowngrade4Res::NFS4_OK(ok)) => Some(ok.open_stateid),
        NfsResop4::OP_LOCK(Lock4Res::NFS4_OK(ok)) => Some(ok.lock_stateid),
        NfsResop4::OP_LOCKU(Locku4Res::NFS4_OK(stateid)) => Some(*stateid),
        _ => None,
    };
    reply.results.iter().filter_map(stateid).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_compound_of_4_0_gets_a_reply_with_allowed_statuses(
        steps in proptest::collection::vec((name(), proptest::collection::vec((sequenced(), known()), 1..4)), 1..20),
    ) // RFC 7530 section 13.2
    {
        let server = Setup::default().start();
        let wire = Wire::under(&server);
        // One that gets delegations, so that NFSv4.0 meets conflicts.
        let mut delegated = Client::delegated(&server, &wire, b"a", 1);
        let clients = [Client40::new(&server), Client40::with(&server, b"other", sys(BOB), [1; 8])];
        let mut all_known = [Vec::new(), Vec::new()];
        for (turn, (file, ops)) in steps.into_iter().enumerate() {
            let (client, known): (_, &mut Vec<(Vec<u8>, Stateid4)>) = (&clients[turn % 2], &mut all_known[turn % 2]);
            if turn % 4 < 2 {
                known.extend(open_and_confirm(client, &file));
            }
            // The file of a stateid, or a directory or a file that may exist.
            let newest = known.last().filter(|_| turn % 3 > 0).cloned();
            let mut prefix = vec![put_root(), lookup("export")];
            match &newest {
                Some((fh, _)) => prefix = vec![put(fh)],
                None if turn % 2 == 0 => {}
                None => prefix.push(lookup(&file)),
            }
            let before = (client.open_seqid.get(), client.lock_seqid.get());
            let stateid = |place: usize| match (place, &newest) {
                (0..4, Some((_, stateid))) => *stateid,
                (4..6, _) if !known.is_empty() => known[(place + turn) % known.len()].1,
                (6, _) => Stateid4::READ_BYPASS,
                _ => Stateid4::ANONYMOUS,
            };
            let ops: Vec<Op> =
                ops.into_iter().map(|(what, (place, off))| of_client_40(client, what, stateid(place), off)).collect();
            let reply = client.run([prefix.clone(), ops.clone()].concat());
            follow(client, before, prefix.len(), &ops, &reply);
            let fh = newest.map_or(Vec::new(), |(fh, _)| fh);
            known.extend(given(&reply).into_iter().map(|stateid| (fh.clone(), stateid)));
            let last_resort = matches!(reply.status, Nfsstat4::NFS4ERR_SERVERFAULT | Nfsstat4::NFS4ERR_IO);
            prop_assert!(!last_resort, "{:?}", reply.results);
            if turn % 5 == 4 {
                delegated.at("export", vec![open("a", 1)]);
            }
        }
    }
}
