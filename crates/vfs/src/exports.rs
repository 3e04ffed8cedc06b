//! Exports and their tables.
//!
//! [`Export`] is one exported tree with its rules, [`ExportTable`] an immutable set of exports
//! together with the [`PseudoFs`] above, [`crate::Exports`] the holder that a reload swaps. A
//! request takes one snapshot and keeps it.

use crate::{
    Backend, ClientPeer, ExportRule, Location, PseudoFs, RuleIndex, ServerAddress, Timestamp, Unresolved,
    locations::LOCATIONS_BYTES_MAX,
};
use std::{collections::HashMap, fmt, sync::Arc};

/// Longest pseudo path in components.
pub const PSEUDO_DEPTH_MAX: usize = 64;
/// Longest component of a pseudo path in bytes.
pub const PSEUDO_NAME_MAX: usize = 255;
/// Most rules of an export.
pub const RULES_MAX: usize = 1000;

/// The reason why a set of exports is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportsError {
    /// Not the name of a flavor.
    #[error("{0:?} is not a security flavor; allowed are sys, krb5, krb5i and krb5p")]
    Flavor(String),
    /// Not the name of a squash rule.
    #[error("{0:?} is not a squash rule; allowed are none, root and all")]
    Squash(String),
    /// A pseudo path that is not absolute, or with a component that NFS does not allow.
    #[error(
        "pseudo path {0:?}: must begin with \"/\" and have at most {PSEUDO_DEPTH_MAX} names of 1 to {PSEUDO_NAME_MAX} bytes, none of them \".\" or \"..\""
    )]
    Path(String),
    /// Two exports at one place.
    #[error("two exports have the pseudo path {0:?}: give one of them another `pseudo`")]
    SamePath(String),
    /// Two exports with one number.
    #[error("the exports {0:?} and {1:?} have the same number {2}: give one of them another `fsid`")]
    SameId(String, String, u32),
    /// Number 0 is the pseudo file system's.
    #[error("export {0:?}: number 0 is taken by the pseudo file system: give it an `fsid` from 1")]
    ZeroId(String),
    /// A rule of the export has no flavor, so that it would be of no use.
    #[error("export {0:?} allows no security flavor; allowed are sys, krb5, krb5i and krb5p")]
    NoFlavor(String),
    /// More rules than the limit.
    #[error("export {0:?} has more than {RULES_MAX} rules")]
    RulesMax(String),
    /// Locations that clients cannot read.
    #[error(
        "export {path:?}: its locations take {bytes} bytes, but clients read {LOCATIONS_BYTES_MAX}: name fewer"
    )]
    Locations {
        /// The pseudo path of the export.
        path: String,
        /// Their size in fs_locations.
        bytes: usize,
    },
    /// A referral without a location, or at a place where clients cannot follow it.
    #[error("export {path:?}: {why}")]
    Referral {
        /// The pseudo path of the export.
        path: String,
        /// The rule that it breaks.
        why: String,
    },
    /// Two names of the pseudo file system have one fileid (a coincidence of 2^-63).
    #[error("pseudo path {0:?} collides with another name: rename one of the two")]
    Collision(String),
}

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

    /// Says whether a client may see and use the export.
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
    let hash = crate::pseudo::path_hash(pseudo_path);
    ((hash >> 32) as u32 ^ hash as u32).max(1)
}

/// Brings a pseudo path into the one form "/" or "/a/b": repeated and trailing slashes go.
///
/// # Errors
/// `ExportsError::Path` when it is not absolute, too deep, or has a name that NFS does not allow.
pub fn normalise(path: &str) -> Result<String, ExportsError> {
    let refuse = || ExportsError::Path(path.to_owned());
    let rest = path.strip_prefix('/').ok_or_else(refuse)?;
    let names: Vec<&str> = rest.split('/').filter(|name| !name.is_empty()).collect();
    let bad =
        |name: &&str| matches!(*name, "." | "..") || name.len() > PSEUDO_NAME_MAX || name.contains('\0');
    if names.len() > PSEUDO_DEPTH_MAX || names.iter().any(bad) {
        return Err(refuse());
    }
    Ok(format!("/{}", names.join("/")))
}

/// An immutable set of exports with the pseudo file system above them.
#[derive(Debug)]
pub struct ExportTable {
    exports: Vec<Arc<Export>>,
    /// Places in `exports` by number, in order of the numbers.
    by_id: Vec<(u32, usize)>,
    pseudo: Arc<PseudoFs>,
    /// The names and addresses of this server.
    addresses: Vec<ServerAddress>,
}

impl ExportTable {
    /// Returns the same table with exports that are counted by themselves.
    pub(crate) fn copy(&self) -> Self {
        let exports = self.exports.iter().map(|export| Arc::new(Export::clone(export)));
        Self {
            exports: exports.collect(),
            by_id: self.by_id.clone(),
            pseudo: Arc::clone(&self.pseudo),
            addresses: self.addresses.clone(),
        }
    }

    /// Checks the exports and builds the names above them; `now` becomes the times and the change
    /// attribute of the pseudo directories, so that clients notice a reload.
    ///
    /// # Errors
    /// The first export that is wrong or clashes with an earlier one.
    pub fn new(exports: Vec<Export>, now: Timestamp) -> Result<Self, ExportsError> {
        let exports: Vec<Arc<Export>> = exports.into_iter().map(Arc::new).collect();
        let mut by_id: HashMap<u32, usize> = HashMap::new();
        for (index, export) in exports.iter().enumerate() {
            check(export)?;
            let first = by_id.insert(export.id, index).and_then(|first| exports.get(first));
            if let Some(first) = first.filter(|first| first.pseudo_path != export.pseudo_path) {
                let (a, b) = (first.pseudo_path.clone(), export.pseudo_path.clone());
                return Err(ExportsError::SameId(a, b, export.id));
            }
        }
        let pseudo = Arc::new(PseudoFs::new(&exports, now)?);
        let mut by_id: Vec<(u32, usize)> = by_id.into_iter().collect();
        by_id.sort_unstable();
        let table = Self { exports, by_id, pseudo, addresses: Vec::new() };
        table.check_locations()?;
        Ok(table)
    }

    /// Sets the names and addresses of this server, under which clients find each present file
    /// system.
    ///
    /// # Errors
    /// `ExportsError::Locations` if an export's locations become too long with them.
    pub fn with_addresses(self, addresses: Vec<ServerAddress>) -> Result<Self, ExportsError> {
        let table = Self { addresses, ..self };
        table.check_locations()?;
        Ok(table)
    }

    /// Returns the names and addresses of this server.
    pub fn addresses(&self) -> &[ServerAddress] {
        &self.addresses
    }

    /// Finds an export by the number in a handle.
    pub fn by_id(&self, id: u32) -> Option<&Arc<Export>> {
        let at = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.by_id.get(at).and_then(|(_, index)| self.exports.get(*index))
    }

    /// Finds an export by its normalised pseudo path.
    pub fn by_path(&self, pseudo_path: &str) -> Option<&Arc<Export>> {
        self.exports.iter().find(|export| export.pseudo_path == pseudo_path)
    }

    /// Returns all exports in the order they were given.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Export>> {
        self.exports.iter()
    }

    /// Says whether a client may use any export.
    ///
    /// # Errors
    /// The name that must be looked up first.
    pub fn admits(&self, peer: ClientPeer) -> Result<bool, Unresolved> {
        any_admits(&self.exports, peer)
    }

    /// Returns the names above the exports.
    pub fn pseudo(&self) -> &PseudoFs {
        &self.pseudo
    }
}

fn check(export: &Export) -> Result<(), ExportsError> {
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

/// Says whether any of the exports admits a client.
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
