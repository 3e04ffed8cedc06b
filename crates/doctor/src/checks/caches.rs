//! The folders in which rpc.gssd looks for the user's ticket, and the owner of the file.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use terminal::shell_word;

use super::outcome;
use super::ticket::expanded;
use crate::ccache::file_of;
use crate::facts::Facts;
use crate::{CheckOutcome, HealthFinding};

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    if facts.acts_as_machine() {
        return CheckOutcome::Skipped("rpc.gssd uses the machine's key for root".to_owned());
    }
    let Some((name, _)) = &facts.cache else {
        return CheckOutcome::Passed(
            "the cache is no file; the Kerberos library finds it for rpc.gssd".to_owned(),
        );
    };
    let Some(path) = file_of(name) else { return CheckOutcome::Skipped("the cache is no file".to_owned()) };
    let uid = facts.machine.uid;
    let file = std::fs::symlink_metadata(&path).map(|file| (file.uid(), file.mode(), file.is_file()));
    judge(facts, &path, uid, file.ok())
}

/// Returns the folders for a user.
fn folders(facts: &Facts, uid: u32) -> Vec<PathBuf> {
    let folders = facts.gssd.caches.iter().map(|folder| folder.replace("%U", &uid.to_string()));
    folders.map(|folder| facts.machine.path(&folder)).collect()
}

fn judge(facts: &Facts, path: &Path, uid: u32, file: Option<(u32, u32, bool)>) -> CheckOutcome {
    let shown = path.display();
    let word = shell_word(&shown.to_string());
    let mut findings = Vec::new();
    let folders = folders(facts, uid);
    let known = path.parent().is_some_and(|folder| folders.iter().any(|other| other == folder));
    let named = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("krb5cc"));
    let configured = facts
        .conf
        .value(&["libdefaults", "default_ccache_name"])
        .is_some_and(|name| file_of(&expanded(name, uid)).is_some_and(|default| default == path));
    let machine = uid == 0 && !facts.gssd.root_needs_ticket;
    if !(known && named || configured) {
        let list: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
        let cause = format!(
            "rpc.gssd does not find the ticket in {shown}: it looks for files krb5cc* in {}, and does not see KRB5CCNAME.",
            list.join(" and ")
        );
        findings.push(HealthFinding::error(cause, "unset KRB5CCNAME; kinit"));
    }
    if let Some((owner, mode, plain)) = file {
        if owner != uid {
            let cause = format!(
                "The credential cache {shown} belongs to the user ID {owner}, and rpc.gssd takes only caches that belong to {uid}."
            );
            findings.push(HealthFinding::error(
                cause,
                format!("chown {uid} {word}    # as root; or kinit as that user"),
            ));
        } else if !plain {
            let cause =
                format!("The credential cache {shown} is no plain file, and rpc.gssd does not follow links.");
            findings.push(HealthFinding::error(cause, "unset KRB5CCNAME; kinit"));
        } else if mode & 0o077 != 0 {
            let cause = format!("Other users of this machine can read the tickets in {shown}.");
            findings.push(HealthFinding::warning(cause, format!("chmod 600 {word}; kinit")));
        }
    }
    let note =
        if machine { "found, but rpc.gssd uses the machine's key for root" } else { "rpc.gssd finds it" };
    outcome(findings, note)
}
