//! The image of the grace period.

use super::Grace;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use minicbor::{Decode, Encode};

/// When the grace period ends, in nanoseconds; zeros when there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct GraceImage {
    #[n(0)]
    until: u64,
    #[n(1)]
    latest: u64,
}

impl Grace {
    pub(crate) fn image(&self) -> GraceImage {
        // A member of a cluster is not handed over.
        let Self { until, latest, enforced: _ } = self;
        GraceImage { until: until.load(Relaxed), latest: *latest }
    }

    pub(crate) fn restore(GraceImage { until, latest }: GraceImage) -> Self {
        Self { until: AtomicU64::new(until), latest, enforced: AtomicBool::new(false) }
    }
}
