//! The slot table of the fore channel (RFC 8881 section 2.10.6.1).

/// The slot fields of one SEQUENCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// `sa_slotid` of the request.
    pub id: u32,
    /// `sa_sequenceid` of the request.
    pub sequence: u32,
    /// `sa_highest_slotid`: the highest slot with a request outstanding, this one included.
    pub highest: u32,
}

/// The effect of a request on the sequence id of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceUse {
    /// The server accepted SEQUENCE, which advances the sequence id.
    Consumed,
    /// The server refused SEQUENCE, or has not seen it: the next request uses the same id.
    Unused,
}

#[derive(Clone, Copy, Debug)]
struct SlotEntry {
    /// The sequence id of the next new request.
    next: u32,
    busy: bool,
}

/// The slot table. It assigns the lowest free slot first, so that the server can shrink its table.
#[derive(Debug)]
pub struct SlotTable {
    entries: Vec<SlotEntry>,
    /// `sr_target_highest_slotid`: slots above this one are not used.
    target: u32,
    busy: u32,
    /// The lowest slot that may be free.
    first_free: usize,
}

impl SlotTable {
    /// The largest number of slots in a table. The client uses no more even if the server grants
    /// them.
    pub const SLOTS_MAX: u32 = 4096;

    /// Creates a table of `slots` slots, at least one, all at sequence id 1.
    pub fn new(slots: u32) -> Self {
        let slots = slots.clamp(1, Self::SLOTS_MAX);
        let entries = vec![SlotEntry { next: 1, busy: false }; slots as usize];
        Self { entries, target: slots - 1, busy: 0, first_free: 0 }
    }

    /// Returns the number of slots that may be used now.
    pub fn limit(&self) -> u32 {
        self.target.saturating_add(1).min(self.entries.len() as u32)
    }

    /// Returns the number of slots in use.
    pub const fn busy(&self) -> u32 {
        self.busy
    }

    /// Takes the lowest free slot, if one is below the server's target.
    pub fn acquire(&mut self) -> Option<Slot> {
        let limit = self.limit() as usize;
        let (at, entry) = self
            .entries
            .iter_mut()
            .enumerate()
            .take(limit)
            .skip(self.first_free)
            .find(|(_, entry)| !entry.busy)?;
        entry.busy = true;
        let (id, sequence) = (at as u32, entry.next);
        self.first_free = at + 1;
        self.busy += 1;
        Some(Slot { id, sequence, highest: self.highest().unwrap_or(id) })
    }

    /// Returns the highest slot in use.
    pub fn highest(&self) -> Option<u32> {
        self.entries.iter().rposition(|entry| entry.busy).map(|at| at as u32)
    }

    /// Releases a slot after the reply to its request.
    pub fn release(&mut self, id: u32, sequence: SequenceUse) {
        let Some(entry) = self.entries.get_mut(id as usize) else { return };
        if !entry.busy {
            return;
        }
        entry.busy = false;
        if sequence == SequenceUse::Consumed {
            // Sequence ids wrap around, section 2.10.6.1.
            entry.next = entry.next.wrapping_add(1);
        }
        self.busy -= 1;
        self.first_free = self.first_free.min(id as usize);
    }

    /// Stores `sr_target_highest_slotid`. The table never grows beyond the slots that
    /// CREATE_SESSION granted, so the target can only narrow it.
    pub fn set_target(&mut self, target: u32) {
        self.target = target;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_slot_is_taken() {
        // RFC 8881 section 2.10.6.1
        let mut table = SlotTable::new(3);
        let taken: Vec<_> = std::iter::from_fn(|| table.acquire()).collect();
        assert_eq!(taken.iter().map(|slot| slot.id).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(taken.iter().map(|slot| slot.highest).collect::<Vec<_>>(), [0, 1, 2]);
        table.release(2, SequenceUse::Consumed);
        table.release(0, SequenceUse::Consumed);
        assert_eq!(table.acquire(), Some(Slot { id: 0, sequence: 2, highest: 1 }));
        assert_eq!(table.acquire(), Some(Slot { id: 2, sequence: 2, highest: 2 }));
        assert_eq!(table.acquire(), None);
    }

    #[test]
    fn a_refused_sequence_does_not_use_the_sequence_id_up() {
        // RFC 8881 section 2.10.6.1.3
        let mut table = SlotTable::new(1);
        assert_eq!(table.acquire().map(|slot| slot.sequence), Some(1));
        table.release(0, SequenceUse::Unused);
        assert_eq!(table.acquire().map(|slot| slot.sequence), Some(1));
        table.release(0, SequenceUse::Consumed);
        assert_eq!(table.acquire().map(|slot| slot.sequence), Some(2));
    }

    #[test]
    fn the_servers_target_narrows_the_table_and_widens_it_again() {
        // RFC 8881 section 18.46.3
        let mut table = SlotTable::new(4);
        table.set_target(1);
        assert!(table.acquire().is_some() && table.acquire().is_some());
        assert_eq!(table.acquire(), None);
        table.set_target(1000);
        assert_eq!((table.acquire().map(|slot| slot.id), table.limit()), (Some(2), 4));
        table.set_target(u32::MAX);
        assert_eq!((table.acquire().map(|slot| slot.id), table.limit()), (Some(3), 4));
    }

    #[test]
    fn sequence_ids_wrap_around() {
        // RFC 8881 section 2.10.6.1
        let mut table = SlotTable::new(1);
        table.entries[0].next = u32::MAX;
        assert_eq!(table.acquire().map(|slot| slot.sequence), Some(u32::MAX));
        table.release(0, SequenceUse::Consumed);
        assert_eq!(table.acquire().map(|slot| slot.sequence), Some(0));
    }

    #[test]
    fn releasing_twice_changes_nothing() {
        let mut table = SlotTable::new(1);
        table.acquire();
        table.release(0, SequenceUse::Consumed);
        table.release(0, SequenceUse::Consumed);
        table.release(7, SequenceUse::Consumed);
        assert_eq!((table.busy(), table.acquire().map(|slot| slot.sequence)), (0, Some(2)));
    }
}
