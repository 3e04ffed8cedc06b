//! A change of the database, for an object that is still as it was read.

use crate::database::{instance_attribute, instance_value};
use crate::{Database, Epochs, NodeFlags, NodeId};

/// The difference between two databases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseChange {
    /// The new epochs, if they change.
    pub epochs: Option<Epochs>,
    /// Members that are new or have new flags.
    pub set: Vec<(NodeId, NodeFlags)>,
    /// Members that are removed.
    pub removed: Vec<NodeId>,
    /// Extended attributes that are new or have new values: numbers of instances.
    pub attributes: Vec<(String, String)>,
    /// The database after it.
    result: Database,
}

impl DatabaseChange {
    /// Returns the change that makes `before` into `after`; `None` if they are equal.
    pub fn between(before: &Database, after: Database) -> Option<Self> {
        if *before == after {
            return None;
        }
        let epochs = (before.epochs != after.epochs).then_some(after.epochs);
        let differs = |(node, flags): &(&NodeId, &NodeFlags)| before.nodes.get(*node) != Some(*flags);
        let set = after.nodes.iter().filter(differs).map(|(node, flags)| (node.clone(), *flags)).collect();
        let removed = before.nodes.keys().filter(|node| !after.nodes.contains_key(*node)).cloned().collect();
        let fresh = |(node, number): &(&NodeId, &u64)| before.instances.get(*node) != Some(*number);
        let attribute =
            |(node, number): (&NodeId, &u64)| Some((instance_attribute(node)?, instance_value(*number)));
        let attributes = after.instances.iter().filter(fresh).filter_map(attribute).collect();
        Some(Self { epochs, set, removed, attributes, result: after })
    }

    /// Returns the database after the change.
    pub fn into_result(self) -> Database {
        self.result
    }
}
