//! Exports and their rules.
//!
//! [`Export`] is one exported tree with its rules, [`ExportTable`] an immutable set of exports
//! together with the [`PseudoFs`] above, [`crate::Exports`] the holder that a reload swaps. A
//! request takes one snapshot and keeps it.

use crate::{Backend, Caller, Network, PseudoFs, Timestamp};
use std::{
    collections::HashMap,
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
    sync::Arc,
};

/// Longest pseudo path in components.
pub const PSEUDO_DEPTH_MAX: usize = 64;
/// Longest component of a pseudo path in bytes.
pub const PSEUDO_NAME_MAX: usize = 255;
/// The first source port that any program may use. Lower ports need a privilege (RFC 6335 section
/// 6).
pub(crate) const UNPRIVILEGED_PORT: u16 = 1024;
/// The user and group `nobody` of Linux, the default for squashed callers.
pub const ANON_ID: u32 = 65534;

/// A security flavor as an administrator names it (`sys`, `krb5`, `krb5i`, `krb5p`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecFlavor {
    /// AUTH_SYS: the client's word.
    Sys,
    /// RPCSEC_GSS with Kerberos, headers protected (rpc_gss_svc_none).
    Krb5,
    /// As `Krb5`, with integrity of the data (rpc_gss_svc_integrity).
    Krb5i,
    /// As `Krb5i`, encrypted (rpc_gss_svc_privacy).
    Krb5p,
}

impl SecFlavor {
    /// All flavors, strongest first.
    pub const ALL: [Self; 4] = [Self::Krb5p, Self::Krb5i, Self::Krb5, Self::Sys];
    /// The flavors that authenticate the caller, strongest first: the default of an export.
    pub const KERBEROS: [Self; 3] = [Self::Krb5p, Self::Krb5i, Self::Krb5];

    /// Returns the name as in `sec=`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sys => "sys",
            Self::Krb5 => "krb5",
            Self::Krb5i => "krb5i",
            Self::Krb5p => "krb5p",
        }
    }
}

impl fmt::Display for SecFlavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SecFlavor {
    type Err = ExportsError;

    fn from_str(text: &str) -> Result<Self, ExportsError> {
        let found = Self::ALL.into_iter().find(|flavor| flavor.name() == text);
        found.ok_or_else(|| ExportsError::Flavor(text.to_owned()))
    }
}

/// The callers whose identity the export replaces by its anonymous user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Squash {
    /// No caller is squashed.
    None,
    /// User 0 and group 0 only.
    #[default]
    Root,
    /// Every caller is squashed.
    All,
}

impl Squash {
    /// Every rule, for tables and parsers.
    pub const ALL: [Self; 3] = [Self::None, Self::Root, Self::All];

    /// Returns the rule's name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Root => "root",
            Self::All => "all",
        }
    }
}

impl FromStr for Squash {
    type Err = ExportsError;

    fn from_str(text: &str) -> Result<Self, ExportsError> {
        let found = Self::ALL.into_iter().find(|rule| rule.name() == text);
        found.ok_or_else(|| ExportsError::Squash(text.to_owned()))
    }
}

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
    /// The export has no flavor, so that it would be unusable.
    #[error("export {0:?} allows no security flavor; allowed are sys, krb5, krb5i and krb5p")]
    NoFlavor(String),
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
    /// Allowed flavors in order of preference, not empty.
    pub flavors: Vec<SecFlavor>,
    /// Flavors by client network, which replace `flavors`; no list is empty. The first network that
    /// contains the client counts.
    pub flavors_from: Vec<(Network, Vec<SecFlavor>)>,
    /// Whether `sys` requires a source port below [`UNPRIVILEGED_PORT`]. A host that reserves these
    /// ports for privileged programs then speaks for its users, and no user speaks for others.
    /// RPCSEC_GSS authenticates the caller, so that the port does not matter.
    pub secure: bool,
    /// Whether changes are refused with NFS4ERR_ROFS.
    pub read_only: bool,
    /// The callers whose identity is replaced.
    pub squash: Squash,
    /// Whether clients may set the set-user-ID and set-group-ID bits of files.
    pub setid: bool,
    /// Whether tickets count that a service got in a user's name, by constrained delegation.
    pub delegated: bool,
    /// User for squashed and unknown callers.
    pub anon_uid: u32,
    /// Group for squashed and unknown callers.
    pub anon_gid: u32,
    /// Networks that may use it; empty: all.
    pub networks: Vec<Network>,
}

impl Export {
    /// Makes a writable export for all clients with Kerberos, root squashed to [`ANON_ID`]; fields
    /// may be changed after. `secure` is on, for the time when somebody adds `sys`.
    ///
    /// # Errors
    /// `ExportsError::Path` for a path that cannot be one.
    pub fn new(pseudo_path: &str, backend: Arc<dyn Backend>) -> Result<Self, ExportsError> {
        let pseudo_path = normalise(pseudo_path)?;
        Ok(Self {
            id: export_id(&pseudo_path),
            pseudo_path,
            backend,
            flavors: SecFlavor::KERBEROS.to_vec(),
            flavors_from: Vec::new(),
            secure: true,
            read_only: false,
            squash: Squash::default(),
            setid: true,
            delegated: true,
            anon_uid: ANON_ID,
            anon_gid: ANON_ID,
            networks: Vec::new(),
        })
    }

    /// Says whether a client may see and use the export from its address.
    pub fn admits(&self, client: IpAddr) -> bool {
        self.networks.is_empty() || self.networks.iter().any(|network| network.contains(client))
    }

    /// Returns the flavors that are named for a client's address, in order of preference.
    pub fn flavors_named(&self, client: IpAddr) -> &[SecFlavor] {
        let special = self.flavors_from.iter().find(|(network, _)| network.contains(client));
        special.map_or(&self.flavors, |(_, flavors)| flavors)
    }

    /// Returns the flavors that a caller may use from its address and port, in order of preference.
    /// May be empty: `sys` alone, and a port that any program may use.
    pub fn flavors_for(&self, client: SocketAddr) -> impl Iterator<Item = SecFlavor> + '_ {
        let insecure = self.secure && client.port() >= UNPRIVILEGED_PORT;
        let usable = move |flavor: &SecFlavor| !(insecure && *flavor == SecFlavor::Sys);
        self.flavors_named(client.ip()).iter().copied().filter(usable)
    }

    /// Says whether a caller may use the flavor from its address and port.
    pub fn allows(&self, flavor: SecFlavor, client: SocketAddr) -> bool {
        self.flavors_for(client).any(|usable| usable == flavor)
    }

    /// Returns the user for callers without an identity.
    pub fn anonymous(&self) -> Caller {
        Caller { uid: self.anon_uid, gid: self.anon_gid, groups: [].into() }
    }

    /// Returns the caller that the backend sees: the authenticated one (by Kerberos or AUTH_SYS)
    /// after squashing; `None` (AUTH_NONE, a principal without account) is the anonymous user.
    ///
    /// With `Squash::Root` user 0 becomes the anonymous user without groups, and group 0 of other
    /// users becomes the anonymous group.
    pub fn squash(&self, caller: Option<&Caller>) -> Caller {
        match self.unsquashed(caller) {
            None => self.anonymous(),
            Some(caller) if self.squash == Squash::Root => self.squash_group_zero(caller),
            Some(caller) => caller.clone(),
        }
    }

    /// Returns the user of [`Export::squash`] alone.
    pub fn squash_uid(&self, caller: Option<&Caller>) -> u32 {
        self.unsquashed(caller).map_or(self.anon_uid, |caller| caller.uid)
    }

    /// The caller, where that is not the anonymous user here.
    fn unsquashed<'c>(&self, caller: Option<&'c Caller>) -> Option<&'c Caller> {
        caller.filter(|caller| match self.squash {
            Squash::None => true,
            Squash::Root => caller.uid != 0,
            Squash::All => false,
        })
    }

    fn squash_group_zero(&self, caller: &Caller) -> Caller {
        let anon = |gid: u32| if gid == 0 { self.anon_gid } else { gid };
        let groups = if caller.groups.contains(&0) {
            caller.groups.iter().copied().map(anon).collect()
        } else {
            Arc::clone(&caller.groups)
        };
        Caller { uid: caller.uid, gid: anon(caller.gid), groups }
    }
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export")
            .field("id", &self.id)
            .field("pseudo_path", &self.pseudo_path)
            .field("flavors", &self.flavors)
            .field("flavors_from", &self.flavors_from)
            .field("secure", &self.secure)
            .field("read_only", &self.read_only)
            .field("squash", &self.squash)
            .field("networks", &self.networks)
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
}

impl ExportTable {
    /// Returns the same table with exports that are counted by themselves.
    pub(crate) fn copy(&self) -> Self {
        let exports = self.exports.iter().map(|export| Arc::new(Export::clone(export)));
        Self { exports: exports.collect(), by_id: self.by_id.clone(), pseudo: Arc::clone(&self.pseudo) }
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
        Ok(Self { exports, by_id, pseudo })
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

    /// Says whether a client may use any export from its address.
    pub fn admits(&self, client: IpAddr) -> bool {
        self.exports.iter().any(|export| export.admits(client))
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
    if export.flavors.is_empty() || export.flavors_from.iter().any(|(_, flavors)| flavors.is_empty()) {
        return Err(ExportsError::NoFlavor(export.pseudo_path.clone()));
    }
    Ok(())
}
