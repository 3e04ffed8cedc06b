//! Command-line arguments that all evaluations share.

use crate::config::NFS_PORT;
use anyhow::{Context, bail};
use bench::Flavor;
use bench::link::{Link, LinkSpec};
use bench::measuring::Settings;
use bench::native::{ANSWER_MAX, BenchTarget};
use bench::{MetricsEndpoint, ServerProbe};
use gss::Credential;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Repetitions and their length with --quick.
const QUICK: (u32, f64) = (6, 0.03);

/// Size of the files with --quick, in MiB.
const QUICK_FILE_SIZE: u64 = 8;

/// The shortest repetition, in seconds.
const SECONDS_MIN: f64 = 0.01;

/// The measured server, and the user of the measurement.
#[derive(Clone, clap::Args)]
pub(crate) struct TargetArguments {
    /// Export to measure, HOST:/EXPORT [default: start a server].
    target: Option<String>,
    /// TCP port of the server.
    #[arg(long, default_value_t = NFS_PORT, help_heading = "Server")]
    port: u16,
    /// Credential cache with the ticket to use [default: that of KRB5CCNAME or krb5.conf]. Give it
    /// several times for the clients of a plan with `principals`.
    #[arg(long, value_name = "CACHE", conflicts_with = "keytab", help_heading = "Ticket")]
    ccache: Vec<String>,
    /// Keytab with the key of --principal, to get a ticket.
    #[arg(long, value_name = "FILE", requires = "principal", help_heading = "Ticket")]
    keytab: Option<PathBuf>,
    /// Principal in --keytab; may be repeated as --ccache.
    #[arg(long, requires = "keytab", help_heading = "Ticket")]
    principal: Vec<String>,
    /// Process ID of a server on this machine, to read its processor time.
    #[arg(long, value_name = "PID", help_heading = "Server")]
    server_pid: Option<u32>,
    /// Metrics endpoint of the server, such as http://server:9049/metrics: its processor time
    /// (process_cpu_seconds_total) and, if it is Orthrus, the time of its stages. Without it and
    /// --server-pid, the report leaves them unknown.
    #[arg(long, value_name = "URL", help_heading = "Server")]
    server_metrics: Option<MetricsEndpoint>,
    /// Directory for the export of the server that the bench starts, and for the copies of scp
    /// [default: memory; for lanl the directory of temporary files].
    #[arg(long, value_name = "DIR", conflicts_with = "target", help_heading = "Server")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    link: LinkArguments,
}

/// The link between client and server.
#[derive(Clone, clap::Args)]
pub(super) struct LinkArguments {
    /// Put a link of this rate (and delay in each direction) between the client and the server that
    /// the bench starts: 1gbit, 10gbit, 10gbit,100us. Needs root; the link ends with this command.
    #[arg(long, value_name = "RATE[,DELAY]", help_heading = "Link")]
    link: Option<LinkSpec>,
    /// Network namespace of the target, such as /run/netns/server, at the other end of an existing
    /// link of that rate. Start this command at its own end.
    #[arg(long, value_name = "FILE", requires_all = ["link", "target"], help_heading = "Link")]
    link_namespace: Option<PathBuf>,
}

impl TargetArguments {
    /// Returns the server that is named, if one is.
    ///
    /// # Errors
    /// When it is not HOST:/EXPORT.
    pub(crate) fn remote(&self) -> anyhow::Result<Option<BenchTarget>> {
        let Some(text) = &self.target else { return Ok(None) };
        let (host, export) = split_target(text)?;
        let mut credentials = self.credentials().into_iter();
        Ok(Some(BenchTarget {
            service_host: host.clone(),
            host,
            port: self.port,
            source: None,
            export,
            credential: credentials.next().unwrap_or(Credential::Default),
            others: credentials.collect(),
            pid: self.server_pid,
            metrics: self.server_metrics.clone(),
            answer_max: ANSWER_MAX,
            stop: None,
            label: match self.port {
                NFS_PORT => text.clone(),
                port => format!("{text}, port {port}"),
            },
        }))
    }

    /// Makes the link that is asked for, or takes the one that was made before. This process must
    /// not have threads yet.
    ///
    /// # Errors
    /// A link to a server elsewhere; as [`Link::make`].
    pub(crate) fn link(&self) -> anyhow::Result<Option<Link>> {
        let Some(spec) = self.link.link else { return Ok(None) };
        match (&self.link.link_namespace, self.remote()?) {
            (Some(file), Some(target)) => {
                let server = target.host.parse().with_context(|| {
                    format!("{}: a server at the other end of a link is named by its address", target.host)
                })?;
                Link::join(spec, file, server).map(Some)
            }
            (_, Some(_)) => bail!("--link is for a server of one's own: leave HOST:/EXPORT out"),
            (_, None) => Link::make(spec).map(Some),
        }
    }

    /// Returns where a server of one's own has its export, if that is chosen.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Returns the server's port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns how the server can be looked at from outside.
    pub(crate) fn probe(&self) -> ServerProbe {
        ServerProbe { pid: self.server_pid, metrics: self.server_metrics.clone() }
    }

    /// Returns the server's process, when it is one of this machine.
    pub(crate) fn server_pid(&self) -> Option<u32> {
        self.server_pid
    }

    /// The user's own where none is named.
    fn credentials(&self) -> Vec<Credential> {
        let from_keytab = |path: &PathBuf| {
            let of =
                |principal: &String| Credential::Keytab { path: path.clone(), principal: principal.clone() };
            self.principal.iter().map(of).collect()
        };
        match &self.keytab {
            Some(path) => from_keytab(path),
            None => self.ccache.iter().cloned().map(Credential::Ccache).collect(),
        }
    }
}

/// Splits `HOST:/EXPORT`; an IPv6 address stands in brackets.
fn split_target(text: &str) -> anyhow::Result<(String, String)> {
    let Some((host, export)) = text.split_once(":/") else {
        bail!("{text:?} is no target; it must be HOST:/EXPORT, such as server.example.org:/home");
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        bail!("{text:?} names no host; it must be HOST:/EXPORT, such as server.example.org:/home");
    }
    Ok((host.to_owned(), format!("/{export}")))
}

/// The method of an evaluation.
#[derive(Clone, clap::Args)]
pub(crate) struct RunArguments {
    /// Flavors to compare; the first is the baseline.
    #[arg(long, value_delimiter = ',', value_name = "FLAVOR,…", default_value = "sys,krb5,krb5i,krb5p")]
    flavors: Vec<Flavor>,
    /// Number of interleaved repetitions of each case; fewer than six cannot show a
    /// difference.
    #[arg(long, alias = "rounds", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: Option<u32>,
    /// Length of one repetition in seconds.
    #[arg(long, value_parser = parse_seconds)]
    seconds: Option<f64>,
    /// Size of the file that each flavor reads and writes, in MiB [default: 64].
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    file_size: Option<u64>,
    /// Take a rough look in about a minute: 6 repetitions of 0.03 s, files of 8 MiB.
    #[arg(long)]
    pub quick: bool,
    /// Take about this long in total, such as 90s, 10m or 2h; sets the length of a repetition.
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "seconds")]
    time: Option<Duration>,
    /// Write the report to PREFIX.html, .json, .csv and .md [default: orthrus-EVALUATION].
    #[arg(long, value_name = "PREFIX", help_heading = "Report")]
    pub output: Option<PathBuf>,
    /// Continue an interrupted run from its PREFIX.json.
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    pub selection: Selection,
}

/// The cases of an evaluation to measure.
#[derive(Clone, clap::Args)]
pub(crate) struct Selection {
    /// Measure only the cases whose names contain this text; --list shows the names.
    #[arg(long, value_name = "CASE")]
    only: Option<String>,
    /// Print the names of the cases and the estimated time, and measure nothing.
    #[arg(long)]
    pub list: bool,
}

impl Selection {
    /// The name of the option in a record's settings.
    pub(crate) const ONLY: &str = "only";

    /// Puts the selection into the settings of a run.
    pub(crate) fn select(&self, settings: &mut Settings) {
        settings.options.extend(self.only.as_ref().map(|only| (Self::ONLY.to_owned(), only.as_str().into())));
    }
}

impl RunArguments {
    /// Returns the settings of an evaluation of about so many groups of cases.
    pub(crate) fn settings(&self, repetitions: u32, seconds: f64, groups: usize) -> Settings {
        let (repetitions, seconds) = if self.quick { QUICK } else { (repetitions, seconds) };
        let repetitions = self.repetitions.unwrap_or(repetitions);
        let cases = (groups * self.flavors.len()).max(1) as f64;
        // Each repetition has a lead-in, and each case a warm-up, of half of its length at most.
        let share = |time: Duration| time.as_secs_f64() / cases / (1.5 * f64::from(repetitions) + 1.0);
        let of_time = self.time.map(|time| share(time).max(SECONDS_MIN));
        let file_size = self.file_size.unwrap_or(if self.quick { QUICK_FILE_SIZE } else { 64 });
        let seconds = self.seconds.or(of_time).unwrap_or(seconds);
        let mut variants: Vec<String> = Vec::new();
        for flavor in &self.flavors {
            // One that is named twice would be compared with itself.
            if !variants.iter().any(|known| known == flavor.name()) {
                variants.push(flavor.name().to_owned());
            }
        }
        let mut settings = Settings::new(repetitions, seconds, file_size << 20, variants);
        self.selection.select(&mut settings);
        settings
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (SECONDS_MIN..=3600.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("allowed is 0.01 to 3600".to_owned())
    }
}

/// Parses a time such as `90s`, `10m` or `2h`.
fn parse_time(text: &str) -> Result<Duration, String> {
    let allowed = || "allowed is a number with s, m or h, such as 10m".to_owned();
    let unit = text.chars().last().ok_or_else(allowed)?;
    let seconds = match unit {
        's' => 1.0,
        'm' => 60.0,
        'h' => 3600.0,
        _ => return Err(allowed()),
    };
    let number: f64 = text.trim_end_matches(unit).parse().map_err(|_| allowed())?;
    let time = Duration::try_from_secs_f64(number * seconds).map_err(|_| allowed())?;
    if time.is_zero() { Err(allowed()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(parse_time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_time("1.5h"), Ok(Duration::from_secs(5400)));
        for wrong in ["", "10", "s", "-1s", "0s", "1d"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_target_is_a_host_and_an_export() {
        assert_eq!(split_target("[::1]:/data").unwrap(), ("::1".to_owned(), "/data".to_owned()));
        assert!(split_target("host").is_err() && split_target(":/x").is_err());
    }
}
