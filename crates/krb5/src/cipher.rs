//! Which cipher and which hash make up an enctype.

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit, array::Array, consts::U16};

use crate::{
    Enctype,
    hash::{Hash, Sha1, Sha256, Sha384},
    keys::{AnySuite, SuiteKeys},
};

/// A block of AES.
pub(crate) type Block = aes::Block;
/// The length of a block of AES in bytes.
pub(crate) const BLOCK: usize = 16;

/// A key that encrypts.
pub(crate) trait Encrypt: BlockCipherEncrypt<BlockSize = U16> + Send + Sync {}
impl<T: BlockCipherEncrypt<BlockSize = U16> + Send + Sync> Encrypt for T {}

/// A key that decrypts.
pub(crate) trait Decrypt: BlockCipherDecrypt<BlockSize = U16> + Send + Sync {}
impl<T: BlockCipherDecrypt<BlockSize = U16> + Send + Sync> Decrypt for T {}

/// The algorithms of one enctype.
pub(crate) trait Suite: Sized {
    type Encrypt: Encrypt;
    type Decrypt: Decrypt;
    type Hash: Hash;
    const ENCTYPE: Enctype;

    /// Sets up a key of [`Enctype::key_len`] bytes.
    fn encrypt_key(key: &[u8; 32]) -> Self::Encrypt;
    /// Sets up a key of [`Enctype::key_len`] bytes.
    fn decrypt_key(key: &[u8; 32]) -> Self::Decrypt;
    /// Returns the keys if they are of this enctype.
    fn of(suite: &AnySuite) -> Option<&SuiteKeys<Self>>;
}

macro_rules! suite {
    ($name:ident, $enctype:ident, $encrypt:ident, $decrypt:ident, $hash:ident) => {
        pub(crate) struct $name;

        impl Suite for $name {
            type Encrypt = aes::$encrypt;
            type Decrypt = aes::$decrypt;
            type Hash = $hash;
            const ENCTYPE: Enctype = Enctype::$enctype;

            fn encrypt_key(key: &[u8; 32]) -> Self::Encrypt {
                set_up(key)
            }

            fn decrypt_key(key: &[u8; 32]) -> Self::Decrypt {
                set_up(key)
            }

            fn of(suite: &AnySuite) -> Option<&SuiteKeys<Self>> {
                if let AnySuite::$name(keys) = suite { Some(keys) } else { None }
            }
        }
    };
}

suite!(Aes128Sha1, Aes128CtsHmacSha1_96, Aes128Enc, Aes128Dec, Sha1);
suite!(Aes256Sha1, Aes256CtsHmacSha1_96, Aes256Enc, Aes256Dec, Sha1);
suite!(Aes128Sha256, Aes128CtsHmacSha256_128, Aes128Enc, Aes128Dec, Sha256);
suite!(Aes256Sha384, Aes256CtsHmacSha384_192, Aes256Enc, Aes256Dec, Sha384);

/// Takes as much of the key as the cipher asks for.
fn set_up<C: KeyInit>(key: &[u8; 32]) -> C {
    let mut exact = Array::<u8, C::KeySize>::default();
    for (to, from) in exact.iter_mut().zip(key) {
        *to = *from;
    }
    let cipher = C::new(&exact);
    zeroize::Zeroize::zeroize(exact.as_mut_slice());
    cipher
}
