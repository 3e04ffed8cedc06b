//! Compares the output for a grammar with every feature with the code in `sample`, and tests that
//! code.
//!
//! `UPDATE_SAMPLE=1 cargo test -p xdrgen` updates the code in `sample`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;

use sample::*;
use xdr::{Decode, Decoder, Encode, Encoder, Error, Opaque};
use xdrgen::model::Override;
use xdrgen::output;

#[allow(dead_code, unreachable_pub, reason = "in a library, generated code is public and used")]
mod sample;

/// Stands for a type that is written by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u32);

impl Encode for Flags {
    fn encode(&self, encoder: &mut Encoder) {
        encoder.u32(self.0);
    }
}

impl<'a> Decode<'a> for Flags {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self, Error> {
        decoder.u32().map(Self)
    }
}

fn encoded<T: Encode>(value: &T) -> Vec<u8> {
    let mut encoder = Encoder::new();
    value.encode(&mut encoder);
    encoder.into_vec()
}

fn decoded<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, Error> {
    let mut decoder = Decoder::new(bytes);
    let value = T::decode(&mut decoder)?;
    decoder.finish().map(|()| value)
}

fn text(value: &str) -> Opaque<'_> {
    Opaque::Borrowed(value.as_bytes())
}

fn flat() -> Flat4 {
    Flat4 {
        a: -1,
        b: 2,
        c: -3,
        d: WIDE,
        e: true,
        r#type: Colour4::BLUE,
        verifier: *b"verifier",
        many: [7, 8, 9],
        flags: Flags(0x55),
    }
}

#[test]
fn the_checked_in_sample_is_what_the_generator_writes() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let grammars = [("sample.x", include_str!("sample.x")), ("extension.x", include_str!("extension.x"))];
    let hand = [Override { name: "flags4", rust: "crate::Flags", wire_min: 4 }];
    let files = xdrgen::generate(&grammars, &hand).expect("the grammar is sound");
    let root = here.join("../..");
    let format = |(name, text)| (name, output::formatted(&root, text).expect("rustfmt runs"));
    let files: BTreeMap<_, _> = files.into_iter().map(format).collect();
    let folder = here.join("tests/sample");
    if std::env::var_os("UPDATE_SAMPLE").is_some() {
        output::write(&folder, &files).expect("the sample can be written");
    }
    assert_eq!(output::differences(&folder, &files).expect("the sample can be read"), [""; 0]);
}

#[test]
fn numbers_may_be_named_before_they_are_defined() {
    assert_eq!((OCTAL, WIDE, NEGATIVE, LATER), (0o777, u64::MAX, -5, 3));
    assert_eq!((SAMPLE_PROGRAM, SAMPLE_V4, SAMPLEPROC4_LIST), (200_001, 4, 1));
}

#[test]
fn a_struct_is_its_members_in_order() {
    // RFC 4506 section 4.14
    let bytes = encoded(&flat());
    assert_eq!(bytes.len(), 4 + 4 + 8 + 8 + 4 + 4 + 8 + 12 + 4);
    assert_eq!(decoded(&bytes), Ok(flat()));
    for cut in 0..bytes.len() {
        assert!(decoded::<Flat4>(&bytes[..cut]).is_err(), "{cut} bytes are not enough");
    }
}

#[test]
fn borrowed_data_can_be_made_to_outlive_its_input() {
    let deep = Deep4 {
        name: text("name"),
        path: vec![text("a"), text("b")],
        anything: text(""),
        flats: vec![flat()],
        maybe: Some(flat()),
        maybe_name: Some(text("x")),
        paths: vec![vec![text("c")], vec![]],
        both: [1, 2],
    };
    let bytes = encoded(&deep);
    let owned: Deep4<'static> = {
        let copy = bytes.clone();
        decoded::<Deep4>(&copy).expect("it was encoded").into_owned()
    };
    assert_eq!(owned, deep);
}

#[test]
fn the_limit_of_an_alias_holds_inside_arrays() {
    // RFC 4506 sections 4.10 and 4.13
    let path: Path4 = vec![text("123456789")];
    let too_long = Error::TooLong { length: 9, max: SMALL as usize };
    let mut encoder = Encoder::new();
    encoder.opaque(b"").value(&path);
    assert_eq!(Deep4::decode(&mut Decoder::new(encoder.as_slice())), Err(too_long));
    let four: Path4 = vec![text(""); 4];
    let mut encoder = Encoder::new();
    encoder.opaque(b"").value(&four);
    let too_many = Error::TooLong { length: 4, max: COLOUR_MAX as usize };
    assert_eq!(Deep4::decode(&mut Decoder::new(encoder.as_slice())), Err(too_many));
}

#[test]
fn a_linked_list_is_a_vector() {
    // RFC 4506 section 4.19
    let entry = |cookie| Entry4 { cookie, name: text("n") };
    let list = List4Res::RED(List4Resok { entries: vec![entry(1), entry(2)], eof: true });
    let bytes = encoded(&list);
    assert_eq!(bytes.len(), 4 + 2 * (4 + 8 + 8) + 4 + 4);
    assert_eq!(decoded(&bytes), Ok(list));
}

#[test]
fn an_enum_refuses_numbers_that_it_does_not_list() {
    // RFC 4506 section 4.3
    assert_eq!(decoded::<Colour4>(&[0, 0, 0, 3]), Ok(Colour4::GREEN));
    assert_eq!(decoded::<Colour4>(&[0, 0, 0, 4]), Err(Error::InvalidEnum { name: "colour4", value: 4 }));
    assert_eq!(decoded::<Signed4>(&[255; 4]), Ok(Signed4::MINUS));
    assert_eq!(encoded(&Signed4::MINUS), [255; 4]);
    assert_eq!(Colour4::AZURE, Colour4::BLUE);
    assert_eq!(Colour4::BLUE.to_string(), "BLUE");
    assert_eq!(Colour4::ALL, [Colour4::RED, Colour4::GREEN, Colour4::BLUE, Colour4::VIOLET]);
}

#[test]
fn a_union_has_the_arm_of_its_discriminant() {
    // RFC 4506 section 4.15
    let green = ByColour4::ALSO_GREEN(text("g"));
    assert_eq!(green.discriminant(), Colour4::GREEN);
    assert_eq!(decoded(&encoded(&green)), Ok(green));
    let violet = encoded(&Colour4::VIOLET);
    let refused = Err(Error::InvalidDiscriminant { name: "by_colour4", value: 17 });
    assert_eq!(decoded::<ByColour4>(&violet), refused);
    assert_eq!(decoded(&violet), Ok(List4Res::Default(Colour4::VIOLET)));
    let reason = WithDefault4::Default(Colour4::BLUE, text("why"));
    assert_eq!(decoded(&encoded(&reason)), Ok(reason));
}

#[test]
fn a_discriminant_may_be_a_boolean_or_a_number() {
    // RFC 4506 section 4.15
    assert_eq!(decoded(&[0; 4]), Ok(ByBool4::FALSE));
    let given = ByBool4::TRUE(flat());
    assert_eq!(decoded(&encoded(&given)), Ok(given));
    assert_eq!(decoded(&encoded(&ByNumber4::V1(-9))), Ok(ByNumber4::V1(-9)));
    let rest = ByNumber4ThreeRest::MINUS_1;
    let three = ByNumber4::COLOUR_MAX(ByNumber4Three { low: 6, rest });
    assert_eq!(encoded(&three), [0, 0, 0, 3, 0, 0, 0, 6, 255, 255, 255, 255]);
    assert_eq!(decoded(&encoded(&three)), Ok(three));
    assert!(decoded::<ByNumber4>(&[0, 0, 0, 2]).is_err());
}

#[test]
fn a_later_file_extends_an_enum_and_a_union() {
    let more = Several4::VIOLET(text("v"));
    assert_eq!(decoded(&encoded(&more)), Ok(more));
}
