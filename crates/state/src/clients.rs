//! Client records.

/// Names a client record; the operations of a COMPOUND get it from SEQUENCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientKey {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}
