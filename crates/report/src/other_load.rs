//! Whether something else used the processors of the client's machine during a run.

use bench::measuring::Record;

use crate::form::percent;

/// From this part of the machine's processors on, the load of others is named.
const NAMED: f64 = 0.1;

/// The least measured time in seconds: the system counts in steps of 10 ms.
const SECONDS_MIN: f64 = 1.0;

/// Names the part of the machine's processor time that neither client nor server used; nothing
/// where it is small or unknown. `local` says whether the server is on this machine.
pub fn other_load_note(record: &Record, local: bool) -> Option<String> {
    // The work of a link is done by the kernel.
    if record.environment.link.is_some() {
        return None;
    }
    let (mut others, mut all) = (0.0, 0.0);
    for sample in record.cases.iter().flat_map(|case| case.counted()) {
        let server = if local { sample.server_cpu_seconds } else { Some(0.0) };
        let own = sample.client_cpu_seconds.zip(server).map(|(client, server)| client + server);
        let Some((machine, own)) = sample.machine_cpu_seconds.zip(own) else { continue };
        others += machine - own;
        all += sample.seconds;
    }
    let part = others / all / record.environment.cores.max(1) as f64;
    (all >= SECONDS_MIN && part >= NAMED).then(|| {
        format!(
            "Neither client nor server had {} of the processor time of the client\u{2019}s machine during the measurement: \
             other programs, threads of the kernel, or the host of the machine used it. Without them, figures are better.",
            // The machine is looked at a little before and after each repetition.
            percent(part.min(1.0))
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::tests::sample;
    use bench::evaluation::QUICK;

    #[test]
    fn a_note_names_the_load_of_other_programs_where_it_is_known() {
        let mut record = sample(QUICK);
        assert_eq!(other_load_note(&record, true), None, "the system does not tell");
        for case in &mut record.cases {
            for sample in &mut case.samples {
                let own = sample.client_cpu_seconds.unwrap() + sample.server_cpu_seconds.unwrap();
                sample.machine_cpu_seconds = Some(own + 0.1);
            }
        }
        assert_eq!(other_load_note(&record, true), None, "a twentieth of two cores");
        for sample in record.cases.iter_mut().flat_map(|case| &mut case.samples) {
            sample.machine_cpu_seconds = sample.machine_cpu_seconds.map(|all| all + 0.5);
        }
        let note = other_load_note(&record, true).unwrap_or_default();
        assert!(note.contains("Neither client nor server had 30\u{202f}% of"), "{note}");
        record.environment.link = Some("1gbit".parse().unwrap());
        assert_eq!(other_load_note(&record, true), None, "a link takes time of its own");
    }
}
