//! The tests of the paper, and the ones that its authors left open, as cases.

use anyhow::{Result, ensure};

use crate::Unit;
use crate::evaluation::{Blocks, block};
use crate::measuring::{Axes, CacheState, Case, CopyAxes, CopyLoad, Fetch, Load, Part};

/// Name of the evaluation.
pub const LANL: &str = "lanl";

/// The variant that copies over SSH.
pub const SCP: &str = "scp";

/// File sizes of the first test in bytes, and how often a file is copied in one repetition.
const SIZES: [(u64, u32); 6] =
    [(100_000, 5), (1_000_000, 5), (10_000_000, 2), (100_000_000, 1), (1_000_000_000, 1), (2_000_000_000, 1)];

/// Number of files in the second test.
const SMALL_FILES: u64 = 10_000;
const SMALL_SIZE: u64 = 5_000;

/// Number of files in the third test.
const LARGE_FILES: u64 = 20;
const LARGE_SIZE: u64 = 500_000_000;

/// The smallest part of the published sizes that still measures something.
pub const SCALE_MIN: f64 = 0.000_1;

/// The available ways to empty caches before a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caches {
    /// Whether the server's can be made cold.
    pub server: bool,
    /// Whether the client has one that can be made cold.
    pub client: bool,
}

/// The sizes, variants and parts of the evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct LanlScope {
    /// The part of the published sizes and of the number of small files; 1 is as published.
    pub scale: f64,
    /// The variants that copy.
    pub variants: Vec<String>,
    /// The variants that read: all but scp.
    pub readers: Vec<String>,
    /// Variants with one encryption type each, and the one that they are compared with first.
    pub enctypes: Vec<String>,
    /// The parts to measure.
    pub parts: Vec<Part>,
    /// The available ways to empty caches.
    pub caches: Caches,
}

/// Plans it.
///
/// # Errors
/// A scale that is none.
pub fn lanl(scope: &LanlScope) -> Result<Blocks> {
    ensure!((SCALE_MIN..=1.0).contains(&scope.scale), "the scale has to be from {SCALE_MIN} to 1");
    let has = |part: &Part| scope.parts.contains(part);
    let parts = Part::ALL.iter().copied().filter(has).flat_map(|part| match part {
        Part::Sizes => sizes(scope),
        Part::Small => vec![copies(&scope.variants, CopyAxes::of(part), small(scope.scale))],
        Part::Large => vec![copies(&scope.variants, CopyAxes::of(part), large(scope.scale))],
        Part::Caches => caches(scope),
        Part::Enctypes => enctypes(scope),
    });
    Ok(Blocks::new(parts.collect()))
}

/// Returns the bytes of sources that a plan makes, and the most that one variant has at its server
/// at a time.
pub fn room(plan: &Blocks) -> (u64, u64) {
    let mut sources: Vec<(u64, u64)> = Vec::new();
    let (mut most, mut kept) = (0, 0);
    for case in plan.left().iter().filter_map(|cases| cases.first()) {
        match &case.load {
            Load::Copy(copy) => {
                most = most.max(blocks(copy.files, copy.size) * u64::from(copy.times));
                let source = (copy.files, copy.size);
                if !copy.zeros && !sources.contains(&source) {
                    sources.push(source);
                }
            }
            Load::Fetch(fetch) => kept = fetch.size,
            _ => {}
        }
    }
    let made: u64 = sources.iter().map(|(files, size)| blocks(*files, *size)).sum();
    // The file for reads is copied once, and stays until the end.
    (made + kept, most + kept)
}

/// Bytes that files take on a disk, in blocks of 4 KiB.
fn blocks(files: u64, size: u64) -> u64 {
    files.saturating_mul(size.next_multiple_of(4096))
}

fn scaled(number: u64, scale: f64) -> u64 {
    ((number as f64 * scale).round() as u64).max(1)
}

/// Returns the second test at a scale: as many files fewer, of the same size.
pub fn small(scale: f64) -> CopyLoad {
    CopyLoad { files: scaled(SMALL_FILES, scale), size: SMALL_SIZE, zeros: false, times: 1 }
}

/// Returns the third test at a scale: as many files, of a smaller size.
pub fn large(scale: f64) -> CopyLoad {
    CopyLoad { files: LARGE_FILES, size: scaled(LARGE_SIZE, scale), zeros: false, times: 1 }
}

/// Formats bytes as the paper does: kB, MB and GB are powers of ten.
pub fn bytes(count: u64) -> String {
    let trim = |value: f64, unit: &str| {
        let text = format!("{value:.1}");
        format!("{} {unit}", text.strip_suffix(".0").unwrap_or(&text))
    };
    match count {
        1_000_000_000.. => trim(count as f64 / 1e9, "GB"),
        1_000_000.. => trim(count as f64 / 1e6, "MB"),
        1_000.. => trim(count as f64 / 1e3, "kB"),
        _ => format!("{count} B"),
    }
}

/// Returns the title of a copy's case.
pub(super) fn title(copy: &CopyLoad) -> String {
    match copy.files {
        1 => format!("One file of {}", bytes(copy.size)),
        files => format!("{files} files of {}", bytes(copy.size)),
    }
}

fn copied(variants: &[String], group: &str, axes: CopyAxes, load: &Load) -> Vec<Case> {
    let unit = match load {
        Load::Copy(copy) if copy.files > 1 && copy.size <= SMALL_SIZE => Unit::OperationsPerSecond,
        _ => Unit::MegabytesPerSecond,
    };
    block(variants, group, unit, &Axes::Copies(axes), load)
}

fn copies(variants: &[String], axes: CopyAxes, copy: CopyLoad) -> Vec<Case> {
    copied(variants, &title(&copy), axes, &Load::Copy(copy))
}

fn sizes(scope: &LanlScope) -> Vec<Vec<Case>> {
    let one = |(size, times): (u64, u32)| {
        let size = scaled(size, scope.scale);
        let copy = CopyLoad { files: 1, size, zeros: true, times };
        copies(&scope.variants, CopyAxes { bytes: Some(size), ..CopyAxes::of(Part::Sizes) }, copy)
    };
    SIZES.into_iter().map(one).collect()
}

/// Cold first: a warm-up read warms the caches.
fn caches(scope: &LanlScope) -> Vec<Vec<Case>> {
    let size = scaled(LARGE_SIZE, scope.scale);
    let state = |cold: bool| if cold { CacheState::Cold } else { CacheState::Warm };
    let states = [(true, true), (true, false), (false, false)];
    let possible = |(client, server): &(bool, bool)| {
        (!server || scope.caches.server) && (*client || scope.caches.client)
    };
    let block = |(client_cold, server_cold): (bool, bool)| {
        let client =
            if scope.caches.client { format!("client {}, ", state(client_cold)) } else { String::new() };
        let group = format!("Reading {}, {client}server {}", bytes(size), state(server_cold));
        let load = Load::Fetch(Fetch { size, client_cold, server_cold });
        let (client, server) = (Some(state(client_cold)), Some(state(server_cold)));
        let axes = CopyAxes { client, server, ..CopyAxes::of(Part::Caches) };
        copied(&scope.readers, &group, axes, &load)
    };
    states.into_iter().filter(possible).map(block).collect()
}

fn enctypes(scope: &LanlScope) -> Vec<Vec<Case>> {
    let block = |copy: CopyLoad, test: Part| -> Vec<Case> {
        let group = format!("{}, by encryption type", title(&copy));
        let axes = CopyAxes { test: Some(test), ..CopyAxes::of(Part::Enctypes) };
        copied(&scope.enctypes, &group, axes, &Load::Copy(copy))
    };
    vec![block(small(scope.scale), Part::Small), block(large(scope.scale), Part::Large)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(scale: f64) -> LanlScope {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
        LanlScope {
            scale,
            variants: names(&["sys", "krb5p", SCP]),
            readers: names(&["sys", "krb5p"]),
            enctypes: names(&["sys", "krb5p-17"]),
            parts: Part::ALL.to_vec(),
            caches: Caches { server: true, client: false },
        }
    }

    fn groups(plan: &Blocks) -> Vec<&str> {
        plan.left().iter().map(|cases| cases[0].group.as_str()).collect()
    }

    #[test]
    fn at_scale_1_it_is_what_the_paper_did() {
        let plan = lanl(&scope(1.0)).unwrap();
        assert_eq!(
            groups(&plan)[..8],
            [
                "One file of 100 kB",
                "One file of 1 MB",
                "One file of 10 MB",
                "One file of 100 MB",
                "One file of 1 GB",
                "One file of 2 GB",
                "10000 files of 5 kB",
                "20 files of 500 MB",
            ]
        );
        let (sources, copies) = room(&plan);
        // The random folders and the file that is read; at a server 10 GB and that file.
        assert!((10_540_000_000..10_600_000_000).contains(&sources), "{sources}");
        assert!((10_500_000_000..10_501_000_000).contains(&copies), "{copies}");
    }

    #[test]
    fn a_scale_makes_it_smaller_and_never_nothing() {
        let plan = lanl(&scope(0.001)).unwrap();
        let found = groups(&plan);
        assert!(found.contains(&"One file of 100 B") && found.contains(&"10 files of 5 kB"), "{found:?}");
        assert!(found.contains(&"20 files of 500 kB"), "{found:?}");
        for scale in [0.0, -1.0, 1.1, f64::NAN] {
            assert!(lanl(&scope(scale)).is_err(), "{scale}");
        }
    }

    #[test]
    fn caches_are_named_as_far_as_they_can_be_made_cold() {
        let part = |caches| {
            let plan = lanl(&LanlScope { parts: vec![Part::Caches], caches, ..scope(1.0) }).unwrap();
            groups(&plan).iter().map(|group| group.replace("Reading 500 MB, ", "")).collect::<Vec<_>>()
        };
        let all = ["client cold, server cold", "client cold, server warm", "client warm, server warm"];
        assert_eq!(part(Caches { server: true, client: true }), all);
        assert_eq!(part(Caches { server: true, client: false }), ["server cold", "server warm"]);
        assert_eq!(part(Caches { server: false, client: false }), ["server warm"]);
    }

    #[test]
    fn sizes_are_written_as_in_the_paper() {
        let all = [(5, "5 B"), (5_000, "5 kB"), (1_500_000, "1.5 MB"), (2_000_000_000, "2 GB")];
        all.iter().for_each(|(count, text)| assert_eq!(bytes(*count), *text));
    }
}
