//! Extended attributes of one object.

use super::budget::MemoryBudget;
use crate::{VfsError, VfsResult, XATTR_NAME_MAX, XATTR_SIZE_MAX, XattrHow};
use std::{collections::BTreeMap, sync::Arc};

/// Names and values, taken from the budget.
#[derive(Debug)]
pub(super) struct Xattrs {
    held: BTreeMap<Vec<u8>, Vec<u8>>,
    budget: Arc<MemoryBudget>,
}

impl Xattrs {
    pub(super) fn new(budget: &Arc<MemoryBudget>) -> Self {
        Self { held: BTreeMap::new(), budget: Arc::clone(budget) }
    }

    pub(super) fn get(&self, name: &[u8]) -> VfsResult<&[u8]> {
        self.held.get(name).map(Vec::as_slice).ok_or(VfsError::Noxattr)
    }

    pub(super) fn names(&self) -> Vec<Vec<u8>> {
        self.held.keys().cloned().collect()
    }

    pub(super) fn set(&mut self, name: &[u8], value: &[u8], how: XattrHow) -> VfsResult<()> {
        match (how, self.held.contains_key(name)) {
            (XattrHow::Create, true) => return Err(VfsError::Exist),
            (XattrHow::Replace, false) => return Err(VfsError::Noxattr),
            _ => {}
        }
        if name.is_empty() || name.len() > XATTR_NAME_MAX {
            return Err(VfsError::Nametoolong);
        }
        if value.len() > XATTR_SIZE_MAX {
            return Err(VfsError::Xattr2big);
        }
        let names: usize = self.held.keys().map(|name| name.len() + 1).sum();
        if names + name.len() + 1 > XATTR_SIZE_MAX {
            return Err(VfsError::Nospc);
        }
        self.budget.take_bytes((name.len() + value.len()) as u64)?;
        if let Some(old) = self.held.insert(name.to_vec(), value.to_vec()) {
            self.budget.give_bytes((name.len() + old.len()) as u64);
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> VfsResult<()> {
        let old = self.held.remove(name).ok_or(VfsError::Noxattr)?;
        self.budget.give_bytes((name.len() + old.len()) as u64);
        Ok(())
    }
}

impl Drop for Xattrs {
    fn drop(&mut self) {
        let held: usize = self.held.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.budget.give_bytes(held as u64);
    }
}
