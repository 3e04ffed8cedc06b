//! The keys that name servers: `addresses`, and `refer` and `locations` of an export.

use super::rules::RuleSettings;
use super::{ExportSettings, Storage};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use vfs::{Location, ServerAddress};

/// One text, or a list of texts.
struct OneOrMany(Vec<String>);

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Texts;

        impl<'de> Visitor<'de> for Texts {
            type Value = OneOrMany;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a location such as \"host:/path\", or a list of them")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<OneOrMany, E> {
                Ok(OneOrMany(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<OneOrMany, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = list.next_element()? {
                    texts.push(text);
                }
                Ok(OneOrMany(texts))
            }
        }

        from.deserialize_any(Texts)
    }
}

/// Reads the names and addresses of this server.
pub(super) fn addresses<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ServerAddress>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
}

/// Reads the places of a file system.
pub(super) fn locations<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Location>, D::Error> {
    let OneOrMany(texts) = OneOrMany::deserialize(from)?;
    texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
}

/// As [`locations`], at least one.
pub(super) fn refer<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Location>, D::Error> {
    let locations = locations(from)?;
    if locations.is_empty() {
        return Err(D::Error::custom("the list is empty; name a location such as \"host:/path\""));
    }
    Ok(locations)
}

/// Checks that an export has no key without a meaning where its files are; returns the wrong key
/// and the reason.
pub(super) fn check_referral(
    export: &ExportSettings,
    storage: &Storage,
) -> Result<(), (&'static str, String)> {
    if !matches!(storage, Storage::Elsewhere(_)) {
        return Ok(());
    }
    let usual = ExportSettings::default();
    let meaningless = [
        ("read_only", export.read_only != usual.read_only),
        ("squash", export.squash != usual.squash),
        ("anon_uid", export.anon_uid != usual.anon_uid),
        ("anon_gid", export.anon_gid != usual.anon_gid),
        ("setid", export.setid != usual.setid),
        ("nested", export.nested != usual.nested),
        ("stable_names", export.stable_names != usual.stable_names),
        ("locations", export.locations != usual.locations),
    ];
    let of_files = |rule: &RuleSettings| {
        rule.read_only.is_some()
            || rule.squash.is_some()
            || rule.anon_uid.is_some()
            || rule.anon_gid.is_some()
    };
    let key = meaningless.into_iter().find(|(_, is_set)| *is_set).map(|(key, _)| key);
    match key.or_else(|| export.rules.iter().any(of_files).then_some("export.rule")) {
        Some(key) => {
            Err((key, "a referral has no files of its own: the servers that `refer` names decide".to_owned()))
        }
        None => Ok(()),
    }
}
