//! The account that a principal acts as.

use super::outcome;
use crate::facts::Facts;
use crate::{CheckOutcome, HealthFinding};
use terminal::shell_word;

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    let Some(server) = &facts.server else {
        return CheckOutcome::Skipped("there is no configuration".to_owned());
    };
    let Some(user) = &server.user else {
        return CheckOutcome::Skipped("name a principal with --user to see its account".to_owned());
    };
    match (server.explain)(user) {
        Ok(account) => CheckOutcome::Passed(account),
        Err(why) => {
            let cause = format!("{user} has no account here: {why}.");
            let remedy = server.command(&format!("id {}", shell_word(user)));
            let finding = HealthFinding::error(cause, format!("{remedy}    # each step of the mapping"));
            outcome(vec![finding], "")
        }
    }
}
