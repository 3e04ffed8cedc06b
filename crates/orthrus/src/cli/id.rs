//! `orthrus id`: explains the local user of a principal.

use crate::config::{self, Settings};
use crate::serve;
use serde_json::{Value, json};
use std::path::PathBuf;
use vfs::Caller;

/// Explain the local user that a Kerberos principal acts as.
///
/// Looks the account up now, by the configuration of the server, and prints each step: realm, rule,
/// source, query and answer, and the identity that each export sees. Caches of a running server are
/// not used. The exit status is 0 for a user with an account, 1 for others.
#[derive(clap::Args)]
pub(super) struct Explain {
    /// The principal, such as alice@EXAMPLE.ORG.
    principal: String,
    /// Read the configuration of the server from this file (default: its built-in defaults).
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Keytab whose realms are accepted, instead of that of the file.
    #[arg(long, value_name = "FILE")]
    keytab: Option<PathBuf>,
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
        let mut settings = match &self.config {
            Some(file) => config::read(file)?,
            None => Settings::default(),
        };
        settings.keytab = self.keytab.or(settings.keytab);
        let (explanation, callers) = serve::explain(&settings, &self.principal)?;
        let (identity, reason) = match &explanation.account {
            Ok(Ok(account)) => (Some(account), None),
            Ok(Err(why)) => (None, Some(format!("it acts as nobody: {why}"))),
            Err(error) => (None, Some(format!("its contexts are delayed: {error}"))),
        };
        let exports: Vec<_> =
            settings.exports.iter().map(|export| export.pseudo.as_str()).zip(&callers).collect();
        if self.json {
            let caller = |caller: &Caller| json!({"uid": caller.uid, "gid": caller.gid, "groups": caller.groups.to_vec()});
            let found = identity
                .map(|found| json!({"uid": found.uid, "gid": found.gid, "groups": found.groups.to_vec()}));
            let steps: Vec<Value> =
                explanation.steps.iter().map(|step| json!({"kind": step.kind, "text": step.text})).collect();
            let exports: serde_json::Map<String, Value> =
                exports.iter().map(|(pseudo, seen)| ((*pseudo).to_owned(), caller(seen))).collect();
            let all = json!({
                "principal": self.principal,
                "machine": explanation.machine,
                "steps": steps,
                "identity": found,
                "reason": reason,
                "exports": if explanation.account.is_ok() { Value::Object(exports) } else { Value::Null },
            });
            println!("{all:#}");
        } else {
            explanation.steps.iter().for_each(|step| println!("{:<8} {}", step.kind, step.text));
            for (pseudo, seen) in exports.iter().filter(|_| explanation.account.is_ok()) {
                let groups = seen.groups.len();
                println!("{:<8} {pseudo}: uid {}, gid {}, {groups} groups", "export", seen.uid, seen.gid);
            }
        }
        match reason {
            None => Ok(()),
            Some(reason) => anyhow::bail!("{}: {reason}", self.principal),
        }
    }
}
