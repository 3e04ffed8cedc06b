//! Which instructions the work is done with.

use std::{fmt, str::FromStr, sync::OnceLock};

use thiserror::Error;

/// A set of instructions that messages are protected with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cpu {
    /// AVX-512 with VAES: sixteen messages in four registers.
    Avx512,
    /// AVX2: hashes of several messages in a register; with VAES, which came years later, AES of
    /// two as well.
    Avx2,
    /// AES-NI, and the SHA instructions where the processor has them: one message a register,
    /// several in turn.
    AesNi,
    /// The libraries `aes`, `sha1` and `sha2`, which find out for themselves what the processor
    /// has.
    Portable,
}

/// The environment variable by which programs let their user choose for [`select`].
pub const CPU_VARIABLE: &str = "ORTHRUS_CPU";

/// Why a set of instructions cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CpuError {
    /// No set has this name.
    #[error("\"{0}\" is no set of instructions: avx512, avx2, aesni or portable")]
    Unknown(String),
    /// This processor does not have it.
    #[error("this processor cannot do {0}; it can do {available}", available = Available)]
    Unavailable(Cpu),
    /// Work has begun with another one.
    #[error("the instructions were chosen before: {0}")]
    Chosen(Cpu),
}

/// Lists what this processor can do.
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
    /// All of them, the fastest first.
    pub const ALL: [Cpu; 4] = [Cpu::Avx512, Cpu::Avx2, Cpu::AesNi, Cpu::Portable];

    /// Returns the fastest that this processor can do.
    pub fn best() -> Cpu {
        Cpu::available().next().unwrap_or(Cpu::Portable)
    }

    /// Returns all that this processor can do, the fastest first; [`Cpu::Portable`] is always the
    /// last.
    pub fn available() -> impl Iterator<Item = Cpu> {
        Cpu::ALL.into_iter().filter(|cpu| cpu.is_available())
    }

    /// Returns whether this processor can do it.
    pub fn is_available(self) -> bool {
        // Asked several times for each message.
        static AVAILABLE: OnceLock<[bool; Cpu::ALL.len()]> = OnceLock::new();
        AVAILABLE.get_or_init(|| Cpu::ALL.map(Cpu::look))[self as usize]
    }

    /// Looks at the processor.
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

    /// Returns the name that [`CPU_VARIABLE`] knows it by.
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

/// Returns the instruction set of the whole process: the one that [`select`] chose, else
/// [`Cpu::best`]. The first call decides.
pub fn cpu() -> Cpu {
    *CHOSEN.get_or_init(initial)
}

#[cfg(not(test))]
fn initial() -> Cpu {
    Cpu::best()
}

/// Lets `cargo xtask memcheck` choose the path of the unit tests.
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests have an environment")]
fn initial() -> Cpu {
    std::env::var(CPU_VARIABLE).map_or_else(|_| Cpu::best(), |name| name.parse().unwrap())
}

/// Chooses the instruction set of the whole process.
///
/// # Errors
/// [`CpuError::Unavailable`], and [`CpuError::Chosen`] if another one is in use already.
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
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for cpu in Cpu::ALL {
            assert_eq!(cpu.to_string().parse(), Ok(cpu));
        }
        assert_eq!("sse9".parse::<Cpu>(), Err(CpuError::Unknown("sse9".into())));
    }

    #[test]
    fn the_portable_path_is_always_there_and_the_choice_is_made_once() {
        assert_eq!(Cpu::available().last(), Some(Cpu::Portable));
        let chosen = cpu();
        assert_eq!(select(chosen), Ok(()));
        for other in Cpu::ALL.into_iter().filter(|&other| other != chosen) {
            assert!(select(other).is_err());
        }
    }
}
