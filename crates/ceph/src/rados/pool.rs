//! Objects of a pool.

use super::connection::c_string;
use super::{ObjectWatch, RadosCluster, RadosError, raw};
use crate::CephErrno;
use crate::errno::done;
use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

/// Entries of an omap that one operation reads.
const OMAP_STEP: u64 = 1024;

/// A key of an omap with its value.
pub type OmapEntry = (Vec<u8>, Vec<u8>);

/// The content of an object at one version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectContent {
    /// Grows with each change.
    pub version: u64,
    /// The first bytes of the data.
    pub data: Vec<u8>,
    /// Keys and values, in the order of the keys.
    pub omap: Vec<OmapEntry>,
    /// Whether the omap has more entries than these.
    pub more: bool,
    /// Extended attributes of an object.
    pub xattrs: Vec<(String, Vec<u8>)>,
}

/// A step of a change. All steps of a change succeed, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteStep<'a> {
    /// Fails with `ERANGE` or `EOVERFLOW` unless the object has this version, and with `ENOENT`
    /// unless it exists.
    AssertVersion(u64),
    /// Fails with `ENOENT` unless the object exists.
    AssertExists,
    /// Fails with `ECANCELED` unless the extended attribute has this value.
    XattrIs(&'a str, &'a [u8]),
    /// Fails with `ECANCELED` unless the value is the attribute's or comes after it, byte by byte.
    XattrAtMost(&'a str, &'a [u8]),
    /// Creates the object, and fails with `EEXIST` if it exists.
    CreateNew,
    /// Creates the object if it does not exist.
    Create,
    /// Replaces the data of the object.
    Write(&'a [u8]),
    /// Sets an extended attribute.
    SetXattr(&'a str, &'a [u8]),
    /// Removes all keys of the object.
    ClearOmap,
    /// Sets keys to values.
    SetOmap(Vec<(&'a [u8], &'a [u8])>),
    /// Removes keys; those that do not exist are ignored.
    RemoveOmap(Vec<&'a [u8]>),
    /// Removes the object with its keys.
    Remove,
}

/// A pool, and a namespace in it.
#[derive(Debug)]
pub struct RadosPool {
    cluster: Arc<RadosCluster>,
    context: raw::Handle,
    /// Held from an operation until its version is known, which the library keeps for the pool.
    version: Mutex<()>,
}

// SAFETY: the library takes its own locks in every call that gets this pointer.
unsafe impl Send for RadosPool {}
// SAFETY: as above.
unsafe impl Sync for RadosPool {}

impl RadosPool {
    pub(super) fn open(cluster: &Arc<RadosCluster>, name: &str, namespace: &str) -> Result<Self, RadosError> {
        let (pool, space) = (c_string(name)?, c_string(namespace)?);
        let (functions, mut context) = (cluster.library.0, ptr::null_mut());
        // SAFETY: the string lives through the call, which sets the pointer on success.
        done(unsafe { (functions.rados_ioctx_create)(cluster.handle, pool.as_ptr(), &mut context) })
            .map_err(|reason| RadosError::Pool { pool: name.to_owned(), reason })?;
        // SAFETY: the string lives through the call.
        unsafe { (functions.rados_ioctx_set_namespace)(context, space.as_ptr()) };
        Ok(Self { cluster: Arc::clone(cluster), context, version: Mutex::new(()) })
    }

    /// Returns the connection of the pool.
    pub fn cluster(&self) -> &Arc<RadosCluster> {
        &self.cluster
    }

    pub(super) fn parts(&self) -> (&'static raw::RadosFunctions, raw::Handle) {
        (self.cluster.library.0, self.context)
    }

    /// Reads an object: at most `data_max` bytes, at most 1,024 keys, and the attributes.
    ///
    /// # Errors
    /// `ENOENT`, `EPERM`, `ETIMEDOUT`, `ESHUTDOWN` for a client that is blocklisted.
    pub fn read(&self, object: &str, data_max: usize) -> Result<ObjectContent, CephErrno> {
        self.read_from(object, data_max, c"", true)
    }

    /// Reads the keys and values of an object's omap, of at most `entries_max` entries.
    ///
    /// # Errors
    /// As [`RadosPool::read`], and `E2BIG` for more entries.
    pub fn read_omap(&self, object: &str, entries_max: usize) -> Result<Vec<OmapEntry>, CephErrno> {
        let mut all: Vec<OmapEntry> = Vec::new();
        loop {
            let last = all.last().map(|(key, _)| key.clone()).unwrap_or_default();
            // A key that other programs set may have a NUL; then it cannot be gone on from.
            let after = CString::new(last).map_err(|_| CephErrno::new(libc::EINVAL))?;
            let mut read = self.read_from(object, 0, &after, false)?;
            all.append(&mut read.omap);
            if all.len() > entries_max {
                return Err(CephErrno::new(libc::E2BIG));
            }
            if !read.more {
                return Ok(all);
            }
        }
    }

    fn read_from(
        &self,
        object: &str,
        data_max: usize,
        after: &CStr,
        xattrs: bool,
    ) -> Result<ObjectContent, CephErrno> {
        let object = object_name(object)?;
        let (functions, context) = self.parts();
        let mut data = vec![0_u8; data_max];
        let (mut length, mut more) = (0, 0);
        let (mut keys, mut attributes) = (ptr::null_mut(), ptr::null_mut());
        let turn = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the buffers and iterators outlive the operation, which is released below.
        let (result, version) = unsafe {
            let operation = (functions.rados_create_read_op)();
            if data_max > 0 {
                let at = data.as_mut_ptr().cast::<c_char>();
                (functions.rados_read_op_read)(operation, 0, data_max, at, &mut length, ptr::null_mut());
            }
            let none = ptr::null_mut();
            let prefix = c"".as_ptr();
            (functions.rados_read_op_omap_get_vals2)(
                operation,
                after.as_ptr(),
                prefix,
                OMAP_STEP,
                &mut keys,
                &mut more,
                none,
            );
            if xattrs {
                (functions.rados_read_op_getxattrs)(operation, &mut attributes, ptr::null_mut());
            }
            let result = (functions.rados_read_op_operate)(operation, context, object.as_ptr(), 0);
            (functions.rados_release_read_op)(operation);
            (result, (functions.rados_get_last_version)(context))
        };
        drop(turn);
        if let Err(error) = done(result) {
            self.free_unread(keys, attributes);
            return Err(error);
        }
        let (omap, xattrs) = (self.take_omap(keys), self.take_xattrs(attributes));
        data.truncate(length);
        Ok(ObjectContent { version, data, omap, more: more != 0, xattrs })
    }

    /// Frees the iterators of an operation that has failed. They must not be moved: without an
    /// answer, as after a timeout, the library has given them no place, not even their end.
    fn free_unread(&self, keys: raw::Handle, attributes: raw::Handle) {
        let functions = self.cluster.library.0;
        // SAFETY: the iterators are valid until now.
        unsafe {
            if !keys.is_null() {
                (functions.rados_omap_get_end)(keys);
            }
            if !attributes.is_null() {
                (functions.rados_getxattrs_end)(attributes);
            }
        }
    }

    /// Copies the entries of an iterator, and frees it.
    fn take_omap(&self, iterator: raw::Handle) -> Vec<OmapEntry> {
        let mut entries = Vec::new();
        if iterator.is_null() {
            return entries;
        }
        let functions = self.cluster.library.0;
        loop {
            let (mut key, mut value) = (ptr::null_mut(), ptr::null_mut());
            let (mut key_length, mut value_length) = (0, 0);
            // SAFETY: the iterator is valid until its end, and so are the pointers.
            unsafe {
                (functions.rados_omap_get_next2)(
                    iterator,
                    &mut key,
                    &mut value,
                    &mut key_length,
                    &mut value_length,
                );
                if key.is_null() {
                    (functions.rados_omap_get_end)(iterator);
                    return entries;
                }
                entries.push((bytes(key, key_length), bytes(value, value_length)));
            }
        }
    }

    fn take_xattrs(&self, iterator: raw::Handle) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        if iterator.is_null() {
            return all;
        }
        let functions = self.cluster.library.0;
        loop {
            let (mut name, mut value, mut length) = (ptr::null(), ptr::null(), 0);
            // SAFETY: the iterator is valid until its end, and so are the pointers.
            unsafe {
                (functions.rados_getxattrs_next)(iterator, &mut name, &mut value, &mut length);
                if name.is_null() {
                    (functions.rados_getxattrs_end)(iterator);
                    return all;
                }
                let name = CStr::from_ptr(name).to_string_lossy().into_owned();
                all.push((name, bytes(value, length)));
            }
        }
    }

    /// Changes an object; all steps succeed, or none. In a full pool, changes that need no space
    /// succeed as well: without the flag, the library would hold them back.
    ///
    /// # Errors
    /// The errors of the steps, `EPERM`, `ENOSPC` and `EDQUOT` (the pool is full), `ETIMEDOUT` (the
    /// change may happen nevertheless), `ESHUTDOWN` for a client that is blocklisted.
    pub fn write(&self, object: &str, steps: &[WriteStep<'_>]) -> Result<(), CephErrno> {
        let object = object_name(object)?;
        let (functions, context) = self.parts();
        let _turn = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the operation copies what the steps pass to it, and is released once.
        unsafe {
            let operation = (functions.rados_create_write_op)();
            let added = steps.iter().try_for_each(|step| add(functions, operation, step));
            let result = added.and_then(|()| {
                let now = ptr::null_mut();
                let (at, flags) = (object.as_ptr(), raw::FULL_TRY);
                done((functions.rados_write_op_operate)(operation, context, at, now, flags))
            });
            (functions.rados_release_write_op)(operation);
            result
        }
    }

    /// Notifies the watchers of an object, and waits until they have heard of it or `patience` is
    /// over.
    ///
    /// # Errors
    /// `ETIMEDOUT` if one of them did not answer, and others of the library.
    pub fn notify(&self, object: &str, patience: std::time::Duration) -> Result<(), CephErrno> {
        let object = object_name(object)?;
        let (functions, context) = self.parts();
        let milliseconds = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        let (mut reply, mut length) = (ptr::null_mut(), 0);
        // SAFETY: the strings live through the call; it sets the buffer, which is freed once.
        unsafe {
            let (at, empty) = (object.as_ptr(), c"".as_ptr());
            let notified =
                (functions.rados_notify2)(context, at, empty, 0, milliseconds, &mut reply, &mut length);
            if !reply.is_null() {
                (functions.rados_buffer_free)(reply);
            }
            done(notified)
        }
    }

    /// Watches an object: `notified` runs on a thread of the library when another client notifies
    /// the watchers, and when the watch is lost. It must not wait.
    ///
    /// # Errors
    /// `ENOENT` if there is no such object, and others of the library.
    pub fn watch(
        self: &Arc<Self>,
        object: &str,
        notified: Box<dyn Fn() + Send + Sync>,
    ) -> Result<ObjectWatch, CephErrno> {
        ObjectWatch::begin(self, &object_name(object)?, notified)
    }
}

impl Drop for RadosPool {
    fn drop(&mut self) {
        let (functions, context) = self.parts();
        // SAFETY: the context came from the library and is destroyed once; watches own the pool.
        unsafe { (functions.rados_ioctx_destroy)(context) };
    }
}

/// Adds a step to an operation.
///
/// # Safety
/// The operation must not be released yet.
unsafe fn add(
    functions: &raw::RadosFunctions,
    operation: raw::Handle,
    step: &WriteStep<'_>,
) -> Result<(), CephErrno> {
    let compare = |name: &str, operator: u8, value: &[u8]| {
        let name = object_name(name)?;
        let (at, length) = (value.as_ptr().cast::<c_char>(), value.len());
        // SAFETY: the library copies both.
        unsafe { (functions.rados_write_op_cmpxattr)(operation, name.as_ptr(), operator, at, length) };
        Ok(())
    };
    // SAFETY: the operation is valid, and the library copies names, keys and values.
    unsafe {
        match step {
            WriteStep::AssertVersion(version) => {
                (functions.rados_write_op_assert_version)(operation, *version)
            }
            WriteStep::AssertExists => (functions.rados_write_op_assert_exists)(operation),
            WriteStep::XattrIs(name, value) => compare(name, raw::compare::EQUAL, value)?,
            WriteStep::XattrAtMost(name, value) => compare(name, raw::compare::GREATER_OR_EQUAL, value)?,
            WriteStep::CreateNew => {
                (functions.rados_write_op_create)(operation, raw::create::EXCLUSIVE, ptr::null());
            }
            WriteStep::Create => {
                (functions.rados_write_op_create)(operation, raw::create::IDEMPOTENT, ptr::null());
            }
            WriteStep::Write(data) => {
                (functions.rados_write_op_write_full)(operation, data.as_ptr().cast(), data.len());
            }
            WriteStep::SetXattr(name, value) => {
                let name = object_name(name)?;
                let at = value.as_ptr().cast();
                (functions.rados_write_op_setxattr)(operation, name.as_ptr(), at, value.len());
            }
            WriteStep::ClearOmap => (functions.rados_write_op_omap_clear)(operation),
            WriteStep::SetOmap(entries) => set_omap(functions, operation, entries),
            WriteStep::RemoveOmap(keys) => remove_omap(functions, operation, keys),
            WriteStep::Remove => (functions.rados_write_op_remove)(operation),
        }
    }
    Ok(())
}

/// Adds keys with values to an operation.
///
/// # Safety
/// As [`add`].
unsafe fn set_omap(functions: &raw::RadosFunctions, operation: raw::Handle, entries: &[(&[u8], &[u8])]) {
    let keys: Vec<*const c_char> = entries.iter().map(|(key, _)| key.as_ptr().cast()).collect();
    let values: Vec<*const c_char> = entries.iter().map(|(_, value)| value.as_ptr().cast()).collect();
    let key_lengths: Vec<usize> = entries.iter().map(|(key, _)| key.len()).collect();
    let value_lengths: Vec<usize> = entries.iter().map(|(_, value)| value.len()).collect();
    let count = entries.len();
    // SAFETY: the caller's promise; the library copies keys and values.
    unsafe {
        (functions.rados_write_op_omap_set2)(
            operation,
            keys.as_ptr(),
            values.as_ptr(),
            key_lengths.as_ptr(),
            value_lengths.as_ptr(),
            count,
        );
    }
}

/// Adds the removal of keys to an operation.
///
/// # Safety
/// As [`add`].
unsafe fn remove_omap(functions: &raw::RadosFunctions, operation: raw::Handle, keys: &[&[u8]]) {
    let all: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr().cast()).collect();
    let lengths: Vec<usize> = keys.iter().map(|key| key.len()).collect();
    // SAFETY: the caller's promise; the library copies the keys.
    unsafe {
        (functions.rados_write_op_omap_rm_keys2)(operation, all.as_ptr(), lengths.as_ptr(), keys.len())
    };
}

/// Copies bytes of the library.
///
/// # Safety
/// Pointer and length must come from the library; a null pointer has no bytes.
unsafe fn bytes(at: *const c_char, length: usize) -> Vec<u8> {
    if at.is_null() || length == 0 {
        return Vec::new();
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(at.cast::<u8>(), length) }.to_vec()
}

fn object_name(name: &str) -> Result<CString, CephErrno> {
    CString::new(name).map_err(|_| CephErrno::new(libc::EINVAL))
}
