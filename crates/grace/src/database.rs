//! The grace database: two epochs, and flags for each member.
//!
//! Its object has 16 bytes of data: the current epoch and the recovery epoch, each as 64 bits in
//! little-endian order. The recovery epoch is zero outside of a grace period. The omap has a key
//! for each member, whose value is one byte of flags. `ganesha-rados-grace` reads and changes
//! these. The extended attributes `orthrus.NODE`, which it ignores, have the number of the instance
//! that is the member now.

use crate::NodeId;
use std::collections::BTreeMap;
use std::fmt;

/// Members of a cluster; tools read no more.
pub(crate) const NODES_MAX: usize = 1024;
/// The start of the names of extended attributes with numbers of instances.
const INSTANCE_PREFIX: &str = "orthrus.";
/// Bytes of the data.
const DATA_LENGTH: usize = 16;

/// The epochs of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// The epoch under which clients are recorded now. The first is 1.
    pub current: u64,
    /// The epoch whose clients may reclaim; 0 outside of a grace period.
    pub recovery: u64,
}

impl Epochs {
    /// Returns whether the cluster is in a grace period.
    pub fn is_grace(self) -> bool {
        self.recovery != 0
    }

    /// Returns the bytes of the object's data.
    pub fn encode(self) -> [u8; DATA_LENGTH] {
        let mut data = [0; DATA_LENGTH];
        data[..8].copy_from_slice(&self.current.to_le_bytes());
        data[8..].copy_from_slice(&self.recovery.to_le_bytes());
        data
    }

    fn decode(data: &[u8]) -> Result<Self, DatabaseError> {
        let (Ok(current), Ok(recovery), DATA_LENGTH) = (
            data.get(..8).unwrap_or_default().try_into().map(u64::from_le_bytes),
            data.get(8..).unwrap_or_default().try_into().map(u64::from_le_bytes),
            data.len(),
        ) else {
            return Err(DatabaseError::Length(data.len()));
        };
        // The last number is for the epoch after it.
        if current == 0 || current == u64::MAX || recovery >= current {
            return Err(DatabaseError::Epochs { current, recovery });
        }
        Ok(Self { current, recovery })
    }
}

/// The flags of a member.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeFlags(u8);

impl NodeFlags {
    /// Clients of the member have state to reclaim.
    const NEED: u8 = 1;
    /// The member grants no new state.
    const ENFORCING: u8 = 2;

    /// Returns whether clients of the member have state to reclaim (`N`).
    pub fn needs_grace(self) -> bool {
        self.0 & Self::NEED != 0
    }

    /// Returns whether the member grants no new state (`E`).
    pub fn is_enforcing(self) -> bool {
        self.0 & Self::ENFORCING != 0
    }

    /// Returns the byte of the database.
    pub fn bits(self) -> u8 {
        self.0
    }

    fn set(&mut self, flag: u8, on: bool) {
        self.0 = if on { self.0 | flag } else { self.0 & !flag };
    }
}

impl fmt::Display for NodeFlags {
    /// As `ganesha-rados-grace dump` shows them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = |on, mark| if on { mark } else { ' ' };
        write!(f, "{}{}", mark(self.needs_grace(), 'N'), mark(self.is_enforcing(), 'E'))
    }
}

impl fmt::Debug for NodeFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string().trim())
    }
}

/// The reason why an object is no grace database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// The data has another length.
    #[error("its data has {0} bytes, and a grace database has {DATA_LENGTH}")]
    Length(usize),
    /// The epochs contradict each other.
    #[error("its epochs are {current} and {recovery}; the second is 0 or smaller than the first")]
    Epochs {
        /// The number of the current epoch.
        current: u64,
        /// The epoch that clients recover from; 0 for none.
        recovery: u64,
    },
    /// There are too many members.
    #[error("it has more than {NODES_MAX} members")]
    TooMany,
    /// A member has an empty or a very long name.
    #[error("a member has an empty name, or one of more than 255 bytes")]
    Name,
    /// The flags of a member are not one byte.
    #[error("the flags of the member {0} are no single byte")]
    Flags(NodeId),
    /// The number of an instance is no number.
    #[error("the attribute {INSTANCE_PREFIX}{0} is no number of an instance")]
    Instance(NodeId),
}

/// The grace database at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    pub(crate) epochs: Epochs,
    pub(crate) nodes: BTreeMap<NodeId, NodeFlags>,
    /// The numbers of the instances that the members are now; also those of former members.
    pub(crate) instances: BTreeMap<NodeId, u64>,
}

impl Default for Database {
    /// Returns the database of a new cluster: epoch 1, and no members.
    fn default() -> Self {
        let epochs = Epochs { current: 1, recovery: 0 };
        Self { epochs, nodes: BTreeMap::new(), instances: BTreeMap::new() }
    }
}

impl Database {
    /// Reads an object: its data, all keys and values of its omap, and its extended attributes.
    ///
    /// # Errors
    /// See [`DatabaseError`]. Flags that no program uses yet are kept.
    pub fn decode(
        data: &[u8],
        omap: &[(Vec<u8>, Vec<u8>)],
        xattrs: &[(String, Vec<u8>)],
    ) -> Result<Self, DatabaseError> {
        let epochs = Epochs::decode(data)?;
        if omap.len() > NODES_MAX {
            return Err(DatabaseError::TooMany);
        }
        let mut nodes = BTreeMap::new();
        for (name, flags) in omap {
            let node = NodeId::foreign(name).ok_or(DatabaseError::Name)?;
            let [bits] = flags[..] else { return Err(DatabaseError::Flags(node)) };
            nodes.insert(node, NodeFlags(bits));
        }
        let mut instances = BTreeMap::new();
        for (name, value) in xattrs {
            let Some(node) = name.strip_prefix(INSTANCE_PREFIX).and_then(|node| node.parse().ok()) else {
                continue;
            };
            let number = std::str::from_utf8(value).ok().filter(|text| text.len() == 16);
            match number.and_then(|text| u64::from_str_radix(text, 16).ok()) {
                Some(number) => instances.insert(node, number),
                None => return Err(DatabaseError::Instance(node)),
            };
        }
        Ok(Self { epochs, nodes, instances })
    }

    /// Returns the current and the recovery epoch.
    pub fn epochs(&self) -> Epochs {
        self.epochs
    }

    /// Returns the members with their flags.
    pub fn nodes(&self) -> impl Iterator<Item = (&NodeId, NodeFlags)> {
        self.nodes.iter().map(|(node, flags)| (node, *flags))
    }

    /// Returns the flags of a member; `None` for others.
    pub fn flags(&self, node: &NodeId) -> Option<NodeFlags> {
        self.nodes.get(node).copied()
    }

    /// Returns the number of the instance that a member is now.
    pub fn instance(&self, node: &NodeId) -> Option<u64> {
        self.instances.get(node).copied()
    }

    /// Returns whether every member refuses new state.
    pub fn all_enforce(&self) -> bool {
        self.nodes.values().all(|flags| flags.is_enforcing())
    }

    /// Returns whether every member but this one refuses new state.
    pub fn others_enforce(&self, node: &NodeId) -> bool {
        self.nodes.iter().all(|(other, flags)| other == node || flags.is_enforcing())
    }

    /// Returns whether clients of any member have state to reclaim.
    pub fn any_needs_grace(&self) -> bool {
        self.nodes.values().any(|flags| flags.needs_grace())
    }

    /// Adds a member. It enforces, since it serves nobody yet. A member stays as it is.
    pub fn add(&mut self, node: NodeId) {
        self.nodes.entry(node).or_insert(NodeFlags(NodeFlags::ENFORCING));
    }

    /// Removes a member. The grace period ends if nobody else needs it.
    pub fn remove(&mut self, node: &NodeId) {
        if self.nodes.remove(node).is_some() {
            self.end_if_unneeded();
        }
    }

    /// Begins a grace period for a member, or joins the one that is.
    pub fn need(&mut self, node: &NodeId) {
        let Some(flags) = self.nodes.get_mut(node) else { return };
        flags.set(NodeFlags::NEED, true);
        if !self.epochs.is_grace() {
            let Epochs { current, .. } = self.epochs;
            self.epochs = Epochs { current: current + 1, recovery: current };
        }
    }

    /// Notes that a member grants no new state.
    pub fn enforce(&mut self, node: &NodeId) {
        self.set(node, NodeFlags::ENFORCING, true);
    }

    /// Notes that a member grants new state again, and needs no grace period.
    pub fn relax(&mut self, node: &NodeId) {
        self.set(node, NodeFlags::NEED | NodeFlags::ENFORCING, false);
    }

    /// Notes that clients of a member have nothing more to reclaim. The grace period ends if it was
    /// the last such member.
    pub fn lift(&mut self, node: &NodeId) {
        self.set(node, NodeFlags::NEED, false);
        self.end_if_unneeded();
    }

    /// Ends a grace period that no member needs. While a member does not enforce, it goes on: that
    /// member has not begun to record its clients in the current epoch.
    pub fn end_if_unneeded(&mut self) {
        if !self.any_needs_grace() && self.all_enforce() {
            self.epochs.recovery = 0;
        }
    }

    /// Makes an instance the member, with a number above all earlier ones. `number_min` is the
    /// least number, which grows with time: after a loss of the database numbers do not come again.
    /// Returns the number.
    pub fn claim(&mut self, node: &NodeId, number_min: u64) -> u64 {
        let number = self.instance(node).map_or(1, |last| last.saturating_add(1)).max(number_min);
        self.instances.insert(node.clone(), number);
        number
    }

    fn set(&mut self, node: &NodeId, flags: u8, on: bool) {
        if let Some(own) = self.nodes.get_mut(node) {
            own.set(flags, on);
        }
    }
}

/// Returns the name of the extended attribute with a member's instance; `None` for a member that is
/// no gateway of this program.
pub(crate) fn instance_attribute(node: &NodeId) -> Option<String> {
    node.own().map(|name| format!("{INSTANCE_PREFIX}{name}"))
}

/// Returns the value of that attribute.
pub(crate) fn instance_value(number: u64) -> String {
    format!("{number:016x}")
}
