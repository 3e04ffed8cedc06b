//! Seeds of clusters of gateways, and deliberate faults that the checks must find. `cargo xtask
//! simulate --cluster --seed S --trace` repeats a seed that fails.

use orthrus_sim::{ClusterFault, ClusterOutcome, TraceDetail, run_cluster};
use std::ops::Range;

fn describe(outcome: &ClusterOutcome) -> String {
    let shown = outcome.violations.iter().take(3).map(|violation| format!("{violation}\n"));
    format!("cargo xtask simulate --cluster --seed {} --trace\n{}", outcome.seed, shown.collect::<String>())
}

fn good(seeds: impl IntoIterator<Item = u64>) {
    for seed in seeds {
        let outcome = run_cluster(seed, ClusterFault::None, TraceDetail::HashOnly);
        assert!(outcome.violations.is_empty(), "{}", describe(&outcome));
    }
}

#[test]
fn gateways_that_die_at_every_step_grant_nothing_twice_and_lose_nothing()
// RFC 8881 sections 8.4.2 and 8.4.3, ganesha-rados-cluster-design(8)
{
    good(0..8);
}

#[test]
fn gateways_that_die_grant_nothing_twice_in_other_orders()
// RFC 8881 sections 8.4.2 and 8.4.3
{
    good(8..16);
}

#[test]
fn a_seed_is_the_same_run_every_time() {
    let runs = [3, 3, 4].map(|seed| run_cluster(seed, ClusterFault::None, TraceDetail::HashOnly));
    assert_eq!((runs[0].hash, runs[0].events), (runs[1].hash, runs[1].events));
    assert_ne!(runs[0].hash, runs[2].hash);
    // The runs do something.
    assert!(runs.iter().all(|run| run.rounds > 0 && run.processes > 2), "{}", runs[0].rounds);
}

/// Asserts that the checks find a deliberate fault in one of some seeds, as a violation of one of
/// these properties.
#[track_caller]
fn found(fault: ClusterFault, mut seeds: Range<u64>, properties: &[&str]) {
    let finds = |seed| {
        let violations = run_cluster(seed, fault, TraceDetail::HashOnly).violations;
        violations.iter().any(|violation| properties.contains(&violation.property))
    };
    assert!(seeds.any(finds), "{} goes unseen", fault.name());
}

const EXCLUSION: &str = "exclusion";
const RECLAIM: &str = "a client in time reclaims its state";
const NOTICE: &str = "a fenced gateway notices it";

#[test]
fn the_checks_find_a_database_that_is_written_blindly() // ganesha-rados-cluster-design(8)
{
    found(ClusterFault::WritesBlindly, 0..20, &[EXCLUSION, RECLAIM, NOTICE, "the grace period ends"]);
}

#[test]
fn the_checks_find_new_state_in_a_grace_period() // RFC 8881 section 8.4.2.1
{
    found(ClusterFault::EnforcesNever, 0..10, &[EXCLUSION]);
}

#[test]
fn the_checks_find_a_gateway_that_answers_without_contact() {
    found(ClusterFault::AnswersForever, 0..10, &[NOTICE]);
}

#[test]
fn the_checks_find_a_gateway_that_does_not_notice_its_successor() {
    found(ClusterFault::StaysReplaced, 0..10, &[NOTICE]);
}

#[test]
fn the_checks_find_a_former_instance_that_is_not_fenced() {
    found(ClusterFault::FencesNobody, 27..40, &[EXCLUSION, RECLAIM]);
}

#[test]
fn the_checks_find_client_records_that_are_not_stored() // RFC 8881 section 8.4.2.1
{
    found(ClusterFault::RecordsLost, 0..10, &[RECLAIM]);
}

#[test]
fn the_checks_find_state_that_is_released_too_early() // ganesha-rados-cluster-design(8)
{
    found(ClusterFault::ReleasesEarly, 15..30, &[EXCLUSION]);
}

#[test]
fn the_checks_find_sessions_that_were_lost_before() // RFC 8881 section 8.4.3
{
    found(ClusterFault::TrustsLostSessions, 72..100, &[EXCLUSION]);
}
