//! The throughput of this core's AES and hash units with full lanes, from register-only kernels
//! that run between the rows.

use super::program::{ColumnProgram, ColumnSource};
use super::row::{TokenOperation, TokenRow};
use bench::measuring::Interval;
use krb5::{Cpu, Enctype};
use std::time::Duration;

/// How long a kernel runs, each time.
const LENGTH: Duration = Duration::from_millis(4);

/// The kernels of `limit.c`.
const KERNELS: [&str; 5] = ["aes", "aes-chain", "hash", "hash-chain", "both"];

/// One program for each width of the registers.
const WIDE: ColumnSource = source(
    "limit-64",
    &["-DWIDTH=64", "-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq", "-mvaes", "-maes", "-mbmi2"],
);
const MIDDLE: ColumnSource = source("limit-32", &["-DWIDTH=32", "-mavx2", "-mvaes", "-maes", "-mbmi2"]);
const NARROW: ColumnSource = source("limit-16", &["-DWIDTH=16", "-msse4.1", "-maes", "-mbmi2", "-msha"]);
const NARROW_WITHOUT_SHA: ColumnSource = source("limit-16", &["-DWIDTH=16", "-msse4.1", "-maes", "-mbmi2"]);

const fn source(name: &'static str, flags: &'static [&'static str]) -> ColumnSource {
    ColumnSource { file: "limit.c", name, flags, header: "immintrin.h", package: "build-essential" }
}

/// The kernels and their results.
pub(super) struct LaneCalibration {
    /// From wide to narrow.
    programs: Vec<(Cpu, ColumnProgram)>,
    /// For each program, enctype and kernel the rates in GB/s, as [`LaneCalibration::slot`] counts.
    rates: Vec<Vec<f64>>,
}

/// The rates of one path for one enctype, in GB/s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    /// AES with full lanes.
    pub aes: f64,
    /// The hash with full lanes.
    pub hash: f64,
    /// Both at once, as many bytes of each.
    pub both: f64,
    /// CBC encryption of one message.
    pub aes_chain: f64,
    /// The hash of one message.
    pub hash_chain: f64,
}

impl LaneCalibration {
    /// Compiles and starts the programs that this processor can run.
    ///
    /// # Errors
    /// When the compiler does not take them.
    pub(super) fn start() -> anyhow::Result<Self> {
        let narrow = if has_sha() { NARROW } else { NARROW_WITHOUT_SHA };
        let mut programs = Vec::new();
        for (cpu, source) in [(Cpu::Avx512, WIDE), (Cpu::Avx2, MIDDLE), (Cpu::AesNi, narrow)] {
            if !cpu.is_available() || (cpu == Cpu::Avx2 && !has_vaes()) {
                continue;
            }
            if let Some(path) = source.build()? {
                programs.push((cpu, ColumnProgram::start(&path, None)?));
            }
        }
        let rates = vec![Vec::new(); programs.len() * Enctype::ALL.len() * KERNELS.len()];
        Ok(Self { programs, rates })
    }

    /// Runs each kernel of an enctype once more.
    pub(super) fn round(&mut self, enctype: Enctype) -> anyhow::Result<()> {
        for index in 0..self.programs.len() {
            for (kernel, name) in KERNELS.iter().enumerate() {
                let slot = Self::slot(index, enctype, kernel);
                let Some((_, program)) = self.programs.get_mut(index) else { continue };
                if let Ok(work) = program.turn(&format!("{name} {}", enctype.etype()), LENGTH)?
                    && let Some(rates) = self.rates.get_mut(slot)
                {
                    rates.push(work.gb_per_s());
                }
            }
        }
        Ok(())
    }

    fn slot(program: usize, enctype: Enctype, kernel: usize) -> usize {
        let enctype = Enctype::ALL.iter().position(|known| *known == enctype).unwrap_or(0);
        (program * Enctype::ALL.len() + enctype) * KERNELS.len() + kernel
    }

    /// Returns the throughput of a path: the best of its own width and narrower ones, as the median
    /// of the rounds.
    pub(super) fn rates(&self, cpu: Cpu, enctype: Enctype) -> Option<Rates> {
        // A library that chooses for itself may use everything.
        let allowed = |width: &Cpu| cpu == Cpu::Portable || rank(*width) >= rank(cpu);
        let best = |kernel| {
            let programs = self.programs.iter().enumerate().filter(|(_, (width, _))| allowed(width));
            let medians = programs.filter_map(|(index, _)| {
                let rates = self.rates.get(Self::slot(index, enctype, kernel))?;
                Some(Interval::of(rates.iter().copied())?.median)
            });
            medians.reduce(f64::max)
        };
        let [aes, aes_chain, hash, hash_chain, both] = [best(0)?, best(1)?, best(2)?, best(3)?, best(4)?];
        Some(Rates { aes, hash, both, aes_chain, hash_chain })
    }
}

fn rank(cpu: Cpu) -> usize {
    Cpu::ALL.iter().position(|known| *known == cpu).unwrap_or(Cpu::ALL.len())
}

/// Without it AES goes by blocks, as in the narrow program.
fn has_vaes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("vaes");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

fn has_sha() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("sha");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// The bytes that AES and the hash really see of a message.
struct Bytes {
    aes: f64,
    hash: f64,
}

impl Bytes {
    fn of(row: &TokenRow) -> Self {
        let sha2 = row.enctype.etype() >= 19;
        // Confounder and copy of the header; RFC 4121 section 4.2.6.2, signed: the header alone.
        let covered = row.len + if row.operation.seals() { 32 } else { 16 };
        let state = if sha2 && row.operation.seals() { 16 } else { 0 };
        let (block, length) = if row.enctype.etype() == 20 { (128, 16) } else { (64, 8) };
        // The pad of the key is prepared; the outer hash is one block.
        let hash = (covered + state + 1 + length).next_multiple_of(block) + block;
        let aes = if row.operation.seals() { covered.next_multiple_of(16) } else { 0 };
        Self { aes: aes as f64, hash: hash as f64 }
    }
}

impl Rates {
    /// Returns the limit of a row in GB/s of plaintext: full lanes, or the dependency chain of a
    /// single message.
    pub(super) fn limit(&self, row: &TokenRow) -> f64 {
        let bytes = Bytes::of(row);
        let apart = bytes.aes / self.aes + bytes.hash / self.hash;
        let common = bytes.aes.min(bytes.hash);
        let at_once =
            common / self.both + (bytes.aes - common) / self.aes + (bytes.hash - common) / self.hash;
        let full = apart.min(at_once) * row.count as f64;
        let encrypts = row.operation == TokenOperation::Wrap;
        let chain = if encrypts { bytes.aes / self.aes_chain } else { 0.0 };
        let time = full.max(chain).max(bytes.hash / self.hash_chain);
        (row.count * row.len) as f64 / time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: Rates = Rates { aes: 10.0, hash: 5.0, both: 4.0, aes_chain: 1.0, hash_chain: 0.5 };

    fn row(operation: TokenOperation, count: usize, len: usize) -> TokenRow {
        TokenRow { operation, enctype: Enctype::Aes256CtsHmacSha1_96, count, len, contexts: 1 }
    }

    #[test]
    fn many_messages_are_limited_by_the_units_and_one_by_its_chains() {
        let many = RATES.limit(&row(TokenOperation::Wrap, 16, 1 << 20));
        assert!((3.9..=4.0).contains(&many), "{many}");
        let one = RATES.limit(&row(TokenOperation::Wrap, 1, 1 << 20));
        assert!((0.49..=0.5).contains(&one), "{one}");
    }

    #[test]
    fn a_signature_of_128_bytes_takes_four_blocks_of_sha_1() {
        let bytes = Bytes::of(&row(TokenOperation::Mic, 16, 128));
        assert_eq!((bytes.aes, bytes.hash), (0.0, 256.0));
    }
}
