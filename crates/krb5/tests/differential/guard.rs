//! Memory between inaccessible pages: a read or write one byte outside ends the process.
#![allow(unsafe_code, reason = "memory with inaccessible pages")]

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::model::Place;

/// Bytes that end at an inaccessible page, or (`AT_START`) begin behind one.
pub(crate) struct Guarded<const AT_START: bool> {
    /// Nothing once the value is dropped.
    pages: Option<Pages>,
    bytes: NonNull<u8>,
    len: usize,
}

/// A mapping whose first and last pages are inaccessible.
struct Pages {
    start: NonNull<u8>,
    mapped: usize,
}

thread_local! {
    /// Mappings to use again: the tests need hundreds of thousands, and each new one costs more
    /// than the comparison does.
    static FREE: RefCell<Vec<Pages>> = const { RefCell::new(Vec::new()) };
}

/// Bytes with an inaccessible page directly behind them.
pub(crate) type AtEnd = Guarded<false>;

/// Bytes with an inaccessible page directly before them.
pub(crate) type AtStart = Guarded<true>;

fn page() -> usize {
    // SAFETY: a query without pointers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("a page has a size")
}

impl Pages {
    /// Returns a mapping with `inside` accessible bytes, a multiple of the page.
    fn with(inside: usize) -> Self {
        let mapped = inside + 2 * page();
        let free = FREE.with_borrow_mut(|free| {
            let at = free.iter().rposition(|pages| pages.mapped == mapped)?;
            Some(free.swap_remove(at))
        });
        free.unwrap_or_else(|| Self::map(inside, mapped))
    }

    fn map(inside: usize, mapped: usize) -> Self {
        // SAFETY: a new mapping at an address of the kernel's choice, whose middle pages are made
        // accessible.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let pages = libc::mmap(std::ptr::null_mut(), mapped, libc::PROT_NONE, flags, -1, 0);
            assert!(pages != libc::MAP_FAILED, "no memory");
            let opened = libc::mprotect(pages.byte_add(page()), inside, libc::PROT_READ | libc::PROT_WRITE);
            assert_eq!(opened, 0, "the pages cannot be opened");
            NonNull::new(pages.cast::<u8>()).expect("not at zero")
        };
        Self { start, mapped }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map`, and is unmapped once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

impl<const AT_START: bool> Place for Guarded<AT_START> {
    fn of(content: &[u8]) -> Self {
        let page = page();
        let inside = content.len().next_multiple_of(page).max(page);
        let pages = Pages::with(inside);
        let offset = if AT_START { page } else { page + inside - content.len() };
        // SAFETY: `offset` lies in the mapping, or at the end of its accessible part.
        let bytes = unsafe { pages.start.add(offset) };
        let mut place = Self { pages: Some(pages), bytes, len: content.len() };
        place.copy_from_slice(content);
        place
    }
}

impl<const AT_START: bool> Deref for Guarded<AT_START> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes of accessible pages, which this value owns.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr(), self.len) }
    }
}

impl<const AT_START: bool> DerefMut for Guarded<AT_START> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; `&mut self` is the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_ptr(), self.len) }
    }
}

impl<const AT_START: bool> Drop for Guarded<AT_START> {
    fn drop(&mut self) {
        // A thread that ends unmaps them.
        let _ = FREE.try_with(|free| free.borrow_mut().extend(self.pages.take()));
    }
}

/// Reads the byte behind or before the bytes, which no kernel may do.
pub(crate) fn read_outside<const AT_START: bool>(place: &Guarded<AT_START>) -> u8 {
    let end = if AT_START {
        place.bytes.as_ptr().wrapping_sub(1)
    } else {
        place.bytes.as_ptr().wrapping_add(place.len)
    };
    // SAFETY: none. The address is mapped but inaccessible, so the process ends here.
    unsafe { end.read_volatile() }
}
