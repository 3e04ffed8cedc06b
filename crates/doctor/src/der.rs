//! The few forms of DER that a request to a KDC and its error need (RFC 4120 section 5).

/// Returns an element with this tag.
pub(crate) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    match content.len() {
        length @ 0..=127 => bytes.push(length as u8),
        length => {
            bytes.push(0x82);
            bytes.extend_from_slice(&(length as u16).to_be_bytes());
        }
    }
    bytes.extend_from_slice(content);
    bytes
}

/// Returns an element with a context-specific tag.
pub(crate) fn context(number: u8, content: &[u8]) -> Vec<u8> {
    element(0xa0 | number, content)
}

/// Returns a SEQUENCE of elements.
pub(crate) fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    element(0x30, &parts.concat())
}

/// Returns an INTEGER that is not negative.
pub(crate) fn integer(value: u32) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let skip = bytes.iter().take(3).take_while(|byte| **byte == 0).count();
    let mut content = bytes.get(skip..).unwrap_or_default().to_vec();
    if content.first().is_some_and(|first| first & 0x80 != 0) {
        content.insert(0, 0);
    }
    element(2, &content)
}

/// Returns a GeneralString, which Kerberos restricts to ASCII.
pub(crate) fn string(text: &str) -> Vec<u8> {
    element(0x1b, text.as_bytes())
}

/// Reads the first element: its tag, its content, and the bytes behind it.
pub(crate) fn read(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, mut rest) = rest.split_first()?;
    let mut length = usize::from(*first);
    if length >= 0x80 {
        let count = length & 0x7f;
        if count > 3 {
            return None;
        }
        let (digits, after) = rest.split_at_checked(count)?;
        length = digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit));
        rest = after;
    }
    let (content, after) = rest.split_at_checked(length)?;
    Some((*tag, content, after))
}

/// Returns the content of the field with a context-specific tag in the content of a SEQUENCE.
pub(crate) fn field(mut bytes: &[u8], number: u8) -> Option<&[u8]> {
    loop {
        let (tag, content, after) = read(bytes)?;
        if tag == 0xa0 | number {
            return read(content).map(|(_, inner, _)| inner);
        }
        bytes = after;
    }
}
