//! Prints the speed of each hash kernel on one core:
//! `cargo run --release -p orthrus-krb5 --example hashes`.
//!
//! The argument selects rows whose name contains it. The time is the thread's processor time. The
//! clock of the core is measured with a chain of multiplications (three cycles each) and XORs
//! (one). Next to each figure is the limit of the execution units, computed from the operations of
//! a block, see [`bound`].

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock; the crate never does")]

use std::hint::black_box;

use orthrus_krb5::{ContextKeys, Cpu, Enctype, MicMessage, MicToken, ProtocolKey, Role, Run, measure};
use rustix::time::{ClockId, clock_gettime};

/// The length of a lane in bytes: long enough to hide the fixed cost of a call.
const LANE: usize = 4096;
/// The time for one figure in nanoseconds; the best of [`REPEATS`] counts.
const ROUND: u64 = 20_000_000;
const REPEATS: usize = 5;

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let data: Vec<Vec<u8>> = (0..16).map(|lane| vec![lane; LANE + 64]).collect();
    let ways = ["avx512", "avx2", "aesni", "portable", "Wide", "Narrow", "Avx2", "Sha", "Scalar"];
    println!("{:<24}{:>6}{:>10}{:>10}{:>10}{:>8}", "hash, way", "lanes", "GB/s", "cycles", "bound", "of it");
    for (hash, block) in [("SHA-1", 64), ("SHA-256", 64), ("SHA-384", 128)] {
        for way in ways {
            for lanes in 1..=16 {
                let name = format!("{hash} {way}");
                if !name.contains(&wanted) {
                    continue;
                }
                // Unaligned addresses, as in records.
                let slices: Vec<_> = (0..lanes).map(|lane| &data[lane][lane..lane + LANE]).collect();
                let Some((rate, cycles)) = measured(hash, way, &slices, block) else { continue };
                let bound = bound(hash, way, lanes)
                    .map_or(String::new(), |bound| format!("{bound:>10.0}{:>7.0}%", 100.0 * bound / cycles));
                println!("{name:<24}{lanes:>6}{rate:>10.2}{cycles:>10.0}{bound}");
            }
        }
    }
    signatures(&wanted);
}

/// Prints nanoseconds for one MIC of 128 bytes, in batches of 1, 4 and 16.
fn signatures(wanted: &str) {
    println!("\n{:<42}{:>8}{:>8}{:>8}", "ns for a MIC of 128 bytes, batches of", 1, 4, 16);
    for enctype in Enctype::ALL {
        let keys = ContextKeys::new(
            enctype,
            ProtocolKey::AcceptorSubkey(&vec![3; enctype.key_len()]),
            Role::Acceptor,
        );
        let keys = keys.expect("the right length");
        for cpu in Cpu::available() {
            let name = format!("MIC {} {cpu}", enctype.name());
            if name.contains(wanted) {
                let [one, four, sixteen] = [1, 4, 16].map(|count| signed(cpu, &keys, count));
                println!("{name:<42}{one:>8.0}{four:>8.0}{sixteen:>8.0}");
            }
        }
    }
}

fn signed(cpu: Cpu, keys: &ContextKeys, count: usize) -> f64 {
    let data = [7; 128];
    let mut batch: Vec<_> = (0..count as u64)
        .map(|sequence| MicMessage { keys, sequence, data: &data, token: MicToken::EMPTY })
        .collect();
    let mut best = f64::MAX;
    for _ in 0..REPEATS {
        let (started, mut calls, mut spent) = (thread_nanoseconds(), 0, 0);
        while spent < ROUND {
            for _ in 0..64 {
                orthrus_krb5::get_mic_with(&mut Run::new(cpu), black_box(&mut batch));
            }
            calls += 64;
            spent = thread_nanoseconds() - started;
        }
        best = best.min(spent as f64 / f64::from(calls) / count as f64);
    }
    best
}

/// Returns GB/s and the cycles for a block of all lanes, or `None` for an unsupported kernel.
fn measured(hash: &str, way: &str, lanes: &[&[u8]], block: usize) -> Option<(f64, f64)> {
    let blocks = LANE / block;
    let mut best = (0.0, f64::MAX);
    for _ in 0..REPEATS {
        let clock = cycles_per_nanosecond();
        let (started, mut calls) = (thread_nanoseconds(), 0u64);
        let mut spent = 0;
        while spent < ROUND {
            for _ in 0..16 {
                if !measure::hash(hash, way, lanes, blocks) {
                    return None;
                }
            }
            calls += 16;
            spent = thread_nanoseconds() - started;
        }
        let rate = calls as f64 * (lanes.len() * LANE) as f64 / spent as f64;
        if rate > best.0 {
            best = (rate, spent as f64 * clock / (calls as f64 * blocks as f64));
        }
    }
    Some(best)
}

/// Returns the minimum number of cycles for a block of all lanes. It assumes a core with two ports
/// for 512 bits and three for 256 bits, and counts the instructions that need one of them. Loads
/// and stores have their own ports.
///
/// - SHA-1: 80 rounds with 2 rotations, 4 additions and 1 function; 64 words of schedule with 2
///   XORs and 1 rotation; transposing a block: 64 moves and 16 byte swaps for 16 lanes; 5 additions
///   at the end.
/// - SHA-2: a round has 6 rotations, 4 functions of three bits and 7 additions; a word of schedule
///   has 4 rotations, 2 shifts, 2 functions and 3 additions.
/// - Without AVX-512 a rotation takes 3 instructions, and a function of three bits 2 (XOR) to 4
///   (majority).
fn bound(hash: &str, way: &str, lanes: usize) -> Option<f64> {
    let (rounds, words, state) = match hash {
        "SHA-1" => (80.0, 64.0, 5.0),
        "SHA-256" => (64.0, 48.0, 8.0),
        _ => (80.0, 64.0, 8.0),
    };
    let turn = |wide: bool| match (hash, wide) {
        ("SHA-384", true) => 48.0 + 16.0,
        (_, true) => 64.0 + 16.0,
        // The second half of a row is loaded by an instruction that also needs a port.
        ("SHA-384", false) => 16.0 + 16.0 + 16.0,
        (_, false) => 16.0 + 32.0 + 16.0,
    };
    let (round, word) = if hash == "SHA-1" { (7.0, 3.0) } else { (17.0, 11.0) };
    let avx512 = |wide| rounds * round + words * word + state + turn(wide);
    match way {
        "Wide" => Some(avx512(true) / 2.0),
        "Narrow" => Some(avx512(false) / 3.0),
        "avx512" if lanes > if hash == "SHA-384" { 4 } else { 8 } => Some(avx512(true) / 2.0),
        "Avx2" => {
            let (round, word) = if hash == "SHA-1" { (13.0, 6.0) } else { (36.0, 21.0) };
            Some((rounds * round + words * word + state + turn(false)) / 3.0)
        }
        _ => None,
    }
}

fn thread_nanoseconds() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns the clock of the core in GHz.
fn cycles_per_nanosecond() -> f64 {
    const STEPS: u32 = 1_000_000;
    let (mut product, factor) = (black_box(3u64), black_box(5u64));
    let started = thread_nanoseconds();
    for step in 0..STEPS {
        product = (product ^ u64::from(step)).wrapping_mul(factor);
    }
    black_box(product);
    f64::from(4 * STEPS) / (thread_nanoseconds() - started) as f64
}
