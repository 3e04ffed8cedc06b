//! Sources of accounts in configured order, each for the realms that it names.

use crate::{AccountAnswer, CacheAge, Identity, IdentitySource, NoAccount, SourceError};

/// A source of accounts with its name and its realms.
pub struct AccountSource {
    /// The name in logs and explanations.
    pub name: String,
    /// The realms whose principals it knows; empty for all.
    pub realms: Vec<String>,
    /// The accounts that it looks up.
    pub accounts: Box<dyn IdentitySource>,
}

impl AccountSource {
    fn serves(&self, realm: Option<&str>) -> bool {
        self.realms.is_empty() || realm.is_none_or(|realm| self.realms.iter().any(|own| own == realm))
    }
}

/// One step of a lookup, for administrators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupStep {
    /// The kind of the step: `realm`, `rule`, `source`, `query` or `answer`.
    pub kind: &'static str,
    /// The result of the step.
    pub text: String,
}

/// The steps that lead from a principal to its account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The steps in order.
    pub steps: Vec<LookupStep>,
    /// Whether the principal belongs to a machine.
    pub machine: bool,
    /// The account, or the reason why there is none.
    pub account: Result<Result<Identity, NoAccount>, SourceError>,
    /// The age of the answer if it came from a cache.
    pub cached: Option<CacheAge>,
}

/// The sources in order. The first that has an account counts. If one fails, the lookup fails: a
/// later source could give another account.
pub(crate) struct Chain(pub(crate) Vec<AccountSource>);

impl Chain {
    fn first<T>(
        &self,
        ask: impl Fn(&dyn IdentitySource) -> Result<Option<T>, SourceError>,
    ) -> Result<Option<T>, SourceError> {
        for source in &self.0 {
            if let Some(answer) = ask(&*source.accounts)? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    pub(crate) fn may_block(&self) -> bool {
        self.0.iter().any(|source| source.accounts.may_block())
    }

    pub(crate) fn account(&self, uid: u32) -> Result<Option<Identity>, SourceError> {
        self.first(|source| source.account(uid))
    }

    pub(crate) fn uid(&self, user: &str) -> Result<Option<u32>, SourceError> {
        self.first(|source| source.uid(user))
    }

    pub(crate) fn gid(&self, group: &str) -> Result<Option<u32>, SourceError> {
        self.first(|source| source.gid(group))
    }

    pub(crate) fn user(&self, uid: u32) -> Result<Option<String>, SourceError> {
        self.first(|source| source.user(uid))
    }

    pub(crate) fn group(&self, gid: u32) -> Result<Option<String>, SourceError> {
        self.first(|source| source.group(gid))
    }

    /// Looks up the user of a principal in the sources of its realm, or by its name in all sources
    /// if `realm` is `None`, and records each step. A disabled user ends the search. Without an
    /// account, the first entry that cannot be used counts.
    pub(crate) fn find(
        &self,
        realm: Option<&str>,
        principal: &str,
        user: &str,
        steps: &mut Vec<LookupStep>,
    ) -> Result<AccountAnswer, SourceError> {
        let mut best = AccountAnswer::Absent;
        for source in &self.0 {
            let mut step = |kind, text: String| steps.push(LookupStep { kind, text });
            if !source.serves(realm) {
                step("source", format!("{}: not for this realm", source.name));
                continue;
            }
            step("source", source.name.clone());
            let answer = match realm {
                Some(_) => {
                    step("query", source.accounts.query(principal, user));
                    source.accounts.of_principal(principal, user)
                }
                None => {
                    step("query", format!("user {user}"));
                    source.accounts.of_user(user)
                }
            };
            match &answer {
                Ok(AccountAnswer::Account(found)) => {
                    let count = found.groups.len();
                    step("answer", format!("uid {}, gid {}, {count} groups", found.uid, found.gid));
                }
                Ok(AccountAnswer::Absent) => step("answer", "no such account".to_owned()),
                Ok(AccountAnswer::Unusable(why) | AccountAnswer::Disabled(why)) => {
                    step("answer", format!("no account: {why}"))
                }
                Err(error) => step("answer", format!("unavailable: {error}")),
            }
            match answer {
                Ok(AccountAnswer::Absent) => {}
                Ok(unusable @ AccountAnswer::Unusable(_)) if best == AccountAnswer::Absent => best = unusable,
                Ok(AccountAnswer::Unusable(_)) => {}
                answer => return answer,
            }
        }
        Ok(best)
    }
}
