//! Sources of accounts in configured order, each for the realms that it names.

use crate::{Identity, IdentitySource, NoAccount, SourceError};

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
}

/// The sources in order. The first that has an account counts. If one fails, the lookup fails: a
/// later source could give another account.
pub(crate) struct Chain(pub(crate) Vec<AccountSource>);

impl Chain {
    fn first<T>(
        &self,
        realm: Option<&str>,
        ask: impl Fn(&dyn IdentitySource) -> Result<Option<T>, SourceError>,
    ) -> Result<Option<T>, SourceError> {
        for source in self.0.iter().filter(|source| source.serves(realm)) {
            if let Some(answer) = ask(&*source.accounts)? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    pub(crate) fn may_block(&self) -> bool {
        self.0.iter().any(|source| source.accounts.may_block())
    }

    /// Returns the account of a principal from the sources of its realm.
    pub(crate) fn of_principal(
        &self,
        realm: &str,
        principal: &str,
        user: &str,
    ) -> Result<Option<Identity>, SourceError> {
        self.first(Some(realm), |source| source.of_principal(principal, user))
    }

    pub(crate) fn identity(&self, user: &str) -> Result<Option<Identity>, SourceError> {
        self.first(None, |source| source.identity(user))
    }

    pub(crate) fn account(&self, uid: u32) -> Result<Option<Identity>, SourceError> {
        self.first(None, |source| source.account(uid))
    }

    pub(crate) fn uid(&self, user: &str) -> Result<Option<u32>, SourceError> {
        self.first(None, |source| source.uid(user))
    }

    pub(crate) fn gid(&self, group: &str) -> Result<Option<u32>, SourceError> {
        self.first(None, |source| source.gid(group))
    }

    pub(crate) fn user(&self, uid: u32) -> Result<Option<String>, SourceError> {
        self.first(None, |source| source.user(uid))
    }

    pub(crate) fn group(&self, gid: u32) -> Result<Option<String>, SourceError> {
        self.first(None, |source| source.group(gid))
    }

    /// Looks up a user as [`Chain::of_principal`] does, or by its name if `realm` is `None`, and
    /// records each step.
    pub(crate) fn explain(
        &self,
        realm: Option<&str>,
        principal: &str,
        user: &str,
        steps: &mut Vec<LookupStep>,
    ) -> Result<Option<Identity>, SourceError> {
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
                    source.accounts.identity(user)
                }
            };
            match &answer {
                Ok(Some(found)) => {
                    let count = found.groups.len();
                    step("answer", format!("uid {}, gid {}, {count} groups", found.uid, found.gid));
                }
                Ok(None) => step("answer", "no such account".to_owned()),
                Err(error) => step("answer", format!("unavailable: {error}")),
            }
            if !matches!(answer, Ok(None)) {
                return answer;
            }
        }
        Ok(None)
    }
}
