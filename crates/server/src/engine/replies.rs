//! Reply cache of NFSv4.0, in place of the one that sessions have.
//!
//! OPEN, CLOSE and the lock operations are identified by the sequence numbers of their owners. This
//! cache is for the other operations that must not run twice: CREATE, LINK, REMOVE, RENAME,
//! SETATTR, SETCLIENTID and its confirmation. A client repeats a request only over a new
//! connection, mostly from the same port (RFC 7530 section 3.1.1), so a copy has the same address,
//! port, XID, sender and beginning. The cache is best effort: after a restart, after many other
//! requests, or while the first copy is still running, a copy runs again.

pub(super) mod image;

use super::{Call, Nfs};
use siphasher::sip::SipHasher13;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Parts by address, so that a client evicts only replies of its own part.
const PARTS: usize = 16;
/// Replies to NFSv4.0 cached in each of 16 parts by address. The oldest are evicted first.
const REPLIES_MAX: usize = 512;
/// Largest cached reply to NFSv4.0, in bytes. Replies to changes are shorter, unless the COMPOUND
/// has other large results.
const REPLY_SIZE_MAX: usize = 2048;
/// Time that a reply to NFSv4.0 is cached. Clients repeat a request after a minute or two at the
/// latest.
const AGE_MAX: Duration = Duration::from_secs(120);

/// The parts that a copy of a request has in common with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RequestKey {
    peer: SocketAddr,
    xid: u32,
    fingerprint: u64,
}

#[derive(Debug, Default)]
struct ReplyPart {
    order: VecDeque<(Duration, RequestKey)>,
    replies: HashMap<RequestKey, (Duration, Arc<[u8]>)>,
}

impl ReplyPart {
    fn drop_oldest(&mut self, now: Duration) {
        while let Some((at, key)) = self.order.front().copied() {
            if self.order.len() < REPLIES_MAX && now < at.saturating_add(AGE_MAX) {
                return;
            }
            self.order.pop_front();
            // A newer reply may be cached under the same key.
            if self.replies.get(&key).is_some_and(|(kept, _)| *kept == at) {
                self.replies.remove(&key);
            }
        }
    }
}

/// The reply cache of NFSv4.0, in parts by address.
#[derive(Debug, Default)]
pub(super) struct Replies {
    parts: [Mutex<ReplyPart>; PARTS],
}

impl Replies {
    fn part(&self, peer: &SocketAddr) -> Option<std::sync::MutexGuard<'_, ReplyPart>> {
        // The part need not be secret: a client chooses its own ports and addresses.
        let mut hasher = SipHasher13::new();
        peer.ip().hash(&mut hasher);
        let part = self.parts.get(hasher.finish() as usize % PARTS);
        part.map(|part| part.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Nfs {
    fn key_of(&self, call: &Call<'_>) -> RequestKey {
        let fingerprint = self.fingerprint(call.args, call.security);
        RequestKey { peer: call.peer, xid: call.xid, fingerprint }
    }

    /// Returns the cached reply to an earlier copy of a request.
    pub(crate) fn kept_reply(&self, call: &Call<'_>) -> Option<Arc<[u8]>> {
        let part = self.replies.part(&call.peer)?;
        let (at, reply) = part.replies.get(&self.key_of(call))?;
        (call.now < at.saturating_add(AGE_MAX)).then(|| Arc::clone(reply))
    }

    /// Caches a reply, unless it is long.
    pub(super) fn keep_reply(&self, call: &Call<'_>, reply: &[u8]) {
        if reply.len() > REPLY_SIZE_MAX {
            return;
        }
        let key = self.key_of(call);
        let Some(mut part) = self.replies.part(&call.peer) else { return };
        part.drop_oldest(call.now);
        part.order.push_back((call.now, key));
        part.replies.insert(key, (call.now, reply.into()));
    }
}
