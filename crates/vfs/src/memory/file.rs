//! An open file of the memory backend.

use super::{content::Content, node::Node, setattr};
use crate::{
    Advice, Attributes, Broken, Caller, Eof, Extent, FileData, Lease, LeaseKind, LockKind, OpenFile,
    RangeLocks, VfsError, VfsResult, copy_by_pieces,
};
use std::{any::Any, sync::Arc};

/// Keeps the object alive, also after its last name is gone.
#[derive(Debug)]
pub(super) struct MemoryFile {
    node: Arc<Node>,
}

impl MemoryFile {
    pub(super) fn new(node: Arc<Node>) -> Self {
        Self { node }
    }

    /// Changes the bytes, and with them the attributes that every write changes.
    fn change<T>(&self, run: impl FnOnce(&mut Content) -> VfsResult<T>) -> VfsResult<T> {
        let mut inner = self.node.write();
        let done = run(inner.content_mut()?)?;
        inner.drop_set_id();
        inner.touch_data();
        Ok(done)
    }
}

impl OpenFile for MemoryFile {
    fn read_at(&self, into: &mut Vec<u8>, count: usize, offset: u64) -> VfsResult<Eof> {
        Ok(Eof::reached_if(self.node.read().content()?.read(into, count, offset)))
    }

    fn read_now(&self, into: &mut Vec<u8>, count: usize, offset: u64) -> VfsResult<Option<Eof>> {
        self.read_at(into, count, offset).map(Some)
    }

    fn splice_at(&self, _count: usize, _offset: u64) -> VfsResult<Option<(FileData, Eof)>> {
        Ok(None)
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

    fn written_by(&self, _: &Caller) -> Option<Arc<dyn OpenFile>> {
        None
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

    fn seek(&self, what: Extent, offset: u64) -> VfsResult<Option<u64>> {
        self.node.read().content()?.seek(what, offset)
    }

    fn allocate(&self, offset: u64, length: u64) -> VfsResult<()> {
        self.change(|content| content.allocate(offset, length))
    }

    fn deallocate(&self, offset: u64, length: u64) -> VfsResult<()> {
        self.change(|content| content.deallocate(offset, length))
    }

    fn advise(&self, _advice: Advice, _offset: u64, _length: u64) -> bool {
        false
    }

    fn copy_range(
        &self,
        source: &dyn OpenFile,
        source_offset: u64,
        offset: u64,
        count: u64,
    ) -> VfsResult<u64> {
        copy_by_pieces(source, source_offset, count, |data, done| {
            self.write_at(data, offset.saturating_add(done))
        })
    }

    fn clone_range(
        &self,
        source: &dyn OpenFile,
        source_offset: u64,
        offset: u64,
        count: u64,
    ) -> VfsResult<()> {
        let source = source.as_any().and_then(|file| file.downcast_ref::<Self>()).ok_or(VfsError::Xdev)?;
        if !Arc::ptr_eq(&source.node.read().content()?.budget, &self.node.read().content()?.budget) {
            return Err(VfsError::Xdev);
        }
        let taken = source.node.read().content()?.to_clone(source_offset, count)?;
        let overlaps =
            source_offset < offset.saturating_add(taken.0) && offset < source_offset.saturating_add(taken.0);
        if Arc::ptr_eq(&source.node, &self.node) && overlaps {
            return Err(VfsError::Inval);
        }
        self.change(|content| content.place_clone(offset, taken))
    }

    fn lease(&self, _kind: LeaseKind, _broken: Broken) -> VfsResult<Option<Arc<dyn Lease>>> {
        Ok(None)
    }

    fn range_locks(&self, _kind: LockKind) -> VfsResult<Option<Box<dyn RangeLocks>>> {
        Ok(None)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}
