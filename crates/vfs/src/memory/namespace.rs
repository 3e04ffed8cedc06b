//! Changes of names: create, link, remove, rename.
//!
//! Each runs under the name-space lock; of the objects' own locks only one is held at a time.

use super::{
    LINK_MAX, MemoryBackend, NAME_MAX, ROOT_INO, SYMLINK_MAX,
    content::Content,
    directory::Directory,
    node::{Body, EXECUTE, Node, NodeState, S_ISGID, WRITE},
    setattr,
};
use crate::{Caller, FileType, NewObject, ObjectHandle, SetAttributes, VfsError, VfsResult};
use std::sync::Arc;

/// The object to create.
pub(super) enum New<'a> {
    Regular,
    Other(NewObject<'a>),
}

/// A directory and a name in it.
type NameInDirectory<'a> = (&'a ObjectHandle, &'a [u8]);

impl MemoryBackend {
    /// Makes an object under a new name.
    pub(super) fn make(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        new: New<'_>,
        set: &SetAttributes,
    ) -> VfsResult<Arc<Node>> {
        let _names = self.change_names();
        let parent = self.node(directory)?;
        self.writable(caller, &parent)?;
        if self.find(&parent, name)?.is_some() {
            return Err(VfsError::Exist);
        }
        let inner = self.new_inner(caller, &parent, new, set)?;
        let is_directory = matches!(inner.body, Body::Directory(_));
        if is_directory && parent.read().nlink >= LINK_MAX {
            return Err(VfsError::Mlink);
        }
        let node = Node::new(self.nodes.next_ino(), inner, &self.budget)?;
        let mut above = parent.write();
        above.directory_mut()?.insert(name, node.ino)?;
        above.nlink += u32::from(is_directory);
        above.touch_data();
        // Before others can find the name: a handle that looks stale sends them looking again.
        self.nodes.insert(&node);
        drop(above);
        Ok(node)
    }

    fn new_inner(
        &self,
        caller: &Caller,
        parent: &Node,
        new: New<'_>,
        set: &SetAttributes,
    ) -> VfsResult<NodeState> {
        let device = matches!(new, New::Other(NewObject::Block(..) | NewObject::Character(..)));
        if device && caller.uid != 0 {
            return Err(VfsError::Perm);
        }
        let (body, default_mode) = self.body(parent.ino, new)?;
        let (inherits, group, default) = {
            let above = parent.read();
            (above.mode & S_ISGID != 0, above.gid, above.acls.get().default.clone())
        };
        let umask = set.umask.filter(|_| default.is_none()).unwrap_or(0);
        let gid = if inherits { group } else { caller.gid };
        setattr::check_owner(caller, caller.uid, gid, set)?;
        let mut mode = setattr::mode_for(caller, set.mode.unwrap_or(default_mode) & !umask, gid);
        if inherits && matches!(body, Body::Directory(_)) {
            mode |= S_ISGID;
        }
        let mut inner =
            NodeState::new(body, mode, set.uid.unwrap_or(caller.uid), set.gid.unwrap_or(gid), &self.budget);
        if let Some(default) = default {
            inner.inherit(&default)?;
        }
        let rest = SetAttributes { size: None, mode: None, uid: None, gid: None, ..set.clone() };
        setattr::apply(&mut inner, &Caller::root(), &rest)?;
        if let (Some(size), Body::Regular(content)) = (set.size, &mut inner.body) {
            content.set_size(size)?;
        }
        Ok(inner)
    }

    fn body(&self, parent: u64, new: New<'_>) -> VfsResult<(Body, u32)> {
        if let New::Other(new) = &new {
            new.check()?;
        }
        let special = |file_type, rdev| Ok((Body::Special(file_type, rdev), 0o600));
        match new {
            New::Regular => Ok((Body::Regular(Content::new(Arc::clone(&self.budget))), 0o600)),
            New::Other(NewObject::Directory) => {
                Ok((Body::Directory(Directory::new(parent, Arc::clone(&self.budget))), 0o700))
            }
            New::Other(NewObject::Symlink(target)) => match target.len() {
                ..=SYMLINK_MAX => Ok((Body::Symlink(target.into()), 0o777)),
                _ => Err(VfsError::Nametoolong),
            },
            New::Other(NewObject::Block(major, minor)) => special(FileType::Block, (major, minor)),
            New::Other(NewObject::Character(major, minor)) => special(FileType::Character, (major, minor)),
            New::Other(NewObject::Socket) => special(FileType::Socket, (0, 0)),
            New::Other(NewObject::Fifo) => special(FileType::Fifo, (0, 0)),
        }
    }

    pub(super) fn add_link(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<()> {
        let _names = self.change_names();
        let (node, parent) = (self.node(object)?, self.node(directory)?);
        {
            let inner = node.read();
            if matches!(inner.body, Body::Directory(_)) {
                return Err(VfsError::Isdir);
            }
            if inner.nlink >= LINK_MAX {
                return Err(VfsError::Mlink);
            }
        }
        self.writable(caller, &parent)?;
        if self.find(&parent, name)?.is_some() {
            return Err(VfsError::Exist);
        }
        let mut above = parent.write();
        above.directory_mut()?.insert(name, node.ino)?;
        above.touch_data();
        drop(above);
        let mut inner = node.write();
        inner.nlink += 1;
        inner.touch();
        Ok(())
    }

    pub(super) fn remove_name(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<()> {
        let _names = self.change_names();
        let parent = self.node(directory)?;
        self.writable(caller, &parent)?;
        let node = self.find(&parent, name)?.ok_or(VfsError::Noent)?;
        self.removable(caller, &parent, &node)?;
        if let Body::Directory(entries) = &node.read().body
            && !entries.is_empty()
        {
            return Err(VfsError::Notempty);
        }
        self.drop_name(&parent, name, &node)
    }

    /// Takes a name away and, with the last one, the object.
    fn drop_name(&self, parent: &Node, name: &[u8], node: &Node) -> VfsResult<()> {
        let mut above = parent.write();
        above.directory_mut()?.remove(name);
        above.touch_data();
        drop(above);
        self.unlink(parent, node);
        Ok(())
    }

    /// Counts one name less.
    fn unlink(&self, parent: &Node, node: &Node) {
        let mut inner = node.write();
        let is_directory = matches!(inner.body, Body::Directory(_));
        inner.nlink = if is_directory { 0 } else { inner.nlink.saturating_sub(1) };
        inner.touch();
        let gone = inner.nlink == 0;
        drop(inner);
        if is_directory {
            let mut above = parent.write();
            above.nlink = above.nlink.saturating_sub(1);
        }
        if gone {
            self.nodes.remove(node.ino);
        }
    }

    pub(super) fn rename_name(
        &self,
        caller: &Caller,
        from: NameInDirectory<'_>,
        to: NameInDirectory<'_>,
    ) -> VfsResult<()> {
        let _names = self.change_names();
        let (from_parent, to_parent) = (self.node(from.0)?, self.node(to.0)?);
        self.writable(caller, &from_parent)?;
        self.writable(caller, &to_parent)?;
        let node = self.find(&from_parent, from.1)?.ok_or(VfsError::Noent)?;
        let target = self.find(&to_parent, to.1)?;
        let is_directory = matches!(node.read().body, Body::Directory(_));
        if is_directory && self.is_below(&to_parent, node.ino) {
            return Err(VfsError::Inval);
        }
        if let Some(target) = &target {
            if target.ino == node.ino {
                return Ok(());
            }
            self.replaceable(caller, &to_parent, target, is_directory)?;
        }
        self.removable(caller, &from_parent, &node)?;
        if is_directory && from_parent.ino != to_parent.ino {
            // Its ".." changes.
            node.read().require(caller, WRITE)?;
            if to_parent.read().nlink >= LINK_MAX && target.is_none() {
                return Err(VfsError::Mlink);
            }
        }
        self.move_name(&node, (&from_parent, from.1), (&to_parent, to.1), target.as_deref())
    }

    fn replaceable(
        &self,
        caller: &Caller,
        parent: &Node,
        target: &Node,
        by_directory: bool,
    ) -> VfsResult<()> {
        match (&target.read().body, by_directory) {
            (Body::Directory(entries), true) if !entries.is_empty() => return Err(VfsError::Notempty),
            (Body::Directory(_), false) => return Err(VfsError::Exist),
            (Body::Directory(_), true) | (_, false) => {}
            (_, true) => return Err(VfsError::Exist),
        }
        self.removable(caller, parent, target)
    }

    fn move_name(
        &self,
        node: &Node,
        from: (&Node, &[u8]),
        to: (&Node, &[u8]),
        target: Option<&Node>,
    ) -> VfsResult<()> {
        {
            let mut above = to.0.write();
            above.directory_mut()?.insert(to.1, node.ino)?;
            above.touch_data();
        }
        {
            let mut above = from.0.write();
            above.directory_mut()?.remove(from.1);
            above.touch_data();
        }
        if let Some(target) = target {
            self.unlink(to.0, target);
        }
        let mut inner = node.write();
        inner.touch();
        if let Body::Directory(directory) = &mut inner.body {
            directory.parent = to.0.ino;
            drop(inner);
            let mut above = from.0.write();
            above.nlink = above.nlink.saturating_sub(1);
            drop(above);
            to.0.write().nlink += 1;
        }
        Ok(())
    }

    /// Makes a name lead to an object that has or had another name, or to nothing.
    pub(super) fn set_name(
        &self,
        directory: &ObjectHandle,
        name: &[u8],
        object: Option<&Arc<Node>>,
    ) -> VfsResult<()> {
        let _names = self.change_names();
        let parent = self.node(directory)?;
        let before = self.find(&parent, name)?;
        if before.as_ref().map(|node| node.ino) == object.map(|node| node.ino) {
            return Ok(());
        }
        if let Some(before) = before {
            self.drop_name(&parent, name, &before)?;
        }
        let Some(node) = object else { return Ok(()) };
        let mut above = parent.write();
        above.directory_mut()?.insert(name, node.ino)?;
        above.touch_data();
        let mut inner = node.write();
        inner.touch();
        if let Body::Directory(entries) = &mut inner.body {
            entries.parent = parent.ino;
            above.nlink += 1;
            let below =
                entries.after(0, usize::MAX).into_iter().filter_map(|(_, _, ino)| self.nodes.get(ino));
            let directories = below.filter(|node| matches!(node.read().body, Body::Directory(_))).count();
            inner.nlink = 2 + u32::try_from(directories).unwrap_or(u32::MAX - 2);
        } else {
            inner.nlink += 1;
        }
        drop(inner);
        self.nodes.insert(node);
        Ok(())
    }

    /// Returns whether a directory is `ino` or lies below it.
    fn is_below(&self, directory: &Arc<Node>, ino: u64) -> bool {
        let mut at = Some(Arc::clone(directory));
        while let Some(node) = at {
            if node.ino == ino {
                return true;
            }
            if node.ino == ROOT_INO {
                return false;
            }
            let parent = node.read().directory().map(|directory| directory.parent);
            at = parent.ok().and_then(|parent| self.nodes.get(parent));
        }
        false
    }

    fn writable(&self, caller: &Caller, directory: &Node) -> VfsResult<()> {
        let inner = directory.read();
        inner.directory()?;
        if inner.nlink == 0 {
            return Err(VfsError::Stale);
        }
        inner.require(caller, WRITE | EXECUTE)
    }

    fn find(&self, directory: &Node, name: &[u8]) -> VfsResult<Option<Arc<Node>>> {
        if name.is_empty() || matches!(name, b"." | b"..") || name.contains(&b'/') || name.contains(&0) {
            return Err(VfsError::Badname);
        }
        if name.len() > NAME_MAX {
            return Err(VfsError::Nametoolong);
        }
        Ok(directory.read().directory()?.get(name).and_then(|ino| self.nodes.get(ino)))
    }

    fn removable(&self, caller: &Caller, directory: &Node, object: &Node) -> VfsResult<()> {
        let uid = object.read().uid;
        if directory.read().sticky_against(caller, uid) { Err(VfsError::Perm) } else { Ok(()) }
    }
}
