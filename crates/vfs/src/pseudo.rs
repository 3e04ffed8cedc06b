//! The pseudo file system: the names above the exports (RFC 8881 section 7.3).
//!
//! A path leads to a [`Place`]: a directory of the pseudo file system, or the root of an export.
//! The server calls
//! - [`PseudoFs::root`] for PUTROOTFH,
//! - [`PseudoFs::lookup`] and [`PseudoFs::parent`] for LOOKUP and LOOKUPP,
//! - [`PseudoFs::entries`] for READDIR and [`PseudoFs::attributes`] for GETATTR,
//! - [`PseudoFs::flavors`] for SECINFO.
//!
//! Each takes the client's address: exports that do not admit the client do not exist for it.
//!
//! An export may lie above others ("/" and "/data"). Then `lookup` in `Place::Export` finds the
//! names that lie on that export's root directory; they hide entries of the same name in the
//! backend, so the server asks here first when the current filehandle is the root of an export. A
//! pseudo directory is named by its fileid, which is derived from its path: handles survive
//! restarts and reloads.
//! restarts and reloads.

use crate::{Attributes, Export, ExportsError, FileType, SecFlavor, Timestamp};
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// The fsid of the pseudo file system; exports have others.
pub const PSEUDO_FSID: (u64, u64) = (0, 0);

/// Where a name leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A directory of the pseudo file system, by fileid.
    Node(u64),
    /// The root of the export with this number.
    Export(u32),
}

/// One entry of a pseudo directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PseudoEntry<'a> {
    /// Where READDIR goes on after this entry; never 0, 1 or 2.
    pub cookie: u64,
    /// The entry's name, one component.
    pub name: &'a str,
    /// The place that the name leads to.
    pub place: Place,
    /// Its fileid in this file system (for an export: mounted_on_fileid, RFC 8881 section
    /// 5.8.2.23).
    pub fileid: u64,
}

#[derive(Debug)]
struct PseudoNode {
    fileid: u64,
    name: String,
    parent: usize,
    /// Sorted by fileid, which is the cookie.
    children: Vec<usize>,
    export: Option<Arc<Export>>,
    /// Flavors and addresses: the exports at and below this node.
    below: Vec<Arc<Export>>,
}

impl PseudoNode {
    fn place(&self) -> Place {
        match &self.export {
            Some(export) => Place::Export(export.id),
            None => Place::Node(self.fileid),
        }
    }

    fn visible(&self, client: IpAddr) -> bool {
        self.below.iter().any(|export| export.admits(client))
    }
}

/// The read-only tree of names above the exports.
#[derive(Debug)]
pub struct PseudoFs {
    /// Node 0 is the root.
    nodes: Vec<PseudoNode>,
    by_fileid: HashMap<u64, usize>,
    by_export: HashMap<u32, usize>,
    made: Timestamp,
}

const ROOT: usize = 0;

impl PseudoFs {
    /// Builds the tree; `made` becomes its times and its change attribute.
    ///
    /// # Errors
    /// `SamePath` for two exports at one place, `Collision` for two names with one fileid.
    pub fn new(exports: &[Arc<Export>], made: Timestamp) -> Result<Self, ExportsError> {
        let mut tree = Self { nodes: Vec::new(), by_fileid: HashMap::new(), by_export: HashMap::new(), made };
        tree.add("/", "", ROOT)?;
        for export in exports {
            tree.insert(export)?;
        }
        tree.sort_children();
        Ok(tree)
    }

    fn insert(&mut self, export: &Arc<Export>) -> Result<(), ExportsError> {
        let mut at = ROOT;
        let mut path = String::new();
        self.mark(at, export);
        for name in export.pseudo_path.split('/').filter(|name| !name.is_empty()) {
            path.push('/');
            path.push_str(name);
            at = match self.child(at, name) {
                Some(child) => child,
                None => self.add(&path, name, at)?,
            };
            self.mark(at, export);
        }
        if let Some(node) = self.nodes.get_mut(at)
            && node.export.replace(Arc::clone(export)).is_some()
        {
            return Err(ExportsError::SamePath(export.pseudo_path.clone()));
        }
        self.by_export.insert(export.id, at);
        Ok(())
    }

    fn add(&mut self, path: &str, name: &str, parent: usize) -> Result<usize, ExportsError> {
        let index = self.nodes.len();
        let fileid = path_hash(path);
        if self.by_fileid.insert(fileid, index).is_some() {
            return Err(ExportsError::Collision(path.to_owned()));
        }
        let node = PseudoNode {
            fileid,
            name: name.to_owned(),
            parent,
            children: Vec::new(),
            export: None,
            below: Vec::new(),
        };
        self.nodes.push(node);
        if index != ROOT
            && let Some(parent) = self.nodes.get_mut(parent)
        {
            parent.children.push(index);
        }
        Ok(index)
    }

    fn mark(&mut self, at: usize, export: &Arc<Export>) {
        if let Some(node) = self.nodes.get_mut(at) {
            node.below.push(Arc::clone(export));
        }
    }

    fn sort_children(&mut self) {
        let ids: Vec<u64> = self.nodes.iter().map(|node| node.fileid).collect();
        for node in &mut self.nodes {
            node.children.sort_by_key(|child| ids.get(*child).copied());
        }
    }

    fn index(&self, place: Place) -> Option<usize> {
        match place {
            Place::Node(fileid) => self.by_fileid.get(&fileid).copied(),
            Place::Export(id) => self.by_export.get(&id).copied(),
        }
    }

    fn node(&self, place: Place) -> Option<&PseudoNode> {
        self.nodes.get(self.index(place)?)
    }

    fn child(&self, at: usize, name: &str) -> Option<usize> {
        let children = &self.nodes.get(at)?.children;
        children.iter().copied().find(|child| self.nodes.get(*child).is_some_and(|node| node.name == name))
    }

    /// Returns where PUTROOTFH leads: the export at "/" if there is one that admits the client,
    /// else the pseudo root, which is there for everybody.
    pub fn root(&self, client: IpAddr) -> Place {
        match self.nodes.get(ROOT) {
            Some(PseudoNode { export: Some(export), .. }) if export.admits(client) => {
                Place::Export(export.id)
            }
            Some(node) => Place::Node(node.fileid),
            None => Place::Node(path_hash("/")),
        }
    }

    /// Returns where the node leads for this client: its export, or the pseudo directory when the
    /// client may not use that export but others below it.
    fn place_for(&self, node: &PseudoNode, client: IpAddr) -> Place {
        match &node.export {
            Some(export) if !export.admits(client) => Place::Node(node.fileid),
            _ => node.place(),
        }
    }

    /// Says whether a pseudo directory (named by a handle's fileid) exists for this client.
    pub fn contains(&self, fileid: u64, client: IpAddr) -> bool {
        let node = self.node(Place::Node(fileid));
        node.is_some_and(|node| fileid == path_hash("/") || node.visible(client))
    }

    /// Finds a name in a pseudo directory, or a name that lies on the root directory of an export.
    pub fn lookup(&self, place: Place, name: &[u8], client: IpAddr) -> Option<Place> {
        let name = std::str::from_utf8(name).ok()?;
        let child = self.nodes.get(self.child(self.index(place)?, name)?)?;
        child.visible(client).then(|| self.place_for(child, client))
    }

    /// Returns an export at or below a name that does not exist for the client: no export there
    /// admits its address.
    pub fn hidden(&self, place: Place, name: &[u8], client: IpAddr) -> Option<&Export> {
        let name = std::str::from_utf8(name).ok()?;
        let child = self.nodes.get(self.child(self.index(place)?, name)?)?;
        child.below.first().filter(|_| !child.visible(client)).map(Arc::as_ref)
    }

    /// Returns the directory above a pseudo directory or above the root of an export; `None` at the
    /// top.
    pub fn parent(&self, place: Place, client: IpAddr) -> Option<Place> {
        let index = self.index(place).filter(|index| *index != ROOT)?;
        let parent = self.nodes.get(self.nodes.get(index)?.parent)?;
        if parent.parent == ROOT && parent.name.is_empty() {
            return Some(self.root(client));
        }
        Some(self.place_for(parent, client))
    }

    /// Returns the entries after `cookie` (0: all) that the client may see, in the order of their
    /// cookies. For `Place::Export` these are the names that lie on the export's root directory.
    pub fn entries(
        &self,
        place: Place,
        cookie: u64,
        client: IpAddr,
    ) -> impl Iterator<Item = PseudoEntry<'_>> {
        let children = self.node(place).map_or(&[][..], |node| node.children.as_slice());
        let nodes = children.iter().filter_map(|child| self.nodes.get(*child));
        nodes.filter(move |node| node.fileid > cookie && node.visible(client)).map(move |node| PseudoEntry {
            cookie: node.fileid,
            name: &node.name,
            place: self.place_for(node, client),
            fileid: node.fileid,
        })
    }

    /// Returns the fileid of a pseudo directory, or the one that an export's root covers.
    pub fn fileid(&self, place: Place) -> Option<u64> {
        self.node(place).map(|node| node.fileid)
    }

    /// Returns a pseudo directory's attributes: owned by root, mode 0555, not changing until a
    /// reload.
    pub fn attributes(&self, fileid: u64, client: IpAddr) -> Option<Attributes> {
        let node = self.node(Place::Node(fileid))?;
        let directories = self.entries(Place::Node(fileid), 0, client).count();
        let nanoseconds = self.made.seconds.unsigned_abs().wrapping_mul(1_000_000_000);
        Some(Attributes {
            file_type: FileType::Directory,
            mode: 0o555,
            nlink: u32::try_from(directories).unwrap_or(u32::MAX).saturating_add(2),
            uid: 0,
            gid: 0,
            size: 4096,
            space_used: 0,
            rdev: (0, 0),
            fsid: PSEUDO_FSID,
            fileid: node.fileid,
            change: nanoseconds.wrapping_add(u64::from(self.made.nanoseconds)),
            atime: self.made,
            mtime: self.made,
            ctime: self.made,
            btime: Some(self.made),
        })
    }

    /// Returns the flavors that a place allows a client. An export allows its own. A pseudo
    /// directory allows each flavor of the exports below, in their order, so that every export can
    /// be reached with its own flavor. A pseudo root without exports for the client allows all. A
    /// caller that can use no flavor of any export (see [`Export::flavors_for`]) gets an empty
    /// list.
    pub fn flavors(&self, place: Place, client: SocketAddr) -> Vec<SecFlavor> {
        let Some(node) = self.node(place) else { return Vec::new() };
        if let (Place::Export(_), Some(export)) = (place, &node.export) {
            return export.flavors_for(client).collect();
        }
        let mut union = Vec::with_capacity(SecFlavor::ALL.len());
        let mut below = node.below.iter().filter(|export| export.admits(client.ip())).peekable();
        if below.peek().is_none() {
            return SecFlavor::ALL.to_vec();
        }
        for flavor in below.flat_map(|export| export.flavors_for(client)) {
            if !union.contains(&flavor) {
                union.push(flavor);
            }
        }
        union
    }
}

/// Hashes a path to a fileid (FNV-1a, 63 bits, above the reserved cookies): the same on every
/// machine.
pub(crate) fn path_hash(path: &str) -> u64 {
    let hash = path.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash >> 1).max(3)
}
