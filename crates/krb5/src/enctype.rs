//! The supported encryption types.

use std::fmt;

/// An encryption type; its value is the number in Kerberos messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i32)]
pub enum Enctype {
    /// AES-128 in CTS mode with HMAC-SHA1 cut to 96 bits, RFC 3962.
    Aes128CtsHmacSha1_96 = 17,
    /// AES-256 in CTS mode with HMAC-SHA1 cut to 96 bits, RFC 3962.
    Aes256CtsHmacSha1_96 = 18,
    /// AES-128 in CTS mode with HMAC-SHA256 cut to 128 bits, RFC 8009.
    Aes128CtsHmacSha256_128 = 19,
    /// AES-256 in CTS mode with HMAC-SHA384 cut to 192 bits, RFC 8009.
    Aes256CtsHmacSha384_192 = 20,
}

impl Enctype {
    /// All enctypes, in the order of their numbers.
    pub const ALL: [Enctype; 4] = [
        Enctype::Aes128CtsHmacSha1_96,
        Enctype::Aes256CtsHmacSha1_96,
        Enctype::Aes128CtsHmacSha256_128,
        Enctype::Aes256CtsHmacSha384_192,
    ];

    /// Returns the enctype with this number, or `None` if it is not supported. DES, 3DES and RC4
    /// are not.
    pub fn from_etype(etype: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|enctype| enctype.etype() == etype)
    }

    /// Returns the enctype's number in Kerberos messages.
    pub const fn etype(self) -> i32 {
        self as i32
    }

    /// Returns the length of a protocol key in bytes.
    pub const fn key_len(self) -> usize {
        match self {
            Enctype::Aes128CtsHmacSha1_96 | Enctype::Aes128CtsHmacSha256_128 => 16,
            Enctype::Aes256CtsHmacSha1_96 | Enctype::Aes256CtsHmacSha384_192 => 32,
        }
    }

    /// Returns the length of the checksum in bytes, after truncation.
    pub const fn mac_len(self) -> usize {
        match self {
            Enctype::Aes128CtsHmacSha1_96 | Enctype::Aes256CtsHmacSha1_96 => 12,
            Enctype::Aes128CtsHmacSha256_128 => 16,
            Enctype::Aes256CtsHmacSha384_192 => 24,
        }
    }

    /// Returns whether the checksum covers the ciphertext (RFC 8009) instead of the plaintext (RFC
    /// 3962).
    pub(crate) const fn encrypts_then_macs(self) -> bool {
        matches!(self, Enctype::Aes128CtsHmacSha256_128 | Enctype::Aes256CtsHmacSha384_192)
    }

    /// Returns the name in the IANA registry of Kerberos encryption types.
    pub const fn name(self) -> &'static str {
        match self {
            Enctype::Aes128CtsHmacSha1_96 => "aes128-cts-hmac-sha1-96",
            Enctype::Aes256CtsHmacSha1_96 => "aes256-cts-hmac-sha1-96",
            Enctype::Aes128CtsHmacSha256_128 => "aes128-cts-hmac-sha256-128",
            Enctype::Aes256CtsHmacSha384_192 => "aes256-cts-hmac-sha384-192",
        }
    }
}

impl fmt::Display for Enctype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
