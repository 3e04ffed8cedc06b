//! The pseudo file system: the names above the exports (RFC 8881 section 7.3).
//!
//! A path leads to a [`Place`]: a directory of the pseudo file system, or the root of an export.
//! The server calls
//! - [`PseudoFs::root`] for PUTROOTFH,
//! - [`PseudoFs::lookup`] and [`PseudoFs::parent`] for LOOKUP and LOOKUPP,
//! - [`PseudoFs::entries`] for READDIR and [`PseudoFs::attributes`] for GETATTR,
//! - [`PseudoFs::flavors`] for SECINFO.
//!
//! Each takes the client: exports that do not admit it do not exist for it. Where a rule of an
//! export needs the client's name, which is not known yet, the answer is [`Unresolved`].
//!
//! An export may lie above others ("/" and "/data"). Then `lookup` in `Place::Export` finds the
//! names that lie on that export's root directory; they hide entries of the same name in the
//! backend, so the server asks here first when the current filehandle is the root of an export. A
//! pseudo directory is named by its fileid, which is derived from its path: handles survive
//! restarts and reloads.

use crate::export::any_admits;
use crate::pseudo_path::path_hash;
use crate::{Attributes, ClientPeer, Export, ExportsError, FileType, SecFlavor, Timestamp, Unresolved};
use std::{collections::HashMap, sync::Arc};

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

    fn visible(&self, peer: ClientPeer) -> Result<bool, Unresolved> {
        any_admits(&self.below, peer)
    }

    /// Returns where the node leads for this client: its export, or the pseudo directory when the
    /// client may not use that export but others below it.
    fn place_for(&self, peer: ClientPeer) -> Result<Place, Unresolved> {
        Ok(match &self.export {
            Some(export) if !export.admits(peer)? => Place::Node(self.fileid),
            _ => self.place(),
        })
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
    ///
    /// # Errors
    /// The name that must be looked up first.
    pub fn root(&self, peer: ClientPeer) -> Result<Place, Unresolved> {
        self.nodes.get(ROOT).map_or(Ok(Place::Node(path_hash("/"))), |node| node.place_for(peer))
    }

    /// Returns whether a pseudo directory (named by a handle's fileid) exists for this client.
    ///
    /// # Errors
    /// The name that must be looked up first.
    pub fn contains(&self, fileid: u64, peer: ClientPeer) -> Result<bool, Unresolved> {
        match self.node(Place::Node(fileid)) {
            Some(node) => Ok(fileid == path_hash("/") || node.visible(peer)?),
            None => Ok(false),
        }
    }

    /// Finds a name in a pseudo directory, or a name that lies on the root directory of an export.
    ///
    /// # Errors
    /// The name of the client that must be looked up first.
    pub fn lookup(&self, place: Place, name: &[u8], peer: ClientPeer) -> Result<Option<Place>, Unresolved> {
        match self.find(place, name) {
            Some(child) if child.visible(peer)? => child.place_for(peer).map(Some),
            _ => Ok(None),
        }
    }

    fn find(&self, place: Place, name: &[u8]) -> Option<&PseudoNode> {
        let name = std::str::from_utf8(name).ok()?;
        self.nodes.get(self.child(self.index(place)?, name)?)
    }

    /// Returns an export at or below a name that does not exist for the client: no export there
    /// admits it.
    pub fn hidden(&self, place: Place, name: &[u8], peer: ClientPeer) -> Option<&Export> {
        let child = self.find(place, name)?;
        child.below.first().filter(|_| matches!(child.visible(peer), Ok(false))).map(Arc::as_ref)
    }

    /// Returns the directory above a pseudo directory or above the root of an export; `None` at the
    /// top.
    ///
    /// # Errors
    /// The name that must be looked up first.
    pub fn parent(&self, place: Place, peer: ClientPeer) -> Result<Option<Place>, Unresolved> {
        let Some(index) = self.index(place).filter(|index| *index != ROOT) else { return Ok(None) };
        let parent = self.nodes.get(index).and_then(|node| self.nodes.get(node.parent));
        parent.map(|parent| parent.place_for(peer)).transpose()
    }

    /// Checks that it is known which entries of a directory the client may see.
    ///
    /// # Errors
    /// The name that must be looked up first.
    pub fn check_entries(&self, place: Place, peer: ClientPeer) -> Result<(), Unresolved> {
        self.children(place).try_for_each(|node| node.visible(peer).map(drop))
    }

    /// Returns the entries after `cookie` (0: all) that the client may see, in the order of their
    /// cookies. For `Place::Export` these are the names that lie on the export's root directory.
    /// Entries of which that is unknown are left out.
    pub fn entries(
        &self,
        place: Place,
        cookie: u64,
        peer: ClientPeer,
    ) -> impl Iterator<Item = PseudoEntry<'_>> {
        self.children(place).filter(move |node| node.fileid > cookie).filter_map(move |node| {
            let entry =
                |place| PseudoEntry { cookie: node.fileid, name: &node.name, place, fileid: node.fileid };
            node.visible(peer).ok()?.then(|| node.place_for(peer).ok().map(entry))?
        })
    }

    fn children(&self, place: Place) -> impl Iterator<Item = &PseudoNode> {
        let children = self.node(place).map_or(&[][..], |node| node.children.as_slice());
        children.iter().filter_map(|child| self.nodes.get(*child))
    }

    /// Returns the fileid of a pseudo directory, or the one that an export's root covers.
    pub fn fileid(&self, place: Place) -> Option<u64> {
        self.node(place).map(|node| node.fileid)
    }

    /// Returns the path of the file system that a pseudo directory is in: of the topmost directory
    /// from which only pseudo directories lead to it (RFC 8881 section 11.16, fs_root).
    ///
    /// # Errors
    /// The name of the client that must be looked up first.
    pub fn root_path(&self, fileid: u64, peer: ClientPeer) -> Result<String, Unresolved> {
        let mut place = Place::Node(fileid);
        while let Some(above @ Place::Node(_)) = self.parent(place, peer)? {
            place = above;
        }
        let mut names = Vec::new();
        let mut node = self.node(place);
        while let Some(below) = node.filter(|node| !node.name.is_empty()) {
            names.push(below.name.as_str());
            node = self.nodes.get(below.parent);
        }
        names.reverse();
        Ok(format!("/{}", names.join("/")))
    }

    /// Returns a pseudo directory's attributes: owned by root, mode 0555, not changing until a
    /// reload.
    pub fn attributes(&self, fileid: u64, peer: ClientPeer) -> Option<Attributes> {
        let node = self.node(Place::Node(fileid))?;
        let directories = self.entries(Place::Node(fileid), 0, peer).count();
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

    /// Returns the flavors that a pseudo directory allows a client: each flavor of the exports
    /// below, in their order, so that every export can be reached with its own flavor. A pseudo
    /// root without exports for the client allows all. A caller that can use no flavor of any
    /// export (see [`ExportRule::flavors_for`](crate::ExportRule::flavors_for)) gets an empty list.
    ///
    /// # Errors
    /// The name that must be looked up first.
    pub fn flavors(&self, fileid: u64, peer: ClientPeer) -> Result<Vec<SecFlavor>, Unresolved> {
        let FlavorsBelow { known, unresolved, .. } = self.flavors_below(fileid, peer);
        unresolved.map_or(Ok(known), Err)
    }

    /// As [`PseudoFs::flavors`], but takes in all rules of an export of which it is unknown whether
    /// it admits the client. The directory shows only exports that do.
    pub fn flavors_at_most(&self, fileid: u64, peer: ClientPeer) -> Vec<SecFlavor> {
        let FlavorsBelow { mut known, possible, .. } = self.flavors_below(fileid, peer);
        possible.into_iter().for_each(|flavor| add(&mut known, flavor));
        known
    }

    /// Returns whether a pseudo directory allows a client a flavor.
    ///
    /// # Errors
    /// The name that must be looked up first.
    pub fn allows(&self, fileid: u64, flavor: SecFlavor, peer: ClientPeer) -> Result<bool, Unresolved> {
        let Some(node) = self.node(Place::Node(fileid)) else { return Ok(false) };
        let (mut admitted, mut unresolved) = (false, None);
        for export in &node.below {
            match export.rule_for(peer) {
                Ok(None) => {}
                Ok(Some(rule)) if export.rule(rule).allows(flavor, peer) => return Ok(true),
                Ok(Some(_)) => admitted = true,
                Err(first) => unresolved = unresolved.or(Some(first)),
            }
        }
        unresolved.map_or(Ok(!admitted), Err)
    }

    fn flavors_below(&self, fileid: u64, peer: ClientPeer) -> FlavorsBelow {
        let mut below = FlavorsBelow::default();
        let Some(node) = self.node(Place::Node(fileid)) else { return below };
        let mut admitted = false;
        for export in &node.below {
            match export.rule_for(peer) {
                Ok(None) => {}
                Ok(Some(rule)) => {
                    admitted = true;
                    export.rule(rule).flavors_for(peer).for_each(|flavor| add(&mut below.known, flavor));
                }
                Err(unresolved) => {
                    let all = export.rules.iter().flat_map(|rule| rule.flavors_for(peer));
                    all.for_each(|flavor| add(&mut below.possible, flavor));
                    below.unresolved = below.unresolved.or(Some(unresolved));
                }
            }
        }
        if !admitted && below.unresolved.is_none() {
            below.known = SecFlavor::ALL.to_vec();
        }
        below
    }
}

/// The flavors of the exports at and below a pseudo directory.
#[derive(Default)]
struct FlavorsBelow {
    /// The flavors of exports that admit the client.
    known: Vec<SecFlavor>,
    /// The flavors of exports that may admit the client.
    possible: Vec<SecFlavor>,
    unresolved: Option<Unresolved>,
}

fn add(list: &mut Vec<SecFlavor>, flavor: SecFlavor) {
    if !list.contains(&flavor) {
        list.push(flavor);
    }
}
