//! Lookups by the rules in the sources, without caches.

use crate::chain::{Chain, Explanation, LookupStep};
use crate::lookups::{Account, LookupAnswer, LookupKey};
use crate::{AccountAnswer, Identity, LocalRule, NoAccount, Principal, Rules};

/// The rules and the sources behind them.
pub(crate) struct Directories {
    pub(crate) rules: Rules,
    pub(crate) source: Chain,
}

/// The local user of a principal by the rules alone.
pub(crate) struct LocalUser {
    name: String,
    /// The realm whose sources have the account; `None` for a name from `[principals]`, which all
    /// sources may have, and which may be uid 0.
    realm: Option<String>,
    /// The rule that applies.
    rule: String,
}

impl Directories {
    /// Returns the local user of a principal by the rules alone.
    pub(crate) fn local_user(&self, text: &str) -> Result<LocalUser, NoAccount> {
        let principal = Principal::parse(text).ok_or(NoAccount::Malformed)?;
        if let Some(local) = self.rules.principals.get(text) {
            let rule = format!("[principals] {text:?} = {local:?}");
            return Ok(LocalUser { name: local.clone(), realm: None, rule });
        }
        let realm = principal.realm.clone().unwrap_or_default();
        let applies = |rule: &LocalRule| Some((rule.user(&principal)?, rule.to_string()));
        let accepted = self.rules.realms.contains(&realm);
        let found = self.rules.local.iter().filter(|_| accepted).find_map(applies);
        let Some((name, rule)) = found else {
            return Err(match (principal.is_machine(), accepted) {
                (true, _) => NoAccount::Machine,
                (false, true) => NoAccount::Rule,
                (false, false) => NoAccount::Realm(realm),
            });
        };
        let fits = !name.is_empty() && name.len() <= self.rules.name_max;
        // Of names with a domain, as of SSSD and winbind, a rule chooses the domain and never an
        // escaped character of the principal.
        let is_chosen = |mark: char| {
            name.contains(mark) && principal.components.iter().any(|component| component.contains(mark))
        };
        if !fits || name.contains(['\0', '/', ':', '\n']) || ['@', '\\'].into_iter().any(is_chosen) {
            return Err(NoAccount::Name);
        }
        Ok(LocalUser { name, realm: Some(realm), rule })
    }

    /// Returns whether a principal belongs to a machine of a realm that is known here. A mount
    /// begins with it, so that its context needs no account. Anonymous users have the form of one,
    /// and a KDC may tell their realm (RFC 8062 section 3).
    pub(crate) fn may_mount(&self, text: &str) -> bool {
        let is_machine = |principal: &Principal| principal.is_machine() && !principal.is_well_known();
        let machine = Principal::parse(text).filter(is_machine);
        let known = [&self.rules.realms, &self.rules.machine_realms];
        machine
            .and_then(|machine| machine.realm)
            .is_some_and(|realm| known.iter().any(|realms| realms.contains(&realm)))
    }

    /// Looks up the account of a principal, without a time limit, and records each step.
    pub(crate) fn explain(&self, text: &str) -> Explanation {
        let (mut steps, local) = self.by_rules(text);
        let account = match local {
            Ok(local) => {
                let found = self.source.find(local.realm.as_deref(), text, &local.name, &mut steps);
                found.map(|found| local.checked(found))
            }
            Err(why) => Ok(Err(why)),
        };
        Explanation { steps, machine: is_machine(text), account, cached: None }
    }

    /// Returns the local user of a principal, and the steps that lead to it.
    pub(crate) fn by_rules(&self, text: &str) -> (Vec<LookupStep>, Result<LocalUser, NoAccount>) {
        let mut steps = Vec::new();
        if let Some(realm) = Principal::parse(text).and_then(|principal| principal.realm) {
            let accepted = self.rules.realms.contains(&realm);
            let said = if accepted { "is in `realms`" } else { "is not in `realms`" };
            steps.push(LookupStep { kind: "realm", text: format!("{realm} {said}") });
        }
        let local = self.local_user(text);
        let text = match &local {
            Ok(local) => format!("{} gives user {:?}", local.rule, local.name),
            Err(why) => why.to_string(),
        };
        steps.push(LookupStep { kind: "rule", text });
        (steps, local)
    }

    /// Looks up a key, without a time limit.
    pub(crate) fn look_up(&self, key: &LookupKey) -> LookupAnswer {
        match key {
            LookupKey::User(uid) => LookupAnswer::Name(self.source.user(*uid)),
            LookupKey::Group(gid) => LookupAnswer::Name(self.source.group(*gid)),
            LookupKey::Uid(name) => LookupAnswer::Id(self.source.uid(name)),
            LookupKey::Gid(name) => LookupAnswer::Id(self.source.gid(name)),
            LookupKey::Principal(text) => {
                let Explanation { steps, account, .. } = self.explain(text);
                LookupAnswer::Account(account.map(|found| Account { found, steps: steps.into() }))
            }
            LookupKey::Account(uid) => {
                let found = self.source.account(*uid);
                let found = found.map(|found| found.ok_or(NoAccount::UnknownUid(*uid)));
                LookupAnswer::Account(found.map(|found| Account { found, steps: [].into() }))
            }
        }
    }
}

impl LocalUser {
    /// Refuses an account of uid 0 that `[principals]` does not name.
    fn checked(&self, found: AccountAnswer) -> Result<Identity, NoAccount> {
        match found {
            AccountAnswer::Absent => Err(NoAccount::Unknown(self.name.clone())),
            AccountAnswer::Unusable(why) | AccountAnswer::Disabled(why) => {
                Err(NoAccount::Unusable(self.name.clone(), why))
            }
            AccountAnswer::Account(identity) if identity.uid == 0 && self.realm.is_some() => {
                Err(NoAccount::Superuser)
            }
            AccountAnswer::Account(identity) => Ok(identity),
        }
    }
}

/// Returns whether a principal belongs to a machine or a service.
pub(crate) fn is_machine(text: &str) -> bool {
    Principal::parse(text).is_some_and(|principal| principal.is_machine())
}
