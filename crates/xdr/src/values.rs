//! [`Encode`] and [`Decode`] for the types that grammars build on.

use crate::{Decode, Decoder, Encode, Encoder, Error, Opaque, UNIT};

macro_rules! primitive {
    ($($type:ty, $method:ident;)*) => {$(
        impl Encode for $type {
            #[inline]
            fn encode(&self, encoder: &mut Encoder) {
                encoder.$method(*self);
            }
        }

        impl<'a> Decode<'a> for $type {
            #[inline]
            fn decode(decoder: &mut Decoder<'a>) -> Result<Self, Error> {
                decoder.$method()
            }
        }
    )*};
}

primitive! {
    u32, u32;
    i32, i32;
    u64, u64;
    i64, i64;
    bool, boolean;
}

impl Encode for () {
    fn encode(&self, _: &mut Encoder) {}
}

impl<'a> Decode<'a> for () {
    fn decode(_: &mut Decoder<'a>) -> Result<Self, Error> {
        Ok(())
    }
}

impl Encode for Opaque<'_> {
    #[inline]
    fn encode(&self, encoder: &mut Encoder) {
        encoder.opaque(self);
    }
}

/// Bounded only by the input; a definition with a limit calls [`Decoder::opaque`].
impl<'a> Decode<'a> for Opaque<'a> {
    #[inline]
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self, Error> {
        decoder.opaque(u32::MAX as usize).map(Opaque::Borrowed)
    }
}

impl<const N: usize> Encode for [u8; N] {
    #[inline]
    fn encode(&self, encoder: &mut Encoder) {
        encoder.opaque_fixed(self);
    }
}

impl<'a, const N: usize> Decode<'a> for [u8; N] {
    #[inline]
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self, Error> {
        decoder.opaque_fixed()
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, encoder: &mut Encoder) {
        encoder.array(self);
    }
}

/// Bounded only by the input; a definition with a limit calls [`Decoder::array`].
impl<'a, T: Decode<'a>> Decode<'a> for Vec<T> {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self, Error> {
        decoder.array(u32::MAX as usize, UNIT)
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, encoder: &mut Encoder) {
        encoder.optional(self.as_ref());
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self, Error> {
        decoder.optional()
    }
}

impl<T: Encode> Encode for Box<T> {
    fn encode(&self, encoder: &mut Encoder) {
        (**self).encode(encoder);
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Box<T> {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self, Error> {
        T::decode(decoder).map(Box::new)
    }
}
