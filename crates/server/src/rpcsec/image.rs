//! Images of established contexts, for the next process of a server: with their keys, windows and
//! identities, so that no client notices it.

use super::context::{Context, HANDLE_LEN, Handle, ServiceSecurity, SharedContext};
use super::table::ContextTable;
use arc_swap::ArcSwap;
use identity::{Identity, Mapped, NoAccount};
use image::{ImageError, Secret, ensure};
use krb5::{ContextKeys, Enctype, ProtocolKey, Role};
use minicbor::{Decode, Encode};
use rpc::{MAXSEQ, SequenceWindow, WindowImage};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The image of one context.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(super) struct ContextImage {
    #[cbor(n(0), with = "minicbor::bytes")]
    handle: [u8; HANDLE_LEN],
    #[n(1)]
    id: u64,
    /// The number of the enctype, and the protocol key.
    #[n(2)]
    enctype: i32,
    #[n(3)]
    key: Secret,
    #[n(4)]
    acceptor_subkey: bool,
    #[n(5)]
    window: WindowImage,
    #[n(6)]
    expires: u64,
    #[n(7)]
    used: u64,
    #[n(8)]
    created: u64,
    #[n(9)]
    send_sequence: u64,
    #[n(10)]
    callback_sequence: u32,
    #[n(11)]
    principal: String,
    #[n(12)]
    delegated: bool,
    /// The user ID, the group ID and the groups; nothing for nobody.
    #[n(13)]
    identity: Option<(u32, u32, Vec<u32>)>,
    #[n(14)]
    machine: bool,
    #[n(15)]
    refresh_at: u64,
}

/// The contexts of all users.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ContextsImage {
    #[n(0)]
    next_id: u64,
    #[n(1)]
    contexts: Vec<ContextImage>,
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Context {
    fn image(&self) -> ContextImage {
        let Self {
            handle,
            keys,
            window,
            window_size: _,
            expires,
            used,
            created,
            send_sequence,
            callback_sequence,
            principal,
            delegated,
            id,
            security,
            refresh_at,
            tenant: _,
        } = self;
        // The services differ in nothing but the flavor.
        let security = security.load();
        let identity = security.krb5.caller.as_ref();
        ContextImage {
            handle: *handle.as_bytes(),
            id: *id,
            enctype: keys.enctype().etype(),
            key: Secret::from(keys.protocol_key().bytes()),
            acceptor_subkey: matches!(keys.protocol_key(), ProtocolKey::AcceptorSubkey(_)),
            window: window.lock().unwrap_or_else(PoisonError::into_inner).image(),
            expires: nanoseconds(*expires),
            used: used.load(Relaxed),
            created: nanoseconds(*created),
            send_sequence: send_sequence.load(Relaxed),
            callback_sequence: callback_sequence.load(Relaxed),
            principal: principal.to_string(),
            delegated: *delegated,
            identity: identity.map(|caller| (caller.uid, caller.gid, caller.groups.to_vec())),
            machine: security.krb5.machine,
            refresh_at: refresh_at.load(Relaxed),
        }
    }

    fn restore(image: ContextImage) -> Result<Self, ImageError> {
        let enctype = Enctype::from_etype(image.enctype);
        let enctype = enctype.ok_or(ImageError::Inconsistent("the enctype of a context"))?;
        let protocol_key = if image.acceptor_subkey {
            ProtocolKey::AcceptorSubkey(&image.key.0)
        } else {
            ProtocolKey::InitiatorKey(&image.key.0)
        };
        let keys = ContextKeys::underived(enctype, protocol_key, Role::Acceptor);
        let keys = keys.map_err(|_| ImageError::Inconsistent("the key of a context"))?;
        let window = SequenceWindow::restore(image.window)?;
        ensure(image.callback_sequence <= MAXSEQ, "the callbacks of a context")?;
        let identity = match image.identity {
            Some((uid, gid, groups)) => Ok(Identity { uid, gid, groups: groups.into() }),
            None => Err(NoAccount::Rule),
        };
        let account = Mapped { identity, machine: image.machine };
        let principal = image.principal.into();
        let security = ServiceSecurity::new(&principal, account, image.delegated, image.id);
        Ok(Self {
            handle: Handle::new(image.handle),
            keys,
            window_size: window.size(),
            window: Mutex::new(window),
            expires: Duration::from_nanos(image.expires),
            used: AtomicU64::new(image.used),
            created: Duration::from_nanos(image.created),
            send_sequence: AtomicU64::new(image.send_sequence),
            callback_sequence: AtomicU32::new(image.callback_sequence),
            principal,
            delegated: image.delegated,
            id: image.id,
            security: ArcSwap::from_pointee(security),
            refresh_at: AtomicU64::new(image.refresh_at),
            tenant: OnceLock::new(),
        })
    }
}

impl ContextTable {
    /// Makes an image of all contexts; those that wait for a lookup of their identity are due again
    /// at once.
    pub(crate) fn image(&self, waiting: &[SharedContext]) -> ContextsImage {
        waiting.iter().for_each(|context| context.set_refresh(Duration::ZERO));
        let contexts = self.list(usize::MAX).iter().map(|context| context.image()).collect();
        ContextsImage { next_id: self.last_id(), contexts }
    }

    /// Restores the contexts of an image into an empty table. Beyond its limit the least useful are
    /// left out, as always.
    pub(crate) fn restore(&self, image: ContextsImage, now: Duration) -> Result<(), ImageError> {
        let ContextsImage { next_id, contexts } = image;
        for context in contexts {
            ensure(context.id < next_id, "the number of a context")?;
            self.insert_restored(Arc::new(Context::restore(context)?), now)?;
        }
        self.set_last_id(next_id);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use crate::rpcsec::Accepted;
    use rpc::WindowOutcome;

    const NOW: Duration = Duration::from_secs(100);

    fn table() -> ContextTable {
        ContextTable::new(1000, Arc::new(Metrics::default()), Arc::default())
    }

    fn context(table: &ContextTable, number: u8) -> Arc<Context> {
        let key = [number; 32];
        let enctype = Enctype::Aes256CtsHmacSha384_192;
        let accepted = Accepted {
            token: vec![],
            principal: format!("user{number}@R"),
            delegated_through: vec![],
            keys: ContextKeys::new(enctype, ProtocolKey::AcceptorSubkey(&key), Role::Acceptor).unwrap(),
            lifetime: Duration::from_secs(3600),
            send_sequence: 7,
        };
        let identity = Ok(Identity { uid: 1000, gid: 100, groups: [5, 6].into() });
        let account = Mapped { identity, machine: false };
        let handle = Handle::new([number; HANDLE_LEN]);
        let context = Arc::new(Context::new(handle, table.next_id(), accepted, account, 256, NOW));
        table.insert(Arc::clone(&context), NOW);
        context
    }

    #[test]
    fn a_restored_context_has_the_same_keys_window_and_sequence_numbers() {
        // RFC 2203 section 5.3.3
        let before = table();
        let context = context(&before, 1);
        for number in [1, 2, 40] {
            assert_eq!(context.check_sequence(number, NOW).0, WindowOutcome::Accepted);
        }
        let (token, callback) = (context.next_token_sequence(), context.next_callback_sequence());
        let image: ContextsImage = image::decode(&image::encode(&before.image(&[]))).unwrap();
        let after = table();
        after.restore(image.clone(), NOW).unwrap();
        assert_eq!(after.image(&[]), image);
        let again = after.find(context.handle(), NOW).unwrap();
        assert_eq!(again.keys().protocol_key().bytes(), context.keys().protocol_key().bytes());
        assert_eq!(again.check_sequence(40, NOW).0, WindowOutcome::Replayed);
        assert_eq!(again.check_sequence(3, NOW).0, WindowOutcome::Accepted);
        assert_eq!(again.next_token_sequence(), token + 1);
        assert_eq!(again.next_callback_sequence(), callback.map(|number| number + 1));
        assert_eq!((again.principal(), again.uid()), ("user1@R", Some(1000)));
        let security = again.security();
        let caller = &security.of(rpc::gss::RpcGssServiceT::rpc_gss_svc_none).caller;
        assert_eq!(*caller.as_ref().unwrap().groups, [5, 6]);
        assert!(after.next_id() > 1, "numbers of contexts never come back");
    }

    #[test]
    fn the_least_useful_contexts_are_left_out_beyond_a_smaller_limit() {
        let before = table();
        (1..40).for_each(|number| drop(context(&before, number)));
        let after = ContextTable::new(10, Arc::new(Metrics::default()), Arc::default());
        after.restore(before.image(&[]), NOW).unwrap();
        assert_eq!(after.len(), 10);
    }

    #[test]
    fn a_wrong_key_or_a_handle_that_comes_twice_is_refused() {
        let before = table();
        context(&before, 1);
        let image = before.image(&[]);
        let mut twice = image.clone();
        twice.contexts.push(image.contexts[0].clone());
        assert!(table().restore(twice, NOW).is_err());
        let mut short = image;
        short.contexts[0].key.0.pop();
        assert!(table().restore(short, NOW).is_err());
    }
}
