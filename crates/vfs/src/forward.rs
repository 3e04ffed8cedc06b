//! Macros that forward methods of a wrapper to the backend or file that it wraps.
//!
//! No method of [`Backend`](crate::Backend) and [`OpenFile`](crate::OpenFile) has a default, so a
//! wrapper that misses one does not compile. A wrapper names the methods that it forwards and
//! writes the others itself.

/// Forwards the named methods of [`Backend`](crate::Backend) to a field:
/// `forward_backend!(inner: root, features);`.
#[macro_export]
macro_rules! forward_backend {
    ($inner:ident: $($method:ident),+ $(,)?) => {
        $($crate::forward_backend_method! { $method $inner })+
    };
}

/// Forwards the named methods of [`OpenFile`](crate::OpenFile) to a field:
/// `forward_open_file!(inner: sync, getattr);`.
#[macro_export]
macro_rules! forward_open_file {
    ($inner:ident: $($method:ident),+ $(,)?) => {
        $($crate::forward_open_file_method! { $method $inner })+
    };
}

/// Writes one method of [`forward_backend!`].
#[doc(hidden)]
#[macro_export]
macro_rules! forward_backend_method {
    (root $inner:ident) => {
        fn root(&self) -> $crate::ObjectHandle {
            self.$inner.root()
        }
    };
    (features $inner:ident) => {
        fn features(&self) -> $crate::Features {
            self.$inner.features()
        }
    };
    (features_of $inner:ident) => {
        fn features_of(&self, object: &$crate::ObjectHandle) -> $crate::Features {
            self.$inner.features_of(object)
        }
    };
    (part $inner:ident) => {
        fn part(&self, object: &$crate::ObjectHandle) -> u64 {
            self.$inner.part(object)
        }
    };
    (mounted_on $inner:ident) => {
        fn mounted_on(&self, object: &$crate::ObjectHandle) -> Option<u64> {
            self.$inner.mounted_on(object)
        }
    };
    (has_mounts $inner:ident) => {
        fn has_mounts(&self, directory: &$crate::ObjectHandle) -> bool {
            self.$inner.has_mounts(directory)
        }
    };
    (identity $inner:ident) => {
        fn identity(&self, object: &$crate::ObjectHandle) -> Option<$crate::Identity> {
            self.$inner.identity(object)
        }
    };
    (may_wait $inner:ident) => {
        fn may_wait(&self) -> bool {
            self.$inner.may_wait()
        }
    };
    (answers_from_memory $inner:ident) => {
        fn answers_from_memory(&self, object: &$crate::ObjectHandle) -> bool {
            self.$inner.answers_from_memory(object)
        }
    };
    (seldom_waits $inner:ident) => {
        fn seldom_waits(&self, object: &$crate::ObjectHandle) -> bool {
            self.$inner.seldom_waits(object)
        }
    };
    (is_cached $inner:ident) => {
        fn is_cached(&self, object: &$crate::ObjectHandle) -> bool {
            self.$inner.is_cached(object)
        }
    };
    (lookup_now $inner:ident) => {
        fn lookup_now(
            &self,
            caller: &$crate::Caller,
            directory: &$crate::ObjectHandle,
            name: &[u8],
        ) -> $crate::VfsResult<Option<$crate::ObjectHandle>> {
            self.$inner.lookup_now(caller, directory, name)
        }
    };
    (getattr $inner:ident) => {
        fn getattr(&self, object: &$crate::ObjectHandle) -> $crate::VfsResult<$crate::Attributes> {
            self.$inner.getattr(object)
        }
    };
    (setattr $inner:ident) => {
        fn setattr(
            &self,
            caller: &$crate::Caller,
            object: &$crate::ObjectHandle,
            set: &$crate::SetAttributes,
        ) -> $crate::VfsResult<$crate::Attributes> {
            self.$inner.setattr(caller, object, set)
        }
    };
    (access $inner:ident) => {
        fn access(
            &self,
            caller: &$crate::Caller,
            object: &$crate::ObjectHandle,
        ) -> $crate::VfsResult<$crate::Permissions> {
            self.$inner.access(caller, object)
        }
    };
    (lookup $inner:ident) => {
        fn lookup(
            &self,
            caller: &$crate::Caller,
            directory: &$crate::ObjectHandle,
            name: &[u8],
        ) -> $crate::VfsResult<$crate::ObjectHandle> {
            self.$inner.lookup(caller, directory, name)
        }
    };
    (lookup_attributes $inner:ident) => {
        fn lookup_attributes(
            &self,
            caller: &$crate::Caller,
            directory: &$crate::ObjectHandle,
            name: &[u8],
        ) -> $crate::VfsResult<($crate::ObjectHandle, $crate::Attributes)> {
            self.$inner.lookup_attributes(caller, directory, name)
        }
    };
    (lookup_to_change $inner:ident) => {
        fn lookup_to_change(
            &self,
            caller: &$crate::Caller,
            directory: &$crate::ObjectHandle,
            name: &[u8],
        ) -> $crate::VfsResult<$crate::FoundObject> {
            self.$inner.lookup_to_change(caller, directory, name)
        }
    };
    (lookup_parent $inner:ident) => {
        fn lookup_parent(
            &self,
            caller: &$crate::Caller,
            directory: &$crate::ObjectHandle,
        ) -> $crate::VfsResult<$crate::ObjectHandle> {
            self.$inner.lookup_parent(caller, directory)
        }
    };
    (readlink $inner:ident) => {
        fn readlink(
            &self,
            caller: &$crate::Caller,
            object: &$crate::ObjectHandle,
        ) -> $crate::VfsResult<Vec<u8>> {
            self.$inner.readlink(caller, object)
        }
    };
    (open $inner:ident) => {
        fn open(
            &self,
            caller: &$crate::Caller,
            object: &$crate::ObjectHandle,
            access: $crate::OpenAccess,
        ) -> $crate::VfsResult<::std::sync::Arc<dyn $crate::OpenFile>> {
            self.$inner.open(caller, object, access)
        }
    };
    (open_own $inner:ident) => {
        fn open_own(
            &self,
            owner: &$crate::Caller,
            object: &$crate::ObjectHandle,
            access: $crate::OpenAccess,
        ) -> $crate::VfsResult<::std::sync::Arc<dyn $crate::OpenFile>> {
            self.$inner.open_own(owner, object, access)
        }
    };
    (create_file $inner:ident) => {
        fn create_file(
            &self,
            caller: &$crate::Caller,
            directory: &$crate::ObjectHandle,
            name: &[u8],
            access: $crate::OpenAccess,
            set: &$crate::SetAttributes,
        ) -> $crate::VfsResult<($crate::ObjectHandle, ::std::sync::Arc<dyn $crate::OpenFile>)> {
            self.$inner.create_file(caller, directory, name, access, set)
        }
    };
    (create $inner:ident) => {
        fn create(
            &self,
            caller: &$crate::Caller,
            directory: &$crate::ObjectHandle,
            name: &[u8],
            object: $crate::NewObject<'_>,
            set: &$crate::SetAttributes,
        ) -> $crate::VfsResult<$crate::ObjectHandle> {
            self.$inner.create(caller, directory, name, object, set)
        }
    };
    (link $inner:ident) => {
        fn link(
            &self,
            caller: &$crate::Caller,
            object: &$crate::ObjectHandle,
            directory: &$crate::ObjectHandle,
            name: &[u8],
        ) -> $crate::VfsResult<()> {
            self.$inner.link(caller, object, directory, name)
        }
    };
    (remove $inner:ident) => {
        fn remove(
            &self,
            caller: &$crate::Caller,
            directory: &$crate::ObjectHandle,
            name: &[u8],
            found: Option<&$crate::FoundObject>,
        ) -> $crate::VfsResult<()> {
            self.$inner.remove(caller, directory, name, found)
        }
    };
    (rename $inner:ident) => {
        fn rename(
            &self,
            caller: &$crate::Caller,
            from: (&$crate::ObjectHandle, &[u8]),
            to: (&$crate::ObjectHandle, &[u8]),
            found: Option<&$crate::RenamedObjects>,
        ) -> $crate::VfsResult<()> {
            self.$inner.rename(caller, from, to, found)
        }
    };
    (rename_new $inner:ident) => {
        fn rename_new(
            &self,
            caller: &$crate::Caller,
            from: (&$crate::ObjectHandle, &[u8]),
            to: (&$crate::ObjectHandle, &[u8]),
            source: &$crate::FoundObject,
        ) -> $crate::VfsResult<bool> {
            self.$inner.rename_new(caller, from, to, source)
        }
    };
    (readdir $inner:ident) => {
        fn readdir(
            &self,
            caller: &$crate::Caller,
            directory: &$crate::ObjectHandle,
            cookie: u64,
            entry: &mut dyn FnMut($crate::DirEntry<'_>) -> ::std::ops::ControlFlow<()>,
        ) -> $crate::VfsResult<$crate::Eof> {
            self.$inner.readdir(caller, directory, cookie, entry)
        }
    };
    (acls $inner:ident) => {
        fn acls(&self, object: &$crate::ObjectHandle) -> $crate::VfsResult<$crate::Acls> {
            self.$inner.acls(object)
        }
    };
    (quota $inner:ident) => {
        fn quota(
            &self,
            caller: &$crate::Caller,
            object: &$crate::ObjectHandle,
        ) -> $crate::VfsResult<Option<$crate::Quota>> {
            self.$inner.quota(caller, object)
        }
    };
    (get_xattr $inner:ident) => {
        fn get_xattr(
            &self,
            caller: &$crate::Caller,
            object: &$crate::ObjectHandle,
            name: &[u8],
        ) -> $crate::VfsResult<Vec<u8>> {
            self.$inner.get_xattr(caller, object, name)
        }
    };
    (set_xattr $inner:ident) => {
        fn set_xattr(
            &self,
            caller: &$crate::Caller,
            object: &$crate::ObjectHandle,
            name: &[u8],
            value: &[u8],
            how: $crate::XattrHow,
        ) -> $crate::VfsResult<()> {
            self.$inner.set_xattr(caller, object, name, value, how)
        }
    };
    (list_xattrs $inner:ident) => {
        fn list_xattrs(
            &self,
            caller: &$crate::Caller,
            object: &$crate::ObjectHandle,
        ) -> $crate::VfsResult<Vec<Vec<u8>>> {
            self.$inner.list_xattrs(caller, object)
        }
    };
    (remove_xattr $inner:ident) => {
        fn remove_xattr(
            &self,
            caller: &$crate::Caller,
            object: &$crate::ObjectHandle,
            name: &[u8],
        ) -> $crate::VfsResult<()> {
            self.$inner.remove_xattr(caller, object, name)
        }
    };
    (syncs_names $inner:ident) => {
        fn syncs_names(&self, object: &$crate::ObjectHandle) -> bool {
            self.$inner.syncs_names(object)
        }
    };
    (hold $inner:ident) => {
        fn hold(&self, object: &$crate::ObjectHandle) -> Option<$crate::HeldObject> {
            self.$inner.hold(object)
        }
    };
    (sync_names $inner:ident) => {
        fn sync_names(
            &self,
            object: &$crate::ObjectHandle,
            held: Option<&$crate::HeldObject>,
        ) -> $crate::VfsResult<()> {
            self.$inner.sync_names(object, held)
        }
    };
    (commit $inner:ident) => {
        fn commit(&self, object: &$crate::ObjectHandle) -> $crate::VfsResult<()> {
            self.$inner.commit(object)
        }
    };
    (statfs $inner:ident) => {
        fn statfs(&self, object: &$crate::ObjectHandle) -> $crate::VfsResult<$crate::FsStat> {
            self.$inner.statfs(object)
        }
    };
    (heir $inner:ident) => {
        fn heir(&self) -> Option<&dyn $crate::Heir> {
            self.$inner.heir()
        }
    };
    (sync_failures $inner:ident) => {
        fn sync_failures(&self) -> u64 {
            self.$inner.sync_failures()
        }
    };
    (trim $inner:ident) => {
        fn trim(&self) {
            self.$inner.trim()
        }
    };
    (handle_key $inner:ident) => {
        fn handle_key(&self) -> Option<[u8; 16]> {
            self.$inner.handle_key()
        }
    };
}

/// Writes one method of [`forward_open_file!`].
#[doc(hidden)]
#[macro_export]
macro_rules! forward_open_file_method {
    (read_at $inner:ident) => {
        fn read_at(&self, into: &mut Vec<u8>, count: usize, offset: u64) -> $crate::VfsResult<$crate::Eof> {
            self.$inner.read_at(into, count, offset)
        }
    };
    (read_now $inner:ident) => {
        fn read_now(
            &self,
            into: &mut Vec<u8>,
            count: usize,
            offset: u64,
        ) -> $crate::VfsResult<Option<$crate::Eof>> {
            self.$inner.read_now(into, count, offset)
        }
    };
    (splice_at $inner:ident) => {
        fn splice_at(
            &self,
            count: usize,
            offset: u64,
        ) -> $crate::VfsResult<Option<($crate::FileData, $crate::Eof)>> {
            self.$inner.splice_at(count, offset)
        }
    };
    (write_at $inner:ident) => {
        fn write_at(&self, data: &[u8], offset: u64) -> $crate::VfsResult<usize> {
            self.$inner.write_at(data, offset)
        }
    };
    (written_by $inner:ident) => {
        fn written_by(&self, caller: &$crate::Caller) -> Option<std::sync::Arc<dyn $crate::OpenFile>> {
            self.$inner.written_by(caller)
        }
    };
    (sync $inner:ident) => {
        fn sync(&self) -> $crate::VfsResult<()> {
            self.$inner.sync()
        }
    };
    (getattr $inner:ident) => {
        fn getattr(&self) -> $crate::VfsResult<$crate::Attributes> {
            self.$inner.getattr()
        }
    };
    (set_size $inner:ident) => {
        fn set_size(&self, size: u64) -> $crate::VfsResult<()> {
            self.$inner.set_size(size)
        }
    };
    (seek $inner:ident) => {
        fn seek(&self, what: $crate::Extent, offset: u64) -> $crate::VfsResult<Option<u64>> {
            self.$inner.seek(what, offset)
        }
    };
    (allocate $inner:ident) => {
        fn allocate(&self, offset: u64, length: u64) -> $crate::VfsResult<()> {
            self.$inner.allocate(offset, length)
        }
    };
    (deallocate $inner:ident) => {
        fn deallocate(&self, offset: u64, length: u64) -> $crate::VfsResult<()> {
            self.$inner.deallocate(offset, length)
        }
    };
    (advise $inner:ident) => {
        fn advise(&self, advice: $crate::Advice, offset: u64, length: u64) -> bool {
            self.$inner.advise(advice, offset, length)
        }
    };
    (copy_range $inner:ident) => {
        fn copy_range(
            &self,
            source: &dyn $crate::OpenFile,
            source_offset: u64,
            offset: u64,
            count: u64,
        ) -> $crate::VfsResult<u64> {
            self.$inner.copy_range(source, source_offset, offset, count)
        }
    };
    (clone_range $inner:ident) => {
        fn clone_range(
            &self,
            source: &dyn $crate::OpenFile,
            source_offset: u64,
            offset: u64,
            count: u64,
        ) -> $crate::VfsResult<()> {
            self.$inner.clone_range(source, source_offset, offset, count)
        }
    };
    (lease $inner:ident) => {
        fn lease(
            &self,
            kind: $crate::LeaseKind,
            broken: $crate::Broken,
        ) -> $crate::VfsResult<Option<::std::sync::Arc<dyn $crate::Lease>>> {
            self.$inner.lease(kind, broken)
        }
    };
    (range_locks $inner:ident) => {
        fn range_locks(
            &self,
            kind: $crate::LockKind,
        ) -> $crate::VfsResult<Option<Box<dyn $crate::RangeLocks>>> {
            self.$inner.range_locks(kind)
        }
    };
    (as_any $inner:ident) => {
        fn as_any(&self) -> Option<&dyn ::std::any::Any> {
            self.$inner.as_any()
        }
    };
}
