//! An entry point for `examples/hashes.rs`, which measures each hash kernel.

use super::{Hash, Sha1, Sha256, Sha384, Units};
use crate::Cpu;

/// Hashes the first `blocks` blocks of each lane. `way` names an instruction set, which then picks
/// its fastest kernel, or a single kernel. Returns whether this processor supports it.
pub fn hash(hash: &str, way: &str, lanes: &[&[u8]], blocks: usize) -> bool {
    match hash {
        "SHA-1" => by::<Sha1>(way, lanes, blocks),
        "SHA-256" => by::<Sha256>(way, lanes, blocks),
        "SHA-384" => by::<Sha384>(way, lanes, blocks),
        _ => false,
    }
}

fn by<H: Hash>(way: &str, lanes: &[&[u8]], blocks: usize) -> bool {
    let mut columns = H::Columns::default();
    if lanes.is_empty() || lanes.len() > H::LANES {
        return false;
    }
    let done = match way.parse::<Cpu>() {
        Ok(cpu) if cpu.is_available() => {
            H::compress_columns(Units::of(cpu), &mut columns, lanes, blocks);
            true
        }
        Ok(_) => false,
        Err(_) => H::compress_by(way, &mut columns, lanes, blocks),
    };
    std::hint::black_box(&columns);
    done
}
