//! Background copies, which continue after the reply to COPY.

use super::CopyPool;
use crate::quiet::CopyGate;
use crate::{Executor, TaskPool};
use server::engine::{BackgroundCopy, CopyRunner};
use server::tenants::LimitedTenants;
use std::sync::{Arc, Weak};

/// Submits copies to their pool.
pub(super) struct Copies<E: Executor> {
    pub(super) pool: Weak<CopyPool<E>>,
    pub(super) gate: Arc<CopyGate>,
    pub(super) tenants: Arc<LimitedTenants>,
}

impl<E: Executor> CopyRunner for Copies<E> {
    fn submit(&self, export: u32, copy: Box<BackgroundCopy>) -> Result<(), Box<BackgroundCopy>> {
        let Some(task) = self.gate.admit(copy) else { return Ok(()) };
        let submitted = match self.pool.upgrade() {
            Some(pool) => pool.submit(export, self.tenants.export_weight(export), task, 0),
            None => Err(task),
        };
        submitted.map_err(|(copy, _)| copy)
    }
}
