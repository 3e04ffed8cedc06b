//! The variants that are compared: a shape, a pattern of line and a colour each, so that none of
//! them is needed alone.

/// Returns the meaning of a variant for users, in a few words.
pub(crate) fn meaning(variant: &str) -> &'static str {
    match variant {
        "sys" => "trusts the client's word",
        "krb5" => "proves who calls",
        "krb5i" => "proves it, and that nothing was changed",
        "krb5p" => "proves it and encrypts everything",
        "scp" => "copies over SSH",
        "krb5p-17" => "with AES-128 and SHA-1",
        "krb5p-18" => "with AES-256 and SHA-1",
        "krb5p-19" => "with AES-128 and SHA-256",
        "krb5p-20" => "with AES-256 and SHA-384",
        _ => "",
    }
}

/// Returns the class of a variant in the page's style.
pub(crate) fn class(variant: &str) -> &'static str {
    match variant {
        "sys" => "sys",
        "krb5" => "krb5",
        "krb5i" => "krb5i",
        "krb5p" => "krb5p",
        _ => "other",
    }
}

/// Returns how a variant's line is broken.
pub(crate) fn dashes(variant: &str) -> &'static str {
    match variant {
        "sys" => "1 3",
        "krb5" => "6 3",
        "krb5i" => "8 2 2 2",
        "krb5p" => "",
        _ => "3 2",
    }
}

/// Draws a variant's shape around a place.
pub(crate) fn mark(variant: &str, x: f64, y: f64) -> String {
    let class = class(variant);
    let at = format!(r#"transform="translate({x:.1} {y:.1})""#);
    match variant {
        "sys" => format!(r#"<rect class="{class}" {at} x="-1.5" y="-5" width="3" height="10" rx="1"/>"#),
        "krb5" => format!(r#"<circle class="{class}" {at} r="3.6"/>"#),
        "krb5i" => {
            format!(r#"<rect class="{class}" {at} x="-3.4" y="-3.4" width="6.8" height="6.8" rx="1"/>"#)
        }
        "krb5p" => format!(r#"<path class="{class}" {at} d="M0 -4.8L4.8 0L0 4.8L-4.8 0Z"/>"#),
        name => {
            let shape = match name {
                "krb5p-17" => "M0 4.4L4.2 -3.4L-4.2 -3.4Z",
                "krb5p-18" => "M-1.4 -4.4h2.8v3h3v2.8h-3v3h-2.8v-3h-3v-2.8h3Z",
                "krb5p-19" => "M-4.4 -2.4L-2.4 -4.4L4.4 2.4L2.4 4.4Z",
                "krb5p-20" => "M-4.4 0L0 -2.2L4.4 0L0 2.2Z",
                _ => "M0 -4.4L4.2 3.4L-4.2 3.4Z",
            };
            format!(r#"<path class="{class}" {at} d="{shape}"/>"#)
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_variant_of_a_page_has_its_own_marker() {
        let names = ["sys", "krb5", "krb5i", "krb5p", "scp", "krb5p-17", "krb5p-18", "krb5p-19", "krb5p-20"];
        let marks: std::collections::BTreeSet<String> =
            names.iter().map(|name| super::mark(name, 0.0, 0.0)).collect();
        assert_eq!(marks.len(), names.len());
    }
}
