//! Reads values from bytes.

use crate::{Error, UNIT, padding};

/// Bytes of memory that the elements of one array may take, whatever its definition allows: as many
/// as a record has, so that only arrays whose elements grow with decoding are refused.
pub const ARRAY_SIZE_MAX: usize = (1 << 20) + (256 << 10);

/// A value that can be read from XDR; borrowed parts live as long as the input.
pub trait Decode<'a>: Sized {
    /// Reads one value and leaves the decoder behind it.
    ///
    /// # Errors
    /// Any [`Error`]; the decoder's position is then unspecified.
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self, Error>;
}

/// A cursor over received bytes. A copy is cheap, and marks a position to return to.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
    total: usize,
}

impl<'a> Decoder<'a> {
    /// Starts at the first byte of `input`.
    pub const fn new(input: &'a [u8]) -> Self {
        Self { rest: input, total: input.len() }
    }

    /// Returns the number of bytes not read yet.
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Returns the number of bytes read so far.
    pub const fn position(&self) -> usize {
        self.total - self.rest.len()
    }

    /// Returns the bytes not read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Ends decoding.
    ///
    /// # Errors
    /// [`Error::TrailingBytes`] if bytes are left.
    pub const fn finish(self) -> Result<(), Error> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(Error::TrailingBytes(left)),
        }
    }

    /// Reads any value.
    ///
    /// # Errors
    /// The errors of the value's type.
    #[inline]
    pub fn value<T: Decode<'a>>(&mut self) -> Result<T, Error> {
        T::decode(self)
    }

    /// Reads exactly `N` bytes without padding.
    #[inline]
    fn chunk<const N: usize>(&mut self) -> Result<&'a [u8; N], Error> {
        let remaining = self.rest.len();
        let (chunk, rest) =
            self.rest.split_first_chunk::<N>().ok_or(Error::Truncated { needed: N, remaining })?;
        self.rest = rest;
        Ok(chunk)
    }

    /// Reads `length` bytes and skips their padding, which may have any value.
    #[inline]
    fn padded(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let remaining = self.rest.len();
        // `length` is at most u32::MAX, but usize may have no more bits than that.
        let needed = length.saturating_add(padding(length));
        if needed > remaining {
            return Err(Error::Truncated { needed, remaining });
        }
        let (item, rest) = self.rest.split_at(needed);
        self.rest = rest;
        Ok(item.split_at(length).0)
    }

    /// Reads an unsigned integer (section 4.2).
    ///
    /// # Errors
    /// [`Error::Truncated`].
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Error> {
        self.chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// Reads an integer (section 4.1).
    ///
    /// # Errors
    /// [`Error::Truncated`].
    #[inline]
    pub fn i32(&mut self) -> Result<i32, Error> {
        self.chunk().map(|bytes| i32::from_be_bytes(*bytes))
    }

    /// Reads an unsigned hyper integer (section 4.5).
    ///
    /// # Errors
    /// [`Error::Truncated`].
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Error> {
        self.chunk().map(|bytes| u64::from_be_bytes(*bytes))
    }

    /// Reads a hyper integer (section 4.5).
    ///
    /// # Errors
    /// [`Error::Truncated`].
    #[inline]
    pub fn i64(&mut self) -> Result<i64, Error> {
        self.chunk().map(|bytes| i64::from_be_bytes(*bytes))
    }

    /// Reads a boolean (section 4.4).
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::InvalidBool`] for values other than 0 and 1.
    #[inline]
    pub fn boolean(&mut self) -> Result<bool, Error> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Error::InvalidBool(other)),
        }
    }

    /// Reads opaque data of a fixed length and its padding (section 4.9).
    ///
    /// # Errors
    /// [`Error::Truncated`].
    #[inline]
    pub fn opaque_fixed<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let item = self.padded(N)?;
        item.try_into().map_err(|_| Error::Truncated { needed: N, remaining: item.len() })
    }

    /// Reads opaque data or a string of at most `max` bytes and its padding (sections 4.10 and
    /// 4.11).
    ///
    /// # Errors
    /// [`Error::TooLong`] above `max`, [`Error::Truncated`] if the input ends before the data.
    #[inline]
    pub fn opaque(&mut self, max: usize) -> Result<&'a [u8], Error> {
        let length = self.length(max)?;
        self.padded(length)
    }

    /// Reads the element count of an array of at most `max` elements (section 4.13).
    ///
    /// The count is also bounded by the input: each element takes at least four bytes, so a count
    /// that the rest of the input cannot hold is refused before any allocation.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::Truncated`].
    #[inline]
    pub fn array_len(&mut self, max: usize) -> Result<usize, Error> {
        self.array_len_of(max, UNIT)
    }

    /// Like [`Decoder::array_len`] for elements that take at least `element_min` bytes each.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::Truncated`].
    #[inline]
    pub fn array_len_of(&mut self, max: usize, element_min: usize) -> Result<usize, Error> {
        let length = self.length(max)?;
        let needed = length.saturating_mul(element_min.max(UNIT));
        let remaining = self.rest.len();
        if needed > remaining { Err(Error::Truncated { needed, remaining }) } else { Ok(length) }
    }

    #[inline]
    fn length(&mut self, max: usize) -> Result<usize, Error> {
        let length = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        if length > max { Err(Error::TooLong { length, max }) } else { Ok(length) }
    }

    /// Reads an array of at most `max` elements, each of at least `element_min` bytes on the wire.
    /// Its elements take at most [`ARRAY_SIZE_MAX`] bytes of memory.
    ///
    /// # Errors
    /// The errors of [`Decoder::array_len_of`] and of the elements.
    pub fn array<T: Decode<'a>>(&mut self, max: usize, element_min: usize) -> Result<Vec<T>, Error> {
        self.array_with(max, element_min, T::decode)
    }

    /// Like [`Decoder::array`] for elements that `item` reads.
    ///
    /// # Errors
    /// The errors of [`Decoder::array_len_of`] and of `item`.
    pub fn array_with<T>(
        &mut self,
        max: usize,
        element_min: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        // An element of four bytes on the wire may take hundreds in memory.
        let length = self.array_len_of(max.min(ARRAY_SIZE_MAX / size_of::<T>().max(1)), element_min)?;
        let mut items = Vec::with_capacity(length.min(preallocation_max::<T>(self.rest.len())));
        for _ in 0..length {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Reads an array of exactly `N` elements (section 4.12).
    ///
    /// # Errors
    /// The errors of the elements.
    pub fn array_fixed<T: Decode<'a>, const N: usize>(&mut self) -> Result<[T; N], Error> {
        self.array_fixed_with(T::decode)
    }

    /// Like [`Decoder::array_fixed`] for elements that `item` reads.
    ///
    /// # Errors
    /// The errors of `item`.
    pub fn array_fixed_with<T, const N: usize>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<[T; N], Error> {
        let mut items = Vec::with_capacity(N.min(preallocation_max::<T>(self.rest.len())));
        for _ in 0..N {
            items.push(item(self)?);
        }
        items.try_into().map_err(|_| Error::Truncated { needed: N * UNIT, remaining: self.rest.len() })
    }

    /// Reads an optional value: a boolean, then the value if it was true (section 4.19).
    ///
    /// # Errors
    /// The errors of the boolean and of the value.
    pub fn optional<T: Decode<'a>>(&mut self) -> Result<Option<T>, Error> {
        self.optional_with(T::decode)
    }

    /// Like [`Decoder::optional`] for a value that `item` reads.
    ///
    /// # Errors
    /// The errors of the boolean and of `item`.
    pub fn optional_with<T>(
        &mut self,
        item: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        if self.boolean()? { item(self).map(Some) } else { Ok(None) }
    }

    /// Reads a linked list, in which a boolean before each element says that one follows (section
    /// 4.19).
    ///
    /// # Errors
    /// The errors of the booleans and of the elements.
    pub fn list<T: Decode<'a>>(&mut self) -> Result<Vec<T>, Error> {
        let mut items = Vec::new();
        while self.boolean()? {
            items.push(T::decode(self)?);
        }
        Ok(items)
    }
}

/// The number of elements to allocate space for at once. It takes at most twice the memory of the
/// remaining input, because an element of four bytes on the wire may take hundreds in memory.
/// Beyond that the vector grows as elements arrive.
fn preallocation_max<T>(remaining: usize) -> usize {
    remaining.saturating_mul(2) / size_of::<T>().max(1)
}
