//! The sides that are compared: a shape, a pattern of line and a colour each, so that none of them is needed alone.

/// Returns what a side does for who uses it, in a few words.
pub fn meaning(side: &str) -> &'static str {
    match side {
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

/// Returns the class of a side in the page's style.
pub fn class(side: &str) -> &'static str {
    match side {
        "sys" => "sys",
        "krb5" => "krb5",
        "krb5i" => "krb5i",
        "krb5p" => "krb5p",
        _ => "other",
    }
}

/// Returns how a side's line is broken.
pub fn dashes(side: &str) -> &'static str {
    match side {
        "sys" => "1 3",
        "krb5" => "6 3",
        "krb5i" => "8 2 2 2",
        "krb5p" => "",
        _ => "3 2",
    }
}

/// Draws a side's shape around a place.
pub fn mark(side: &str, x: f64, y: f64) -> String {
    let class = class(side);
    let at = format!(r#"transform="translate({x:.1} {y:.1})""#);
    match side {
        "sys" => format!(r#"<rect class="{class}" {at} x="-1.5" y="-5" width="3" height="10" rx="1"/>"#),
        "krb5" => format!(r#"<circle class="{class}" {at} r="3.6"/>"#),
        "krb5i" => {
            format!(r#"<rect class="{class}" {at} x="-3.4" y="-3.4" width="6.8" height="6.8" rx="1"/>"#)
        }
        "krb5p" => format!(r#"<path class="{class}" {at} d="M0 -4.8L4.8 0L0 4.8L-4.8 0Z"/>"#),
        _ => format!(r#"<path class="{class}" {at} d="M0 -4.4L4.2 3.4L-4.2 3.4Z"/>"#),
    }
}
