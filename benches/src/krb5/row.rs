//! The rows of the table, and the floors of some of them.

use krb5::{Cpu, Enctype};

/// The operation on the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenOperation {
    Wrap,
    Unwrap,
    Mic,
    Verify,
}

impl TokenOperation {
    pub(super) const ALL: [Self; 4] = [Self::Wrap, Self::Unwrap, Self::Mic, Self::Verify];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Wrap => "wrap",
            Self::Unwrap => "unwrap",
            Self::Mic => "mic",
            Self::Verify => "verify",
        }
    }

    /// Whether the message is encrypted, not only signed.
    pub(super) fn seals(self) -> bool {
        matches!(self, Self::Wrap | Self::Unwrap)
    }
}

/// One line of the table: batches of `count` messages of `len` bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenRow {
    pub operation: TokenOperation,
    pub enctype: Enctype,
    pub count: usize,
    pub len: usize,
    /// How many contexts the messages of a batch come from.
    pub contexts: usize,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Batches to seal and to open: messages, and bytes of each. Metadata has about 160 bytes.
const SEALED: [(usize, usize); 11] = [
    (1, 160),
    (1, 4 * KIB),
    (1, 64 * KIB),
    (1, MIB),
    (2, 64 * KIB),
    (4, 64 * KIB),
    (8, 64 * KIB),
    (16, 160),
    (16, 4 * KIB),
    (16, 64 * KIB),
    (64, 4 * KIB),
];

/// Batches to sign: a call's header, and a message of `krb5i`.
const SIGNED: [(usize, usize); 4] = [(1, 128), (16, 128), (64, 128), (16, 4 * KIB)];

impl TokenRow {
    /// Returns all rows, in the order of the table.
    pub(super) fn all() -> Vec<Self> {
        let mut rows = Vec::new();
        for enctype in Enctype::ALL {
            for operation in TokenOperation::ALL {
                let shapes = if operation.seals() { &SEALED[..] } else { &SIGNED[..] };
                for &(count, len) in shapes {
                    rows.push(Self { operation, enctype, count, len, contexts: 1 });
                }
                if operation.seals() {
                    rows.push(Self { operation, enctype, count: 16, len: 4 * KIB, contexts: 16 });
                }
            }
        }
        rows
    }

    /// Returns its name, as it stands in the table and in JSON.
    pub(super) fn name(&self) -> String {
        let Self { enctype, operation, count, len, contexts } = self;
        let len = match *len {
            len if len >= MIB => format!("{}MiB", len / MIB),
            len if len >= KIB => format!("{}KiB", len / KIB),
            len => format!("{len}B"),
        };
        let contexts = if *contexts > 1 { format!(", {contexts} contexts") } else { String::new() };
        format!("etype{} {} {count}x{len}{contexts}", enctype.etype(), operation.name())
    }

    /// Returns how the programs of the other columns are asked for it.
    pub(super) fn request(&self) -> String {
        format!("{} {} {} {}", self.operation.name(), self.enctype.etype(), self.count, self.len)
    }

    /// Returns how many times as fast as MIT's library it has to be.
    pub(super) fn floor(&self, cpu: Cpu) -> Option<f64> {
        use TokenOperation::{Mic, Unwrap, Wrap};
        let wide = match cpu {
            Cpu::Avx512 => true,
            Cpu::Avx2 | Cpu::AesNi => false,
            Cpu::Portable => return None,
        };
        let (large, small) = if wide { (25.0, 20.0) } else { (10.0, 10.0) };
        match (self.enctype.etype(), self.operation, self.count, self.len) {
            _ if self.contexts > 1 => None,
            (18, Wrap | Unwrap, 16, len) if len == 64 * KIB => Some(large),
            (18, Wrap, 16, len) if len == 4 * KIB => Some(small),
            (20, Wrap | Unwrap, 16, len) if len == 64 * KIB => Some(if wide { 17.0 } else { 6.0 }),
            (18, Wrap, 1, MIB) => Some(3.5),
            (18, Unwrap, 1, MIB) => Some(6.0),
            (_, Mic, 16, 128) => Some(if wide { 6.0 } else { 3.0 }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_that_have_floors_are_measured_under_the_names_that_are_agreed() {
        let names: Vec<_> = TokenRow::all()
            .iter()
            .filter(|row| row.floor(Cpu::Avx512).is_some())
            .map(TokenRow::name)
            .collect();
        for name in [
            "etype18 wrap 16x64KiB",
            "etype18 wrap 16x4KiB",
            "etype18 unwrap 16x64KiB",
            "etype20 wrap 16x64KiB",
            "etype20 unwrap 16x64KiB",
            "etype18 wrap 1x1MiB",
            "etype18 unwrap 1x1MiB",
            "etype18 mic 16x128B",
        ] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
    }
}
