//! Delegations of a client: granted with an OPEN, recalled, returned and reclaimed (RFC 8881
//! sections 10.2 and 10.4).

use super::{CacheThis, Client, ClientOpen, Lost, Op, put};
use crate::history::DelegationHold;
use crate::mutation::Mutation;
use nfs4::*;
use std::rc::Rc;

/// Status flags of SEQUENCE that report revoked state.
const REVOKED: u32 = SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED
    | SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED
    | SEQ4_STATUS_ADMIN_STATE_REVOKED
    | SEQ4_STATUS_RECALLABLE_STATE_REVOKED;

/// A delegation in the hands of a client.
#[derive(Clone, Debug)]
pub(super) struct ClientDelegation {
    /// The client ID that holds it.
    clientid: u64,
    stateid: Stateid4,
    handle: Vec<u8>,
    write: bool,
    /// The number of the open that it was granted with.
    open: u64,
    /// The size that the holder of a write delegation returns in CB_GETATTR.
    size: u64,
    /// Its index in the history.
    hold: usize,
}

impl Client {
    /// Notes the delegation in the reply to an OPEN.
    pub(super) fn granted(&self, open: &ClientOpen, delegation: &OpenDelegation4<'_>) {
        let Some((stateid, write, recall)) = parts(delegation) else { return };
        if self.state.borrow().returned.contains(&stateid) {
            return;
        }
        let size = self.draw(|rng| rng.next() >> 24);
        let hold = self.note_hold(open.file, write, size);
        let handle = open.handle.clone();
        let mut state = self.state.borrow_mut();
        let clientid = state.clientid;
        let held =
            ClientDelegation { clientid, stateid, handle: handle.clone(), write, open: open.id, size, hold };
        state.delegations.push(held);
        if recall {
            state.recalls.push_back((stateid, handle));
        }
    }

    /// Adds a delegation to the history, and returns its index.
    fn note_hold(&self, file: u64, write: bool, size: u64) -> usize {
        let mut inner = self.world.lock();
        let (client, from) = ((self.host, self.life), inner.now);
        inner.history.delegations.push(DelegationHold { client, file, write, size, from, until: from });
        inner.history.delegations.len() - 1
    }

    /// Notes by the flags of a SEQUENCE whether the server still had all delegations at its call.
    pub(super) fn confirm_delegations(&self, clientid: u64, called: std::time::Duration, flags: u32) {
        let mut state = self.state.borrow_mut();
        state.revoked |= flags & REVOKED != 0 && state.clientid == clientid;
        // A reply may lack the flag because a revoked delegation has just been freed.
        if state.revoked {
            return;
        }
        let mut inner = self.world.lock();
        for held in state.delegations.iter().filter(|held| held.clientid == clientid) {
            let hold = &mut inner.history.delegations[held.hold];
            hold.until = hold.until.max(called);
        }
    }

    /// Returns the type of delegation to reclaim with an open.
    pub(super) fn delegation_type(&self, open: u64) -> OpenDelegationType4 {
        match self.state.borrow().delegations.iter().find(|held| held.open == open) {
            Some(held) if held.write => OpenDelegationType4::OPEN_DELEGATE_WRITE,
            Some(_) => OpenDelegationType4::OPEN_DELEGATE_READ,
            None => OpenDelegationType4::OPEN_DELEGATE_NONE,
        }
    }

    /// Notes the delegation that was reclaimed with an open. Before, the server did not know it.
    pub(super) fn reclaimed(&self, open: &ClientOpen, delegation: &OpenDelegation4<'_>) {
        let mut state = self.state.borrow_mut();
        let clientid = state.clientid;
        let Some((stateid, write, recall)) = parts(delegation) else { return };
        let held = state.delegations.iter_mut().find(|held| held.open == open.id && held.write == write);
        let handle = held.map(|held| {
            (held.clientid, held.stateid) = (clientid, stateid);
            held.hold = self.note_hold(open.file, write, held.size);
            held.handle.clone()
        });
        if let Some(handle) = handle.filter(|_| recall) {
            state.recalls.push_back((stateid, handle));
        }
    }

    /// Forgets the delegations of former client IDs that were not reclaimed.
    pub(super) fn forget_old_delegations(&self) {
        let mut state = self.state.borrow_mut();
        let clientid = state.clientid;
        state.delegations.retain(|held| held.clientid == clientid);
    }

    /// Takes a CB_RECALL. Its reply leaves at once, and the delegation is returned later.
    pub(super) fn recalled(&self, recall: &CbRecall4Args<'_>) {
        self.state.borrow_mut().recalls.push_back((recall.stateid, recall.fh.to_vec()));
    }

    /// Makes the result of CB_GETATTR: the size that the holder has set.
    pub(super) fn held_attributes(&self, args: &CbGetattr4Args<'_>) -> CbGetattr4Res<'static> {
        let state = self.state.borrow();
        let found = state.delegations.iter().find(|held| held.write && held.handle == *args.fh);
        let Some(held) = found else { return CbGetattr4Res::Default(Nfsstat4::NFS4ERR_BADHANDLE) };
        let (change, size) = (Some(held.size), Some(held.size));
        let values = AttributeValues { change, size, ..AttributeValues::default() };
        let obj_attributes = attributes::fattr4(&values.present(), &values);
        CbGetattr4Res::NFS4_OK(CbGetattr4Resok { obj_attributes })
    }

    /// Returns recalled delegations, and frees revoked ones, until the client ends.
    pub(crate) async fn return_recalled(self: Rc<Self>) {
        while !self.state.borrow().finished {
            let next = self.state.borrow_mut().recalls.pop_front();
            if let Some((stateid, handle)) = next {
                // The recall may have overtaken the reply to OPEN.
                for _ in 0..10 {
                    if self.knows(stateid) {
                        break;
                    }
                    self.pause(50, 300).await;
                }
                if !self.knows(stateid) {
                    self.state.borrow_mut().returned.push(stateid);
                }
                self.return_delegation(stateid, &handle).await;
            } else if self.state.borrow().revoked {
                self.free_revoked().await;
            } else {
                self.pause(20, 300).await;
            }
        }
    }

    fn knows(&self, stateid: Stateid4) -> bool {
        self.state.borrow().delegations.iter().any(|held| held.stateid == stateid)
    }

    fn drop_delegation(&self, stateid: Stateid4) {
        self.state.borrow_mut().delegations.retain(|held| held.stateid != stateid);
    }

    /// Returns all delegations of the client.
    pub(crate) async fn return_all(&self) {
        loop {
            let next = self.state.borrow().delegations.first().cloned();
            let Some(held) = next else { return };
            self.return_delegation(held.stateid, &held.handle).await;
            self.drop_delegation(held.stateid);
        }
    }

    /// Returns a delegation after a pause, in which a client would write data back.
    async fn return_delegation(&self, stateid: Stateid4, handle: &[u8]) {
        let early = self.world.lock().plan.mutation == Mutation::RecallNotAwaited;
        if !early {
            self.pause(0, 4000).await;
            self.drop_delegation(stateid);
        }
        let clientid = self.state.borrow().clientid;
        while clientid == self.state.borrow().clientid {
            let last = NfsArgop4::OP_DELEGRETURN(Delegreturn4Args { deleg_stateid: stateid });
            match self.run(CacheThis::Yes, || vec![put(handle), last.clone()]).await {
                Ok(reply) if reply.status == Nfsstat4::NFS4ERR_DELEG_REVOKED => {
                    let _ = self.run(CacheThis::Yes, || vec![free(stateid)]).await;
                    break;
                }
                Ok(_) => break,
                Err(Lost) => {}
            }
        }
        if early {
            self.pause(0, 4000).await;
            self.drop_delegation(stateid);
        }
    }

    /// Frees the delegations that the server has revoked (RFC 8881 section 10.2.1).
    async fn free_revoked(&self) {
        let all: Vec<Stateid4> = self.state.borrow().delegations.iter().map(|held| held.stateid).collect();
        for stateid in all {
            match self.run(CacheThis::Yes, || vec![free(stateid)]).await {
                // The delegation is not revoked.
                Ok(reply) if reply.status == Nfsstat4::NFS4ERR_LOCKS_HELD => {}
                Ok(_) => self.drop_delegation(stateid),
                Err(Lost) => return,
            }
        }
        self.state.borrow_mut().revoked = false;
        self.pause(20, 300).await;
    }
}

fn free(fsa_stateid: Stateid4) -> Op {
    NfsArgop4::OP_FREE_STATEID(FreeStateid4Args { fsa_stateid })
}

/// Returns the stateid of a delegation, whether it is for writing, and whether the server recalls
/// it at once.
fn parts(delegation: &OpenDelegation4<'_>) -> Option<(Stateid4, bool, bool)> {
    match delegation {
        OpenDelegation4::OPEN_DELEGATE_READ(read) => Some((read.stateid, false, read.recall)),
        OpenDelegation4::OPEN_DELEGATE_WRITE(write) => Some((write.stateid, true, write.recall)),
        _ => None,
    }
}
