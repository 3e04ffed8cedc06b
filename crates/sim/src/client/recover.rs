//! New sessions after lost ones, and the reclaim of state (RFC 8881 sections 8.4 and 8.5).

use super::messages::{create_session, exchange_id};
use super::{CacheThis, Client, ClientOpen, ClientSlot, HostState, LockClaim, Lost, Phase};
use crate::plan::GRACE;
use nfs4::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

impl Client {
    /// Creates a session and reclaims, with as many attempts as it takes.
    pub(super) async fn recover(&self) {
        // Calls of the old session end first, since the new one uses the same slots.
        self.world.until(|| self.state.borrow().in_flight == 0).await;
        while !self.try_to_recover().await {
            self.pause(10, 1000).await;
        }
    }

    async fn try_to_recover(&self) -> bool {
        let Some((clientid, sequence)) = self.exchange_id().await else { return false };
        if !self.create_session(clientid, sequence).await {
            return false;
        }
        {
            let mut state = self.state.borrow_mut();
            if state.clientid != clientid {
                state.clientid = clientid;
                state.complete = false;
            }
            state.phase = Phase::Reclaiming;
        }
        let now = self.world.now();
        self.world.lock().history.end_lost(self.host, now);
        self.world.note(format_args!("client {} has a session as {clientid:016x}", self.host));
        if !self.state.borrow().complete && self.reclaim().await.is_err() {
            return false;
        }
        self.forget_old_delegations();
        let mut state = self.state.borrow_mut();
        if state.phase == Phase::Reclaiming {
            state.phase = Phase::Ready;
        }
        state.phase == Phase::Ready
    }

    async fn exchange_id(&self) -> Option<(Clientid4, u32)> {
        let reply = self.sessionless(exchange_id(self.host, self.life)).await?;
        match reply.results.first() {
            Some(NfsResop4::OP_EXCHANGE_ID(ExchangeId4Res::NFS4_OK(ok))) => {
                Some((ok.eir_clientid, ok.eir_sequenceid))
            }
            _ => self.unexpected("EXCHANGE_ID", reply.status, &[Nfsstat4::NFS4ERR_DELAY]),
        }
    }

    async fn create_session(&self, clientid: Clientid4, sequence: u32) -> bool {
        let slots = self.world.lock().plan.slots;
        // If the context is gone when it is needed, the server uses AUTH_NONE.
        let callbacks = self.session_callbacks();
        let parms = callbacks.iter().map(|callbacks| callbacks.parms());
        let parms: Vec<_> = parms.chain([CallbackSecParms4::AUTH_NONE]).collect();
        let operation = create_session(clientid, sequence, slots, parms);
        let reply = loop {
            let Some(reply) = self.sessionless(operation.clone()).await else { return false };
            if reply.status != Nfsstat4::NFS4ERR_DELAY {
                break reply;
            }
            // The same arguments again: the session of an executed copy would stay otherwise.
            self.pause(50, 500).await;
        };
        let Some(NfsResop4::OP_CREATE_SESSION(CreateSession4Res::NFS4_OK(ok))) = reply.results.first() else {
            // The server has restarted in between, or the reply to an earlier copy was lost with
            // its client ID. Or the context for callbacks was gone before the call arrived.
            let known = [Nfsstat4::NFS4ERR_STALE_CLIENTID, Nfsstat4::NFS4ERR_NOENT];
            return self.unexpected::<()>("CREATE_SESSION", reply.status, &known).is_some();
        };
        let mut state = self.state.borrow_mut();
        state.session = ok.csr_sessionid;
        state.callbacks = callbacks;
        state.slots = vec![ClientSlot::default(); ok.csr_fore_chan_attrs.ca_maxrequests as usize];
        true
    }

    /// Reports a status that is not expected.
    fn unexpected<T>(&self, operation: &str, status: Nfsstat4, known: &[Nfsstat4]) -> Option<T> {
        if !known.contains(&status) {
            let detail = format!("client {}: {operation} answers {}", self.host, status.name());
            let now = self.world.now();
            self.world.lock().history.complain("a correct client gets a session", detail, now);
        }
        None
    }

    /// Reclaims opens and locks, and sends RECLAIM_COMPLETE.
    async fn reclaim(&self) -> Result<(), Lost> {
        let opens: Vec<Rc<RefCell<ClientOpen>>> = self.state.borrow().opens.values().cloned().collect();
        for open in opens {
            if open.borrow().closing {
                let mut inner = self.world.lock();
                let now = inner.now;
                open.borrow_mut().lose(&mut inner, now);
            } else if !open.borrow().lost {
                self.reclaim_one(&open).await?;
            }
        }
        loop {
            let last = NfsArgop4::OP_RECLAIM_COMPLETE(ReclaimComplete4Args { rca_one_fs: false });
            let reply = self.call_now(vec![last], CacheThis::Yes).await?;
            match reply.status {
                Nfsstat4::NFS4_OK | Nfsstat4::NFS4ERR_COMPLETE_ALREADY => {
                    self.state.borrow_mut().complete = true;
                    return Ok(());
                }
                Nfsstat4::NFS4ERR_DELAY => self.pause(50, 500).await,
                other => {
                    let _: Option<()> = self.unexpected("RECLAIM_COMPLETE", other, &[]);
                    return Err(Lost);
                }
            }
        }
    }

    async fn reclaim_one(&self, open: &Rc<RefCell<ClientOpen>>) -> Result<(), Lost> {
        loop {
            let id = open.borrow().id;
            let operations = open.borrow().reclaim_open(self.delegation_type(id));
            let reply = self.call_now(operations, CacheThis::Yes).await?;
            match reply.results.last() {
                Some(NfsResop4::OP_OPEN(Open4Res::NFS4_OK(ok))) => {
                    open.borrow_mut().stateid = ok.stateid;
                    self.reclaimed(&open.borrow(), &ok.delegation);
                    break;
                }
                _ if reply.status == Nfsstat4::NFS4ERR_DELAY => self.pause(50, 500).await,
                _ => {
                    self.not_reclaimed(open, "open", reply.status);
                    return Ok(());
                }
            }
        }
        let ranges = open.borrow().locked.ranges();
        open.borrow_mut().forget_locker();
        for range in ranges {
            loop {
                let operations = open.borrow().lock_operations(range, LockClaim::Reclaim);
                let reply = self.call_now(operations, CacheThis::Yes).await?;
                match reply.results.last() {
                    Some(NfsResop4::OP_LOCK(Lock4Res::NFS4_OK(ok))) => {
                        open.borrow_mut().locker = Some(ok.lock_stateid);
                        break;
                    }
                    _ if reply.status == Nfsstat4::NFS4ERR_DELAY => self.pause(50, 500).await,
                    _ => {
                        self.not_reclaimed(open, "lock", reply.status);
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Gives up an open that the server refuses to reclaim.
    fn not_reclaimed(&self, open: &Rc<RefCell<ClientOpen>>, detail: &str, status: Nfsstat4) {
        let (now, renewed) = (self.world.now(), self.state.borrow().held_until_then);
        let HostState { clientid_then, revoked_then, .. } = *self.state.borrow();
        // The client's record may not be stable before the reply to its last FREE_STATEID.
        let unfreed = revoked_then || self.world.lock().history.unfreed.contains(&clientid_then);
        if !unfreed {
            self.refused(open.borrow().file, renewed, detail, status);
        }
        let mut inner = self.world.lock();
        let until = now.min(inner.history.lease_end(renewed));
        open.borrow_mut().lose(&mut inner, until);
        drop(inner);
        self.world.note(format_args!("client {} has lost an open: {}", self.host, status.name()));
    }

    /// Reports a refused reclaim as a violation. The server may refuse it if the lease was over
    /// before the crash, or the grace period is. It may not know a file if its creation was never
    /// acknowledged.
    pub(super) fn refused(&self, file: u64, renewed: Duration, detail: &str, status: Nfsstat4) {
        let mut inner = self.world.lock();
        let now = inner.now;
        let undone = status == Nfsstat4::NFS4ERR_STALE && !inner.history.stable_files.contains(&file);
        if !undone && inner.history.may_reclaim(renewed, now, GRACE) {
            let detail = format!(
                "client {} may not reclaim an {detail} that it held by a lease of {:.3}: {}",
                self.host,
                renewed.as_secs_f64(),
                status.name()
            );
            inner.history.complain("a client in time reclaims its state", detail, now);
        }
    }

    /// Sends DESTROY_SESSION and DESTROY_CLIENTID, at the end of all work.
    pub(super) async fn destroy(&self) {
        let idle = || {
            let state = self.state.borrow();
            state.in_flight == 0 && state.phase == Phase::Ready
        };
        self.world.until(idle).await;
        let (session, clientid) = {
            let mut state = self.state.borrow_mut();
            state.finished = true;
            (state.session, state.clientid)
        };
        let dsa_sessionid = session;
        let last = NfsArgop4::OP_DESTROY_SESSION(DestroySession4Args { dsa_sessionid });
        while let Some(reply) = self.sessionless(last.clone()).await {
            match reply.status {
                Nfsstat4::NFS4_OK | Nfsstat4::NFS4ERR_BADSESSION => break,
                Nfsstat4::NFS4ERR_DELAY => self.pause(50, 500).await,
                other => return self.unexpected::<()>("DESTROY_SESSION", other, &[]).unwrap_or_default(),
            }
        }
        let last = NfsArgop4::OP_DESTROY_CLIENTID(DestroyClientid4Args { dca_clientid: clientid });
        while let Some(reply) = self.sessionless(last.clone()).await {
            match reply.status {
                Nfsstat4::NFS4_OK | Nfsstat4::NFS4ERR_STALE_CLIENTID => break,
                Nfsstat4::NFS4ERR_DELAY => self.pause(50, 500).await,
                other => return self.unexpected::<()>("DESTROY_CLIENTID", other, &[]).unwrap_or_default(),
            }
        }
    }
}
