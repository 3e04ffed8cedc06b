//! Properties of types in Rust: spelling, size, and the code to read, write and own a value.

use crate::ast::{Base, Body, Definition, Shape, Type, Value};
use crate::lexer::{Fault, Span, fault};
use crate::model::{Meaning, Model, uses};
use crate::names::type_name;

impl Model {
    /// Returns whether values of the type may borrow from the input.
    pub fn borrows(&self, ty: &Type) -> bool {
        match self.meaning(ty) {
            Meaning::Foreign(_) => false,
            Meaning::Nominal(definition) => self.definition_borrows(definition),
            Meaning::Plain(ty) => match (&ty.base, &ty.shape) {
                (Base::Opaque | Base::String, shape) => matches!(shape, Shape::Variable(_)),
                (Base::Named(_), _) => self.borrows(&element(ty)),
                _ => false,
            },
        }
    }

    /// Returns whether the Rust type has a lifetime.
    pub fn definition_borrows(&self, definition: &Definition) -> bool {
        uses(&definition.body).iter().any(|(ty, _)| self.borrows(ty))
    }

    /// Returns whether the type is `Copy`, and with `hash` also `Hash`.
    pub fn copies(&self, ty: &Type, hash: bool) -> bool {
        match self.meaning(ty) {
            Meaning::Foreign(_) => !hash,
            Meaning::Nominal(definition) => self.definition_copies(definition, hash),
            Meaning::Plain(ty) => match (&ty.base, &ty.shape) {
                (_, Shape::Variable(_)) => false,
                (Base::Named(name), Shape::Optional) if self.is_list(name) => false,
                (Base::Named(_), _) => self.copies(&element(ty), hash),
                _ => true,
            },
        }
    }

    /// Returns whether the definition's type is `Copy`, and with `hash` also `Hash`.
    pub fn definition_copies(&self, definition: &Definition, hash: bool) -> bool {
        uses(&definition.body).iter().all(|(ty, _)| self.copies(ty, hash))
    }

    /// Returns the minimum length of a value on the wire in bytes.
    pub fn wire_min(&self, ty: &Type) -> u64 {
        match self.meaning(ty) {
            Meaning::Foreign(hand) => hand.wire_min,
            Meaning::Nominal(definition) => self.definition_wire_min(definition),
            Meaning::Plain(ty) => match (&ty.base, &ty.shape) {
                (_, Shape::Variable(_) | Shape::Optional) => 4,
                (Base::Opaque, Shape::Fixed(length)) => self.length(length).next_multiple_of(4),
                (_, Shape::Fixed(length)) => self.length(length).saturating_mul(self.wire_min(&element(ty))),
                (Base::Hyper | Base::UnsignedHyper, Shape::One) => 8,
                _ => 4,
            },
        }
    }

    fn definition_wire_min(&self, definition: &Definition) -> u64 {
        match &definition.body {
            Body::Struct(fields) => fields.iter().map(|field| self.wire_min(&field.ty)).sum(),
            Body::Union(union) => {
                let arms = union.arms.iter().map(|arm| &arm.body).chain(&union.default);
                let sizes = arms.map(|body| body.as_ref().map_or(0, |body| self.wire_min(&body.ty)));
                sizes.min().unwrap_or(0).saturating_add(4)
            }
            _ => 4,
        }
    }

    fn length(&self, value: &Value) -> u64 {
        u64::try_from(self.number_of(value)).unwrap_or_default()
    }

    /// Returns a length as a Rust expression of type `usize`.
    fn length_text(&self, value: &Value) -> String {
        match value {
            Value::Number(number) => number.to_string(),
            Value::Name(name) => match self.enum_of(name) {
                Some(_) => self.number_of(value).to_string(),
                None => format!("{name} as usize"),
            },
        }
    }

    fn max_text(&self, max: Option<&Value>) -> String {
        max.map_or_else(|| "u32::MAX as usize".to_owned(), |max| self.length_text(max))
    }

    /// Returns the Rust spelling of the type, with lifetime `'a` if it borrows.
    pub fn rust(&self, ty: &Type) -> String {
        let one = match &ty.base {
            Base::Int => "i32".to_owned(),
            Base::UnsignedInt => "u32".to_owned(),
            Base::Hyper => "i64".to_owned(),
            Base::UnsignedHyper => "u64".to_owned(),
            Base::Bool => "bool".to_owned(),
            Base::Opaque | Base::String => {
                return match &ty.shape {
                    Shape::Fixed(length) => format!("[u8; {}]", self.length_text(length)),
                    _ => "Opaque<'a>".to_owned(),
                };
            }
            Base::Named(name) => self.rust_name(name),
        };
        match &ty.shape {
            Shape::One => one,
            Shape::Fixed(length) => format!("[{one}; {}]", self.length_text(length)),
            Shape::Variable(_) => format!("Vec<{one}>"),
            Shape::Optional if self.is_list_use(ty) => format!("Vec<{one}>"),
            Shape::Optional => format!("Option<{one}>"),
        }
    }

    fn rust_name(&self, name: &str) -> String {
        if let Some(hand) = self.overrides.iter().find(|hand| hand.name == name) {
            return hand.rust.to_owned();
        }
        let lifetime = self.get(name).is_some_and(|definition| self.definition_borrows(definition));
        format!("{}{}", type_name(name), if lifetime { "<'a>" } else { "" })
    }

    fn is_list_use(&self, ty: &Type) -> bool {
        ty.shape == Shape::Optional && matches!(&ty.base, Base::Named(name) if self.is_list(name))
    }

    /// Returns an expression that reads the type from `decoder`, with `?` inside.
    pub fn decode(&self, ty: &Type) -> String {
        let Meaning::Plain(ty) = self.meaning(ty) else { return "decoder.value()?".to_owned() };
        match (&ty.base, &ty.shape) {
            (Base::Opaque, Shape::Fixed(_)) => "decoder.opaque_fixed()?".to_owned(),
            (Base::Opaque | Base::String, Shape::Variable(max)) => {
                format!("Opaque::Borrowed(decoder.opaque({})?)", self.max_text(max.as_ref()))
            }
            (Base::Int, Shape::One) => "decoder.i32()?".to_owned(),
            (Base::UnsignedInt, Shape::One) => "decoder.u32()?".to_owned(),
            (Base::Hyper, Shape::One) => "decoder.i64()?".to_owned(),
            (Base::UnsignedHyper, Shape::One) => "decoder.u64()?".to_owned(),
            (Base::Bool, Shape::One) => "decoder.boolean()?".to_owned(),
            _ => self.decode_many(ty),
        }
    }

    /// Returns the expression for an array. Elements of an alias have the alias' own limits, so
    /// they are read by a closure.
    fn decode_many(&self, ty: &Type) -> String {
        let item = element(ty);
        let closure = match self.meaning(&item) {
            Meaning::Plain(plain) if !primitive(plain) => Some(closure(&self.decode(plain))),
            _ => None,
        };
        let (with, closure) = match closure {
            Some(closure) => ("_with", closure),
            None => ("", String::new()),
        };
        let comma = if closure.is_empty() { "" } else { ", " };
        match &ty.shape {
            Shape::Variable(max) => {
                let max = self.max_text(max.as_ref());
                format!("decoder.array{with}({max}, {}{comma}{closure})?", self.wire_min(&item))
            }
            Shape::Fixed(_) => format!("decoder.array_fixed{with}({closure})?"),
            Shape::Optional if self.is_list_use(ty) => "decoder.list()?".to_owned(),
            _ => format!("decoder.optional{with}({closure})?"),
        }
    }

    /// Returns a call that writes `place`, an expression for a reference to the value.
    pub fn encode(&self, ty: &Type, place: &str) -> String {
        let Meaning::Plain(ty) = self.meaning(ty) else { return format!("encoder.value({place})") };
        match &ty.shape {
            Shape::Fixed(_) if ty.base != Base::Opaque => format!("encoder.array_fixed({place})"),
            Shape::Optional if self.is_list_use(ty) => format!("encoder.list({place})"),
            _ => format!("encoder.value({place})"),
        }
    }

    /// Returns an expression that converts `place`, a value that may borrow, into an owned one.
    pub fn owned(&self, ty: &Type, place: &str) -> String {
        if !self.borrows(ty) {
            return place.to_owned();
        }
        let Meaning::Plain(ty) = self.meaning(ty) else { return format!("{place}.into_owned()") };
        if matches!(ty.base, Base::Opaque | Base::String) {
            return format!("Opaque::Owned({place}.into_owned())");
        }
        let item = element(ty);
        let map = format!("map(|item| {})", self.owned(&item, "item"));
        match &ty.shape {
            Shape::Variable(_) => format!("{place}.into_iter().{map}.collect()"),
            Shape::Optional if self.is_list_use(ty) => format!("{place}.into_iter().{map}.collect()"),
            _ => format!("{place}.{map}"),
        }
    }

    /// Refuses types that [`Model::encode`] and [`Model::decode`] cannot express.
    pub fn check_supported(&self, ty: &Type, span: &Span) -> Result<(), Fault> {
        if ty.shape == Shape::One {
            return Ok(());
        }
        let item = element(ty);
        if matches!(ty.shape, Shape::Variable(_))
            && !matches!(ty.base, Base::Opaque | Base::String)
            && self.wire_min(&item) == 0
        {
            return fault(
                span,
                "elements that take no bytes on the wire would make an array without a limit",
            );
        }
        match self.meaning(&item) {
            Meaning::Plain(plain) if matches!(plain.shape, Shape::Fixed(_)) && plain.base != Base::Opaque => {
                fault(
                    span,
                    "arrays of arrays of a fixed length are not supported; put the inner one into a struct",
                )
            }
            Meaning::Plain(plain) if self.is_list_use(plain) => {
                fault(span, "arrays of linked lists are not supported; put the list into a struct")
            }
            _ => Ok(()),
        }
    }
}

/// Returns a closure around an expression of [`Model::decode`].
fn closure(expression: &str) -> String {
    match expression.strip_suffix('?') {
        Some(call) => format!("|decoder| {call}"),
        None => format!("|decoder| Ok({expression})"),
    }
}

/// Returns the type of one element.
fn element(ty: &Type) -> Type {
    Type { base: ty.base.clone(), shape: Shape::One }
}

/// Returns whether the `xdr` crate reads the type directly.
fn primitive(ty: &Type) -> bool {
    ty.shape == Shape::One && !matches!(ty.base, Base::Opaque | Base::String)
}
