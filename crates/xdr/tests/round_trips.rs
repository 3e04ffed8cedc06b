//! Encoded values decode to themselves, and the decoder answers any other input with an error
//! value.

use orthrus_xdr::{ARRAY_SIZE_MAX, Decode, Decoder, Encode, Encoder, Error, Opaque};
use proptest::prelude::*;

fn encoded<T: Encode>(value: &T) -> Vec<u8> {
    let mut encoder = Encoder::new();
    value.encode(&mut encoder);
    encoder.into_vec()
}

fn decoded<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, Error> {
    let mut decoder = Decoder::new(bytes);
    let value = T::decode(&mut decoder)?;
    decoder.finish()?;
    Ok(value)
}

#[test]
fn integers_are_big_endian() {
    // RFC 4506 sections 4.1, 4.2 and 4.5
    assert_eq!(encoded(&0x0102_0304_u32), [1, 2, 3, 4]);
    assert_eq!(encoded(&-2_i32), [255, 255, 255, 254]);
    assert_eq!(encoded(&0x0102_0304_0506_0708_u64), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(encoded(&-1_i64), [255; 8]);
}

#[test]
fn opaque_data_is_padded_with_zeros_to_four_bytes() {
    // RFC 4506 sections 4.9 and 4.10
    assert_eq!(encoded(&Opaque::from(&b"abcde"[..])), *b"\0\0\0\x05abcde\0\0\0");
    assert_eq!(encoded(b"abcde"), *b"abcde\0\0\0");
    assert_eq!(encoded(&Opaque::from(&b""[..])), [0; 4]);
}

#[test]
fn padding_that_is_not_zero_is_tolerated() {
    // RFC 4506 section 4.10, and the choice that the crate's documentation explains
    assert_eq!(decoded::<Opaque>(b"\0\0\0\x01axyz").as_deref(), Ok(&b"a"[..]));
}

#[test]
fn missing_padding_is_an_error() {
    // RFC 4506 section 4.10
    assert_eq!(decoded::<Opaque>(b"\0\0\0\x01a"), Err(Error::Truncated { needed: 4, remaining: 1 }));
}

#[test]
fn a_boolean_is_zero_or_one() {
    // RFC 4506 section 4.4
    assert_eq!(decoded::<bool>(&[0, 0, 0, 1]), Ok(true));
    assert_eq!(decoded::<bool>(&[0, 0, 0, 2]), Err(Error::InvalidBool(2)));
}

#[test]
fn an_announced_length_above_the_limit_is_refused() {
    // RFC 4506 section 4.10
    let bytes = encoded(&Opaque::from(vec![7; 9]));
    assert_eq!(Decoder::new(&bytes).opaque(8), Err(Error::TooLong { length: 9, max: 8 }));
    assert_eq!(Decoder::new(&bytes).opaque(9), Ok(&[7; 9][..]));
}

#[test]
fn a_count_that_the_input_cannot_hold_is_refused_before_allocation() {
    // RFC 4506 section 4.13
    let bytes = [255; 12];
    let refused = Err(Error::Truncated { needed: u32::MAX as usize * 4, remaining: 8 });
    assert_eq!(Decoder::new(&bytes).array_len(usize::MAX), refused);
    assert!(decoded::<Vec<u64>>(&bytes).is_err());
}

/// An element that takes four bytes on the wire and many in memory.
struct Wide([u32; 40]);

impl<'a> Decode<'a> for Wide {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self, Error> {
        Ok(Self([decoder.u32()?; 40]))
    }
}

#[test]
fn an_array_takes_no_more_memory_than_its_limit() {
    // RFC 4506 section 4.13
    let max = ARRAY_SIZE_MAX / size_of::<Wide>();
    for (length, fits) in [(max, true), (max + 1, false)] {
        let mut encoder = Encoder::new();
        encoder.array(&vec![7_u32; length]);
        let bytes = encoder.into_vec();
        let wide = Decoder::new(&bytes).array::<Wide>(usize::MAX, 4);
        match wide {
            Ok(items) => assert!(fits && items.iter().all(|item| item.0 == [7; 40])),
            Err(error) => assert_eq!((fits, error), (false, Error::TooLong { length, max })),
        }
        assert!(Decoder::new(&bytes).array::<u32>(usize::MAX, 4).is_ok(), "as large as on the wire");
    }
}

#[test]
fn a_list_ends_at_the_first_false() {
    // RFC 4506 section 4.19
    let mut encoder = Encoder::new();
    encoder.list(&[5_u32, 6]);
    let bytes = encoder.into_vec();
    assert_eq!(bytes, [0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 0, 0]);
    assert_eq!(Decoder::new(&bytes).list::<u32>(), Ok(vec![5, 6]));
    assert!(Decoder::new(&bytes[..16]).list::<u32>().is_err());
}

#[test]
fn fixed_arrays_have_no_count() {
    // RFC 4506 section 4.12
    let bytes = [0, 0, 0, 5, 0, 0, 0, 6];
    assert_eq!(Decoder::new(&bytes).array_fixed(), Ok([5_u32, 6]));
    assert!(Decoder::new(&bytes).array_fixed::<u32, 3>().is_err());
}

#[test]
fn bytes_behind_the_last_item_are_an_error() {
    assert_eq!(decoded::<u32>(&[0; 5]), Err(Error::TrailingBytes(1)));
}

#[test]
fn a_patched_length_replaces_the_reserved_one() {
    let mut encoder = Encoder::from_vec(vec![9]);
    encoder.u32(0).u32(1).patch_u32(1, 77);
    assert_eq!(encoder.as_slice(), [9, 0, 0, 0, 77, 0, 0, 0, 1]);
    encoder.truncate(5);
    assert_eq!(encoder.len(), 5);
}

proptest! {
    #[test]
    fn every_value_comes_back(
        numbers: (u32, i32, u64, i64, bool),
        opaque: Vec<u8>,
        array: Vec<u64>,
        optional: Option<i64>,
        fixed: [u8; 7],
    ) {
        let mut encoder = Encoder::new();
        encoder.u32(numbers.0).i32(numbers.1).u64(numbers.2).i64(numbers.3).boolean(numbers.4);
        encoder.opaque(&opaque).array(&array).optional(optional.as_ref()).opaque_fixed(&fixed);
        let bytes = encoder.into_vec();
        prop_assert_eq!(bytes.len() % 4, 0);
        let mut decoder = Decoder::new(&bytes);
        prop_assert_eq!(
            (decoder.u32(), decoder.i32(), decoder.u64(), decoder.i64(), decoder.boolean()),
            (Ok(numbers.0), Ok(numbers.1), Ok(numbers.2), Ok(numbers.3), Ok(numbers.4))
        );
        prop_assert_eq!(decoder.opaque(opaque.len()), Ok(&opaque[..]));
        prop_assert_eq!(decoder.array(array.len(), 8), Ok(array));
        prop_assert_eq!(decoder.optional(), Ok(optional));
        prop_assert_eq!(decoder.opaque_fixed(), Ok(fixed));
        prop_assert_eq!(decoder.position(), bytes.len());
        prop_assert_eq!(decoder.finish(), Ok(()));
    }

    #[test]
    fn no_input_makes_the_decoder_panic(bytes: Vec<u8>, max: usize) {
        let _ = Decoder::new(&bytes).opaque(max);
        let _ = Decoder::new(&bytes).array::<Opaque>(max, 4);
        let _ = Decoder::new(&bytes).list::<Opaque>();
        let _ = Decoder::new(&bytes).optional::<[u8; 5]>();
        let _ = Decoder::new(&bytes).array_fixed::<bool, 3>();
        let _ = decoded::<Vec<Vec<Opaque>>>(&bytes);
    }

    #[test]
    fn every_cut_of_a_value_is_an_error(value: Vec<Vec<u8>>, cut: prop::sample::Index) {
        let value: Vec<Opaque> = value.into_iter().map(Opaque::from).collect();
        let bytes = encoded(&value);
        prop_assert_eq!(decoded::<Vec<Opaque>>(&bytes), Ok(value));
        let cut = cut.index(bytes.len());
        prop_assert!(decoded::<Vec<Opaque>>(&bytes[..cut]).is_err());
    }
}
