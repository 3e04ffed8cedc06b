//! Compares every hash kernel with the crates `sha1` and `sha2`.

use super::*;

/// Returns bytes with a long period.
fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|n| ((n * n + 31 * n + 7 * seed) % 251) as u8).collect()
}

/// Compares lanes of different data, at odd addresses, with the results of the crates.
fn agrees<H: Hash>(
    lanes: usize,
    blocks: usize,
    compress: impl FnOnce(&mut H::Columns, &[&[u8]], usize) -> bool,
) where
    H::State: PartialEq + std::fmt::Debug,
{
    let data: Vec<_> = (0..lanes).map(|lane| bytes(H::BLOCK * blocks + lane, lane)).collect();
    let lanes: Vec<_> = data.iter().enumerate().map(|(lane, data)| &data[lane..]).collect();
    let mut columns = H::Columns::default();
    let mut expected = vec![H::INITIAL; lanes.len()];
    for (lane, state) in expected.iter_mut().enumerate() {
        // Every lane starts with its own state.
        H::compress(state, &bytes(H::BLOCK, 100 + lane));
        columns.put(lane, state);
        H::compress(state, &lanes[lane][..blocks * H::BLOCK]);
    }
    if compress(&mut columns, &lanes, blocks) {
        for (lane, state) in expected.iter().enumerate() {
            assert_eq!(columns.get(lane), *state, "lane {lane} of {}, {blocks} blocks", lanes.len());
        }
    }
}

#[test]
fn every_choice_of_instructions_gives_the_digests_of_the_libraries_for_every_number_of_lanes() {
    // FIPS 180-4 section 6
    fn of<H: Hash<State: PartialEq + std::fmt::Debug>>() {
        for cpu in [Cpu::Avx512, Cpu::Avx2, Cpu::AesNi, Cpu::Portable] {
            for lanes in 1..=H::LANES {
                for blocks in [0, 1, 2, 3, 17] {
                    agrees::<H>(lanes, blocks, |columns, lanes, blocks| {
                        H::compress_columns(Units::of(cpu), columns, lanes, blocks);
                        true
                    });
                }
            }
        }
    }
    of::<Sha1>();
    of::<Sha256>();
    of::<Sha384>();
}

#[test]
#[cfg(target_arch = "x86_64")]
fn every_way_gives_the_digests_of_the_libraries_for_every_number_of_lanes() {
    // FIPS 180-4 section 6
    let units = Units::of(Cpu::Avx512);
    for way in x86::Way::ALL {
        for (lanes, blocks) in (1..=LANES_MAX).flat_map(|lanes| [(lanes, 0), (lanes, 1), (lanes, 5)]) {
            agrees::<Sha1>(lanes, blocks, |columns, lanes, blocks| {
                x86::sha1(way, units, &mut columns.0, lanes, blocks)
            });
            agrees::<Sha256>(lanes, blocks, |columns, lanes, blocks| {
                x86::sha256(way, units, &mut columns.0, lanes, blocks)
            });
            if lanes <= Sha384::LANES {
                agrees::<Sha384>(lanes, blocks, |columns, lanes, blocks| {
                    x86::sha512(way, units, &mut columns.0, lanes, blocks)
                });
            }
        }
    }
}

#[test]
fn a_lane_that_is_too_short_is_not_read() {
    // The last lane lacks a byte of its second block.
    let short = |lanes: usize| -> Vec<&[u8]> {
        let mut data: Vec<&[u8]> = vec![&[0; 128]; lanes];
        data[lanes - 1] = &[0; 127];
        data
    };
    let refuses = |what: &str, lanes: usize, compress: &dyn Fn(&[&[u8]])| {
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| compress(&short(lanes))));
        assert!(refused.is_err(), "{what}, {lanes} lanes");
    };
    for (cpu, lanes) in Cpu::available().flat_map(|cpu| (1..=Sha1::LANES).map(move |lanes| (cpu, lanes))) {
        refuses(cpu.name(), lanes, &|lanes| {
            Sha1::compress_columns(Units::of(cpu), &mut Default::default(), lanes, 2);
        });
    }
    #[cfg(target_arch = "x86_64")]
    for way in x86::Way::ALL {
        let by = |lanes: &[&[u8]], blocks| {
            x86::sha1(way, Units::of(Cpu::Avx512), &mut Default::default(), lanes, blocks)
        };
        // An unsupported kernel reads nothing.
        for lanes in (1..=Sha1::LANES).filter(|lanes| by(&vec![&[0; 64][..]; *lanes], 1)) {
            refuses(&format!("{way:?}"), lanes, &|lanes| {
                by(lanes, 2);
            });
        }
    }
}
