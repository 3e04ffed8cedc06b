//! Appends values to bytes.

use crate::padding;

/// A value that can be written as XDR.
pub trait Encode {
    /// Appends the value to `encoder`.
    fn encode(&self, encoder: &mut Encoder);
}

/// A growing buffer of XDR. Every operation appends, and none can fail.
///
/// Lengths have 32 bits: passing data of 4 GiB or more is an error of the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// Makes an empty buffer.
    pub const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// Appends to the content of `bytes`; positions count from its start.
    pub const fn from_vec(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// Returns the number of bytes in the buffer.
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of bytes that the buffer holds without reallocation.
    pub const fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns whether the buffer is empty.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the bytes in the buffer.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the buffer, for callers that append or transform bytes in place.
    pub const fn as_mut_vec(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Ends encoding and returns the bytes.
    pub fn into_vec(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends a value of any type.
    #[inline]
    pub fn value<T: Encode + ?Sized>(&mut self, value: &T) -> &mut Self {
        value.encode(self);
        self
    }

    /// Appends an unsigned integer (section 4.2).
    #[inline]
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Appends an integer (section 4.1).
    #[inline]
    pub fn i32(&mut self, value: i32) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Appends an unsigned hyper integer (section 4.5).
    #[inline]
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Appends a hyper integer (section 4.5).
    #[inline]
    pub fn i64(&mut self, value: i64) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Appends a boolean (section 4.4).
    #[inline]
    pub fn boolean(&mut self, value: bool) -> &mut Self {
        self.u32(value.into())
    }

    /// Appends bytes that are already XDR, without length or padding.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends opaque data of a fixed length and its padding (section 4.9).
    #[inline]
    pub fn opaque_fixed(&mut self, bytes: &[u8]) -> &mut Self {
        self.raw(bytes).pad(bytes.len())
    }

    /// Appends opaque data or a string: length, bytes, padding (sections 4.10 and 4.11).
    #[inline]
    pub fn opaque(&mut self, bytes: &[u8]) -> &mut Self {
        self.array_len(bytes.len()).opaque_fixed(bytes)
    }

    /// Appends the padding behind opaque data of `length` bytes.
    #[inline]
    pub fn pad(&mut self, length: usize) -> &mut Self {
        self.bytes.resize(self.bytes.len() + padding(length), 0);
        self
    }

    /// Appends the length of an opaque or the element count of an array (section 4.13).
    #[inline]
    pub fn array_len(&mut self, length: usize) -> &mut Self {
        debug_assert!(u32::try_from(length).is_ok(), "XDR lengths have 32 bits");
        self.u32(length as u32)
    }

    /// Appends an array: count, then elements (section 4.13).
    pub fn array<T: Encode>(&mut self, items: &[T]) -> &mut Self {
        self.array_len(items.len()).array_fixed(items)
    }

    /// Appends the elements of an array of fixed length (section 4.12).
    pub fn array_fixed<T: Encode>(&mut self, items: &[T]) -> &mut Self {
        for item in items {
            item.encode(self);
        }
        self
    }

    /// Appends an optional value (section 4.19).
    pub fn optional<T: Encode>(&mut self, value: Option<&T>) -> &mut Self {
        self.boolean(value.is_some());
        if let Some(value) = value {
            value.encode(self);
        }
        self
    }

    /// Appends a linked list (section 4.19).
    pub fn list<T: Encode>(&mut self, items: &[T]) -> &mut Self {
        for item in items {
            self.boolean(true);
            item.encode(self);
        }
        self.boolean(false)
    }

    /// Overwrites four bytes at `at`, for lengths that are known only afterwards. A position
    /// outside of the written bytes is an error of the caller and changes nothing.
    pub fn patch_u32(&mut self, at: usize, value: u32) {
        let place = at.checked_add(4).and_then(|end| self.bytes.get_mut(at..end));
        debug_assert!(place.is_some(), "patch at {at} is outside of the buffer");
        if let Some(place) = place {
            place.copy_from_slice(&value.to_be_bytes());
        }
    }

    /// Removes everything from position `at` on, for results that did not fit.
    pub fn truncate(&mut self, at: usize) {
        self.bytes.truncate(at);
    }
}
