//! Remarks for readers of a record of loads on mounts.

use crate::MountFacts;
use crate::measuring::{Load, Record};
use crate::tools::KLIST;

/// Says why encryption types of mounts are not known, where the reason is a missing program.
pub fn missing_enctypes(mounts: &[MountFacts]) -> Option<String> {
    let missing = KLIST.find().err().filter(|_| mounts.iter().any(|facts| facts.enctype.is_none()))?;
    Some(format!("Encryption types of mounts are not known: {missing}."))
}

/// Returns sentences on the load generators and the meaning of their counts.
pub fn notes(record: &Record) -> Vec<String> {
    let mut notes = vec![
        "The loads are those of fio and git through the kernel's client; I/O goes past the client's cache (O_DIRECT) on NFS."
            .to_owned(),
    ];
    let has = |wanted: fn(&Load) -> bool| record.cases.iter().any(|case| wanted(&case.load));
    if has(|load| matches!(load, Load::Transfer(transfer) if transfer.rate.is_some())) {
        notes.push(
            "Fixed schedules are not fio's, which waits for all requests to end before it waits for the next one's time: threads of the bench read and write \
             the same files. A latency counts from when its request was due until its system call has returned: with the time until a thread was free or \
             awake, and what had not begun at the end with the time it had waited. The closed loop of \"the most\" is fio's."
                .to_owned(),
        );
    }
    if has(|load| load.layout().clients > 1) {
        notes.push(
            "Clients are jobs with a file each on one mount: they share its session and its connections."
                .to_owned(),
        );
    }
    if record.cases.iter().any(|case| case.axes.connections().is_some()) {
        notes.push(
            "The mount options above are those of the last mounts; nconnect is each case's own. Calls cannot be reordered on purpose on a mount; the project's \
             client does that (the same command without --mount)."
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::{OntapClimb, PLAN, nconnect};
    use crate::measuring::{CaseRecord, Evaluation as _, Settings};

    fn settings() -> Settings {
        Settings::new(1, 1.0, 1 << 20, vec!["sys".to_owned()])
    }

    #[test]
    fn skipped_measurements_are_not_explained() {
        let mut record = Record::begin(PLAN, "", settings());
        assert_eq!(notes(&record).len(), 1);
        let cases = OntapClimb::new(&[4], &[]).next(&record).unwrap();
        let unmeasured = |case| CaseRecord { case, samples: Vec::new(), figures: None };
        record.cases.extend(cases.into_iter().map(unmeasured));
        let found = notes(&record);
        assert!(found.len() == 2 && found[1].contains("share its session"), "{found:?}");
        let scheduled = |case: &mut CaseRecord| {
            if let Load::Transfer(transfer) = &mut case.case.load {
                transfer.rate = Some(10.0);
            }
        };
        record.cases.iter_mut().for_each(scheduled);
        let many = nconnect(&settings(), None).next(&record).unwrap();
        record.cases.extend(many.into_iter().map(unmeasured));
        let found = notes(&record).join(" ");
        assert!(found.contains("Fixed schedules are not fio's") && found.contains("reordered on purpose"));
    }
}
