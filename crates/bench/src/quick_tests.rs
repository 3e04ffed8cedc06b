use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::workload::fake::Fake;

fn plan() -> Plan {
    Plan {
        workloads: vec![Workload::SequentialRead, Workload::Metadata],
        rounds: 3,
        seconds: 0.005,
        file_size: 2 << 20,
        ..Plan::default()
    }
}

fn run_with(fakes: &mut [Fake; 2], stop: &AtomicBool, heard: &mut dyn FnMut(&Progress)) -> Outcome {
    let [sys, krb5p] = fakes;
    let mut sides: [Side<'_>; 2] = [(Flavor::Sys, sys), (Flavor::Krb5p, krb5p)];
    let watch = Watch { stop, server_cpu: &|| Some(Duration::from_secs(1)), progress: heard };
    run(&plan(), &mut sides, watch)
}

#[test]
fn rounds_are_interleaved_after_a_warm_up() {
    let mut heard = Vec::new();
    let outcome = run_with(&mut [Fake::new(), Fake::new()], &AtomicBool::new(false), &mut |progress| {
        heard.push(*progress);
    });
    assert_eq!(outcome.stopped_by, None);
    let sequence: Vec<_> = heard
        .iter()
        .filter(|one| one.workload == Some(Workload::SequentialRead))
        .map(|one| (one.round, one.flavor))
        .collect();
    let pairs = [None, Some(0), Some(1), Some(2)].map(|round| [(round, Flavor::Sys), (round, Flavor::Krb5p)]);
    assert_eq!(sequence, pairs.concat());
    assert_eq!(heard.last().map(|last| (last.done + 1, last.total)), Some((18, 18)));
    assert_eq!(outcome.series.len(), 4);
    for series in &outcome.series {
        assert_eq!(series.measurements.len(), 3);
        assert!(series.summary.ratio_to_sys.is_some() && series.summary.server_cpu.is_some());
    }
}

#[test]
fn an_interrupted_run_keeps_what_it_has() {
    let stop = AtomicBool::new(false);
    let outcome = run_with(&mut [Fake::new(), Fake::new()], &stop, &mut |progress| {
        if progress.workload == Some(Workload::SequentialRead) && progress.round == Some(1) {
            stop.store(true, Ordering::Relaxed);
        }
    });
    assert_eq!(outcome.stopped_by.as_deref(), Some("interrupted"));
    assert_eq!(outcome.series.iter().map(|series| series.measurements.len()).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn a_server_that_goes_away_ends_the_run_with_a_reason_and_what_it_has() {
    let mut fakes = [Fake::new(), Fake::new()];
    // Enough for the file and the warm-up of some of the rounds, no more.
    fakes[1].breaks_after = Some(5);
    let outcome = run_with(&mut fakes, &AtomicBool::new(false), &mut |_| {});
    let reason = outcome.stopped_by.unwrap_or_default();
    assert_eq!(reason, "krb5p: Sequential read, 1 MiB: connection lost");
    assert!(outcome.series.is_empty());
}
