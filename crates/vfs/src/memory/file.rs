//! An open file of the memory backend.

use super::{node::Node, setattr};
use crate::{Attributes, OpenFile, VfsResult};
use std::sync::Arc;

/// Keeps the object alive, also after its last name is gone.
#[derive(Debug)]
pub(super) struct MemoryFile {
    node: Arc<Node>,
}

impl MemoryFile {
    pub(super) fn new(node: Arc<Node>) -> Self {
        Self { node }
    }
}

impl OpenFile for MemoryFile {
    fn read_at(&self, into: &mut Vec<u8>, count: usize, offset: u64) -> VfsResult<bool> {
        Ok(self.node.read().content()?.read(into, count, offset))
    }

    fn write_at(&self, data: &[u8], offset: u64) -> VfsResult<usize> {
        let mut inner = self.node.write();
        let written = inner.content_mut()?.write(data, offset)?;
        if written > 0 {
            inner.drop_set_id();
            inner.touch_data();
        }
        Ok(written)
    }

    fn sync(&self) -> VfsResult<()> {
        Ok(())
    }

    fn getattr(&self) -> VfsResult<Attributes> {
        Ok(self.node.attributes())
    }

    fn set_size(&self, size: u64) -> VfsResult<()> {
        setattr::set_size(&mut self.node.write(), size)
    }
}
