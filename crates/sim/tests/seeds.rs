//! Seeds of the simulation, and deliberate faults that the checker must find. `cargo xtask simulate
//! --seed S --trace` repeats a seed that fails.

use orthrus_sim::{Mutation, SimOutcome, TraceDetail, run};
use std::ops::Range;

/// Plays seeds without a fault, none of which may violate a property.
fn good(seeds: Range<u64>) {
    for seed in seeds {
        let outcome = run(seed, Mutation::None, TraceDetail::HashOnly);
        assert!(outcome.violations.is_empty(), "{}", describe(&outcome));
    }
}

fn describe(outcome: &SimOutcome) -> String {
    let mut text = format!("cargo xtask simulate --seed {} --trace\n", outcome.seed);
    for violation in outcome.violations.iter().take(3) {
        text.push_str(&format!("{violation}\n"));
    }
    text
}

// Four tests, so that the cores share them.

#[test]
fn clients_see_one_server_through_restarts_and_faults_first_quarter()
// RFC 8881 sections 2.10.6, 8.4, 9 and 18.3
{
    good(0..75);
}

#[test]
fn clients_see_one_server_through_restarts_and_faults_second_quarter()
// RFC 8881 sections 2.10.6, 8.4, 9 and 18.3
{
    good(75..150);
}

#[test]
fn clients_see_one_server_through_restarts_and_faults_third_quarter()
// RFC 8881 sections 2.10.6, 8.4, 9 and 18.3
{
    good(150..225);
}

#[test]
fn clients_see_one_server_through_restarts_and_faults_last_quarter()
// RFC 8881 sections 2.10.6, 8.4, 9 and 18.3
{
    good(225..300);
}

#[test]
fn a_seed_is_the_same_simulation_every_time() {
    for seed in [1, 7, 42, 1000] {
        let (first, second) = (
            run(seed, Mutation::None, TraceDetail::HashOnly),
            run(seed, Mutation::None, TraceDetail::HashOnly),
        );
        assert_eq!((first.hash, first.events), (second.hash, second.events), "seed {seed}");
        assert_ne!(first.hash, run(seed + 1, Mutation::None, TraceDetail::HashOnly).hash);
    }
}

/// Asserts that the checker finds a deliberate fault within a number of seeds, as a violation of
/// one of these properties.
#[track_caller]
fn found(mutation: Mutation, seeds: u64, properties: &[&str]) {
    let finds = |seed: &u64| {
        let violations = run(*seed, mutation, TraceDetail::HashOnly).violations;
        violations.iter().any(|violation| properties.contains(&violation.property))
    };
    assert!((0..seeds).any(|seed| finds(&seed)), "{} goes unseen", mutation.name());
}

#[test]
fn the_checker_finds_a_reply_cache_that_is_bypassed() // RFC 8881 section 2.10.6.1
{
    found(Mutation::ReplyCacheBypassed, 60, &["exactly once"]);
}

#[test]
fn the_checker_finds_client_records_that_are_not_stable() // RFC 8881 section 8.4.2.1
{
    found(Mutation::JournalNotSynced, 60, &["a client in time reclaims its state", "lock exclusion"]);
}

#[test]
fn the_checker_finds_a_lock_with_two_owners() // RFC 8881 section 9.1
{
    found(Mutation::LocksShared, 10, &["lock exclusion"]);
}

#[test]
fn the_checker_finds_a_commit_that_puts_nothing_on_stable_storage() // RFC 8881 section 18.3
{
    found(Mutation::CommitForgets, 10, &["no lost acknowledged data"]);
}

#[test]
fn the_checker_finds_a_write_verifier_that_stays() // RFC 8881 section 18.32.3
{
    found(Mutation::VerifierStays, 60, &["no lost acknowledged data"]);
}

#[test]
fn the_checker_finds_names_acknowledged_before_they_are_stable() // RFC 8881 section 18.25
{
    found(Mutation::SyncAfterReply, 100, &["exactly once"]);
}

#[test]
fn the_checker_finds_share_denies_that_are_ignored() // RFC 8881 section 9.7
{
    found(Mutation::DenyIgnored, 100, &["share exclusion"]);
}

#[test]
fn the_checker_finds_a_recall_that_is_not_awaited() // RFC 8881 section 10.4.5
{
    found(Mutation::RecallNotAwaited, 100, &["delegation exclusion"]);
}

#[test]
fn the_checker_finds_an_open_that_is_executed_twice() // RFC 7530 section 9.1.7
{
    found(Mutation::SeqidIgnored, 100, &["exactly once"]);
}

#[test]
fn the_checker_finds_a_sequence_window_that_is_ignored() // RFC 2203 section 5.3.3.1
{
    found(Mutation::GssWindowIgnored, 100, &["a sequence number is used once"]);
}

#[test]
fn the_checker_finds_a_context_that_outlives_its_server() // RFC 2203 section 5.3.3.3
{
    found(Mutation::ContextKept, 100, &["a context ends with its server"]);
}

#[test]
fn the_checker_finds_nfsv40_clients_that_are_not_recorded() // RFC 7530 section 9.6.3.4
{
    found(Mutation::V40NotRecorded, 100, &["a client in time reclaims its state"]);
}

#[test]
fn the_checker_finds_principals_that_share_an_account() // RFC 8881 section 2.2.1.1
{
    found(Mutation::PrincipalIgnored, 100, &["a private file is read by its owner only"]);
}

#[test]
fn the_checker_finds_an_old_process_that_serves_on() // docs/upgrade.md
{
    found(
        Mutation::OldServesOn,
        10,
        &["a correct client keeps its slots", "a client with a session keeps its state"],
    );
}
