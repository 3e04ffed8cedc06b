//! The server's configuration, as `orthrus serve --check` sees it.

use super::outcome;
use crate::facts::Facts;
use crate::{CheckOutcome, HealthFinding};

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    let Some(server) = &facts.server else {
        return CheckOutcome::Skipped("there is no configuration".to_owned());
    };
    let fault = server.fault.as_ref().map(|fault| {
        HealthFinding::error(format!("The configuration is wrong: {fault}."), server.command("serve --check"))
    });
    // A remedy for the keytab of another server would draw new keys, and break this one.
    let unnamed = server.file.is_none().then(|| {
        HealthFinding::warning(
            "There is no /etc/orthrus/orthrus.toml, so that a server with defaults is examined; yours may have another \
             keytab and port.",
            "orthrus doctor --server --config FILE",
        )
    });
    let named = server.file.as_ref().map(|file| format!(" in {}", file.display())).unwrap_or_default();
    outcome(fault.into_iter().chain(unnamed).collect(), format!("{} export(s){named}", server.exports.len()))
}
