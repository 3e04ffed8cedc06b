//! The rows of the benchmark, and their bounds.

use crate::load::TransferKind::{Read, Write};
use crate::load::{self, METADATA};
use crate::output::Floor;
use bench::Flavor;
use bench::measuring::Load;

/// Where the server keeps the files.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ExportStore {
    /// A folder on tmpfs, which the floors refer to.
    Tmpfs,
    /// The server's memory backend: the cost without a file system.
    Memory,
}

impl ExportStore {
    /// The export, as the server names it.
    pub(super) const fn export(self) -> &'static str {
        match self {
            Self::Tmpfs => "/data",
            Self::Memory => "/memory",
        }
    }

    /// Returns the suffix of a row's name.
    pub(super) const fn suffix(self) -> &'static str {
        match self {
            Self::Tmpfs => "",
            Self::Memory => ", memory backend",
        }
    }

    /// The name of a group with its files here.
    pub(super) fn name(self, group: &RowGroup) -> String {
        format!("{}{}", group.name, self.suffix())
    }
}

/// Requests in flight of the sequential rows, and their size.
const SEQUENTIAL_DEPTH: u32 = 16;
const SEQUENTIAL_SIZE: u64 = 1 << 20;

/// Sequential reads of one client.
pub(super) const SEQUENTIAL_READ: Load = load::sequential(Read, SEQUENTIAL_DEPTH, SEQUENTIAL_SIZE);

/// Random reads of one client.
pub(super) const RANDOM_READ: Load = load::random(Read, 64);

/// A group of rows: one load with each flavor.
pub(super) struct RowGroup {
    /// Its name in each row.
    pub name: &'static str,
    /// The load of the row.
    pub load: Load,
    /// The figure that is compared with `sys`.
    pub figure: RowFigure,
}

/// The figures of a flavor that can be compared with `sys`.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum RowFigure {
    /// The rate, as a part of that of `sys`.
    Rate,
    /// The server's processor time, in times that of `sys`.
    ServerCpu,
    /// The median latency, beyond that of `sys`, in microseconds.
    Latency,
}

/// All groups, in their order.
pub(super) static GROUPS: [RowGroup; 7] = [
    RowGroup { name: "randread 4KiB qd64", load: RANDOM_READ, figure: RowFigure::Rate },
    RowGroup { name: "randwrite 4KiB qd64", load: load::random(Write, 64), figure: RowFigure::Rate },
    RowGroup { name: "seqread", load: SEQUENTIAL_READ, figure: RowFigure::ServerCpu },
    RowGroup {
        name: "seqwrite",
        load: load::sequential(Write, SEQUENTIAL_DEPTH, SEQUENTIAL_SIZE),
        figure: RowFigure::ServerCpu,
    },
    RowGroup { name: "metadata", load: METADATA, figure: RowFigure::Rate },
    RowGroup { name: "latency qd1 4KiB", load: load::random(Read, 1), figure: RowFigure::Latency },
    RowGroup { name: "write latency qd1 4KiB", load: load::random(Write, 1), figure: RowFigure::Latency },
];

impl RowGroup {
    /// The name of the row that compares `flavor` with `sys`.
    pub(super) fn row(&self, flavor: Flavor) -> String {
        let (name, flavor) = (self.name, flavor.name());
        match self.figure {
            RowFigure::Rate => format!("{name} {flavor}/sys"),
            RowFigure::ServerCpu => format!("{name} cpu/GB {flavor}/sys"),
            RowFigure::Latency => format!("added {name} {flavor} us"),
        }
    }

    /// Returns the bound of the row.
    pub(super) fn floor(&self, flavor: Flavor) -> Option<Floor> {
        let privacy = flavor == Flavor::Krb5p;
        match (self.figure, &self.load) {
            (RowFigure::Rate, Load::Metadata { .. }) => privacy.then_some(Floor::AtLeast(0.95)),
            (RowFigure::Rate, _) => match flavor {
                Flavor::Sys => None,
                Flavor::Krb5 => Some(Floor::AtLeast(0.97)),
                Flavor::Krb5i => Some(Floor::AtLeast(0.93)),
                Flavor::Krb5p => Some(Floor::AtLeast(0.90)),
            },
            (RowFigure::ServerCpu, _) => privacy.then_some(Floor::AtMost(1.8)),
            (RowFigure::Latency, _) => privacy.then_some(Floor::AtMost(15.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_names_that_others_look_for() {
        let names: Vec<String> = GROUPS.iter().map(|group| group.row(Flavor::Krb5p)).collect();
        assert_eq!(
            names,
            [
                "randread 4KiB qd64 krb5p/sys",
                "randwrite 4KiB qd64 krb5p/sys",
                "seqread cpu/GB krb5p/sys",
                "seqwrite cpu/GB krb5p/sys",
                "metadata krb5p/sys",
                "added latency qd1 4KiB krb5p us",
                "added write latency qd1 4KiB krb5p us",
            ]
        );
    }
}
