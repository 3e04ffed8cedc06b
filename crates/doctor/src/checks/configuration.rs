//! The server's configuration, as `orthrus serve --check` sees it.

use super::outcome;
use crate::facts::Facts;
use crate::{CheckOutcome, HealthFinding};

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    let Some(server) = &facts.server else {
        return CheckOutcome::Skipped("there is no configuration".to_owned());
    };
    let finding = server.fault.as_ref().map(|fault| {
        HealthFinding::error(format!("The configuration is wrong: {fault}."), server.command("serve --check"))
    });
    outcome(finding.into_iter().collect(), format!("{} export(s)", server.exports.len()))
}
