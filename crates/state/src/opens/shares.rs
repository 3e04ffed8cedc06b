//! Share reservations: the access of opens, and the access that they deny to others (RFC 8881
//! section 9.7).

use crate::{Nfsstat4, Result};

// Access and deny have the same bits.
pub(crate) use nfs4::{
    OPEN4_SHARE_ACCESS_BOTH as BOTH, OPEN4_SHARE_ACCESS_READ as READ, OPEN4_SHARE_ACCESS_WRITE as WRITE,
};

/// One share reservation: the access of an open and its denial to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) access: u32,
    pub(crate) deny: u32,
}

impl Share {
    pub(crate) fn union(self, other: Self) -> Self {
        Self { access: self.access | other.access, deny: self.deny | other.deny }
    }

    /// Returns whether both may not be had by two owners at once.
    pub(crate) fn conflicts(self, other: Self) -> bool {
        self.access & other.deny != 0 || self.deny & other.access != 0
    }
}

/// How many opens have each of the four bits, so that a check costs the same with one open or ten
/// thousand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShareCounts {
    access: [u32; 2],
    deny: [u32; 2],
}

impl ShareCounts {
    pub(crate) fn add(&mut self, share: Share) {
        self.each(share, |count| *count += 1);
    }

    pub(crate) fn remove(&mut self, share: Share) {
        self.each(share, |count| *count = count.saturating_sub(1));
    }

    fn each(&mut self, share: Share, change: impl Fn(&mut u32)) {
        let bits = |value: u32| [value & READ != 0, value & WRITE != 0];
        let access = self.access.iter_mut().zip(bits(share.access));
        access
            .chain(self.deny.iter_mut().zip(bits(share.deny)))
            .filter(|(_, set)| *set)
            .for_each(|(c, _)| change(c));
    }

    /// The union of all opens that are counted.
    pub(crate) fn union(&self) -> Share {
        let bits = |[read, write]: [u32; 2]| (READ * u32::from(read > 0)) | (WRITE * u32::from(write > 0));
        Share { access: bits(self.access), deny: bits(self.deny) }
    }
}

/// Checks the bits of a share reservation: some access, and nothing unknown to deny.
pub(crate) fn share(access: u32, deny: u32) -> Result<Share> {
    let access = access & BOTH;
    if access == 0 || deny & !BOTH != 0 {
        return Err(Nfsstat4::NFS4ERR_INVAL);
    }
    Ok(Share { access, deny })
}

/// The values of access and of deny in the OPENs of one open: bit n stands for the value n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeenShares {
    access: u8,
    deny: u8,
}

impl SeenShares {
    pub(crate) fn of(share: Share) -> Self {
        Self::default().with(share)
    }

    /// Returns the bits of access and of deny.
    pub(super) fn bits(self) -> [u8; 2] {
        let Self { access, deny } = self;
        [access, deny]
    }

    pub(super) fn of_bits([access, deny]: [u8; 2]) -> Self {
        Self { access, deny }
    }

    pub(crate) fn with(self, share: Share) -> Self {
        Self { access: self.access | 1 << (share.access & BOTH), deny: self.deny | 1 << (share.deny & BOTH) }
    }

    /// Returns the rest after an OPEN_DOWNGRADE to `target`, if access and deny are each the union
    /// of some of the OPENs (RFC 8881 section 18.18.3).
    pub(crate) fn within(self, target: Share) -> Option<Self> {
        let access = values_within(self.access, target.access)?;
        let deny = values_within(self.deny, target.deny)?;
        Some(Self { access, deny })
    }
}

/// Keeps the values that ask for nothing beyond `target`, if there are any and together they make
/// it up.
fn values_within(seen: u8, target: u32) -> Option<u8> {
    let kept = (0..=BOTH).filter(|value| seen & 1 << value != 0 && value | target == target);
    let (bits, union) = kept.fold((0, 0), |(bits, union), value| (bits | 1 << value, union | value));
    (bits != 0 && union == target).then_some(bits)
}
