//! The instruction set in use.

use std::{fmt, str::FromStr, sync::OnceLock};

use thiserror::Error;

/// An instruction set for protecting messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cpu {
    /// AVX-512 with VAES: sixteen messages in four registers.
    Avx512,
    /// AVX2: hashes several messages per register. With VAES, which came years later, AES processes
    /// two messages per register.
    Avx2,
    /// AES-NI, and the SHA instructions if the processor has them: one message per register,
    /// several interleaved.
    AesNi,
    /// The crates `aes`, `sha1` and `sha2`, which detect the features of the processor themselves.
    Portable,
}

/// The environment variable that programs read for [`select`].
pub const CPU_VARIABLE: &str = "ORTHRUS_CPU";

/// The reason why an instruction set cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CpuError {
    /// No set has this name.
    #[error("\"{0}\" is no set of instructions: avx512, avx2, aesni or portable")]
    Unknown(String),
    /// This processor lacks the instruction set.
    #[error("this processor cannot do {0}; it can do {available}", available = Available)]
    Unavailable(Cpu),
    /// Another instruction set is already in use.
    #[error("the instructions were chosen before: {0}")]
    Chosen(Cpu),
}

/// Prints the instruction sets that this processor has.
struct Available;

impl fmt::Display for Available {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, cpu) in Cpu::available().enumerate() {
            write!(f, "{}{cpu}", if n > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

impl Cpu {
    /// All instruction sets, the fastest first.
    pub const ALL: [Cpu; 4] = [Cpu::Avx512, Cpu::Avx2, Cpu::AesNi, Cpu::Portable];

    /// Returns the fastest instruction set of this processor.
    pub fn best() -> Cpu {
        Cpu::available().next().unwrap_or(Cpu::Portable)
    }

    /// Returns the instruction sets of this processor, the fastest first; [`Cpu::Portable`] is
    /// always the last.
    pub fn available() -> impl Iterator<Item = Cpu> {
        Cpu::ALL.into_iter().filter(|cpu| cpu.is_available())
    }

    /// Returns whether this processor has the instruction set.
    pub fn is_available(self) -> bool {
        // Cached, since this is called several times per message.
        static AVAILABLE: OnceLock<[bool; Cpu::ALL.len()]> = OnceLock::new();
        AVAILABLE.get_or_init(|| Cpu::ALL.map(Cpu::look))[self as usize]
    }

    /// Detects the features of the processor.
    fn look(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let aes = has!("aes") && has!("sse4.1") && has!("ssse3");
            match self {
                Cpu::Avx512 => {
                    let wide = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
                    Cpu::Avx2.look() && has!("vaes") && wide
                }
                Cpu::Avx2 => aes && has!("avx2"),
                Cpu::AesNi => aes,
                Cpu::Portable => true,
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self == Cpu::Portable
        }
    }

    /// Returns the name used in [`CPU_VARIABLE`].
    pub const fn name(self) -> &'static str {
        match self {
            Cpu::Avx512 => "avx512",
            Cpu::Avx2 => "avx2",
            Cpu::AesNi => "aesni",
            Cpu::Portable => "portable",
        }
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Cpu {
    type Err = CpuError;

    fn from_str(name: &str) -> Result<Self, CpuError> {
        let known = Cpu::ALL.into_iter().find(|cpu| cpu.name() == name);
        known.ok_or_else(|| CpuError::Unknown(name.to_owned()))
    }
}

static CHOSEN: OnceLock<Cpu> = OnceLock::new();

/// Returns the instruction set of the process: the one that [`select`] chose, else [`Cpu::best`].
/// The first call of either function decides.
pub fn cpu() -> Cpu {
    *CHOSEN.get_or_init(initial)
}

#[cfg(not(test))]
fn initial() -> Cpu {
    Cpu::best()
}

#[cfg(test)]
use tests::initial;

/// Chooses the instruction set of the process.
///
/// # Errors
/// [`CpuError::Unavailable`], and [`CpuError::Chosen`] if another one is already in use.
pub fn select(cpu: Cpu) -> Result<(), CpuError> {
    if !cpu.is_available() {
        return Err(CpuError::Unavailable(cpu));
    }
    match *CHOSEN.get_or_init(|| cpu) {
        chosen if chosen == cpu => Ok(()),
        chosen => Err(CpuError::Chosen(chosen)),
    }
}

#[cfg(test)]
mod tests;
