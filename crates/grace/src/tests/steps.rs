//! The steps of members, one after another, without faults.

use crate::{GraceMember, LocalFacts, MemberAction, MemberWait, NodeId, Timing, View};
use std::time::Duration;

const TIMING: Timing = Timing {
    contact_max: Duration::from_secs(15),
    silence_max: Duration::from_secs(30),
    absence_max: Duration::from_secs(75),
};

fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

/// A member whose steps all succeed.
struct Walker {
    member: GraceMember,
    local: LocalFacts,
    holds: bool,
}

impl Walker {
    fn new(name: &str, holds: bool) -> Self {
        let local = LocalFacts { recovery_over: false, has_clients: holds, ending: false };
        Self { member: GraceMember::new(node(name), TIMING, 100, Some(100)), local, holds }
    }

    /// Performs steps until there is nothing to do, and returns their names.
    fn walk(&mut self, view: &mut View, now: u64) -> Vec<String> {
        let now = Duration::from_secs(now);
        let mut steps = Vec::new();
        loop {
            self.member.observe(now, view);
            let action = self.member.next(now, view, self.local);
            let name = format!("{action:?}");
            steps.push(name.split([' ', '(']).next().unwrap().to_owned());
            let member = &mut self.member;
            match action {
                MemberAction::Peek => member.peeked(self.holds),
                MemberAction::Write(change) => {
                    view.database = change.into_result();
                    member.written(now);
                }
                MemberAction::TakeRecords => member.took(self.holds),
                MemberAction::Release { epoch, .. } => member.released(epoch),
                MemberAction::Record { epoch } => member.recorded(epoch),
                MemberAction::Mount => member.mounted(),
                MemberAction::Enforce => member.enforces(),
                MemberAction::Relax => member.relaxed(),
                MemberAction::GiveUp => member.gave_up(),
                MemberAction::Fence { node, .. } => member.fenced(node),
                MemberAction::Unmount { .. } => member.unmounted(),
                MemberAction::Wait(_) | MemberAction::Stop(_) => return steps,
            }
        }
    }
}

fn shown(view: &View) -> String {
    let nodes = view.database.nodes().map(|(node, flags)| format!(" {node}={}", flags.to_string().trim()));
    let epochs = view.database.epochs();
    format!("{} {}{}", epochs.current, epochs.recovery, nodes.collect::<String>())
}

#[test]
fn a_failover_passes_through_all_steps_and_the_other_member_waits() {
    // ganesha-rados-cluster-design(8)
    let mut view = View::default();
    ["a", "b"].iter().for_each(|name| view.database.add(node(name)));
    let (mut a, mut b) = (Walker::new("a", false), Walker::new("b", false));
    let first = ["Peek", "Write", "TakeRecords", "Release", "Record", "Mount", "Write", "Relax", "Wait"];
    assert_eq!(a.walk(&mut view, 1), first);
    assert_eq!(b.walk(&mut view, 2), first);
    assert_eq!(shown(&view), "1 0 a= b=");

    // Another instance of a, which has left clients.
    let mut again = Walker::new("a", true);
    assert_eq!(again.walk(&mut view, 10), ["Peek", "Write", "TakeRecords", "Wait"]);
    assert_eq!(shown(&view), "2 1 a=NE b=");
    assert_eq!(a.walk(&mut view, 11), ["Stop"]);
    assert_eq!(b.walk(&mut view, 11), ["Enforce", "Record", "Write", "Wait"]);
    assert!(b.member.is_enforcing() && !again.member.may_serve());
    assert_eq!(again.walk(&mut view, 12), ["Release", "Record", "Mount", "Wait"]);
    assert!(again.member.may_serve() && again.member.is_recovering());
    assert_eq!(shown(&view), "2 1 a=NE b=E");

    again.local.recovery_over = true;
    assert_eq!(again.walk(&mut view, 13), ["Write", "Write", "Relax", "Wait"]);
    assert_eq!(shown(&view), "2 0 a= b=E");
    assert_eq!(b.walk(&mut view, 14), ["Write", "Relax", "Wait"]);
    assert_eq!(shown(&view), "2 0 a= b=");
}

#[test]
fn a_member_that_ends_with_clients_first_has_the_others_refuse_new_state() {
    let mut view = View::default();
    ["a", "b"].iter().for_each(|name| view.database.add(node(name)));
    let (mut a, mut b) = (Walker::new("a", false), Walker::new("b", false));
    a.walk(&mut view, 1);
    b.walk(&mut view, 1);
    a.local = LocalFacts { has_clients: true, ending: true, recovery_over: true };
    assert_eq!(a.walk(&mut view, 2), ["Write", "Wait"]);
    assert_eq!(shown(&view), "2 1 a=NE b=");
    b.walk(&mut view, 3);
    assert_eq!(a.walk(&mut view, 4), ["Unmount", "Stop"]);
    assert_eq!(shown(&view), "2 1 a=NE b=E");

    let mut view = View::default();
    view.database.add(node("a"));
    let mut a = Walker::new("a", false);
    a.walk(&mut view, 1);
    a.local = LocalFacts { has_clients: false, ending: true, recovery_over: true };
    assert_eq!(a.walk(&mut view, 2), ["Unmount", "Write", "Stop"]);
    assert_eq!(shown(&view), "1 0 a=E", "nobody waits for it");
}

/// Returns a database of two members, the first one in its second life, and the other one.
fn returned() -> (View, Walker, Walker) {
    let mut view = View::default();
    ["a", "b"].iter().for_each(|name| view.database.add(node(name)));
    let (mut a, mut b) = (Walker::new("a", false), Walker::new("b", false));
    a.walk(&mut view, 1);
    b.walk(&mut view, 1);
    view.beats.insert(node("b"), 7);
    let mut again = Walker::new("a", true);
    again.walk(&mut view, 10);
    (view, again, b)
}

#[test]
fn a_dead_member_is_evicted_before_it_counts_as_one_that_refuses_new_state() {
    let (mut view, mut again, mut b) = returned();
    for now in 11..40 {
        assert_eq!(again.walk(&mut view, now), ["Wait"]);
    }
    let lags = MemberAction::Wait(MemberWait::Enforcement([node("b")].into()));
    assert_eq!(again.member.next(Duration::from_secs(39), &view, again.local), lags);
    let taken = ["Write", "Fence", "Write", "Release", "Record", "Mount", "Wait"];
    assert_eq!(again.walk(&mut view, 40), taken);
    assert_eq!(shown(&view), "2 1 a=NE b=NE");
    assert_eq!(b.walk(&mut view, 41), ["Stop"]);
    // Its clients do not come back either.
    again.local.recovery_over = true;
    for now in 41..114 {
        again.walk(&mut view, now);
        assert_eq!(shown(&view), "2 1 a=E b=NE");
    }
    again.walk(&mut view, 115);
    assert_eq!(shown(&view), "2 0 a= b=E");
}

#[test]
fn a_member_of_a_full_storage_answers_and_takes_no_other_for_silent() {
    let second = Duration::from_secs;
    let (mut view, mut again, _) = returned();
    // The storage takes no sign of life of b either.
    let lags = MemberAction::Wait(MemberWait::Enforcement([node("b")].into()));
    for now in 11..60 {
        again.member.observe_full(second(now), &view);
        assert_eq!(again.member.answers_until(), Some(second(now) + TIMING.contact_max));
        assert_eq!(again.member.next(second(now), &view, again.local), lags);
    }
    // There is space again, and b has time to say that it lives.
    for now in 60..90 {
        assert_eq!(again.walk(&mut view, now), ["Wait"]);
    }
    assert_eq!(again.walk(&mut view, 90)[..2], ["Write", "Fence"]);
}
