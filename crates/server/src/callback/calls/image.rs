//! Images of callbacks in flight and of callbacks that wait for a slot.

use super::{CallbackQueue, CallbackTable, Sent, WAITING_MAX};
use crate::callback::security::image::ProofImage;
use image::{ImageError, ensure};
use minicbor::{Decode, Encode};
use state::{BackCallImage, CallbackEnd, CallbackTask, CallbackTaskImage, ClientKey, KeyImage};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A callback in flight, by its XID.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct SentImage {
    #[n(0)]
    xid: u32,
    #[n(1)]
    task: CallbackTaskImage,
    #[n(2)]
    call: BackCallImage,
    #[n(3)]
    proof: ProofImage,
    #[n(4)]
    tries: u8,
    #[n(5)]
    since: u64,
}

/// The callbacks in flight, of all clients.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct CallbacksImage {
    #[n(0)]
    xid: u32,
    #[n(1)]
    sent: Vec<SentImage>,
    #[n(2)]
    waiting: Vec<(KeyImage, Vec<CallbackTaskImage>)>,
    #[n(3)]
    contexts_kept: u64,
}

impl CallbackQueue {
    pub(crate) fn image(&self) -> CallbacksImage {
        let Self {
            transport: _,
            contexts: _,
            contexts_kept,
            answered: _,
            table: _,
            housekept: _,
            unanswered: _,
        } = self;
        let table = self.table();
        let CallbackTable { xid, sent, waiting } = &*table;
        let sent = sent.iter().filter_map(|(xid, sent)| {
            let Sent { task, call, proof, tries, since } = sent;
            Some(SentImage {
                xid: *xid,
                task: (*task).into(),
                call: call.image()?,
                proof: proof.image(),
                tries: *tries,
                since: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
            })
        });
        let waiting = waiting.iter().map(|(client, tasks)| {
            (KeyImage::from(*client), tasks.iter().map(|task| (*task).into()).collect())
        });
        CallbacksImage {
            xid: *xid,
            sent: sent.collect(),
            waiting: waiting.collect(),
            contexts_kept: contexts_kept.load(Relaxed),
        }
    }

    /// Restores the callbacks into an empty queue that knows the contexts. One whose context is
    /// gone is sent again later.
    pub(crate) fn restore<F, O>(
        &self,
        image: CallbacksImage,
        state: &state::State<F, O>,
        now: Duration,
    ) -> Result<(), ImageError>
    where
        F: Clone + Eq + std::hash::Hash,
    {
        let CallbacksImage { xid, sent, waiting, contexts_kept } = image;
        self.contexts_kept.store(contexts_kept, Relaxed);
        let callbacks = state.callbacks();
        let mut table = self.table();
        table.xid = xid;
        for SentImage { xid, task, call, proof, tries, since } in sent {
            let call = callbacks.restore_call(call)?;
            match self.restore_proof(proof, now)? {
                Some(proof) => {
                    let (proof, since) = (Arc::new(proof), Duration::from_nanos(since));
                    let sent = Sent { task: task.into(), call, proof, tries, since };
                    ensure(table.sent.insert(xid, sent).is_none(), "two callbacks of one XID")?;
                }
                None => callbacks.end_callback(call, CallbackEnd::Unknown),
            }
        }
        for (client, tasks) in waiting {
            ensure(tasks.len() <= WAITING_MAX, "too many callbacks of a client")?;
            let tasks = tasks.into_iter().map(CallbackTask::from).collect();
            table.waiting.insert(ClientKey::from(client), tasks);
        }
        Ok(())
    }
}
