//! Names that fit a pattern, in which `*` stands for any characters.

/// Returns whether a name fits a pattern, in which `*` stands for any characters.
pub fn fits_pattern(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, behind)) = name.split_once(part) else { return false };
        name = behind;
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, fitting, other) in [
            ("alice@R", "alice@R", "alice@RR"),
            ("*", "", "-"),
            ("nfs/*@R", "nfs/a.example.org@R", "nfs/a@S"),
            ("*@R", "@R", "@Rx"),
            ("a*b*c", "a-b-b-c", "a-c-b"),
        ] {
            assert!(fits_pattern(pattern, fitting), "{pattern} {fitting}");
            assert!(pattern == "*" || !fits_pattern(pattern, other), "{pattern} {other}");
        }
    }
}
