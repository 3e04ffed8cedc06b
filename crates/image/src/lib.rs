//! The encoding of state that one process of the server hands to the next.
//!
//! An image is a plain struct beside the type that it stands for. It is encoded as CBOR (RFC 8949)
//! with numbered fields: a version that does not know a field skips it, and an optional field that
//! a version does not send is `None`. So a new optional field is compatible in both directions.
//!
//! Decoding checks the grammar alone. The type that an image stands for checks the rest when it is
//! restored: numbers against limits, keys against tables.

use minicbor::decode::{Decoder, Error as DecodeError};
use minicbor::encode::{Encoder, Error as EncodeError, Write};
use minicbor::{Decode, Encode};
use std::fmt;
use std::io;
use std::sync::Arc;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Why an image cannot be made or restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The bytes are no image, or one with fields that this version needs and does not find.
    #[error("the image cannot be decoded: {0}")]
    Encoding(String),
    /// Parts of the image contradict each other, or exceed a limit.
    #[error("the image is inconsistent: {0}")]
    Inconsistent(&'static str),
    /// Something is in progress that an image cannot hold.
    #[error("still in progress: {0}")]
    Busy(&'static str),
}

/// Fails with [`ImageError::Inconsistent`] unless the condition holds.
///
/// # Errors
/// The part that is inconsistent.
pub fn ensure(holds: bool, part: &'static str) -> Result<(), ImageError> {
    if holds { Ok(()) } else { Err(ImageError::Inconsistent(part)) }
}

/// Decodes an image that takes up all of the bytes.
///
/// # Errors
/// [`ImageError::Encoding`].
pub fn decode<'b, T: Decode<'b, ()>>(bytes: &'b [u8]) -> Result<T, ImageError> {
    let mut decoder = Decoder::new(bytes);
    let image = decoder.decode().map_err(|error: DecodeError| ImageError::Encoding(error.to_string()))?;
    match decoder.position() == bytes.len() {
        true => Ok(image),
        false => Err(ImageError::Encoding("bytes behind the end".to_owned())),
    }
}

/// Encodes an image to memory that is overwritten when it is dropped.
pub fn encode<T: Encode<()>>(image: &T) -> Zeroizing<Vec<u8>> {
    // Counted first: a vector that grows leaves copies of its secrets behind.
    let mut count = Count(0);
    let counted = minicbor::encode(image, &mut count);
    let mut bytes = Zeroizing::new(Vec::with_capacity(count.0));
    let encoded = minicbor::encode(image, &mut *bytes);
    debug_assert!(counted.is_ok() && encoded.is_ok(), "memory takes every byte");
    bytes
}

/// Encodes a small image without secrets.
pub fn encode_public<T: Encode<()>>(image: &T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SMALL_SIZE);
    let encoded = minicbor::encode(image, &mut bytes);
    debug_assert!(encoded.is_ok(), "memory takes every byte");
    bytes
}

/// Bytes of most small images at most.
const SMALL_SIZE: usize = 32;

/// Bytes of an image that are written at once.
const PIECE_SIZE: usize = 1 << 18;

/// Encodes an image to a writer, in pieces. No copy of the whole is made, and that of a piece is
/// overwritten.
///
/// # Errors
/// The writer's.
pub fn write<T: Encode<()>>(image: &T, writer: &mut impl io::Write) -> io::Result<()> {
    let piece = Zeroizing::new(Vec::with_capacity(PIECE_SIZE));
    let mut pieces = Pieces { piece, writer };
    minicbor::encode(image, &mut pieces).map_err(|error| match error.into_write() {
        Some(error) => error,
        None => io::Error::other("the image cannot be encoded"),
    })?;
    pieces.flush()
}

/// A writer that collects small parts.
struct Pieces<'w, W> {
    piece: Zeroizing<Vec<u8>>,
    writer: &'w mut W,
}

impl<W: io::Write> Pieces<'_, W> {
    fn flush(&mut self) -> io::Result<()> {
        self.writer.write_all(&self.piece)?;
        // The next piece overwrites it.
        self.piece.clear();
        Ok(())
    }
}

impl<W: io::Write> Write for Pieces<'_, W> {
    type Error = io::Error;

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.piece.len() + bytes.len() > PIECE_SIZE {
            self.flush()?;
        }
        // The vector must not grow, which would leave a copy behind.
        if bytes.len() > PIECE_SIZE {
            return self.writer.write_all(bytes);
        }
        self.piece.extend_from_slice(bytes);
        Ok(())
    }
}

/// A writer that only counts the encoded bytes.
struct Count(usize);

impl Write for Count {
    type Error = std::convert::Infallible;

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        self.0 += bytes.len();
        Ok(())
    }
}

/// The bytes of a field of an image; clones share them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedBytes(pub Arc<[u8]>);

impl From<&[u8]> for SharedBytes {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl<C> Encode<C> for SharedBytes {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.bytes(&self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for SharedBytes {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        Ok(Self(d.bytes()?.into()))
    }
}

/// Secret bytes of an image: they are overwritten when it is dropped, and not shown.
#[derive(Clone, Default, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Secret(pub Vec<u8>);

impl From<&[u8]> for Secret {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

impl<C> Encode<C> for Secret {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.bytes(&self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Secret {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        Ok(Self(d.bytes()?.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Encode, Decode)]
    struct Older {
        #[n(0)]
        number: u32,
        #[n(1)]
        name: SharedBytes,
    }

    #[derive(Debug, PartialEq, Encode, Decode)]
    struct Newer {
        #[n(0)]
        number: u32,
        #[n(1)]
        name: SharedBytes,
        #[n(2)]
        key: Option<Secret>,
        #[n(4)]
        nested: Option<Vec<Older>>,
    }

    #[test]
    fn an_image_in_pieces_is_the_same() {
        let part = |number, size: usize| Older { number, name: vec![number as u8; size].as_slice().into() };
        let sizes = [1, PIECE_SIZE - 9, 9, PIECE_SIZE, PIECE_SIZE + 1, 3, 2 * PIECE_SIZE];
        let image: Vec<_> = (0..).zip(sizes).map(|(number, size)| part(number, size)).collect();
        let mut written = Vec::new();
        write(&image, &mut written).unwrap();
        assert_eq!(written, *encode(&image));
        let mut small = [0; PIECE_SIZE];
        assert_eq!(write(&image, &mut small.as_mut_slice()).unwrap_err().kind(), io::ErrorKind::WriteZero);
    }

    #[test]
    fn an_optional_field_is_compatible_in_both_directions() {
        let older = Older { number: 7, name: SharedBytes::from(&b"name"[..]) };
        let newer: Newer = decode(&encode(&older)).unwrap();
        assert_eq!(newer, Newer { number: 7, name: older.name.clone(), key: None, nested: None });
        let nested = Some(vec![Older { number: 1, name: SharedBytes::default() }]);
        let newer = Newer { key: Some(Secret::from(&b"key"[..])), nested, ..newer };
        assert_eq!(decode::<Older>(&encode(&newer)).unwrap(), older);
        assert_eq!(decode::<Newer>(&encode(&newer)).unwrap(), newer);
    }

    #[test]
    fn cut_and_extended_bytes_are_errors() {
        let bytes = encode(&Older { number: 7, name: SharedBytes::from(&b"name"[..]) });
        for end in 0..bytes.len() {
            assert!(decode::<Older>(&bytes[..end]).is_err());
        }
        assert!(decode::<Older>(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret(b"password".to_vec())), "Secret(8 bytes)");
    }
}
