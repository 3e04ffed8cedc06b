//! The membership as reports show it.

use crate::api::{ClusterMember, ClusterReport};
use grace::{MemberWait, NodeId, View};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The membership of a running server.
pub(in crate::serve) struct Membership {
    node: NodeId,
    seen: Mutex<SeenView>,
}

#[derive(Default)]
struct SeenView {
    instance: u64,
    view: View,
    read: Option<Instant>,
    waits: Option<MemberWait>,
    enforcing: bool,
    clients: usize,
}

impl Membership {
    pub(super) fn new(node: &NodeId) -> Self {
        Self { node: node.clone(), seen: Mutex::default() }
    }

    fn seen<R>(&self, run: impl FnOnce(&mut SeenView) -> R) -> R {
        run(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes a reading of the database.
    pub(super) fn note_view(&self, instance: Option<u64>, view: &View, clients: usize) {
        self.seen(|seen| {
            (seen.instance, seen.read) = (instance.unwrap_or_default(), Some(Instant::now()));
            (seen.view, seen.clients) = (view.clone(), clients);
        });
    }

    /// Notes the reason for a wait, and whether new state is refused.
    pub(super) fn note_wait(&self, waits: &MemberWait, enforcing: bool) {
        self.seen(|seen| (seen.waits, seen.enforcing) = (Some(waits.clone()), enforcing));
    }

    /// Returns the time since the last contact with the cluster.
    pub(in crate::serve) fn without_contact(&self) -> Duration {
        self.seen(|seen| seen.read.map_or(Duration::ZERO, |read| read.elapsed()))
    }

    /// Reports the membership at this moment.
    pub(in crate::serve) fn report(&self) -> ClusterReport {
        self.seen(|seen| {
            let epochs = seen.view.database.epochs();
            let members = seen.view.database.nodes().map(|(node, flags)| ClusterMember {
                node: node.to_string(),
                needs_grace: flags.needs_grace(),
                enforcing: flags.is_enforcing(),
            });
            ClusterReport {
                node: self.node.to_string(),
                instance: seen.instance,
                epoch: epochs.current,
                recovery: epochs.recovery,
                enforcing: seen.enforcing,
                waits: seen.waits.as_ref().map_or("the cluster".to_owned(), explain),
                contact: seen.read.map_or(0.0, |read| read.elapsed().as_secs_f64()),
                clients: seen.clients,
                members: members.collect(),
            }
        })
    }
}

/// Explains a wait; empty for none.
pub(super) fn explain(waits: &MemberWait) -> String {
    let list = |nodes: &std::collections::BTreeSet<NodeId>| {
        nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    match waits {
        MemberWait::Nothing => String::new(),
        MemberWait::Enforcement(nodes) => format!("until new state is refused by {}", list(nodes)),
        MemberWait::Recovery(nodes) if nodes.is_empty() => "for the end of the grace period".to_owned(),
        MemberWait::Recovery(nodes) => format!("for clients of {} to reclaim", list(nodes)),
    }
}
