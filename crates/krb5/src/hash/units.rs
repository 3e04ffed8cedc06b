//! The units of the processor that hashes may use.

#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

use super::LANES_MAX;
#[cfg(target_arch = "x86_64")]
use super::x86::Way;
use crate::Cpu;

/// The units that the chosen instruction set allows and this processor has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Units {
    /// AVX-512F, BW and VL.
    avx512: bool,
    avx2: bool,
    /// SHA, SSSE3 and SSE4.1.
    sha: bool,
    /// BMI1 and BMI2: scalar instructions that keep their operands.
    bmi: bool,
    /// The vendor of the processor; the thresholds depend on it.
    maker: Maker,
}

/// The vendor of the processor. The fastest kernel for a few messages depends on it more than on
/// the features: on AMD (measured on a Zen 5) the SHA instructions process four messages in 1.5
/// times the time of one. On Intel (Sapphire Rapids) rows win from four messages on, and narrow
/// rows have one more port than wide ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Maker {
    Amd,
    /// Intel and all other vendors.
    #[default]
    Other,
}

impl Maker {
    /// Detects the vendor once: in a virtual machine, CPUID is a call to the host.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn here() -> Self {
        static HERE: OnceLock<Maker> = OnceLock::new();
        *HERE.get_or_init(|| {
            let leaf = std::arch::x86_64::__cpuid(0);
            let name = [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes);
            if name.as_flattened() == b"AuthenticAMD" { Maker::Amd } else { Maker::Other }
        })
    }
}

impl Units {
    /// Detects the units. Units that the processor lacks are never allowed.
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
                maker: Maker::here(),
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

    /// Returns the fastest kernel for SHA-1, as measured by `examples/hashes.rs`; `None` means the
    /// `sha1` crate.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn sha1(self, lanes: usize) -> Option<Way> {
        match (lanes, self.maker) {
            (8.., Maker::Amd) | (9.., Maker::Other) if self.avx512 => Some(Way::Wide),
            (4.., Maker::Other) if self.avx512 => Some(Way::Narrow),
            (6.., Maker::Other) if self.avx2 => Some(Way::Avx2),
            _ if self.sha => Some(Way::Sha),
            (2.., _) if self.avx2 => Some(Way::Avx2),
            _ => None,
        }
    }

    /// Returns the fastest kernel for SHA-256; `None` means the `sha2` crate.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn sha256(self, lanes: usize) -> Option<Way> {
        match (lanes, self.maker) {
            (9.., _) if self.avx512 => Some(Way::Wide),
            (7.., Maker::Other) if self.avx512 => Some(Way::Narrow),
            _ if self.sha => Some(Way::Sha),
            (4.., _) if self.avx512 => Some(Way::Narrow),
            (2.., _) if self.avx2 => Some(Way::Avx2),
            _ => None,
        }
    }

    /// Returns the fastest kernel for SHA-384; `None` means the `sha2` crate.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn sha512(self, lanes: usize) -> Option<Way> {
        match (lanes, self.maker) {
            (2.., Maker::Amd) | (5.., Maker::Other) if self.avx512 => Some(Way::Wide),
            (2.., Maker::Other) if self.avx512 => Some(Way::Narrow),
            (3.., _) if self.avx2 => Some(Way::Avx2),
            // The crate's own code, which computes the schedule in vector registers.
            (1, Maker::Amd) if self.avx2 => None,
            _ if self.bmi => Some(Way::Scalar),
            (2.., _) if self.avx2 => Some(Way::Avx2),
            _ => None,
        }
    }

    /// Returns how many messages are worth processing at once, for a hash with `most` lanes.
    pub(super) fn lanes_max(self, most: usize) -> usize {
        // Not for SHA-384: it has half the lanes, and no instructions of its own.
        let by_instructions = self.sha && self.maker == Maker::Amd && most == LANES_MAX;
        match self {
            Self { avx512: true, .. } => most,
            Self { avx2: true, .. } if !by_instructions => most / 2,
            _ => FEW,
        }
    }
}

/// The number of messages that hide the latency of the SHA instructions, or of the crates' code.
const FEW: usize = 6;
