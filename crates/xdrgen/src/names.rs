//! Rust names for the identifiers of an RFC.

/// Returns the Rust name of a type: `EXCHANGE_ID4args` is `ExchangeId4Args`, `nfs_fh4` is `NfsFh4`.
///
/// Splits the identifier at `_`, and between a digit and a letter behind it. Each piece starts with
/// a capital; the rest of an all-capital piece becomes lower case.
pub fn type_name(identifier: &str) -> String {
    let mut pieces = Vec::new();
    for part in identifier.split('_') {
        let mut piece = String::new();
        for next in part.chars() {
            if next.is_ascii_alphabetic() && piece.ends_with(|last: char| last.is_ascii_digit()) {
                pieces.push(std::mem::take(&mut piece));
            }
            piece.push(next);
        }
        pieces.push(piece);
    }
    pieces.iter().map(|piece| capitalized(piece)).collect()
}

fn capitalized(piece: &str) -> String {
    let mut letters = piece.chars();
    let Some(first) = letters.next() else { return String::new() };
    let shouted = !piece.contains(|letter: char| letter.is_ascii_lowercase());
    let rest = letters.as_str();
    let rest = if shouted { rest.to_ascii_lowercase() } else { rest.to_owned() };
    format!("{}{rest}", first.to_ascii_uppercase())
}

/// Returns the name of a field or variant: verbatim, but escaped if it is a keyword of Rust.
pub fn field_name(identifier: &str) -> String {
    const KEYWORDS: &[&str] = &[
        "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn",
        "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
        "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "static",
        "struct", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where",
        "while", "yield",
    ];
    match identifier {
        // These four cannot be raw identifiers.
        "self" | "Self" | "super" | "crate" => format!("{identifier}_"),
        _ if KEYWORDS.contains(&identifier) => format!("r#{identifier}"),
        _ => identifier.to_owned(),
    }
}

/// Returns the output file of a type: the operation's name for types such as `READ4args`, else
/// `None`.
pub fn operation(identifier: &str) -> Option<String> {
    let end = identifier.find(|letter: char| letter.is_ascii_digit())?;
    let (name, _) = identifier.split_at(end);
    let shouted = !name.is_empty() && name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_');
    let name = name.to_ascii_lowercase();
    let escaped = field_name(&name);
    shouted.then(|| if escaped == name { name } else { format!("{name}_") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_by_the_rule_of_the_project() {
        for (rfc, rust) in [
            ("EXCHANGE_ID4args", "ExchangeId4Args"),
            ("READ4resok", "Read4Resok"),
            ("nfsstat4", "Nfsstat4"),
            ("nfs_fh4", "NfsFh4"),
            ("nfs_argop4", "NfsArgop4"),
            ("open_to_lock_owner4", "OpenToLockOwner4"),
            ("COMPOUND4res", "Compound4Res"),
            ("utf8str_cis", "Utf8StrCis"),
            ("nfsv4_1_file_layout4", "Nfsv41FileLayout4"),
            ("CB_GETATTR4resok", "CbGetattr4Resok"),
        ] {
            assert_eq!(type_name(rfc), rust);
        }
    }

    #[test]
    fn keywords_are_escaped() {
        assert_eq!(field_name("type"), "r#type");
        assert_eq!(field_name("self"), "self_");
        assert_eq!(field_name("eia_flags"), "eia_flags");
    }

    #[test]
    fn types_of_an_operation_share_a_file() {
        assert_eq!(operation("OPEN_DOWNGRADE4resok").as_deref(), Some("open_downgrade"));
        assert_eq!(operation("open_claim4"), None);
        assert_eq!(operation("nfs_fh4"), None);
    }
}
