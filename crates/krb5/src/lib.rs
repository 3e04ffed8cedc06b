//! Kerberos per-message tokens (RFC 4121) over the AES enctypes of RFC 3962 and RFC 8009.
//!
//! A [`ContextKeys`] holds the keys of one established security context for both directions.
//! [`wrap`], [`unwrap`], [`get_mic`] and [`verify_mic`] take batches: messages are independent of
//! each other, and CBC encryption, which is serial within a message, runs across the messages of a
//! batch.
//!
//! This crate does no I/O, reads no clock and draws no randomness: confounders and sequence numbers
//! are arguments. It does not establish contexts; the `gss` crate exports the keys of an
//! established context. It implements only the AES enctypes, so there is no DES, 3DES or RC4 to
//! negotiate down to.
//!
//! # Instruction sets
//!
//! CBC encryption and hashing are chains of dependent instructions: one chain leaves most of a core
//! idle. So the messages of a batch run in up to 16 lanes at once; when the message of a lane ends,
//! the lane takes the next one. [`Cpu`] names the sets of instructions, and [`cpu()`] returns the
//! one in use: the best that the processor has, or the one that `ORTHRUS_CPU` names. A [`Run`]
//! selects another set for one batch, and can yield to other work during the batch.
//!
//! | `ORTHRUS_CPU` | encryption | decryption | SHA-1 (sealing) |
//! |---|---|---|---|
//! | `avx512` | VAES, 4 lanes a register | VAES, 16 blocks | many: AES between laned SHA-1 rounds |
//! | `avx2` | VAES, 2 lanes a register, or `aesni` | VAES, 16 blocks, or `aesni` | as `aesni` |
//! | `aesni` | 8 lanes in turn | 8 blocks | AES between SHA instructions, up to 4 messages |
//! | `portable` | `aes` crate | `aes` crate | hash and cipher separately |
//!
//! A single short message uses no lane (`single`). On `avx512`, small batches also run as on
//! `aesni`; the threshold depends on the vendor of the processor (`simd`, `hash/units.rs`). The
//! last column of the table is for sealing. Small batches of RFC 8009 (with SHA-384: single
//! messages) are sealed like small batches with SHA-1, but the hash runs one block behind the
//! cipher; larger batches run cipher and hash separately. To open messages with SHA-1, each message
//! is decrypted alone and hashed in lanes, tile by tile. Processors other than x86-64 use
//! `portable`. Where the `aes` crate finds no hardware support, its software is constant-time and
//! slow.
//!
//! `cargo run --release -p orthrus-krb5 --example throughput` measures all sets;
//! `cargo xtask bench krb5` compares them with other libraries and with the limit of the core.
//! Results are in `benches/results`.

#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(
        dead_code,
        unused_imports,
        unused_variables,
        reason = "other processors have the portable path alone"
    )
)]

// The modules that read tokens use no indices; the ciphers and hashes index lanes and rounds.
mod batch_hmac;
mod cipher;
mod cpu;
mod cts;
mod delegation;
mod derive;
mod enctype;
mod error;
mod fused;
mod hash;
mod hmac;
#[warn(clippy::indexing_slicing)]
mod keys;
#[warn(clippy::indexing_slicing)]
mod mic;
mod portable;
mod protocol_key;
mod run;
#[warn(clippy::indexing_slicing)]
mod segment_steps;
mod segments;
#[cfg(target_arch = "x86_64")]
mod simd;
mod single;
mod suite;
#[warn(clippy::indexing_slicing)]
mod token;
#[warn(clippy::indexing_slicing)]
mod unwrap;
#[cfg(test)]
mod vectors;
#[warn(clippy::indexing_slicing)]
mod wrap;

pub use cpu::{CPU_VARIABLE, Cpu, CpuError, cpu, select};
pub use delegation::delegated_through;
pub use enctype::Enctype;
pub use error::{KeyError, TokenError};
#[doc(hidden)]
pub use hash::measure;
pub use keys::ContextKeys;
pub use mic::{MicMessage, VerifyMessage, get_mic, get_mic_with, verify_mic, verify_mic_with};
pub use protocol_key::ProtocolKey;
pub use run::{Pause, Run};
pub use segments::Segments;
pub use token::{MIC_TOKEN_MAX, MicToken, Role};
pub use unwrap::{UnwrapMessage, Unwrapped, unwrap, unwrap_with};
pub use wrap::{WRAP_HEADROOM, WrapMessage, wrap, wrap_with};
