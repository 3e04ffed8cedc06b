//! The local user of a principal, as `orthrus id` reports it.

use identity::Explanation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};
use vfs::Caller;

/// The query for the local user of a principal.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct IdentityQuery {
    /// The principal, such as alice@EXAMPLE.ORG.
    pub principal: String,
}

/// The local user of a principal, with the steps that lead to it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct IdReport {
    /// `server` if a running server gave the answer, else `configuration`.
    pub from: String,
    /// The principal of the request.
    pub principal: String,
    /// Whether the principal belongs to a machine.
    pub machine: bool,
    /// The age of the answer if it is from a cache.
    pub cache: Option<CacheReport>,
    /// The steps of the lookup, in order.
    pub steps: Vec<ReportStep>,
    /// The account, if there is one.
    pub identity: Option<Numbers>,
    /// The reason why there is no account.
    pub reason: Option<String>,
    /// The callers that exports see, by pseudo path; `None` while the account is unknown.
    pub exports: Option<BTreeMap<String, Numbers>>,
}

/// The age of a cached answer.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct CacheReport {
    /// Seconds since the source gave the answer.
    pub age: u64,
    /// Seconds until the answer is looked up again.
    pub fresh_for: u64,
    /// Whether the answer stands in for a lookup that failed or is late.
    pub stale: bool,
}

/// One step of a lookup.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ReportStep {
    /// The kind of the step, such as `rule`.
    pub kind: String,
    /// The result of the step.
    pub text: String,
}

/// The numbers of an account.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Numbers {
    /// Number of the user.
    pub uid: u32,
    /// Number of the primary group.
    pub gid: u32,
    /// Numbers of the other groups.
    pub groups: Vec<u32>,
}

impl From<&Caller> for Numbers {
    fn from(caller: &Caller) -> Self {
        Self { uid: caller.uid, gid: caller.gid, groups: caller.groups.to_vec() }
    }
}

impl IdReport {
    /// Reports an explanation; `exports` returns the callers that exports see for a caller.
    pub(crate) fn new(
        from: &str,
        principal: String,
        explanation: Explanation,
        exports: impl FnOnce(Option<&Caller>) -> Vec<(String, Caller)>,
    ) -> Self {
        let Explanation { steps, machine, account, cached } = explanation;
        let (caller, reason) = match &account {
            Ok(Ok(found)) => {
                (Some(Caller { uid: found.uid, gid: found.gid, groups: found.groups.clone() }), None)
            }
            Ok(Err(why)) => (None, Some(format!("it acts as nobody: {why}"))),
            Err(error) => (None, Some(format!("its contexts are delayed: {error}"))),
        };
        let seen = account.is_ok().then(|| exports(caller.as_ref()));
        Self {
            from: from.to_owned(),
            principal,
            machine,
            cache: cached.map(|cached| CacheReport {
                age: cached.age.as_secs(),
                fresh_for: cached.fresh_for.as_secs(),
                stale: cached.stale,
            }),
            steps: steps
                .into_iter()
                .map(|step| ReportStep { kind: step.kind.to_owned(), text: step.text })
                .collect(),
            identity: caller.as_ref().map(Numbers::from),
            reason,
            exports: seen.map(|seen| {
                seen.iter().map(|(pseudo, caller)| (pseudo.clone(), Numbers::from(caller))).collect()
            }),
        }
    }
}
