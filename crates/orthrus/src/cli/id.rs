//! `orthrus id`: explains the local user of a principal.

use super::asked_server::{USUAL_FILE, usual_settings};
use crate::api::{ApiClient, ApiError, IdReport, Numbers};
use crate::config::{self, Settings};
use crate::output::outln;
use crate::serve;
use std::path::{Path, PathBuf};
use terminal::{escape, escape_json};

/// Explain the local user that a Kerberos principal acts as.
///
/// Asks the running server, which answers from its caches. Without a server, or with --offline,
/// looks the account up by the configuration. Prints which of the two answered, each step (realm,
/// rule, source, query, answer, age in the cache) and the identity that each export sees. The exit
/// status is 0 for a user with an account, 1 for others.
#[derive(clap::Args)]
pub(super) struct Explain {
    /// The principal, such as alice@EXAMPLE.ORG.
    principal: String,
    /// Read the configuration of the server from this file (default: /etc/orthrus/orthrus.toml if
    /// you may ask its server).
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Keytab whose realms are accepted, instead of that of the file.
    #[arg(long, value_name = "FILE")]
    keytab: Option<PathBuf>,
    /// State directory of the server to ask, instead of that of the file.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Do not ask a running server.
    #[arg(long)]
    offline: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Explain {
    /// Prints the explanation.
    ///
    /// # Errors
    /// The fault in the configuration or the keytab, or the reason why there is no account.
    pub(super) fn run(self) -> anyhow::Result<()> {
        if !self.principal.contains('@') {
            anyhow::bail!("name the realm, too, such as {}@EXAMPLE.ORG", self.principal);
        }
        let mut settings = match &self.config {
            Some(file) => config::read(file)?,
            None => usual_settings(Path::new(USUAL_FILE)),
        };
        settings.keytab = self.keytab.clone().or(settings.keytab);
        settings.state_dir = self.state_dir.clone().or(settings.state_dir);
        let (report, from) = self.report(&settings)?;
        if self.json {
            outln!("{}", escape_json(&serde_json::to_string_pretty(&report)?));
        } else {
            lines(&report, &from).iter().for_each(|line| outln!("{line}"));
        }
        match report.reason {
            None => Ok(()),
            Some(reason) => anyhow::bail!("{}: {reason}", self.principal),
        }
    }

    /// Returns the report, and a line that says where it is from.
    fn report(&self, settings: &Settings) -> anyhow::Result<(IdReport, String)> {
        let offline = |why: &str| {
            let report = serve::explain(settings, &self.principal)?;
            Ok((report, format!("the configuration: {why}")))
        };
        if self.offline {
            return offline("--offline");
        }
        let folder = match serve::state_dir(settings) {
            Ok(folder) => folder,
            Err(error) => return offline(&error.to_string()),
        };
        match ApiClient::new(&folder).get("/v1/identity", &[("principal", Some(&self.principal))]) {
            Ok(report) => Ok((report, format!("the server of {}", folder.display()))),
            Err(ApiError::NoServer(why) | ApiError::Denied(why)) => offline(&why),
            Err(ApiError::NoAnswer(error)) => {
                Err(error.context("no answer from the server (--offline does without it)"))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the report for a terminal. Directories choose names and messages in it.
fn lines(report: &IdReport, from: &str) -> Vec<String> {
    let line = |kind: &str, text: &str| format!("{kind:<8} {}", escape(text));
    let exports = report.exports.iter().flatten().map(|(pseudo, seen)| {
        let Numbers { uid, gid, groups } = seen;
        line("export", &format!("{pseudo}: uid {uid}, gid {gid}, {} groups", groups.len()))
    });
    let steps = report.steps.iter().map(|step| line(&step.kind, &step.text));
    std::iter::once(line("from", from)).chain(steps).chain(exports).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ReportStep;

    #[test]
    fn names_of_a_directory_do_not_steer_the_terminal() {
        let step = ReportStep { kind: "found".to_owned(), text: "uid=x\u{1b}[2J\nok,dc=example".to_owned() };
        let report = IdReport {
            from: "server".to_owned(),
            principal: "alice@EXAMPLE.ORG".to_owned(),
            machine: false,
            cache: None,
            steps: vec![step],
            identity: None,
            reason: None,
            exports: None,
        };
        let shown = lines(&report, "the server");
        assert_eq!(shown, ["from     the server", "found    uid=x\\u{1b}[2J\\u{a}ok,dc=example"]);
    }

    #[test]
    fn a_principal_without_its_realm_is_refused_with_an_example() {
        let (principal, offline) = ("alice".to_owned(), true);
        let explain =
            Explain { principal, config: None, keytab: None, state_dir: None, offline, json: false };
        let error = explain.run().expect_err("it has no realm").to_string();
        assert!(error.contains("alice@EXAMPLE.ORG"), "{error}");
    }
}
