//! Kerberos per-message tokens (RFC 4121) over the AES enctypes of RFC 3962 and RFC 8009.
//!
//! A [`ContextKeys`] holds what one established security context needs in both directions. [`wrap`],
//! [`unwrap`], [`get_mic`] and [`verify_mic`] take batches: messages are independent of each other, and
//! CBC encryption, which is serial within a message, runs across the messages of a batch.
//!
//! This crate does no I/O, reads no clock and draws no randomness: confounders and sequence numbers are
//! arguments. Context establishment is not done here; the `gss` crate exports the keys of an established
//! context. Only the AES enctypes exist: there is no DES, no 3DES and no RC4 to negotiate down to.
//!
//! # Which instructions are used
//!
//! The `aes`, `sha1` and `sha2` crates look at the processor at run time, no build flags are needed. On x86-64
//! that is VAES (with AVX-512: 64 blocks at a time, else 30) for decryption, AES-NI for chains of blocks, SHA-NI for
//! SHA-1 and SHA-256 and AVX2 for SHA-384; on AArch64 the cryptography extensions. Without any of them the AES
//! code is constant-time software, and slow: [`hardware_accelerated`] tells.
//!
//! CBC encryption and hashing wait for themselves: most of a core is idle while one chain is worked on. A message
//! alone in its context is hashed in the gaps of its encryption; several messages of a context are encrypted 16
//! at a time and hashed 4 at a time, block by block in turn. On one core of an EPYC 9005 (Zen 5), GB/s:
//!
//! | enctype | wrap 1 x 64 KiB | wrap 16 x 64 KiB | unwrap 1 x 64 KiB | unwrap 16 x 64 KiB |
//! |---|---|---|---|---|
//! | 17 | 1.4 | 3.4 | 1.7 | 3.0 |
//! | 18 | 1.0 | 2.9 | 1.6 | 2.6 |
//! | 19 | 1.2 | 2.3 | 1.6 | 2.1 |
//! | 20 | 0.5 | 0.8 | 0.8 | 0.8 |
//!
//! `cargo run --release -p krb5 --example throughput` measures it.

mod cipher;
mod cts;
mod derive;
mod enctype;
mod error;
mod hash;
mod hmac;
mod keys;
mod mic;
mod token;
mod unwrap;
#[cfg(test)]
mod vectors;
mod wrap;

pub use enctype::Enctype;
pub use error::{KeyError, TokenError};
pub use keys::{ContextKeys, Role};
pub use mic::{MicMessage, VerifyMessage, get_mic, verify_mic};
pub use token::{MIC_TOKEN_MAX, MicToken};
pub use unwrap::{UnwrapMessage, Unwrapped, unwrap};
pub use wrap::{WRAP_HEADROOM, WrapMessage, wrap};

/// Reports whether AES runs in hardware on this machine.
pub fn hardware_accelerated() -> bool {
    aes::hardware_accelerated()
}
