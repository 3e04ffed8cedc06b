//! The image of the reply cache of NFSv4.0.

use super::{Replies, ReplyPart, RequestKey};
use image::{ImageError, SharedBytes};
use minicbor::{Decode, Encode};
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// A cached reply; the oldest of an address comes first.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct ReplyImage {
    /// When it was sent, in nanoseconds.
    #[n(0)]
    at: u64,
    #[n(1)]
    peer: SocketAddr,
    #[n(2)]
    xid: u32,
    #[n(3)]
    fingerprint: u64,
    #[n(4)]
    reply: SharedBytes,
}

impl Replies {
    pub(crate) fn image(&self) -> Vec<ReplyImage> {
        let Self { parts } = self;
        let mut images = Vec::new();
        for part in parts {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            let ReplyPart { order, replies } = &*part;
            images.extend(order.iter().filter_map(|(at, key)| {
                let (_, reply) = replies.get(key).filter(|(kept, _)| kept == at)?;
                let RequestKey { peer, xid, fingerprint } = *key;
                let at = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
                Some(ReplyImage { at, peer, xid, fingerprint, reply: SharedBytes(Arc::clone(reply)) })
            }));
        }
        images
    }

    pub(crate) fn restore(images: Vec<ReplyImage>) -> Result<Self, ImageError> {
        let replies = Self::default();
        for ReplyImage { at, peer, xid, fingerprint, reply } in images {
            let (at, key) = (Duration::from_nanos(at), RequestKey { peer, xid, fingerprint });
            let part = replies.part(&peer);
            let mut part = part.ok_or(ImageError::Inconsistent("the address of a cached reply"))?;
            part.drop_oldest(at);
            part.order.push_back((at, key));
            part.replies.insert(key, (at, reply.0));
        }
        Ok(replies)
    }
}
