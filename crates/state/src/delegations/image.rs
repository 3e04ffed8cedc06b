//! Images of delegations, held, recalled and revoked.

use crate::clients::image::RestoredClients;
use crate::delegations::cb_getattr::GetattrWaits;
use crate::delegations::cb_getattr::image::GetattrWaitsImage;
use crate::delegations::recalls::Contention;
use crate::delegations::{
    Delegation, DelegationMode, DelegationPhase, DelegationTable, DelegationTotals, HeldDelegation,
    ReferringCall,
};
use crate::files::{FileView, Files};
use crate::order::{Held, Leaf};
use crate::sessions::nanoseconds;
use crate::slab::SlabKey;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::table::Table;
use crate::table::image::{KeyImage, TableImage};
use crate::{ClientKey, Principal};
use image::{ImageError, SharedBytes, ensure};
use minicbor::{Decode, Encode};
use std::collections::BTreeSet;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// One delegation, with the image `F` of the name of its file.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct DelegationImage<F> {
    #[n(0)]
    client: KeyImage,
    #[n(1)]
    file: F,
    #[n(2)]
    write: bool,
    #[n(3)]
    phase: DelegationPhaseImage,
    /// The caller's number of the payload.
    #[n(4)]
    payload: Option<u32>,
    #[n(5)]
    granted: Option<ReferringImage>,
    #[n(6)]
    change: u64,
    #[n(7)]
    getattr_waits: GetattrWaitsImage,
    #[n(8)]
    opener: SharedBytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
enum DelegationPhaseImage {
    #[n(0)]
    Held,
    /// When it is revoked, and whether the client has answered.
    #[n(1)]
    Recalled(#[n(0)] u64, #[n(1)] bool),
    #[n(2)]
    Revoked,
}

/// The request that something was granted to: session id, sequence number and slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct ReferringImage(#[cbor(n(0), with = "minicbor::bytes")] [u8; 16], #[n(1)] u32, #[n(2)] u32);

impl ReferringImage {
    pub(crate) fn of(ReferringCall { sessionid, sequenceid, slotid }: ReferringCall) -> Self {
        Self(sessionid, sequenceid, slotid)
    }
}

impl From<ReferringImage> for ReferringCall {
    fn from(ReferringImage(sessionid, sequenceid, slotid): ReferringImage) -> Self {
        Self { sessionid, sequenceid, slotid }
    }
}

impl<F, O> DelegationTable<F, O> {
    pub(crate) fn image<G>(
        &self,
        name: impl Fn(&F) -> G,
        mut payload: impl FnMut(&F, &O) -> u32,
    ) -> TableImage<DelegationImage<G>> {
        // Recalls and numbers are counted from the entries; totals have an image of their own.
        let Self { table, recalls: _, contention: _, count: _, writers: _, totals: _ } = self;
        table.image(|_, delegation| {
            let Delegation {
                client,
                file,
                mode,
                phase,
                payload: own,
                granted,
                change,
                getattr_waits,
                opener,
            } = delegation;
            DelegationImage {
                client: client.0.into(),
                file: name(file),
                write: *mode == DelegationMode::Write,
                phase: match *phase {
                    DelegationPhase::Held => DelegationPhaseImage::Held,
                    DelegationPhase::Recalled { until, answered } => {
                        DelegationPhaseImage::Recalled(nanoseconds(until), answered)
                    }
                    DelegationPhase::Revoked => DelegationPhaseImage::Revoked,
                },
                payload: own.as_ref().map(|own| payload(file, own)),
                granted: granted.map(ReferringImage::of),
                change: *change,
                getattr_waits: getattr_waits.image(),
                opener: SharedBytes(Arc::clone(&opener.0)),
            }
        })
    }

    /// Returns the places of recently contended files.
    pub(crate) fn contention_image(&self) -> Vec<(u32, u64)> {
        self.contention.image()
    }
}

impl DelegationTotals {
    /// Returns the delegations granted, recalled and revoked.
    pub(crate) fn image(&self) -> (u64, u64, u64) {
        let Self { granted, recalled, revoked } = self;
        (granted.load(Relaxed), recalled.load(Relaxed), revoked.load(Relaxed))
    }

    pub(crate) fn restore((granted, recalled, revoked): (u64, u64, u64)) -> Self {
        Self {
            granted: AtomicU64::new(granted),
            recalled: AtomicU64::new(recalled),
            revoked: AtomicU64::new(revoked),
        }
    }
}

impl<F: Clone + Eq + Hash, O> DelegationTable<F, O> {
    /// Restores the delegations, and lists them with their files and clients.
    pub(crate) fn restore<G>(
        image: TableImage<DelegationImage<G>>,
        contention: &[(u32, u64)],
        clients: &RestoredClients,
        files: &Files<F>,
        view: fn(&F) -> FileView,
        mut name: impl FnMut(G) -> Result<F, ImageError>,
        mut payload: impl FnMut(&F, u32) -> Result<O, ImageError>,
    ) -> Result<Self, ImageError> {
        let (mut recalls, mut writers) = (BTreeSet::new(), 0);
        let table = Table::restore(image, |key: SlabKey, image: DelegationImage<G>| {
            let client = ClientKey(image.client.into());
            let restored = clients.get(client.0)?;
            let file = name(image.file)?;
            let mode = if image.write { DelegationMode::Write } else { DelegationMode::Read };
            let held = &mut Held::nothing();
            let mut state = restored.record.lock_any(held);
            let (state, held) = state.split();
            state.delegations.insert(key);
            let phase = match image.phase {
                DelegationPhaseImage::Held => DelegationPhase::Held,
                DelegationPhaseImage::Recalled(until, answered) => {
                    let until = Duration::from_nanos(until);
                    recalls.insert((until, key));
                    DelegationPhase::Recalled { until, answered }
                }
                DelegationPhaseImage::Revoked => {
                    restored.count_revoked(state);
                    DelegationPhase::Revoked
                }
            };
            let revoked = phase == DelegationPhase::Revoked;
            ensure(revoked == image.payload.is_none(), "the payload of a delegation")?;
            if !revoked {
                let mut stripe = files.lock(held, &file);
                let known = stripe.entry(file.clone()).or_default();
                let conflicts = known.delegations.values().any(|other| other.mode.excludes(mode));
                ensure(!conflicts, "delegations that conflict")?;
                let held = HeldDelegation { key, mode };
                let before = known.delegations.insert((client, view(&file)), held);
                ensure(before.is_none(), "two delegations of one client on one file")?;
                writers += usize::from(mode == DelegationMode::Write);
            }
            let payload = image.payload.map(|number| payload(&file, number)).transpose()?;
            Ok(Delegation {
                client,
                file,
                mode,
                phase,
                payload,
                granted: image.granted.map(ReferringCall::from),
                change: image.change,
                getattr_waits: GetattrWaits::restore(image.getattr_waits),
                opener: Principal(image.opener.0),
            })
        })?;
        Ok(Self {
            recalls: Leaf::new(Mutex::new(recalls)),
            contention: Contention::restore(contention),
            count: AtomicUsize::new(table.len()),
            writers: AtomicUsize::new(writers),
            totals: DelegationTotals::default(),
            table,
        })
    }
}
