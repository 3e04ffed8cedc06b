//! The exports of the running server: their folders, and their flavors as clients see them.

use client::{Error, Flavor, Security};
use gss::Credential;
use nfs4::Nfsstat4;
use std::io::ErrorKind;

use super::outcome;
use crate::facts::Facts;
use crate::{CheckOutcome, HealthFinding, nfs};

/// Exports that are asked for.
const EXPORTS_MAX: usize = 32;

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    let Some(address) = facts.address else {
        return CheckOutcome::Skipped("there is no connection".to_owned());
    };
    let minor = facts.minor().max(1);
    let security = match facts.working.last() {
        Some(tickets) => {
            Security::of(Flavor::Krb5i, facts.service_host(), Credential::Ccache(tickets.cache.clone()))
        }
        None => Security::sys(),
    };
    let Some(server) = &facts.server else {
        return CheckOutcome::Skipped("there is no configuration".to_owned());
    };
    let (mut findings, mut notes) = (Vec::new(), Vec::new());
    for export in server.exports.iter().take(EXPORTS_MAX) {
        let pseudo = &export.pseudo;
        if let Some(folder) = &export.folder
            && let Err(error) = std::fs::read_dir(folder)
        {
            if error.kind() == ErrorKind::PermissionDenied && facts.machine.uid != 0 {
                notes.push(format!("only root, or the user of the server, can read {}", folder.display()));
                continue;
            }
            let cause =
                format!("The folder {} of the export {pseudo} cannot be read: {error}.", folder.display());
            findings.push(HealthFinding::error(cause, format!("ls -ld {}", folder.display())));
            continue;
        }
        if export.refers {
            notes.push(format!("{pseudo} refers clients to other servers"));
            continue;
        }
        if export.admits == Some(false) {
            notes.push(format!("{pseudo} is for other clients only"));
            continue;
        }
        match nfs::secinfo(address, pseudo, security.clone(), minor, facts.machine.limit) {
            Ok(flavors) => {
                let names: Vec<_> = flavors.iter().map(|flavor| flavor.name()).collect();
                notes.push(format!("{pseudo}: {}", names.join(", ")));
            }
            Err(error) if export.admits.is_none() && is_hidden(&error) => {
                notes.push(format!("{pseudo} is for other clients, if the names of its rules do not fit"));
            }
            Err(error) => {
                let cause = format!(
                    "The running server does not offer {pseudo} ({error}); it has another configuration."
                );
                findings.push(HealthFinding::error(cause, "systemctl reload orthrus"));
            }
        }
    }
    outcome(findings, notes.join("; "))
}

/// Returns whether the server hides an export from the address that asks.
fn is_hidden(error: &Error) -> bool {
    error.is(Nfsstat4::NFS4ERR_CLID_INUSE) || error.is(Nfsstat4::NFS4ERR_NOENT)
}
