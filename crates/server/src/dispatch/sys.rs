//! AUTH_SYS callers (RFC 5531 appendix A), cached so that a call allocates nothing.

use super::{Engine, Server};
use crate::call::{Auth, Job};
use crate::metrics::Trouble;
use crate::security::Security;
use identity::{ANONYMOUS_ID, Identity, Mapper, Wait};
use rpc::{AuthSys, ConnectionId};
use std::cell::Cell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use vfs::{Caller, RULES_MAX, Unresolved};

/// AUTH_SYS callers that one thread caches. When the cache is full, it is emptied.
const CALLERS_MAX: usize = 256;

/// Cache of callers by credential. If the groups are those of the credential, an entry depends on
/// its credential alone and cannot go stale.
#[derive(Default)]
pub(super) struct SysCache {
    /// Keyed by the credential's body without its stamp, which may differ from call to call.
    callers: HashMap<Box<[u8]>, CachedCaller>,
    /// The caller of the last call; the next call mostly has the same.
    last: Option<(Box<[u8]>, CachedCaller)>,
    /// The generation of the accounts behind the entries; 0 without accounts.
    generation: u64,
}

/// Connections that one thread remembers as admitted or not. When there is no room, all are
/// forgotten.
const ADMISSIONS_MAX: usize = 4096;
/// How long it is remembered: a change of the exports counts from then on.
const ADMISSION_TIME: Duration = Duration::from_secs(1);

/// Whether any export admits the clients of connections with AUTH_SYS. A search of many exports for
/// each batch of calls would cost more than the calls.
#[derive(Default)]
pub(super) struct AdmissionCache(HashMap<ConnectionId, (bool, Duration)>);

impl AdmissionCache {
    /// Returns whether the client of a connection is admitted. An answer that is unknown is asked
    /// for again by the next call.
    pub(super) fn admits(
        &mut self,
        connection: ConnectionId,
        now: Duration,
        ask: impl FnOnce() -> Result<bool, Unresolved>,
    ) -> bool {
        if let Some((admitted, until)) = self.0.get(&connection)
            && now < *until
        {
            return *admitted;
        }
        let Ok(admitted) = ask() else { return false };
        if self.0.len() >= ADMISSIONS_MAX {
            self.0.clear();
        }
        self.0.insert(connection, (admitted, now.saturating_add(ADMISSION_TIME)));
        admitted
    }
}

/// A caller until its groups are looked up again.
#[derive(Clone)]
struct CachedCaller {
    security: Arc<Security>,
    expires: Duration,
}

impl SysCache {
    /// Returns the caller of a credential's body. With `accounts`, the groups come from there; a
    /// caller that is in no cache is [`Auth::SysUnknown`].
    pub(super) fn auth(
        &mut self,
        body: &[u8],
        accounts: Option<&Mapper>,
        now: Duration,
    ) -> Result<Auth, xdr::Error> {
        // Without accounts it is 0, so that entries end when `groups` changes.
        let generation = accounts.map_or(0, Mapper::generation);
        if generation != self.generation {
            *self = Self { generation, ..Self::default() };
        }
        let key = body.get(xdr::UNIT..).unwrap_or_default();
        let last = self.last.as_ref().filter(|(last, caller)| **last == *key && now < caller.expires);
        if let Some((_, caller)) = last {
            return Ok(Auth::Sys(Arc::clone(&caller.security)));
        }
        let caller = match self.callers.get(key).filter(|caller| now < caller.expires) {
            Some(caller) => caller.clone(),
            None => {
                let credential = AuthSys::parse(body)?;
                let Some(caller) = known(&credential, accounts, now) else {
                    let security = Arc::new(Security::sys(stranger(&credential)));
                    return Ok(Auth::SysUnknown { security, claimed_gid: credential.gid });
                };
                if self.callers.len() >= CALLERS_MAX {
                    self.callers.clear();
                }
                self.callers.insert(key.into(), caller.clone());
                caller
            }
        };
        self.last = Some((key.into(), caller.clone()));
        Ok(Auth::Sys(caller.security))
    }
}

/// Returns the caller of a credential; `None` if its account has to be looked up.
fn known(credential: &AuthSys<'_>, accounts: Option<&Mapper>, now: Duration) -> Option<CachedCaller> {
    let (caller, expires) = match accounts {
        None => {
            let groups = credential.gids().into();
            (Caller { uid: credential.uid, gid: credential.gid, groups }, Duration::MAX)
        }
        Some(accounts) => {
            // A lookup starts in `find_groups`, once an export is known to admit the client.
            let account = accounts.cached_account_of_uid(credential.uid, now)?;
            let expires = now.saturating_add(accounts.absence_expiry());
            (member(stranger(credential), credential.gid, account), expires)
        }
    };
    Some(CachedCaller { security: Arc::new(Security::sys(caller)), expires })
}

/// Returns the uid of a credential without any group.
fn stranger(credential: &AuthSys<'_>) -> Caller {
    Caller { uid: credential.uid, gid: ANONYMOUS_ID, groups: [].into() }
}

/// Returns a caller with the groups of its account. Its primary group is the one that the client
/// claims if the account is a member, as after newgrp.
fn member(caller: Caller, claimed: u32, account: Option<Identity>) -> Caller {
    let Some(Identity { gid, groups, .. }) = account else { return caller };
    let gid = if groups.contains(&claimed) { claimed } else { gid };
    Caller { gid, groups, ..caller }
}

impl<E: Engine> Server<E> {
    /// Lets an AUTH_SYS caller that no export admits go without groups: nothing depends on them,
    /// and strangers must not keep the accounts busy.
    pub(super) fn waive_groups(&self, job: &mut Job, now: Duration) {
        if let Auth::SysUnknown { security, .. } = &job.auth
            && matches!(self.engine.admits_sys(job.peer, now), Ok(false))
        {
            job.auth = Auth::Sys(Arc::clone(security));
        }
    }

    /// Looks up the groups of an AUTH_SYS caller that an export admits, on a thread that may wait.
    /// If it cannot, the call remains [`Auth::SysUnknown`].
    pub(super) fn find_groups(&self, job: &mut Job, now: Duration) {
        let Some(accounts) = self.engine.sys_accounts() else { return };
        let left = Cell::new(accounts.lookup_wait_max());
        if let Auth::SysUnknown { .. } = &job.auth
            && !self.names_client(job.peer, now, &left)
        {
            return;
        }
        self.waive_groups(job, now);
        let Auth::SysUnknown { security, claimed_gid } = &job.auth else { return };
        let Some(caller) = security.caller.clone() else { return };
        match accounts.account_of_uid_within(caller.uid, now, Wait::Within(&left)) {
            Some(Ok(account)) => {
                job.auth = Auth::Sys(Arc::new(Security::sys(member(caller, *claimed_gid, account))));
            }
            Some(Err(error)) => self.reports.note(Trouble::GroupsDelayed, now, job.peer, error),
            None => {}
        }
    }

    /// Waits for the names of a client, if it depends on them whether an export admits it. Returns
    /// whether that is known.
    fn names_client(&self, client: SocketAddr, now: Duration, left: &Cell<Duration>) -> bool {
        // Each turn answers the question about another name.
        for _ in 0..RULES_MAX {
            let Err(unresolved) = self.engine.admits_sys(client, now) else { return true };
            if !unresolved.0.resolve(client.ip(), now, left) {
                break;
            }
        }
        false
    }
}
