//! The replies of NFSv4.0 that are kept for copies of their requests: what sessions do for the
//! later minor versions.
//!
//! OPEN, CLOSE and the lock operations are told apart by the sequence numbers of their owners. This
//! is for the rest that must not be run twice: CREATE, LINK, REMOVE, RENAME, SETATTR, SETCLIENTID
//! and its confirmation. A client repeats a request only over a new connection, mostly from the
//! port that it had (RFC 7530 section 3.1.1): so a copy has the same address, port, XID, sender and
//! beginning. It is best effort: after a restart, behind many other requests, or while the first
//! copy still runs, a copy is run again.

use super::{Call, Nfs};
use siphasher::sip::SipHasher13;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Parts by address, so that clients push out only replies of their own part.
const PARTS: usize = 16;
/// Replies to NFSv4.0 that are kept in each of 16 parts by address; the oldest go first.
const REPLIES_MAX: usize = 512;
/// Bytes of a reply to NFSv4.0 that is kept; what answers a change is shorter, unless much else
/// stands beside it.
const REPLY_SIZE_MAX: usize = 2048;
/// For how long a reply to NFSv4.0 is kept: clients repeat a request after a minute or two at the
/// latest.
const AGE_MAX: Duration = Duration::from_secs(120);

/// What a copy of a request has in common with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    peer: SocketAddr,
    xid: u32,
    fingerprint: u64,
}

#[derive(Debug, Default)]
struct Part {
    order: VecDeque<(Duration, Key)>,
    replies: HashMap<Key, (Duration, Arc<[u8]>)>,
}

impl Part {
    fn drop_oldest(&mut self, now: Duration) {
        while let Some((at, key)) = self.order.front().copied() {
            if self.order.len() < REPLIES_MAX && now < at.saturating_add(AGE_MAX) {
                return;
            }
            self.order.pop_front();
            // It may have been kept anew since.
            if self.replies.get(&key).is_some_and(|(kept, _)| *kept == at) {
                self.replies.remove(&key);
            }
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Replies {
    parts: [Mutex<Part>; PARTS],
}

impl Replies {
    fn part(&self, peer: &SocketAddr) -> Option<std::sync::MutexGuard<'_, Part>> {
        // Which part it is need not be secret: ports and addresses are the client's choice anyway.
        let mut hasher = SipHasher13::new();
        peer.ip().hash(&mut hasher);
        let part = self.parts.get(hasher.finish() as usize % PARTS);
        part.map(|part| part.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Nfs {
    fn key_of(&self, call: &Call<'_>) -> Key {
        let fingerprint = self.fingerprint(call.args, call.security);
        Key { peer: call.peer, xid: call.xid, fingerprint }
    }

    /// Returns the reply to an earlier copy of a request.
    pub(crate) fn kept_reply(&self, call: &Call<'_>) -> Option<Arc<[u8]>> {
        let part = self.replies.part(&call.peer)?;
        let (at, reply) = part.replies.get(&self.key_of(call))?;
        (call.now < at.saturating_add(AGE_MAX)).then(|| Arc::clone(reply))
    }

    /// Keeps a reply, unless it is long.
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
