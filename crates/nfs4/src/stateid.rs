//! Special stateids (RFC 8881 section 8.2.3).

use crate::Stateid4;

impl Stateid4 {
    /// The anonymous stateid: READ, WRITE and SETATTR without an open.
    pub const ANONYMOUS: Self = Self { seqid: 0, other: [0; 12] };

    /// Like the anonymous one, and the READ may pass over share reservations that deny reading.
    pub const READ_BYPASS: Self = Self { seqid: u32::MAX, other: [0xff; 12] };

    /// Stands for the stateid that an earlier operation of the same COMPOUND left behind (section
    /// 16.2.3.1.2).
    pub const CURRENT: Self = Self { seqid: 1, other: [0; 12] };

    /// Is never valid: the state that it would stand for does not exist.
    pub const INVALID: Self = Self { seqid: u32::MAX, other: [0; 12] };

    /// Returns whether `other` has the reserved form, all zeros or all ones. A stateid of that form
    /// that is none of the constants here is NFS4ERR_BAD_STATEID.
    pub fn is_reserved(&self) -> bool {
        self.other == [0; 12] || self.other == [0xff; 12]
    }

    /// Returns the same state at its next sequence number, which is never zero (section 8.2.2).
    pub const fn next(&self) -> Self {
        let seqid = if self.seqid == u32::MAX { 1 } else { self.seqid + 1 };
        Self { seqid, other: self.other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_special_stateids_differ_and_have_the_reserved_form() {
        // RFC 8881 section 8.2.3
        let special = [Stateid4::ANONYMOUS, Stateid4::READ_BYPASS, Stateid4::CURRENT, Stateid4::INVALID];
        for (index, stateid) in special.iter().enumerate() {
            assert!(stateid.is_reserved());
            assert_eq!(special.iter().position(|other| other == stateid), Some(index));
        }
        assert!(!Stateid4 { seqid: 0, other: *b"a state of 1" }.is_reserved());
    }

    #[test]
    fn the_sequence_number_of_a_stateid_skips_zero() {
        // RFC 8881 section 8.2.2
        let last = Stateid4 { seqid: u32::MAX, other: [7; 12] };
        assert_eq!(last.next(), Stateid4 { seqid: 1, other: [7; 12] });
        assert_eq!(last.next().next().seqid, 2);
    }
}
