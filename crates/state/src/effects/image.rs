//! Images of callbacks that are to be sent, and of the keys that they name.

use super::CallbackTask;
use crate::table::image::KeyImage;
use crate::{ClientKey, CopyKey, DelegationKey, NoticeKey};
use minicbor::{Decode, Encode};

/// A callback that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum CallbackTaskImage {
    /// A CB_SEQUENCE that stands alone.
    #[n(0)]
    Probe(#[cbor(n(0), with = "minicbor::bytes")] [u8; 16]),
    /// CB_RECALL: client and delegation.
    #[n(1)]
    Recall(#[n(0)] KeyImage, #[n(1)] KeyImage),
    /// CB_GETATTR: client and delegation.
    #[n(2)]
    Getattr(#[n(0)] KeyImage, #[n(1)] KeyImage),
    /// CB_NOTIFY_LOCK: client and notice.
    #[n(3)]
    NotifyLock(#[n(0)] KeyImage, #[n(1)] u64),
    /// CB_OFFLOAD: client and copy.
    #[n(4)]
    Offload(#[n(0)] KeyImage, #[n(1)] KeyImage),
    /// CB_RECALL_ANY: client and number of delegations to keep.
    #[n(5)]
    RecallAny(#[n(0)] KeyImage, #[n(1)] u32),
}

impl From<CallbackTask> for CallbackTaskImage {
    fn from(task: CallbackTask) -> Self {
        match task {
            CallbackTask::Probe { sessionid } => Self::Probe(sessionid),
            CallbackTask::Recall { client, delegation } => Self::Recall(client.0.into(), delegation.0.into()),
            CallbackTask::Getattr { client, delegation } => {
                Self::Getattr(client.0.into(), delegation.0.into())
            }
            CallbackTask::NotifyLock { client, notice } => Self::NotifyLock(client.0.into(), notice.0),
            CallbackTask::Offload { client, copy } => Self::Offload(client.0.into(), copy.0.into()),
            CallbackTask::RecallAny { client, keep } => Self::RecallAny(client.0.into(), keep),
        }
    }
}

impl From<CallbackTaskImage> for CallbackTask {
    fn from(image: CallbackTaskImage) -> Self {
        let client = |key: KeyImage| ClientKey(key.into());
        match image {
            CallbackTaskImage::Probe(sessionid) => Self::Probe { sessionid },
            CallbackTaskImage::Recall(holder, delegation) => {
                Self::Recall { client: client(holder), delegation: DelegationKey(delegation.into()) }
            }
            CallbackTaskImage::Getattr(holder, delegation) => {
                Self::Getattr { client: client(holder), delegation: DelegationKey(delegation.into()) }
            }
            CallbackTaskImage::NotifyLock(waiter, notice) => {
                Self::NotifyLock { client: client(waiter), notice: NoticeKey(notice) }
            }
            CallbackTaskImage::Offload(owner, copy) => {
                Self::Offload { client: client(owner), copy: CopyKey(copy.into()) }
            }
            CallbackTaskImage::RecallAny(holder, keep) => Self::RecallAny { client: client(holder), keep },
        }
    }
}

impl From<ClientKey> for KeyImage {
    fn from(key: ClientKey) -> Self {
        key.0.into()
    }
}

impl From<KeyImage> for ClientKey {
    fn from(image: KeyImage) -> Self {
        Self(image.into())
    }
}

impl From<CopyKey> for KeyImage {
    fn from(key: CopyKey) -> Self {
        key.0.into()
    }
}

impl From<KeyImage> for CopyKey {
    fn from(image: KeyImage) -> Self {
        Self(image.into())
    }
}
