//! Contents of files: blocks that name the write that filled them, and the private files.

/// Bytes of a block, which the number of its write fills.
pub(crate) const BLOCK: usize = 64;
/// Blocks of a file.
pub(crate) const BLOCKS: usize = 10;

/// Returns the bytes of a block.
pub(crate) fn block(id: u64) -> Vec<u8> {
    id.to_be_bytes().repeat(BLOCK / 8)
}

/// Returns the number of the write that fills a block: 0 for an unwritten block, `None` if there is
/// no single one.
pub(crate) fn id_of(bytes: &[u8]) -> Option<u64> {
    let mut words = bytes.chunks(8).map(|word| word.try_into().ok().map(u64::from_be_bytes));
    let first = words.next()??;
    words.all(|word| word == Some(first)).then_some(first)
}

/// Returns the path of a client's private file.
pub(crate) fn private_path(host: usize) -> String {
    format!("k/secret{host}")
}

/// Returns the content of a client's private file.
pub(crate) fn private_content(host: usize) -> Vec<u8> {
    block(0x7365_6372_6574_0000 + host as u64)
}
