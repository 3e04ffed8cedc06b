//! Enums (RFC 4506 section 4.3).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::ast::Value;
use crate::lexer::{Fault, Span, fault};
use crate::model::Model;
use crate::names::{field_name, type_name};

/// The parts of a Rust enum that its values decide.
struct EnumParts {
    /// The variants, one for each number.
    variants: String,
    /// Constants for further names of a number.
    same: String,
    /// The list of all variants, in the order of their numbers.
    all: String,
    /// Arms from a number to its variant.
    numbers: String,
    /// Arms from a variant to its name in the RFC.
    names: String,
    is_signed: bool,
}

/// Writes the Rust enum of `name`.
pub(super) fn write(model: &Model, name: &str, values: &[(String, Value, Span)]) -> Result<String, Fault> {
    Ok(text(name, &parts(model, values)?))
}

fn parts(model: &Model, values: &[(String, Value, Span)]) -> Result<EnumParts, Fault> {
    let mut first = BTreeMap::new();
    let (mut variants, mut same) = (String::new(), String::new());
    for (value_name, value, span) in values {
        let number = model.number_of(value);
        if !(-0x8000_0000..=0xffff_ffff).contains(&number) {
            return fault(span, format!("{number} is no value of an enum"));
        }
        let variant = field_name(value_name);
        match first.get(&number) {
            None => {
                let _ = writeln!(variants, "/// `{value_name}`, {number}.\n{variant} = {number},");
                first.insert(number, (variant, value_name));
            }
            Some((other, _)) => {
                let _ = writeln!(
                    same,
                    "/// `{value_name}`, {number}.\npub const {variant}: Self = Self::{other};"
                );
            }
        }
    }
    let all = first.values().fold(String::new(), |all, (variant, _)| all + &format!("Self::{variant}, "));
    let numbers = first.iter().fold(String::new(), |arms, (number, (variant, _))| {
        arms + &format!("{number} => Some(Self::{variant}),\n")
    });
    let names = first
        .values()
        .fold(String::new(), |arms, (variant, rfc)| arms + &format!("Self::{variant} => \"{rfc}\",\n"));
    let is_signed = first.keys().next().is_some_and(|least| *least < 0);
    Ok(EnumParts { variants, same, all, numbers, names, is_signed })
}

fn text(name: &str, parts: &EnumParts) -> String {
    let EnumParts { variants, same, all, numbers, names, is_signed } = parts;
    let rust = type_name(name);
    let (repr, cast) = if *is_signed { ("i32", " as i32") } else { ("u32", "") };
    format!(
        "/// Wire type `{name}`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr({repr})]
        pub enum {rust} {{
            {variants}
        }}

        impl {rust} {{
            {same}
            /// All values, in the order of their numbers.
            pub const ALL: &[Self] = &[{all}];

            /// The value with this number on the wire.
            pub const fn from_u32(value: u32) -> Option<Self> {{
                match value{cast} {{
                    {numbers}
                    _ => None,
                }}
            }}

            /// The name in the RFC.
            pub const fn name(self) -> &'static str {{
                match self {{
                    {names}
                }}
            }}
        }}

        impl std::fmt::Display for {rust} {{
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {{
                out.pad(self.name())
            }}
        }}

        impl Encode for {rust} {{
            #[inline]
            fn encode(&self, encoder: &mut Encoder) {{
                encoder.u32(*self as u32);
            }}
        }}

        impl<'a> Decode<'a> for {rust} {{
            #[inline]
            fn decode(decoder: &mut Decoder<'a>) -> Result<Self, Error> {{
                let value = decoder.u32()?;
                Self::from_u32(value).ok_or(Error::InvalidEnum {{ name: \"{name}\", value }})
            }}
        }}

        "
    )
}
