//! Images of sessions: their slots, connections and backchannels.

use crate::clients::image::RestoredClients;
use crate::order::{Held, Leaf, Ordered};
use crate::sessions::backchannel::Ability;
use crate::sessions::callbacks::image::BackSlotImage;
use crate::sessions::callbacks::{BackSlots, PathStatus};
use crate::sessions::connections::ConnectionTable;
use crate::sessions::create_session::image::ChannelImage;
use crate::sessions::memory::{CountedMemory, Outstanding};
use crate::sessions::slots::Slots;
use crate::sessions::slots::image::SlotImage;
use crate::sessions::{
    Callback, Session, SessionActivity, SessionConnection, SessionTable, index_of, nanoseconds,
};
use crate::slab::SlabKey;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::sync::{Mutex, RwLock};
use crate::table::Table;
use crate::table::image::{KeyImage, TableImage};
use crate::{CallbackSecurity, ClientKey};
use image::{ImageError, SharedBytes, ensure};
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The image of one session.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct SessionImage {
    #[cbor(n(0), with = "minicbor::bytes")]
    id: [u8; 16],
    #[n(1)]
    client: KeyImage,
    #[n(2)]
    fore: ChannelImage,
    #[n(3)]
    back: ChannelImage,
    #[n(4)]
    slots: Vec<SlotImage>,
    #[n(5)]
    renewed: u64,
    /// The highest slots in use: in this span of time and in the one before.
    #[n(6)]
    outstanding: [u32; 2],
    #[n(7)]
    connections: Vec<BoundConnectionImage>,
    #[n(8)]
    program: u32,
    #[n(9)]
    security: Vec<SecurityImage>,
    #[n(10)]
    minor_version: u32,
    #[n(11)]
    back_slots: Vec<BackSlotImage>,
    #[n(12)]
    path_flags: u32,
    #[n(13)]
    contexts_until: u64,
    #[n(14)]
    created: u64,
}

/// A connection of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
struct BoundConnectionImage {
    #[n(0)]
    id: u64,
    #[n(1)]
    fore: bool,
    #[n(2)]
    back: bool,
    #[n(3)]
    explicit: bool,
    #[n(4)]
    silent: bool,
}

/// A way to authenticate callbacks.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) enum SecurityImage {
    /// The flavor AUTH_NONE, without credentials.
    #[n(0)]
    None,
    /// AUTH_SYS: machine name, uid and gid.
    #[n(1)]
    Sys(#[n(0)] SharedBytes, #[n(1)] u32, #[n(2)] u32),
    /// RPCSEC_GSS: service, the server's handle, the client's, and the context's end.
    #[n(2)]
    Gss(#[n(0)] u32, #[n(1)] SharedBytes, #[n(2)] SharedBytes, #[n(3)] u64),
}

impl SecurityImage {
    /// Makes an image of the table.
    pub(crate) fn of(security: &CallbackSecurity) -> Self {
        match security {
            CallbackSecurity::None => Self::None,
            CallbackSecurity::Sys { machine, uid, gid } => {
                Self::Sys(SharedBytes::from(&**machine), *uid, *gid)
            }
            CallbackSecurity::Gss { service, handle_from_server, handle_from_client, expires } => {
                let (server, client) =
                    (SharedBytes::from(&**handle_from_server), SharedBytes::from(&**handle_from_client));
                Self::Gss(*service, server, client, nanoseconds(*expires))
            }
        }
    }
}

impl From<SecurityImage> for CallbackSecurity {
    fn from(image: SecurityImage) -> Self {
        match image {
            SecurityImage::None => Self::None,
            SecurityImage::Sys(machine, uid, gid) => Self::Sys { machine: machine.0.to_vec(), uid, gid },
            SecurityImage::Gss(service, server, client, expires) => Self::Gss {
                service,
                handle_from_server: server.0.to_vec(),
                handle_from_client: client.0.to_vec(),
                expires: Duration::from_nanos(expires),
            },
        }
    }
}

impl Session {
    fn image(&self) -> Result<SessionImage, ImageError> {
        // The record is found by the client's key, and the memory is counted anew.
        let Self {
            id,
            key: _,
            client,
            record: _,
            fore,
            back,
            slots,
            activity,
            connections,
            callback,
            minor_version,
            back_slots,
            path,
            created,
            counted: _,
        } = self;
        let SessionActivity { gate, renewed, cached: _, outstanding } = activity;
        if gate.load(Relaxed) != 0 {
            return Err(ImageError::Busy("a request"));
        }
        let connection = |connection: &SessionConnection| {
            let SessionConnection { id, fore, back, explicit, silent } = *connection;
            BoundConnectionImage { id, fore, back, explicit, silent }
        };
        let connections = connections.read(&mut Held::nothing()).iter().map(connection).collect();
        let Callback { program, security } = callback.lock().clone();
        let (path_flags, contexts_until) = path.image();
        Ok(SessionImage {
            id: *id,
            client: client.0.into(),
            fore: ChannelImage::of(fore),
            back: ChannelImage::of(back),
            slots: slots.image(fore.requests)?,
            renewed: renewed.load(Relaxed),
            outstanding: outstanding.image(),
            connections,
            program,
            security: security.iter().map(SecurityImage::of).collect(),
            minor_version: *minor_version,
            back_slots: back_slots.image(),
            path_flags,
            contexts_until,
            created: nanoseconds(*created),
        })
    }

    fn restore(
        image: SessionImage,
        key: SlabKey,
        clients: &RestoredClients,
    ) -> Result<Arc<Self>, ImageError> {
        let client = clients.get(image.client.into())?;
        ensure(client.lists(key), "a session that its client does not list")?;
        ensure(index_of(&image.id) == key.index, "a session id that leads elsewhere")?;
        let (fore, back) = (image.fore.into(), crate::ChannelAttrs::from(image.back));
        let (slots, cached) = Slots::restore(image.slots, image.fore.requests())?;
        let security: Vec<CallbackSecurity> =
            image.security.into_iter().map(CallbackSecurity::from).collect();
        let counted = CountedMemory::new(&fore, &security);
        let connections: Vec<SessionConnection> =
            image.connections.into_iter().map(SessionConnection::from).collect();
        Ok(Arc::new(Self {
            id: image.id,
            key,
            client: ClientKey(image.client.into()),
            record: Arc::clone(&client.record),
            fore,
            back,
            slots,
            activity: SessionActivity {
                gate: AtomicU32::new(0),
                renewed: AtomicU64::new(image.renewed),
                cached: AtomicUsize::new(cached),
                outstanding: Outstanding::restore(image.outstanding),
            },
            connections: Ordered::new(RwLock::new(connections)),
            callback: Leaf::new(Mutex::new(Callback { program: image.program, security })),
            minor_version: image.minor_version,
            back_slots: BackSlots::restore(image.back_slots, back.requests)?,
            path: PathStatus::restore(image.path_flags, image.contexts_until),
            created: Duration::from_nanos(image.created),
            counted,
        }))
    }

    /// Counts the backchannel in if it works.
    fn restore_path(&self) {
        let held = &mut Held::nothing();
        let connections = self.connections.read(held);
        let up = self.ability() == Ability::Able
            && connections.iter().any(|connection| connection.back && !connection.silent);
        if self.path.restore_up(up) {
            self.record.paths.fetch_add(1, Relaxed);
        }
    }
}

impl From<BoundConnectionImage> for SessionConnection {
    fn from(BoundConnectionImage { id, fore, back, explicit, silent }: BoundConnectionImage) -> Self {
        Self { id, fore, back, explicit, silent }
    }
}

impl SessionTable {
    pub(crate) fn image(&self) -> Result<TableImage<SessionImage>, ImageError> {
        // Whether the server is overloaded shows again within a second.
        let Self { table, connections: _, memory: _, overloaded: _ } = self;
        table.image(|_, session| Arc::clone(session)).try_map(|_, session| session.image())
    }

    /// Restores the sessions; returns them with their number for each client.
    pub(crate) fn restore(
        image: TableImage<SessionImage>,
        clients: &RestoredClients,
    ) -> Result<(Self, BTreeMap<SlabKey, usize>), ImageError> {
        let (connections, memory) = (ConnectionTable::new(), AtomicUsize::new(0));
        let mut numbers = BTreeMap::new();
        let table = Table::restore(image, |key, session| {
            let session = Session::restore(session, key, clients)?;
            *numbers.entry(session.client.0).or_default() += 1;
            session.restore_path();
            connections.restore(&session)?;
            let bytes = session.counted.restore(session.activity.cached_len());
            memory.fetch_add(bytes, Relaxed);
            session.record.tenant.memory.fetch_add(bytes, Relaxed);
            Ok(session)
        })?;
        Ok((Self { table, connections, memory, overloaded: AtomicBool::new(false) }, numbers))
    }
}
