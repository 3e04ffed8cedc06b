//! Hexadecimal encoding, as used by the files in the state folder.

/// Encodes bytes as two lower-case digits each.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes digits to bytes; `None` for an odd length or any other character.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_become_the_bytes_that_they_were_made_of_and_nothing_else_does() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(&hex(&all)), Some(all));
        assert_eq!((unhex("0A"), unhex("")), (Some(vec![10]), Some(Vec::new())));
        for wrong in ["a", "+1", "0g", "ä", " 00"] {
            assert_eq!(unhex(wrong), None, "{wrong}");
        }
    }
}
