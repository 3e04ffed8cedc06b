//! A client of the protocol: a session with slots, several connections, leases and recovery.

mod callback_security;
mod callbacks;
mod calls;
mod delegations;
mod files;
mod locked;
mod messages;
mod recover;
mod security;
mod v40;

pub(crate) use calls::{CacheThis, CompoundReply, Lost};
pub(crate) use files::ClientOpen;
pub(crate) use locked::CELLS;
pub(crate) use messages::*;
pub(crate) use v40::{Opened40, SimClient40};

use crate::plan::LEASE;
use crate::rng::Rng;
use crate::world::SimWorld;
use callback_security::SessionCallbacks;
use delegations::ClientDelegation;
use nfs4::{Sessionid4, Stateid4};
use security::InitiatorContext;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use v40::V40State;

/// The state of a client's session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// The client has no session, or has lost it.
    #[default]
    Broken,
    /// The client has a new session, and reclaims its state.
    Reclaiming,
    /// The client may make any call.
    Ready,
}

/// A slot of the session.
#[derive(Clone, Copy, Debug, Default)]
struct ClientSlot {
    sequence: u32,
    busy: bool,
}

#[derive(Default)]
struct HostState {
    phase: Phase,
    session: Sessionid4,
    slots: Vec<ClientSlot>,
    in_flight: usize,
    links: Vec<Option<u64>>,
    /// The security context of the next calls.
    context: Option<Rc<InitiatorContext>>,
    /// The security context of the session's callbacks.
    callbacks: Option<Rc<SessionCallbacks>>,
    /// Whether a task is creating a context.
    establishing: bool,
    clientid: u64,
    /// Whether this client ID has completed its reclaims.
    complete: bool,
    /// The time of the last call whose SEQUENCE has a reply.
    renewed: Duration,
    /// The same when the session was lost.
    held_until_then: Duration,
    /// The client ID at that time.
    clientid_then: u64,
    /// Whether it had not heard at that time that all revoked delegations were freed.
    revoked_then: bool,
    opens: BTreeMap<u64, Rc<RefCell<ClientOpen>>>,
    next_open: u64,
    delegations: Vec<ClientDelegation>,
    /// Delegations to return, with the filehandles of their files.
    recalls: VecDeque<(Stateid4, Vec<u8>)>,
    /// Delegations that were recalled and returned before the reply to OPEN arrived.
    returned: Vec<Stateid4>,
    /// Whether the server has revoked some delegations.
    revoked: bool,
    /// The NFSv4.0 side of the client.
    v40: V40State,
    finished: bool,
}

/// A client, from one restart of its machine to the next.
pub(crate) struct Client {
    /// The world of the client.
    pub world: SimWorld,
    /// The number of the client.
    pub host: usize,
    /// The number of its machine's restarts.
    pub life: u32,
    state: RefCell<HostState>,
    rng: RefCell<Rng>,
}

impl Client {
    /// Makes a client without a session.
    pub(crate) fn new(world: &SimWorld, host: usize, life: u32) -> Rc<Self> {
        let rng = world.lock().rng.split();
        let links = vec![None; world.lock().plan.connections];
        let state = HostState { links, ..HostState::default() };
        Rc::new(Self { world: world.clone(), host, life, state: state.into(), rng: rng.into() })
    }

    /// Draws from the random numbers of this client.
    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.rng.borrow_mut())
    }

    /// Keeps the session and its lease until the client ends.
    pub(crate) async fn manage(self: Rc<Self>) {
        loop {
            let (phase, renewed, finished) = {
                let state = self.state.borrow();
                (state.phase, state.renewed, state.finished)
            };
            if finished {
                return;
            }
            if phase == Phase::Broken {
                self.recover().await;
                continue;
            }
            let due = renewed + self.draw(|rng| rng.time(LEASE / 4, LEASE / 2));
            let now = self.world.now();
            // `call` would wait for a session, which only this task creates.
            if now >= due && self.state.borrow().slots.iter().any(|slot| !slot.busy) {
                let _ = self.call_now(Vec::new(), CacheThis::No).await;
                continue;
            }
            if self.draw(|rng| rng.one_in(40)) {
                self.destroy_context().await;
            }
            let pause = self.draw(|rng| rng.millis(100, 1000));
            self.world.sleep(pause).await;
        }
    }

    /// Stops the machine at once. The client can no longer be sure of its state.
    pub(crate) fn stop(&self) {
        let mut inner = self.world.lock();
        let until = self.sure_until(&inner);
        for open in self.state.borrow().opens.values() {
            open.borrow_mut().lose(&mut inner, until);
        }
        let mut state = self.state.borrow_mut();
        let until = state.v40.sure_until(&inner);
        if let Some(locked) = &mut state.v40.locked {
            locked.lose(&mut inner, until);
        }
        drop(state);
        inner.history.lose_all(self.host);
        drop(inner);
        let links: Vec<u64> = self.state.borrow_mut().links.drain(..).flatten().collect();
        links.into_iter().for_each(|link| self.world.hang_up(link));
    }

    /// Describes its state, for the report of a client that is stuck.
    pub(crate) fn describe(&self) -> String {
        let state = self.state.borrow();
        let busy = state.slots.iter().filter(|slot| slot.busy).count();
        let (host, phase, opens) = (self.host, state.phase, state.opens.len());
        format!("client {host}: {phase:?}, {} calls, {busy} slots busy, {opens} opens", state.in_flight)
    }

    /// Destroys the session, the client ID and the security context.
    pub(crate) async fn finish(&self) {
        self.destroy().await;
        self.destroy_context().await;
        self.state.borrow_mut().finished = true;
    }
}
