//! The identities of live contexts: accounts and groups change while tickets live for hours.

use super::context::SharedContext;
use super::{ContextTable, Identities};
use crate::metrics::Metrics;
use identity::{Mapped, PrincipalError};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Contexts whose identities are being looked up.
#[derive(Default)]
pub(super) struct Refreshes(Mutex<Vec<SharedContext>>);

impl Refreshes {
    /// Replaces the identities that have become due, as far as they can be looked up without
    /// waiting. The others follow in later calls. A context whose principal is refused by now is
    /// removed; if the lookup fails, the identity stays.
    pub(super) fn run(
        &self,
        contexts: &ContextTable,
        identities: &dyn Identities,
        interval: Duration,
        now: Duration,
        metrics: &Metrics,
    ) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        contexts.due_for_refresh(now, interval, &mut waiting);
        waiting.retain(|context| match identities.poll(context.principal(), now) {
            None => true,
            Some(answer) => {
                Self::apply(context, answer, contexts, metrics);
                false
            }
        });
    }

    /// Runs a closure on the contexts that wait for a lookup.
    pub(super) fn with_waiting<R>(&self, run: impl FnOnce(&[SharedContext]) -> R) -> R {
        run(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn apply(
        context: &SharedContext,
        answer: Result<Mapped, PrincipalError>,
        contexts: &ContextTable,
        metrics: &Metrics,
    ) {
        match answer {
            Ok(account) => {
                let described = match &account.identity {
                    Ok(identity) => format!("uid {} with {} groups", identity.uid, identity.groups.len()),
                    Err(why) => format!("nobody: {why}"),
                };
                if context.set_account(account) {
                    Metrics::add(&metrics.identities_changed, 1);
                    tracing::info!("{} acts as {described} from now on", context.principal());
                }
            }
            Err(PrincipalError::Source(error)) => {
                Metrics::add(&metrics.identities_kept, 1);
                tracing::debug!("{} keeps its identity: {error}", context.principal());
            }
            Err(refused @ PrincipalError::Refused(..)) => {
                Metrics::add(&metrics.identities_changed, 1);
                tracing::info!("a context ends: {refused}");
                contexts.destroy(context.handle());
            }
        }
    }
}

/// Principals without an account that are remembered. When there is no room, all are forgotten, and
/// their reasons are logged again.
const NOBODIES_LOGGED_MAX: usize = 4096;

/// The principals that have been logged as `nobody`.
#[derive(Default)]
pub(super) struct Nobodies(Mutex<HashSet<String>>);

impl Nobodies {
    /// Counts a context of a principal without an account, and logs the reason once for each
    /// principal. For machines this is usual, so it is no warning and does not count.
    pub(super) fn note(&self, principal: &str, account: &Mapped, metrics: &Metrics) {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Err(why) = &account.identity else {
            logged.remove(principal);
            return;
        };
        Metrics::add(&metrics.contexts_of_nobody, u64::from(!account.machine));
        if remember(&mut logged, principal) {
            match account.machine {
                true => tracing::info!("{principal} acts as nobody: {why}"),
                false => tracing::warn!("{principal} acts as nobody: {why}"),
            }
        }
    }
}

/// Adds a principal. Returns whether it was not there.
fn remember(logged: &mut HashSet<String>, principal: &str) -> bool {
    if logged.contains(principal) {
        return false;
    }
    if logged.len() >= NOBODIES_LOGGED_MAX {
        logged.clear();
    }
    logged.insert(principal.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_principal_is_new_once_also_behind_thousands_of_others() {
        let mut logged = HashSet::new();
        for number in 0..2 * NOBODIES_LOGGED_MAX {
            let principal = format!("host/{number}@R");
            assert!(remember(&mut logged, &principal) && !remember(&mut logged, &principal), "{number}");
        }
        assert!(logged.len() <= NOBODIES_LOGGED_MAX);
    }
}
