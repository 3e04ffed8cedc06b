//! The operation and the export that a request is about.

use super::outcomes::{OPERATIONS, row};
use nfs4::NfsOpnum4;

/// The operation and the export under which a request is counted: the first operation of those that
/// say most about it. `SEQUENCE PUTFH READ GETATTR` is about READ, on the export of the filehandle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestSubject {
    /// How much the operation says; 0 before the first one.
    rank: u8,
    row: u8,
    export: u8,
}

impl RequestSubject {
    /// The subject of a request without operations.
    pub const NONE: Self = Self { rank: 0, row: 0, export: 0 };

    /// Takes an operation into account before it runs; `export` returns the place of the current
    /// filehandle's export.
    pub(crate) fn consider(&mut self, opnum: NfsOpnum4, export: impl FnOnce() -> u8) {
        let row = row(opnum);
        let rank = RANKS.get(row).copied().unwrap_or_default();
        if rank > self.rank {
            *self = Self { rank, row: row as u8, export: export() };
        }
    }

    /// Returns the index of the operation; `None` for a request without one.
    pub(crate) fn row(self) -> Option<usize> {
        (self.rank > 0).then_some(self.row.into())
    }

    /// Returns the place of the export.
    pub(crate) fn export(self) -> usize {
        self.export.into()
    }
}

/// How much each operation says about its request.
const RANKS: [u8; OPERATIONS] = {
    use NfsOpnum4::*;
    let mut ranks = [4; OPERATIONS];
    let accessories = [OP_SEQUENCE, OP_PUTFH, OP_PUTROOTFH, OP_PUTPUBFH, OP_SAVEFH, OP_RESTOREFH, OP_GETFH];
    let (attributes, names) = ([OP_GETATTR, OP_VERIFY, OP_NVERIFY], [OP_ACCESS, OP_LOOKUP, OP_LOOKUPP]);
    let mut at = 0;
    while at < accessories.len() {
        ranks[accessories[at] as usize] = 1;
        at += 1;
    }
    at = 0;
    while at < attributes.len() {
        ranks[attributes[at] as usize] = 2;
        ranks[names[at] as usize] = 3;
        at += 1;
    }
    ranks
};

#[cfg(test)]
mod tests {
    use super::*;
    use NfsOpnum4::*;

    fn of(operations: &[NfsOpnum4]) -> (Option<usize>, usize) {
        let mut subject = RequestSubject::default();
        for (at, opnum) in operations.iter().enumerate() {
            subject.consider(*opnum, || at as u8);
        }
        (subject.row(), subject.export())
    }

    #[test]
    fn a_request_is_about_its_first_operation_that_is_no_accessory() {
        let read = [OP_SEQUENCE, OP_PUTFH, OP_READ, OP_GETATTR];
        assert_eq!(of(&read), (Some(OP_READ as usize), 2));
        let open = [OP_SEQUENCE, OP_PUTROOTFH, OP_LOOKUP, OP_LOOKUP, OP_OPEN, OP_GETFH, OP_READ];
        assert_eq!(of(&open), (Some(OP_OPEN as usize), 4));
        assert_eq!(of(&[OP_SEQUENCE, OP_PUTFH, OP_GETATTR]), (Some(OP_GETATTR as usize), 2));
        assert_eq!(of(&[OP_SEQUENCE, OP_PUTFH, OP_ACCESS, OP_GETATTR]), (Some(OP_ACCESS as usize), 2));
        assert_eq!(of(&[OP_SEQUENCE]), (Some(OP_SEQUENCE as usize), 0));
        assert_eq!(of(&[]), (None, 0));
    }
}
