//! Attributes of a file that another client may change under a write delegation: its holder is
//! asked (RFC 8881 section 10.4.3).
//!
//! The asking client gets NFS4ERR_DELAY while CB_GETATTR is in flight. An answer is for the clients
//! that asked before the callback was sent, and for each of them once, soon after it has arrived:
//! so no client gets attributes from before its request.

pub(crate) mod image;

use crate::Delegations;
use crate::delegations::{Delegation, DelegationKey, DelegationMode, DelegationPhase};
use crate::order::Held;
use crate::slab::SlabKey;
use crate::sync::atomic::Ordering::Relaxed;
use crate::{CallbackTask, ClientKey, Effects, Nfsstat4, Result};
use std::hash::Hash;
use std::time::Duration;

/// Clients that ask for the attributes of one file with a delegation for writing at the same time;
/// with more it is recalled.
const GETATTR_WAITS_MAX: usize = 16;
/// The time after which a client that was refused with NFS4ERR_DELAY has come back, or never will:
/// Linux waits for 15 s at most.
const ANSWER_AGE_MAX: Duration = Duration::from_secs(20);

/// The key of a client's wait for the attributes of a file with a write delegation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetattrWait {
    client: ClientKey,
    delegation: DelegationKey,
}

/// The attributes that the holder of a write delegation reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldAttributes {
    /// change: another than when the delegation was granted if the holder has changed the file by
    /// itself.
    pub change: u64,
    /// size: the length in bytes.
    pub size: u64,
}

/// The result of asking for a file's attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HolderReply {
    /// The size and change attribute that the holder reports.
    pub held: HeldAttributes,
    /// The change attribute when the delegation was granted.
    pub granted: u64,
}

/// The state of one client's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitStage {
    /// It was asked for while a callback was out already.
    Late,
    /// The callback that is out will answer it.
    Asked,
    /// The client has not come back for it since this time.
    Answered(HeldAttributes, Duration),
}

/// The waits of other clients for the attributes of a file with a delegation for writing.
#[derive(Debug, Default)]
pub(crate) struct GetattrWaits {
    clients: Vec<(ClientKey, WaitStage)>,
    under_way: bool,
    /// The holder did not answer as it should: there is no use in asking.
    refused: bool,
}

/// The reply to a client that asks.
enum AttributesTurn {
    Answer(HeldAttributes),
    /// The holder has yet to answer; whether it has yet to be asked.
    Wait(bool),
    /// The delegation is to be recalled.
    Recall,
}

impl GetattrWaits {
    fn turn(&mut self, client: ClientKey, now: Duration) -> AttributesTurn {
        self.drop_old_answers(now);
        let answered = |(other, stage): &(ClientKey, WaitStage)| match stage {
            WaitStage::Answered(held, _) if *other == client => Some(*held),
            _ => None,
        };
        let found = self.clients.iter().enumerate().find_map(|(place, wait)| Some((place, answered(wait)?)));
        match found {
            Some((place, held)) if !self.refused => {
                self.clients.swap_remove(place);
                AttributesTurn::Answer(held)
            }
            _ => self.ask(client, now).map_or(AttributesTurn::Recall, AttributesTurn::Wait),
        }
    }

    /// Notes that a client waits for an answer that it has not got, and returns whether the holder
    /// has yet to be asked. None where there is no use in asking.
    fn ask(&mut self, client: ClientKey, now: Duration) -> Option<bool> {
        if self.refused {
            return None;
        }
        self.drop_old_answers(now);
        if self.clients.iter().any(|(other, _)| *other == client) {
            return Some(false);
        }
        if self.clients.len() >= GETATTR_WAITS_MAX {
            // Some have never come back for their answers.
            self.clients.retain(|(_, stage)| !matches!(stage, WaitStage::Answered(..)));
            if self.clients.len() >= GETATTR_WAITS_MAX {
                return None;
            }
        }
        let ask = !std::mem::replace(&mut self.under_way, true);
        self.clients.push((client, if ask { WaitStage::Asked } else { WaitStage::Late }));
        Some(ask)
    }

    /// Whether a client has yet to get its answer.
    fn waits(&self, client: ClientKey) -> bool {
        let waits = |(other, stage): &(ClientKey, WaitStage)| {
            *other == client && !matches!(stage, WaitStage::Answered(..))
        };
        !self.refused && self.clients.iter().any(waits)
    }

    /// Drops the answers that their clients did not come back for in time.
    fn drop_old_answers(&mut self, now: Duration) {
        let is_old = |stage: &WaitStage| match stage {
            WaitStage::Answered(_, since) => now.saturating_sub(*since) > ANSWER_AGE_MAX,
            WaitStage::Late | WaitStage::Asked => false,
        };
        self.clients.retain(|(_, stage)| !is_old(stage));
    }

    /// Takes the holder's answer; returns whether to ask it again for later requests.
    fn answered(&mut self, held: HeldAttributes, now: Duration) -> bool {
        let mut late = false;
        for (_, stage) in &mut self.clients {
            match stage {
                WaitStage::Asked => *stage = WaitStage::Answered(held, now),
                WaitStage::Late => (*stage, late) = (WaitStage::Asked, true),
                WaitStage::Answered(..) => {}
            }
        }
        self.under_way = late;
        late
    }

    fn refused(&mut self) {
        *self = Self { refused: true, ..Self::default() };
    }
}

impl<F: Clone + Eq + Hash, O> Delegations<'_, F, O> {
    /// Returns whether another client has a delegation for writing on a file, so that its
    /// attributes may have to be asked for. Reads one number while there is none.
    pub fn others_write(&self, client: ClientKey, file: &F) -> bool {
        self.state.delegations.writers.load(Relaxed) > 0 && self.other_writer(client, file).is_some()
    }

    /// Returns the other client that has a delegation for writing, and that delegation.
    fn other_writer(&self, client: ClientKey, file: &F) -> Option<(ClientKey, SlabKey)> {
        let held = &mut Held::nothing();
        let files = self.state.files.read(held, file);
        let own = (client, (self.state.view)(file));
        let mut all = files.get(file)?.delegations.iter();
        all.find(|(holder, held)| **holder != own && held.mode == DelegationMode::Write)
            .map(|((holder, _), held)| (*holder, held.key))
    }

    /// Asks the holder of a write delegation, if another client has one and has not answered yet.
    /// Returns the key to wait for; [`crate::Delegations::holder_attributes`] is next, at once
    /// without a key.
    pub fn ask_holder(
        &self,
        now: Duration,
        client: ClientKey,
        file: &F,
        effects: &mut Effects<O>,
    ) -> Option<GetattrWait> {
        let (holder, key) = self.other_writer(client, file)?;
        let asked = self.state.delegations.table.write(key, |delegation| {
            let held = delegation.phase == DelegationPhase::Held;
            let asked = if held { delegation.getattr_waits.ask(client, now) } else { None };
            asked.filter(|_| delegation.getattr_waits.waits(client))
        });
        let delegation = DelegationKey(key);
        if asked.flatten()? {
            effects.callbacks.push(CallbackTask::Getattr { client: holder, delegation });
        }
        Some(GetattrWait { client, delegation })
    }

    /// Returns whether a client has yet to get its answer, and may get one.
    pub fn getattr_pending(&self, wait: GetattrWait) -> bool {
        let waits = |delegation: &Delegation<F, O>| {
            delegation.phase == DelegationPhase::Held && delegation.getattr_waits.waits(wait.client)
        };
        self.state.delegations.table.read(wait.delegation.0, waits).unwrap_or(false)
    }

    /// Returns the report of the holder of a write delegation, if another client has one.
    ///
    /// # Errors
    /// NFS4ERR_DELAY until the holder has answered CB_GETATTR or, if it does not answer, has
    /// returned the delegation.
    pub fn holder_attributes(
        &self,
        now: Duration,
        client: ClientKey,
        file: &F,
        effects: &mut Effects<O>,
    ) -> Result<Option<HolderReply>> {
        if self.state.delegations.writers.load(Relaxed) == 0 {
            return Ok(None);
        }
        let Some((holder, key)) = self.other_writer(client, file) else { return Ok(None) };
        let turn = self.state.delegations.table.write(key, |delegation| match delegation.phase {
            DelegationPhase::Held => (delegation.getattr_waits.turn(client, now), delegation.change),
            DelegationPhase::Recalled { .. } | DelegationPhase::Revoked => (AttributesTurn::Recall, 0),
        });
        match turn {
            Some((AttributesTurn::Answer(held), granted)) => Ok(Some(HolderReply { held, granted })),
            Some((AttributesTurn::Wait(ask), _)) => {
                if ask {
                    let delegation = DelegationKey(key);
                    effects.callbacks.push(CallbackTask::Getattr { client: holder, delegation });
                }
                Err(Nfsstat4::NFS4ERR_DELAY)
            }
            // It went in between, or is recalled now if it was not before.
            Some((AttributesTurn::Recall, _)) | None => {
                self.check_unopened_read(now, client, file, effects)?;
                Ok(None)
            }
        }
    }

    /// Returns the file of CB_GETATTR; `None` when no client waits for it any more.
    pub fn getattr_file(&self, delegation: DelegationKey) -> Option<F> {
        let asks = |found: &Delegation<F, O>| {
            let waits = found.getattr_waits.under_way && found.phase == DelegationPhase::Held;
            waits.then(|| found.file.clone())
        };
        self.state.delegations.table.read(delegation.0, asks).flatten()
    }

    /// Takes the holder's answer to CB_GETATTR. Returns whether to ask again.
    pub fn getattr_answered(&self, now: Duration, delegation: DelegationKey, held: HeldAttributes) -> bool {
        let answer = |delegation: &mut Delegation<F, O>| delegation.getattr_waits.answered(held, now);
        self.state.delegations.table.write(delegation.0, answer).unwrap_or(false)
    }

    /// Records that the holder gives no valid answer: its delegation is recalled.
    pub fn getattr_refused(&self, delegation: DelegationKey) {
        self.state.delegations.table.write(delegation.0, |delegation| delegation.getattr_waits.refused());
    }
}
