//! Access control lists of one object.

use super::{
    budget::MemoryBudget,
    node::{Body, NodeState},
};
use crate::{ACL_ENTRIES_MAX, Acls, Caller, PosixAcl, VfsError, VfsResult};
use std::sync::Arc;

/// Bytes that a named entry is counted as.
const ENTRY: u64 = 16;

/// Both lists, taken from the budget.
#[derive(Debug)]
pub(super) struct HeldAcls {
    held: Acls,
    budget: Arc<MemoryBudget>,
}

impl HeldAcls {
    pub(super) fn new(budget: &Arc<MemoryBudget>) -> Self {
        Self { held: Acls::default(), budget: Arc::clone(budget) }
    }

    pub(super) fn get(&self) -> &Acls {
        &self.held
    }

    fn set(&mut self, acls: Acls) -> VfsResult<()> {
        let lists = [&acls.access, &acls.default];
        if lists.into_iter().flatten().any(|list| list.named() > ACL_ENTRIES_MAX) {
            return Err(VfsError::Nospc);
        }
        self.budget.take_bytes(size(&acls))?;
        self.budget.give_bytes(size(&self.held));
        self.held = acls;
        Ok(())
    }
}

impl Drop for HeldAcls {
    fn drop(&mut self) {
        self.budget.give_bytes(size(&self.held));
    }
}

fn size(acls: &Acls) -> u64 {
    let named: usize = [&acls.access, &acls.default].into_iter().flatten().map(PosixAcl::named).sum();
    named as u64 * ENTRY
}

impl NodeState {
    /// Sets both lists; the mode follows.
    pub(super) fn set_acls(&mut self, mut acls: Acls) -> VfsResult<()> {
        if matches!(self.body, Body::Symlink(_)) {
            return Err(VfsError::Notsupp);
        }
        if acls.default.is_some() && !matches!(self.body, Body::Directory(_)) {
            return Err(VfsError::Inval);
        }
        let mode = acls.access.as_ref().map(PosixAcl::mode);
        acls.access = acls.access.filter(|list| !list.is_minimal());
        self.acls.set(acls)?;
        self.mode = (self.mode & !0o777) | mode.unwrap_or(self.mode & 0o777);
        self.touch();
        Ok(())
    }

    /// Changes the mode, and the list with it.
    pub(super) fn set_mode(&mut self, mode: u32) {
        self.mode = mode;
        if let Some(list) = &mut self.acls.held.access {
            list.set_mode(mode);
        }
    }

    /// Applies a directory's default list to a new object; the mode limits the rights.
    pub(super) fn inherit(&mut self, default: &PosixAcl) -> VfsResult<()> {
        if matches!(self.body, Body::Symlink(_)) {
            return Ok(());
        }
        let mut access = default.clone();
        let asked = PosixAcl::of_mode(self.mode);
        access.owner &= asked.owner;
        access.other &= asked.other;
        match &mut access.mask {
            Some(mask) => *mask &= asked.group,
            None => access.group &= asked.group,
        }
        let default = matches!(self.body, Body::Directory(_)).then(|| default.clone());
        self.set_acls(Acls { access: Some(access), default })
    }

    /// Returns the rights of a caller other than the superuser, as one permission class.
    pub(super) fn rights(&self, caller: &Caller) -> u32 {
        let of_mode = PosixAcl::of_mode(self.mode);
        let list = self.acls.held.access.as_ref().unwrap_or(&of_mode);
        list.rights_of(caller, self.uid, self.gid).into()
    }
}
