//! The rules of an imported export. None of them gives a client more than it had.

use super::{ImportedExport, list};
use crate::config::ClientPattern;

/// The rights of some clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ImportedRule {
    /// The clients, as the file names them.
    pub(super) clients: Vec<String>,
    /// The keys of their terms with values.
    pub(super) keys: Vec<(&'static str, String)>,
    /// Sentences about options that have no equivalent.
    pub(super) notes: Vec<String>,
    /// The reason why these clients get nothing.
    pub(super) refused: Option<String>,
}

/// Clients without a rule of their own. A later rule may name them, too.
struct ClientsLeftOut {
    names: String,
    /// Their terms, if they had access.
    keys: Option<Vec<(&'static str, String)>>,
}

impl ImportedExport {
    /// Sets the rules, of which the first that names a client counts. Comments the export out if a
    /// client would get more than before.
    pub(super) fn set_rules(&mut self, rules: Vec<ImportedRule>) {
        let mut kept: Vec<ImportedRule> = Vec::new();
        let mut left_out: Vec<ClientsLeftOut> = Vec::new();
        let mut is_over = false;
        for mut rule in rules {
            for note in std::mem::take(&mut rule.notes) {
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
            }
            if is_over {
                let names = rule.clients.join(", ");
                self.notes.push(format!("Left out: {names}, since an earlier rule is for all clients."));
                continue;
            }
            is_over = rule.is_for_all();
            if let Some(reason) = rule.refused.take() {
                let names = rule.clients.join(", ");
                self.notes.push(format!("Left out: {names}, since {reason}."));
                left_out.push(ClientsLeftOut { names, keys: None });
                continue;
            }
            let (known, unknown): (Vec<_>, Vec<_>) =
                rule.clients.into_iter().partition(|client| pattern(client).is_some());
            if !unknown.is_empty() {
                let names = unknown.join(", ");
                self.notes.push(format!("No equivalent for the clients {names}."));
                left_out.push(ClientsLeftOut { names, keys: Some(rule.keys.clone()) });
            }
            rule.clients = known.iter().filter_map(|client| pattern(client)).collect();
            if rule.clients.is_empty() {
                continue;
            }
            let wider = left_out.iter().find(|other| other.keys.as_ref() != Some(&rule.keys));
            if let Some(ClientsLeftOut { names, .. }) = wider {
                self.turn_off(format!("{names} might get the rights of a later rule."));
            }
            match kept.last_mut().filter(|last| last.keys == rule.keys) {
                Some(last) => last.clients.append(&mut rule.clients),
                None => kept.push(rule),
            }
        }
        match &mut kept[..] {
            [] => self.turn_off("no client has access.".to_owned()),
            [only] => {
                self.keys.append(&mut only.keys);
                if !only.is_for_all() {
                    self.keys.push(("clients", list(&only.clients)));
                }
            }
            _ => self.rules = kept,
        }
    }

    /// Comments the export out for the first of several reasons.
    pub(super) fn turn_off(&mut self, reason: String) {
        self.off.get_or_insert(reason);
    }
}

impl ImportedRule {
    fn is_for_all(&self) -> bool {
        self.clients.iter().any(|client| client == "*")
    }
}

/// Returns clients as Orthrus writes them; `None` if it cannot tell them.
fn pattern(client: &str) -> Option<String> {
    if client.parse::<ClientPattern>().is_ok() {
        return Some(client.to_owned());
    }
    // 10.0.0.0/255.0.0.0
    let (address, mask) = client.split_once('/')?;
    let mask = u32::from(mask.parse::<std::net::Ipv4Addr>().ok()?);
    let bits = mask.leading_ones();
    let prefix = format!("{address}/{bits}");
    (mask.count_ones() == bits && prefix.parse::<vfs::Network>().is_ok()).then_some(prefix)
}
