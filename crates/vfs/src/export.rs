//! One exported tree with its rules.

use crate::pseudo_path::{normalised, path_hash};
use crate::{Backend, ClientPeer, ExportRule, ExportsError, Location, RULES_MAX, RuleIndex, Unresolved};
use std::{fmt, sync::Arc};

/// One exported tree and its rules.
#[derive(Clone)]
pub struct Export {
    /// Number that handles carry: stable across restarts, never 0. [`export_id`] derives it from
    /// the path.
    pub id: u32,
    /// Where clients find it, normalised: "/" or "/a/b".
    pub pseudo_path: String,
    /// The file system behind it.
    pub backend: Arc<dyn Backend>,
    /// The other places of the file system, preferred first (RFC 8881 section 11.16).
    pub locations: Vec<Location>,
    /// Whether the file system is absent: the export refers clients to `locations` (RFC 8881
    /// section 11.3).
    pub absent: bool,
    /// The rules for its clients, at most [`RULES_MAX`]; the first that names a client counts. A
    /// client that none names may not use the export.
    pub rules: Vec<ExportRule>,
    /// Whether clients may set the set-user-ID and set-group-ID bits of files.
    pub setid: bool,
    /// Whether tickets count that a service got in a user's name, by constrained delegation.
    pub delegated: bool,
}

impl Export {
    /// Makes an export with the default rule, which is for all clients; fields may be changed
    /// after.
    ///
    /// # Errors
    /// `ExportsError::Path` for a path that cannot be one.
    pub fn new(pseudo_path: &str, backend: Arc<dyn Backend>) -> Result<Self, ExportsError> {
        let pseudo_path = normalise(pseudo_path)?;
        Ok(Self {
            id: export_id(&pseudo_path),
            pseudo_path,
            backend,
            locations: Vec::new(),
            absent: false,
            rules: vec![ExportRule::default()],
            setid: true,
            delegated: true,
        })
    }

    /// Returns the export with this rule alone.
    pub fn with_rule(self, rule: ExportRule) -> Self {
        Self { rules: vec![rule], ..self }
    }

    /// Finds the rule that decides for a client: the first that names it. `None`: the client may
    /// neither see nor use the export.
    ///
    /// # Errors
    /// The name that must be looked up first.
    #[inline]
    pub fn rule_for(&self, peer: ClientPeer) -> Result<Option<RuleIndex>, Unresolved> {
        // Most exports have one rule, for all clients.
        match self.rules.first() {
            Some(first) if first.is_for_all() => Ok(Some(RuleIndex::FIRST)),
            _ => self.find_rule(peer),
        }
    }

    fn find_rule(&self, peer: ClientPeer) -> Result<Option<RuleIndex>, Unresolved> {
        for (index, rule) in self.rules.iter().enumerate() {
            if rule.names(peer)? {
                return Ok(RuleIndex::of(index));
            }
        }
        Ok(None)
    }

    /// Returns a rule that [`Export::rule_for`] has found.
    #[inline]
    pub fn rule(&self, index: RuleIndex) -> &ExportRule {
        index.find(&self.rules)
    }

    /// Returns whether a client may see and use the export.
    ///
    /// # Errors
    /// The name that must be looked up first.
    pub fn admits(&self, peer: ClientPeer) -> Result<bool, Unresolved> {
        self.rule_for(peer).map(|rule| rule.is_some())
    }
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export")
            .field("id", &self.id)
            .field("pseudo_path", &self.pseudo_path)
            .field("locations", &self.locations)
            .field("absent", &self.absent)
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

/// Derives an export's number from its normalised pseudo path; never 0, the same on every machine.
pub fn export_id(pseudo_path: &str) -> u32 {
    let hash = path_hash(pseudo_path);
    ((hash >> 32) as u32 ^ hash as u32).max(1)
}

/// Brings a pseudo path into the one form "/" or "/a/b": repeated and trailing slashes go.
///
/// # Errors
/// `ExportsError::Path` when it is not absolute, too deep, or has a name that NFS does not allow.
pub fn normalise(path: &str) -> Result<String, ExportsError> {
    normalised(path).ok_or_else(|| ExportsError::Path(path.to_owned()))
}

/// Checks an export by itself.
pub(crate) fn check(export: &Export) -> Result<(), ExportsError> {
    if normalise(&export.pseudo_path)? != export.pseudo_path {
        return Err(ExportsError::Path(export.pseudo_path.clone()));
    }
    if export.id == 0 {
        return Err(ExportsError::ZeroId(export.pseudo_path.clone()));
    }
    if export.rules.iter().any(|rule| rule.flavors.is_empty()) {
        return Err(ExportsError::NoFlavor(export.pseudo_path.clone()));
    }
    if export.rules.len() > RULES_MAX {
        return Err(ExportsError::RulesMax(export.pseudo_path.clone()));
    }
    Ok(())
}

/// Returns whether any of the exports admits a client.
///
/// # Errors
/// The name that must be looked up first, if no export admits the client without it.
pub(crate) fn any_admits<'e>(
    exports: impl IntoIterator<Item = &'e Arc<Export>>,
    peer: ClientPeer,
) -> Result<bool, Unresolved> {
    let mut unresolved = None;
    for export in exports {
        match export.admits(peer) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(first) => unresolved = unresolved.or(Some(first)),
        }
    }
    unresolved.map_or(Ok(false), Err)
}
