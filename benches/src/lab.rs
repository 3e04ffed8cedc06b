//! Jobs of the lab (tests/linux) that print figures.

use super::stopped;
use anyhow::Context;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

/// The lab's exit status on a machine that cannot run it.
const CANNOT_RUN: i32 = 77;

/// The name of the project's own server in the lab.
pub(crate) const OWN: &str = "orthrus";

/// The figures of a server's rounds, by row.
pub(crate) type LabFigures = BTreeMap<String, Vec<f64>>;

/// A run of one job with one server.
pub(crate) struct LabJob<'a> {
    /// The server's name for `tests/linux/run.sh --server`.
    pub server: &'a str,
    /// More options of `tests/linux/run.sh`.
    pub options: &'a [&'a str],
    /// The job's name in tests/linux/jobs.
    pub job: &'a str,
}

impl LabJob<'_> {
    /// Runs the job and adds its figures. Returns the reason if this machine or the peer cannot do
    /// it.
    ///
    /// # Errors
    /// When the lab does not start, or the project's own server fails in it.
    pub(crate) fn run(&self, figures: &mut LabFigures, stop: &AtomicBool) -> anyhow::Result<Option<String>> {
        let mut lab = self.start()?;
        let mut trouble = None;
        let lines = BufReader::new(lab.stdout.take().context("the lab has no output")?).lines();
        for line in lines.map_while(Result::ok) {
            if stopped(stop) {
                // Its namespaces end with it.
                nix::sys::signal::kill(
                    nix::unistd::Pid::from_raw(lab.id().cast_signed()),
                    nix::sys::signal::SIGTERM,
                )?;
            }
            if let Some((row, value)) = figure(&line) {
                figures.entry(row).or_default().push(value);
            } else if line.starts_with("FAIL ") || line.starts_with("lab: ") {
                trouble = Some(line);
            }
        }
        let status = lab.wait()?;
        match trouble {
            Some(reason) if status.code() == Some(CANNOT_RUN) => Ok(Some(reason)),
            Some(reason) if self.server != OWN => Ok(Some(reason)),
            _ if status.success() || stopped(stop) => Ok(None),
            trouble => anyhow::bail!("the lab ended with {status}: {}", trouble.unwrap_or_default()),
        }
    }

    fn start(&self) -> anyhow::Result<Child> {
        // The lab's own messages come between the lines of its job.
        Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 2>&1"])
            .arg(steps::root().join("tests/linux/run.sh"))
            .args(["--server", self.server])
            .args(self.options)
            .arg("--orthrus")
            .arg(super::kerberos_site::program()?)
            .arg(self.job)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("tests/linux/run.sh does not start")
    }
}

/// Takes `figure ROW VALUE UNIT` apart.
fn figure(line: &str) -> Option<(String, f64)> {
    let mut words = line.strip_prefix("figure ")?.split(' ');
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn a_line_of_the_job_is_a_row_and_its_value() {
        assert_eq!(figure("figure krb5p-seqread 1.676 s/GB"), Some(("krb5p-seqread".to_owned(), 1.676)));
        assert_eq!(figure("ok mount sys"), None);
        assert_eq!(figure("figure sys-randread"), None);
    }
}
