//! Which units of the processor hashes may use.

use super::Hash;
#[cfg(target_arch = "x86_64")]
use super::x86::Way;
use crate::Cpu;

/// The units that a choice of instructions allows and that this processor has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Units {
    /// AVX-512F, BW and VL.
    avx512: bool,
    avx2: bool,
    /// SHA, SSSE3 and SSE4.1.
    sha: bool,
    /// BMI1 and BMI2: instructions for ordinary registers that leave their operands alone.
    bmi: bool,
}

impl Units {
    /// Looks at the processor: a unit that it does not have is never allowed.
    pub(crate) fn of(cpu: Cpu) -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let wide = has!("avx512f") && has!("avx512bw") && has!("avx512vl");
            Self {
                avx512: cpu == Cpu::Avx512 && wide,
                avx2: matches!(cpu, Cpu::Avx512 | Cpu::Avx2) && has!("avx2"),
                sha: cpu != Cpu::Portable && has!("sha") && has!("ssse3") && has!("sse4.1"),
                bmi: cpu != Cpu::Portable && has!("bmi1") && has!("bmi2"),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = cpu;
            Self::default()
        }
    }

    pub(super) fn avx512(self) -> bool {
        self.avx512
    }

    pub(super) fn avx2(self) -> bool {
        self.avx2
    }

    pub(super) fn sha(self) -> bool {
        self.sha
    }

    pub(super) fn bmi(self) -> bool {
        self.bmi
    }

    /// Returns the fastest way of SHA-1 as `examples/hashes.rs` finds it on a Sapphire Rapids; without one it goes by the library.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn sha1(self, lanes: usize) -> Option<Way> {
        match lanes {
            9.. if self.avx512 => Some(Way::Wide),
            4.. if self.avx512 => Some(Way::Narrow),
            6.. if self.avx2 => Some(Way::Avx2),
            _ if self.sha => Some(Way::Sha),
            2.. if self.avx2 => Some(Way::Avx2),
            _ => None,
        }
    }

    /// Returns the fastest way of SHA-256; without one it goes by the library.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn sha256(self, lanes: usize) -> Option<Way> {
        match lanes {
            9.. if self.avx512 => Some(Way::Wide),
            7.. if self.avx512 => Some(Way::Narrow),
            _ if self.sha => Some(Way::Sha),
            4.. if self.avx512 => Some(Way::Narrow),
            2.. if self.avx2 => Some(Way::Avx2),
            _ => None,
        }
    }

    /// Returns the fastest way of SHA-384; without one it goes by the library.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn sha512(self, lanes: usize) -> Option<Way> {
        match lanes {
            5.. if self.avx512 => Some(Way::Wide),
            2.. if self.avx512 => Some(Way::Narrow),
            3.. if self.avx2 => Some(Way::Avx2),
            _ if self.bmi => Some(Way::Scalar),
            2.. if self.avx2 => Some(Way::Avx2),
            _ => None,
        }
    }

    /// Returns how many messages of a hash are worth taking at once.
    pub(super) fn lanes_max<H: Hash>(self) -> usize {
        if self.avx512 {
            H::LANES
        } else if self.avx2 {
            H::LANES / 2
        } else {
            FEW
        }
    }
}

/// How many messages fill the waits of the SHA instructions, or of the libraries' code.
const FEW: usize = 4;
