//! Attributes of a file of which another client has a delegation for writing: its holder is asked (RFC 8881 section 10.4.3).
//!
//! Who looks is told to come again (NFS4ERR_DELAY) while CB_GETATTR is out. An answer is for those who had asked before the
//! callback was sent, and for each of them once: so nobody sees what was true before he asked.

use crate::delegations::{Delegation, DelegationKey, Standing};
use crate::slab::Key;
use crate::{CallbackTask, ClientKey, Effects, Nfsstat4, Result, State};
use std::hash::Hash;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Clients that look at one file with a delegation for writing at the same time; with more it is recalled.
const LOOKS_MAX: usize = 16;

/// Names what a client waits for when it looks at a file with a delegation for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookKey {
    client: ClientKey,
    delegation: DelegationKey,
}

/// What the holder of a delegation for writing says of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldAttributes {
    /// change: another than when the delegation was granted if the holder has changed the file by itself.
    pub change: u64,
    /// size.
    pub size: u64,
}

/// What a look at a file came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    /// What the holder said.
    pub held: HeldAttributes,
    /// The change attribute when the delegation was granted.
    pub granted: u64,
}

/// Where the look of one client stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// It was asked for while a callback was out already.
    Late,
    /// The callback that is out will answer it.
    Asked,
    /// The client has not come back for it.
    Answered(HeldAttributes),
}

/// The looks of other clients at a file with a delegation for writing.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    clients: Vec<(ClientKey, Look)>,
    under_way: bool,
    /// The holder did not answer as it should: there is no use in asking.
    refused: bool,
}

/// What a client that looks gets.
enum Turn {
    Answer(HeldAttributes),
    /// The holder has yet to answer; whether it has yet to be asked.
    Wait(bool),
    /// The delegation is to be recalled.
    Recall,
}

impl Looks {
    fn turn(&mut self, client: ClientKey) -> Turn {
        let answered = |(other, look): &(ClientKey, Look)| match look {
            Look::Answered(held) if *other == client => Some(*held),
            _ => None,
        };
        let found = self.clients.iter().enumerate().find_map(|(place, look)| Some((place, answered(look)?)));
        match found {
            Some((place, held)) if !self.refused => {
                self.clients.swap_remove(place);
                Turn::Answer(held)
            }
            _ => self.ask(client).map_or(Turn::Recall, Turn::Wait),
        }
    }

    /// Notes that a client waits for an answer that it has not got; says whether the holder has yet to be asked. None where there is no
    /// use in asking.
    fn ask(&mut self, client: ClientKey) -> Option<bool> {
        if self.refused {
            return None;
        }
        if self.clients.iter().any(|(other, _)| *other == client) {
            return Some(false);
        }
        if self.clients.len() >= LOOKS_MAX {
            // Some have never come back for their answers.
            self.clients.retain(|(_, look)| !matches!(look, Look::Answered(_)));
            if self.clients.len() >= LOOKS_MAX {
                return None;
            }
        }
        let ask = !std::mem::replace(&mut self.under_way, true);
        self.clients.push((client, if ask { Look::Asked } else { Look::Late }));
        Some(ask)
    }

    /// Whether a client has yet to get its answer.
    fn waits(&self, client: ClientKey) -> bool {
        let waits =
            |(other, look): &(ClientKey, Look)| *other == client && !matches!(look, Look::Answered(_));
        !self.refused && self.clients.iter().any(waits)
    }

    /// Takes the holder's answer; returns whether it has to be asked again for those who came late.
    fn answered(&mut self, held: HeldAttributes) -> bool {
        let mut late = false;
        for (_, look) in &mut self.clients {
            match look {
                Look::Asked => *look = Look::Answered(held),
                Look::Late => (*look, late) = (Look::Asked, true),
                Look::Answered(_) => {}
            }
        }
        self.under_way = late;
        late
    }

    fn refused(&mut self) {
        *self = Self { refused: true, ..Self::default() };
    }
}

impl<F: Clone + Eq + Hash, O> State<F, O> {
    /// Tells whether another client has a delegation for writing on a file, so that its attributes may be more than a look
    /// away. Costs the look at one number while there is none.
    pub fn others_write(&self, client: ClientKey, file: &F) -> bool {
        self.write_delegations.load(Relaxed) > 0 && self.other_writer(client, file).is_some()
    }

    /// Returns the other client that has a delegation for writing, and that delegation.
    fn other_writer(&self, client: ClientKey, file: &F) -> Option<(ClientKey, Key)> {
        let (files, own) = (self.files.read(file), (client, (self.view)(file)));
        let mut all = files.get(file)?.delegations.iter();
        all.find(|(holder, held)| **holder != own && held.write)
            .map(|((holder, _), held)| (*holder, held.key))
    }

    /// Has the holder of a delegation for writing asked, if another client has one and has not said yet what it has. Returns what
    /// to wait for; then, and if there is nothing to wait for, [`State::look`] is next.
    pub fn ask(&self, client: ClientKey, file: &F, effects: &mut Effects<O>) -> Option<LookKey> {
        let (holder, key) = self.other_writer(client, file)?;
        let asked = self.delegations.write(key, |delegation| {
            let held = delegation.standing == Standing::Held;
            let asked = if held { delegation.looks.ask(client) } else { None };
            asked.filter(|_| delegation.looks.waits(client))
        });
        let delegation = DelegationKey(key);
        if asked.flatten()? {
            effects.callbacks.push(CallbackTask::Getattr { client: holder, delegation });
        }
        Some(LookKey { client, delegation })
    }

    /// Tells whether a client has yet to get its answer, and may get one.
    pub fn look_waits(&self, look: LookKey) -> bool {
        let waits = |delegation: &Delegation<F, O>| {
            delegation.standing == Standing::Held && delegation.looks.waits(look.client)
        };
        self.delegations.read(look.delegation.0, waits).unwrap_or(false)
    }

    /// Returns what the holder of a delegation for writing says of a file, if another client has one.
    ///
    /// # Errors
    /// NFS4ERR_DELAY until the holder has answered CB_GETATTR, or the delegation is back when it does not.
    pub fn look(
        &self,
        now: Duration,
        client: ClientKey,
        file: &F,
        effects: &mut Effects<O>,
    ) -> Result<Option<Looked>> {
        if self.write_delegations.load(Relaxed) == 0 {
            return Ok(None);
        }
        let Some((holder, key)) = self.other_writer(client, file) else { return Ok(None) };
        let turn = self.delegations.write(key, |delegation| match delegation.standing {
            Standing::Held => (delegation.looks.turn(client), delegation.change),
            Standing::Recalled { .. } | Standing::Revoked => (Turn::Recall, 0),
        });
        match turn {
            Some((Turn::Answer(held), granted)) => Ok(Some(Looked { held, granted })),
            Some((Turn::Wait(ask), _)) => {
                if ask {
                    let delegation = DelegationKey(key);
                    effects.callbacks.push(CallbackTask::Getattr { client: holder, delegation });
                }
                Err(Nfsstat4::NFS4ERR_DELAY)
            }
            // It went in between, or is recalled now if it was not before.
            Some((Turn::Recall, _)) | None => {
                self.check_look(now, client, file, effects)?;
                Ok(None)
            }
        }
    }

    /// Returns the file that CB_GETATTR is to ask for; `None` when nobody waits for it (any more).
    pub fn looked_at(&self, delegation: DelegationKey) -> Option<F> {
        let asks = |found: &Delegation<F, O>| {
            let waits = found.looks.under_way && found.standing == Standing::Held;
            waits.then(|| found.file.clone())
        };
        self.delegations.read(delegation.0, asks).flatten()
    }

    /// Takes what the holder has answered to CB_GETATTR; nothing if that was no answer. Returns whether to ask again.
    pub fn look_answered(&self, delegation: DelegationKey, held: Option<HeldAttributes>) -> bool {
        let answered = self.delegations.write(delegation.0, |delegation| match held {
            Some(held) => delegation.looks.answered(held),
            None => {
                delegation.looks.refused();
                false
            }
        });
        answered.unwrap_or(false)
    }
}
