//! The state as one thread sees it: the effects of calls are collected, so that a test can check
//! them later.

use crate::*;
use nfs4::{Clientid4, Stateid4, WhyNoDelegation4};
use std::cell::RefCell;
use std::ops::Deref;
use std::time::Duration;

pub(super) type TestState = State<u32, u64>;

/// A state, and the effects of its calls.
pub(super) struct Shared {
    state: TestState,
    effects: RefCell<Effects<u64>>,
}

impl Deref for Shared {
    type Target = TestState;

    fn deref(&self) -> &TestState {
        &self.state
    }
}

impl Shared {
    pub(super) fn new(state: TestState) -> Self {
        Self { state, effects: RefCell::default() }
    }

    pub(super) fn with<R>(&self, run: impl FnOnce(&TestState, &mut Effects<u64>) -> R) -> R {
        run(&self.state, &mut self.effects.borrow_mut())
    }

    /// The payloads that were closed since the last call.
    pub(super) fn take_closed(&self) -> Vec<u64> {
        std::mem::take(&mut self.effects.borrow_mut().closed)
    }

    /// Carries out the effects since the last call, and returns them; each must have been reported
    /// by a call.
    pub(super) fn take_queued(&self) -> Vec<Effect> {
        let told = std::mem::take(&mut self.effects.borrow_mut().queued);
        let (queued, newest) = self.state.take_effects();
        assert_eq!(told.is_empty(), queued.is_empty());
        self.state.note_stable(newest);
        queued
    }

    /// The callbacks that were asked for since the last call.
    pub(super) fn take_callbacks(&self) -> Vec<CallbackTask> {
        std::mem::take(&mut self.effects.borrow_mut().callbacks)
    }

    pub(super) fn exchange_id(
        &self,
        now: Duration,
        caller: &Caller<'_>,
        args: &ExchangeId<'_>,
        random: u64,
    ) -> Result<ExchangeIdOk> {
        self.with(|state, effects| state.clients().exchange_id(now, caller, args, random, effects))
    }

    pub(super) fn create_session(
        &self,
        now: Duration,
        caller: &Caller<'_>,
        args: &CreateSession,
        random: u64,
    ) -> Result<CreateSessionOk> {
        self.with(|state, effects| state.sessions().create_session(now, caller, args, random, effects))
    }

    pub(super) fn destroy_clientid(&self, caller: &Caller<'_>, clientid: Clientid4) -> Result<()> {
        self.with(|state, effects| state.clients().destroy_clientid(caller, clientid, effects))
    }

    pub(super) fn sequence(&self, now: Duration, caller: &Caller<'_>, args: &Sequence) -> Result<Sequenced> {
        self.with(|state, effects| state.sessions().sequence(now, caller, args, effects))
    }

    pub(super) fn reclaim_complete(&self, now: Duration, client: ClientKey, one_fs: bool) -> Result<()> {
        self.with(|state, effects| state.leases().reclaim_complete(now, client, one_fs, effects))
    }

    pub(super) fn expire(&self, now: Duration) -> usize {
        self.with(|state, effects| state.leases().expire(now, effects))
    }

    pub(super) fn evict(&self, client: Clientid4) -> bool {
        self.with(|state, effects| state.leases().evict(client, effects))
    }

    pub(super) fn free_expired(&self, now: Duration, file: u32) -> bool {
        self.with(|state, effects| state.leases().free_expired(now, &file, effects))
    }

    pub(super) fn open_check(
        &self,
        now: Duration,
        client: ClientKey,
        request: &OpenRequest<'_, u32>,
    ) -> Result<u32> {
        self.with(|state, effects| state.opens().open_check(now, client, request, |_| (), effects))
            .map(|(needed, _)| needed)
    }

    pub(super) fn open(
        &self,
        now: Duration,
        client: ClientKey,
        request: &OpenRequest<'_, u32>,
        payload: u64,
        payload_access: u32,
    ) -> Result<OpenOutcome> {
        self.with(|state, effects| state.opens().open(now, client, request, payload, payload_access, effects))
    }

    pub(super) fn lock(
        &self,
        now: Duration,
        client: ClientKey,
        request: &Lock<'_, u32>,
    ) -> core::result::Result<Stateid4, LockError> {
        self.with(|state, effects| state.locks().lock(now, client, request, effects))
    }

    pub(super) fn locku(
        &self,
        client: ClientKey,
        stateid: &Stateid4,
        file: &u32,
        offset: u64,
        length: u64,
    ) -> Result<Stateid4> {
        self.with(|state, effects| state.locks().locku(client, stateid, file, offset, length, effects))
    }

    pub(super) fn open_downgrade(
        &self,
        client: ClientKey,
        stateid: &Stateid4,
        file: &u32,
        share: (u32, u32),
        narrowed: Option<u64>,
    ) -> Result<Stateid4> {
        self.with(|state, effects| {
            state.opens().open_downgrade(client, stateid, file, share, narrowed, effects)
        })
    }

    pub(super) fn close(&self, client: ClientKey, stateid: &Stateid4, file: &u32) -> Result<Stateid4> {
        self.with(|state, effects| state.opens().close(client, stateid, file, effects))
    }

    pub(super) fn free_stateid(&self, client: ClientKey, stateid: &Stateid4) -> Result<()> {
        self.with(|state, effects| state.free_stateid(client, stateid, effects))
    }

    pub(super) fn delegate(
        &self,
        now: Duration,
        client: ClientKey,
        request: &DelegationRequest<'_, u32>,
        payload: u64,
    ) -> core::result::Result<Delegated, WhyNoDelegation4> {
        self.with(|state, effects| state.delegations().delegate(now, client, request, None, payload, effects))
    }

    pub(super) fn delegreturn(&self, client: ClientKey, stateid: &Stateid4, file: &u32) -> Result<()> {
        self.with(|state, effects| state.delegations().delegreturn(client, stateid, file, effects))
    }

    pub(super) fn begin_change(&self, now: Duration, client: ClientKey, file: &u32) -> Result<()> {
        self.with(|state, effects| state.delegations().begin_change(now, client, file, effects))
    }

    pub(super) fn holder_attributes(
        &self,
        now: Duration,
        client: ClientKey,
        file: &u32,
    ) -> Result<Option<HolderReply>> {
        self.with(|state, effects| state.delegations().holder_attributes(now, client, file, effects))
    }

    pub(super) fn check_unopened_read(&self, now: Duration, client: ClientKey, file: &u32) -> Result<()> {
        self.with(|state, effects| state.delegations().check_unopened_read(now, client, file, effects))
    }

    pub(super) fn access(
        &self,
        client: ClientKey,
        stateid: &Stateid4,
        file: &u32,
        access: u32,
    ) -> Result<u64> {
        self.state.opens().access(client, stateid, file, access, |payload| *payload)
    }
}
