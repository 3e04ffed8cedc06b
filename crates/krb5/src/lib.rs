//! Kerberos per-message tokens (RFC 4121) over the AES enctypes of RFC 3962 and RFC 8009.
//!
//! A [`ContextKeys`] holds what one established security context needs in both directions.
//! [`wrap`], [`unwrap`], [`get_mic`] and [`verify_mic`] take batches: messages are independent of
//! each other, and CBC encryption, which is serial within a message, runs across the messages of a
//! batch.
//!
//! This crate does no I/O, reads no clock and draws no randomness: confounders and sequence numbers
//! are arguments. Context establishment is not done here; the `gss` crate exports the keys of an
//! established context. Only the AES enctypes exist: there is no DES, no 3DES and no RC4 to
//! negotiate down to.
//!
//! # Which instructions are used
//!
//! CBC encryption and hashing wait for themselves: most of a core is idle while one chain is worked
//! on. So the messages of a batch go through lanes, up to 16 at once; a lane whose message ends
//! takes the next one. [`Cpu`] names the sets of instructions, [`cpu()`] is the one in use: the
//! best that the processor has, found out at run time, or what `ORTHRUS_CPU` names. A [`Run`] takes
//! another one for a batch, and lets others have their turn.
//!
//! | `ORTHRUS_CPU` | encryption | decryption | SHA-1 |
//! |---|---|---|---|
//! | `avx512` | VAES, four lanes to a register | VAES, 16 blocks at a time | many: AES between the rounds of SHA-1 in lanes |
//! | `avx2` | VAES, two lanes to a register, or as with `aesni` | VAES, 16 blocks at a time, or as with `aesni` | as with `aesni` |
//! | `aesni` | eight lanes in turn | 8 blocks at a time | AES between the SHA instructions, up to four messages in turn |
//! | `portable` | the `aes` crate | the `aes` crate | hash and cipher apart |
//!
//! A message that is short and alone takes no lane (`alone`). A few messages go as with `aesni` on
//! `avx512`, too; how many are few depends on who made the processor (`simd`, `hash/units.rs`). The
//! last column is how messages are sealed. A few of RFC 8009 (with SHA-384: one) are sealed like a
//! few with SHA-1, the hash one block behind the cipher; many by cipher and hash apart. What is
//! opened with SHA-1 is decrypted message by message and hashed in lanes, tile by tile. Other
//! processors than x86-64 go by `portable`. Where the `aes` crate finds no hardware its software is
//! constant-time, and slow: [`hardware_accelerated`] tells.
//!
//! `cargo run --release -p orthrus-krb5 --example throughput` measures all sets; `cargo xtask bench
//! krb5` puts them beside others' libraries and the limit of the core. Results are in
//! `benches/results`.

#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(
        dead_code,
        unused_imports,
        unused_variables,
        reason = "other processors have the portable path alone"
    )
)]

mod alone;
mod cipher;
mod cpu;
mod cts;
mod derive;
mod enctype;
mod error;
mod fused;
mod hash;
mod hmac;
mod keys;
mod mac_each;
mod mic;
mod portable;
mod run;
mod segments;
#[cfg(target_arch = "x86_64")]
mod simd;
mod token;
mod unwrap;
#[cfg(test)]
mod vectors;
mod walk;
mod wrap;

pub use cpu::{CPU_VARIABLE, Cpu, CpuError, cpu, select};
pub use enctype::Enctype;
pub use error::{KeyError, TokenError};
#[doc(hidden)]
pub use hash::measure;
pub use keys::{ContextKeys, Role};
pub use mic::{MicMessage, VerifyMessage, get_mic, get_mic_with, verify_mic, verify_mic_with};
pub use run::{Pause, Run};
pub use segments::Segments;
pub use token::{MIC_TOKEN_MAX, MicToken};
pub use unwrap::{UnwrapMessage, Unwrapped, unwrap, unwrap_with};
pub use wrap::{WRAP_HEADROOM, WrapMessage, wrap, wrap_with};

/// Reports whether AES runs in hardware on this machine.
pub fn hardware_accelerated() -> bool {
    aes::hardware_accelerated()
}
