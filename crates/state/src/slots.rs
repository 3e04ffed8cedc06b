//! Slots and the reply cache of a session (RFC 8881 section 2.10.6.1).

/// Stands for a COMPOUND that runs on a slot; not cloneable, so that it ends once.
#[must_use = "a slot stays busy until State::finish gets its token"]
#[derive(Debug)]
pub struct SlotToken {
    pub(crate) session: u32,
}
