//! The clock of this machine against that of the KDC.

use super::outcome;
use crate::facts::Facts;
use crate::{CheckOutcome, HealthFinding};

/// The clock difference that MIT's library allows by default, in seconds.
const SKEW: i64 = 300;

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    judge(facts.kdc_ahead, allowed(facts))
}

/// Returns the clock difference that krb5.conf allows, in seconds.
pub(super) fn allowed(facts: &Facts) -> i64 {
    let value = facts.conf.value(&["libdefaults", "clockskew"]);
    value.and_then(|value| value.trim_end_matches('s').parse().ok()).unwrap_or(SKEW)
}

fn judge(ahead: i64, allowed: i64) -> CheckOutcome {
    let direction = if ahead > 0 { "ahead of" } else { "behind" };
    let seconds = ahead.abs();
    let fix = "chronyc makestep    # on the machine whose clock is wrong; compare `date -u`";
    let cause = format!("The clock of the KDC is {seconds} s {direction} that of this machine");
    let finding = if seconds > allowed {
        Some(HealthFinding::error(format!("{cause}, and {allowed} s are allowed."), fix))
    } else if seconds > allowed / 2 {
        Some(HealthFinding::warning(format!("{cause}, which is close to the allowed {allowed} s."), fix))
    } else {
        None
    };
    outcome(finding.into_iter().collect(), format!("{seconds} s apart"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skew_is_an_error_only_beyond_the_allowed_one() {
        assert!(
            matches!(judge(300, 300), CheckOutcome::Found(found) if found[0].severity == crate::Severity::Warning)
        );
        assert!(matches!(judge(-301, 300), CheckOutcome::Found(found) if found[0].cause.contains("behind")));
        assert!(matches!(judge(20, 300), CheckOutcome::Passed(_)));
    }
}
