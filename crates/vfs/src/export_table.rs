//! The set of exports.
//!
//! [`Export`] is one exported tree with its rules, [`ExportTable`] an immutable set of exports
//! together with the [`PseudoFs`] above, [`crate::Exports`] the holder that a reload swaps. A
//! request takes one snapshot and keeps it.

use crate::export::{any_admits, check};
use crate::{ClientPeer, Export, ExportsError, PseudoFs, ServerAddress, Timestamp, Unresolved};
use std::{collections::HashMap, sync::Arc};

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

    /// Returns whether a client may use any export.
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
