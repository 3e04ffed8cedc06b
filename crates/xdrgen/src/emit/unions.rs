//! Discriminated unions (RFC 4506 section 4.15).

use std::fmt::Write as _;

use super::{derives, lifetimes, written};
use crate::ast::{Base, Body, Declaration, Definition, Type, Union, Value};
use crate::lexer::{Fault, Span, fault};
use crate::model::{Meaning, Model};
use crate::names::{field_name, type_name};

/// The pieces of text that each arm extends.
#[derive(Default)]
struct ArmParts {
    variants: String,
    discriminant: String,
    decode: String,
    encode: String,
    owned: String,
}

/// The discriminant: its spelling in patterns, and its conversion to a number.
struct Discriminant<'a> {
    ty: &'a Type,
    kind: ArmKind<'a>,
}

enum ArmKind<'a> {
    Enum(&'a Definition, &'a [(String, Value, Span)]),
    Bool,
    Int,
    Unsigned,
}

/// Writes the Rust enum of a union.
pub(super) fn write(model: &Model, definition: &Definition, union: &Union) -> Result<String, Fault> {
    let head = Discriminant::new(model, union);
    let mut parts = ArmParts::default();
    let mut labels = 0;
    for arm in &union.arms {
        for (label, span) in &arm.labels {
            let pattern = head.pattern(model, label, span)?;
            parts.arm(model, &variant(label), &pattern, arm.body.as_ref());
            labels += 1;
        }
    }
    if labels < head.values() {
        parts.other(model, &head, &definition.name, union.default.as_ref());
    }
    Ok(text(model, definition, &head, &parts))
}

fn text(model: &Model, definition: &Definition, head: &Discriminant<'_>, parts: &ArmParts) -> String {
    let name = &definition.name;
    let rust = type_name(name);
    let (lifetime, any) = lifetimes(model, definition);
    let derives = derives(model, definition);
    let head = model.rust(head.ty);
    let ArmParts { variants, discriminant, decode, encode, .. } = parts;
    let owned = parts.owned.replace("TYPE::", &format!("{rust}::"));
    let mut text = format!(
        "/// Wire type `{name}`.
        {derives}
        pub enum {rust}{lifetime} {{
            {variants}
        }}

        impl {rust}{any} {{
            /// Returns the discriminant of the union.
            pub const fn discriminant(&self) -> {head} {{
                match self {{
                    {discriminant}
                }}
            }}
        }}

        impl Encode for {rust}{any} {{
            fn encode(&self, encoder: &mut Encoder) {{
                encoder.value(&self.discriminant());
                match self {{
                    {encode}
                }}
            }}
        }}

        impl<'a> Decode<'a> for {rust}{lifetime} {{
            fn decode(decoder: &mut Decoder<'a>) -> Result<Self, Error> {{
                let discriminant: {head} = decoder.value()?;
                Ok(match discriminant {{
                    {decode}
                }})
            }}
        }}

        "
    );
    if !lifetime.is_empty() {
        let _ = writeln!(
            text,
            "impl {rust}<'_> {{
                /// Copies borrowed bytes, so that the value owns all of its data.
                pub fn into_owned(self) -> {rust}<'static> {{
                    match self {{
                        {owned}
                    }}
                }}
            }}
            "
        );
    }
    text
}

impl ArmParts {
    fn arm(&mut self, model: &Model, variant: &str, pattern: &str, body: Option<&Declaration>) {
        let Some(body) = body else {
            let _ = writeln!(self.variants, "/// No data.\n{variant},");
            let _ = writeln!(self.discriminant, "Self::{variant} => {pattern},");
            let _ = writeln!(self.decode, "{pattern} => Self::{variant},");
            let _ = writeln!(self.encode, "Self::{variant} => {{}}");
            let _ = writeln!(self.owned, "Self::{variant} => TYPE::{variant},");
            return;
        };
        let doc = written(&body.ty, &body.name);
        let _ = writeln!(self.variants, "/// `{doc}`.\n{variant}({}),", model.rust(&body.ty));
        let _ = writeln!(self.discriminant, "Self::{variant}(_) => {pattern},");
        let _ = writeln!(self.decode, "{pattern} => Self::{variant}({}),", model.decode(&body.ty));
        let encode = model.encode(&body.ty, "value");
        let _ = writeln!(self.encode, "Self::{variant}(value) => {{ {encode}; }}");
        let owned = model.owned(&body.ty, "value");
        let _ = writeln!(self.owned, "Self::{variant}(value) => TYPE::{variant}({owned}),");
    }

    /// Adds the arm for all other discriminants.
    fn other(
        &mut self,
        model: &Model,
        head: &Discriminant<'_>,
        name: &str,
        default: Option<&Option<Declaration>>,
    ) {
        let head_type = model.rust(head.ty);
        match default {
            None => {
                let value = head.number("other");
                let _ = writeln!(
                    self.decode,
                    "other => return Err(Error::InvalidDiscriminant {{ name: \"{name}\", value: {value} }}),"
                );
            }
            Some(None) => {
                let _ = writeln!(
                    self.variants,
                    "/// Any other discriminant, without data.\nDefault({head_type}),"
                );
                let _ = writeln!(self.discriminant, "Self::Default(other) => *other,");
                let _ = writeln!(self.decode, "other => Self::Default(other),");
                let _ = writeln!(self.encode, "Self::Default(_) => {{}}");
                let _ = writeln!(self.owned, "Self::Default(other) => TYPE::Default(other),");
            }
            Some(Some(body)) => {
                let doc = written(&body.ty, &body.name);
                let ty = model.rust(&body.ty);
                let _ = writeln!(
                    self.variants,
                    "/// Any other discriminant, with `{doc}`.\nDefault({head_type}, {ty}),"
                );
                let _ = writeln!(self.discriminant, "Self::Default(other, _) => *other,");
                let _ = writeln!(self.decode, "other => Self::Default(other, {}),", model.decode(&body.ty));
                let encode = model.encode(&body.ty, "value");
                let _ = writeln!(self.encode, "Self::Default(_, value) => {{ {encode}; }}");
                let owned = model.owned(&body.ty, "value");
                let _ = writeln!(self.owned, "Self::Default(other, value) => TYPE::Default(other, {owned}),");
            }
        }
    }
}

fn variant(label: &Value) -> String {
    match label {
        Value::Name(name) => field_name(name),
        Value::Number(number) if *number < 0 => format!("MINUS_{}", number.unsigned_abs()),
        Value::Number(number) => format!("V{number}"),
    }
}

impl<'a> Discriminant<'a> {
    fn new(model: &'a Model, union: &'a Union) -> Self {
        let ty = &union.discriminant.ty;
        let kind = match model.meaning(ty) {
            Meaning::Nominal(definition) => match &definition.body {
                Body::Enum(values) => ArmKind::Enum(definition, values),
                _ => ArmKind::Unsigned,
            },
            Meaning::Plain(Type { base: Base::Bool, .. }) => ArmKind::Bool,
            Meaning::Plain(Type { base: Base::Int, .. }) => ArmKind::Int,
            _ => ArmKind::Unsigned,
        };
        Self { ty, kind }
    }

    /// Returns the pattern of a label. It may be a value of another enum or a constant; only its
    /// number matters.
    fn pattern(&self, model: &Model, label: &Value, span: &Span) -> Result<String, Fault> {
        let number = model.number_of(label);
        match &self.kind {
            ArmKind::Bool => Ok((number != 0).to_string()),
            ArmKind::Int | ArmKind::Unsigned => Ok(number.to_string()),
            ArmKind::Enum(definition, values) => {
                match values.iter().find(|(_, value, _)| model.number_of(value) == number) {
                    Some((name, ..)) => Ok(format!("{}::{}", type_name(&definition.name), field_name(name))),
                    None => fault(span, format!("`{}` has no value {number}", definition.name)),
                }
            }
        }
    }

    /// Returns the number of possible discriminants.
    fn values(&self) -> usize {
        match &self.kind {
            ArmKind::Enum(_, values) => values.len(),
            ArmKind::Bool => 2,
            ArmKind::Int | ArmKind::Unsigned => usize::MAX,
        }
    }

    fn number(&self, place: &str) -> String {
        match &self.kind {
            ArmKind::Unsigned => place.to_owned(),
            ArmKind::Bool => format!("{place}.into()"),
            ArmKind::Enum(..) | ArmKind::Int => format!("{place} as u32"),
        }
    }
}
