//! Key derivation: DK with n-fold of RFC 3961 section 5, and the KDF of RFC 8009 section 3.

use aes::cipher::BlockCipherEncrypt;
use zeroize::{Zeroize, Zeroizing};

use crate::{
    cipher::{BLOCK, Block},
    hash::Hash,
    hmac::HmacKey,
    suite::Suite,
};

/// The purpose of a derived key: the byte behind the usage number, RFC 3961 section 5.3.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyPurpose {
    /// Kc: for a checksum of data that is not encrypted.
    Checksum = 0x99,
    /// Ke: for encrypting data.
    Encryption = 0xaa,
    /// Ki: for the checksum inside encrypted data.
    Integrity = 0x55,
}

/// A buffer for a derived key; the used length depends on the purpose.
pub(crate) type Derived = Zeroizing<[u8; 32]>;

/// Derives the key of a usage from a protocol key of the enctype's length. Returns the key and its
/// length in bytes.
pub(crate) fn derive<S: Suite>(key: &[u8; 32], usage: u32, purpose: KeyPurpose) -> (Derived, usize) {
    let [a, b, c, d] = usage.to_be_bytes();
    let constant = [a, b, c, d, purpose as u8];
    let key_len = S::ENCTYPE.key_len();
    if !S::ENCTYPE.encrypts_then_macs() {
        return (dk(&S::encrypt_key(key).library, &constant), key_len);
    }
    // RFC 8009 section 5: the keys of the checksums are as long as the checksums.
    let len = if purpose == KeyPurpose::Encryption { key_len } else { S::ENCTYPE.mac_len() };
    (kdf_hmac_sha2::<S::Hash>(&key[..key_len], &constant, len), len)
}

/// DK of RFC 3961 section 5.1: encrypts the folded constant repeatedly. For a cipher with blocks of
/// 128 bits and any key length, random-to-key is the identity, RFC 3962 section 6.
pub(crate) fn dk(
    key: &impl BlockCipherEncrypt<BlockSize = aes::cipher::consts::U16>,
    constant: &[u8],
) -> Derived {
    let mut block: Block = n_fold::<BLOCK>(constant).into();
    let mut derived = Derived::default();
    for part in derived.as_chunks_mut::<BLOCK>().0 {
        key.encrypt_block(&mut block);
        *part = block.into();
    }
    block.as_mut_slice().zeroize();
    derived
}

/// KDF-HMAC-SHA2 of RFC 8009 section 3 with an empty context; `len` in bytes.
fn kdf_hmac_sha2<H: Hash>(key: &[u8], label: &[u8], len: usize) -> Derived {
    let bits = (len as u32 * 8).to_be_bytes();
    let mut digest = HmacKey::<H>::new(key).mac(&[&1u32.to_be_bytes(), label, &[0], &bits]);
    let mut derived = Derived::default();
    derived[..len].copy_from_slice(&digest[..len]);
    digest.zeroize();
    derived
}

/// n-fold of RFC 3961 section 5.1: concatenates copies of the input, each rotated right by 13 bits
/// more than the one before, and adds the pieces of `N` bytes in ones' complement.
pub(crate) fn n_fold<const N: usize>(input: &[u8]) -> [u8; N] {
    let total = lcm(N, input.len());
    let mut sum = [0u32; N];
    for at in 0..total {
        sum[at % N] += u32::from(rotated_byte(input, at));
    }
    // The carry out of the top is added at the bottom. Two rounds propagate it; a third is needed
    // if all bits are one.
    for _ in 0..3 {
        let mut carry = 0;
        for digit in sum.iter_mut().rev() {
            *digit += carry;
            carry = *digit >> 8;
            *digit &= 0xff;
        }
        if let Some(last) = sum.last_mut() {
            *last += carry;
        }
    }
    sum.map(|digit| digit as u8)
}

/// Returns byte `at` of the endless sequence of rotated copies.
fn rotated_byte(input: &[u8], at: usize) -> u8 {
    let bits = input.len() * 8;
    let (copy, byte) = (at / input.len(), at % input.len());
    // The copy is rotated right by r, so bit i of the copy is bit i - r of the input.
    let first = (byte * 8 + bits - (13 * copy) % bits) % bits;
    let (index, shift) = (first / 8, first % 8);
    let pair = u16::from_be_bytes([input[index], input[(index + 1) % input.len()]]);
    (pair >> (8 - shift)) as u8
}

fn lcm(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}
