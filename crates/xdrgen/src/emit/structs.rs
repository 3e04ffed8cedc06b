//! Structs (RFC 4506 section 4.14).

use std::fmt::Write as _;

use super::{derives, lifetimes, written};
use crate::ast::{Declaration, Definition};
use crate::model::Model;
use crate::names::{field_name, type_name};

/// Writes the Rust struct of a definition.
pub(super) fn write(model: &Model, definition: &Definition, fields: &[Declaration]) -> String {
    let rust = type_name(&definition.name);
    let (lifetime, any) = lifetimes(model, definition);
    let (mut members, mut decode, mut encode, mut owned) =
        (String::new(), String::new(), String::new(), String::new());
    for field in fields {
        let name = field_name(&field.name);
        let doc = written(&field.ty, &field.name);
        let _ = writeln!(members, "/// `{doc}`.\npub {name}: {},", model.rust(&field.ty));
        let _ = writeln!(decode, "{name}: {},", model.decode(&field.ty));
        let _ = writeln!(encode, "{};", model.encode(&field.ty, &format!("&self.{name}")));
        let _ = writeln!(owned, "{name}: {},", model.owned(&field.ty, &format!("self.{name}")));
    }
    let name = &definition.name;
    let list = if model.is_list(name) { " Its link is not a member: the list is a `Vec`." } else { "" };
    let derives = derives(model, definition);
    let mut text = format!(
        "/// Wire type `{name}`.{list}
        {derives}
        pub struct {rust}{lifetime} {{
            {members}
        }}

        impl Encode for {rust}{any} {{
            fn encode(&self, encoder: &mut Encoder) {{
                {encode}
            }}
        }}

        impl<'a> Decode<'a> for {rust}{lifetime} {{
            fn decode(decoder: &mut Decoder<'a>) -> Result<Self, Error> {{
                Ok(Self {{
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
                    {rust} {{
                        {owned}
                    }}
                }}
            }}
            "
        );
    }
    text
}
