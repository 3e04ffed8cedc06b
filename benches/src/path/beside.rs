//! Beside NFS-Ganesha: the server's processor time for the same requests on the same folder.

use super::LENGTH;
use super::rows::{ExportStore, RANDOM_READ, SEQUENTIAL_DEPTH, SEQUENTIAL_READ};
use crate::ganesha::{self, Ganesha, Package};
use crate::load_target::{LoadTarget, TargetLoad};
use crate::output::{BenchOutput, Floor};
use crate::stopped;
use crate::test_bed::TestBed;
use bench::measuring::{Sample, compare};
use bench::workload::TransferShape;
use bench::{Endpoint, ExportMount, Flavor};
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;

/// Requests in flight for Kerberos, from the row's own downwards: Ganesha 4.3 leaves calls
/// unanswered when several are in flight, and both servers are compared where it does not.
const DEPTHS: [usize; 5] = [SEQUENTIAL_DEPTH, 8, 4, 2, 1];

/// Measures the rows that are compared with Ganesha, if it can run here.
///
/// # Errors
/// When Ganesha does not start, or when the program fails; Ganesha's failures under load become
/// part of the output.
pub(super) fn measure(
    output: &mut BenchOutput,
    test_bed: &TestBed,
    rounds: u32,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    println!();
    let package = match Package::find(ganesha::Which::Installed) {
        Ok(package) => package,
        Err(reason) => {
            output.note(&format!("skipped: {reason}"));
            return Ok(());
        }
    };
    if !package.exports_tmpfs() {
        output.note(&format!("skipped: {} exports no tmpfs; `bench peers` compares on ext4", package.name()));
        return Ok(());
    }
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let start = || {
        Ganesha::start(&package, test_bed.work(), &test_bed.export(), test_bed.site().realm(), address, None)
    };
    let ganesha = test_bed.cores().on_server(start)?;
    output.note(&format!("peer: {}, the same folder on tmpfs, on the same core in turns", package.name()));
    output.note(ganesha::METADATA_REMARK);
    let own = test_bed.load_target(stop);
    let pair = PeerPair {
        own: &own,
        peer: LoadTarget { pid: ganesha.pid(), address, ..test_bed.load_target(stop) },
        name: package.name(),
        rounds,
    };

    let (own, peer) = pair.measure(Flavor::Sys, RANDOM_READ)?;
    match peer {
        Ok(peer) => {
            pair.report(
                output,
                &format!("cpu/op sys against {}", pair.name),
                RANDOM_READ,
                &own,
                &peer,
                Floor::AtMost(0.25),
            );
        }
        Err(reason) => output.note(&format!("cpu/op sys against {0}: {0} failed: {reason}", pair.name)),
    }
    for depth in DEPTHS {
        if stopped(stop) {
            return Ok(());
        }
        let load = at_depth(SEQUENTIAL_READ, depth);
        let (own, peer) = pair.measure(Flavor::Krb5p, load)?;
        match peer {
            Ok(peer) => {
                output.note(&format!("krb5p sequential reads: {depth} in flight for both"));
                let row = &format!("cpu/GB krb5p seqread against {}", pair.name);
                pair.report(output, row, load, &own, &peer, Floor::AtMost(0.1));
                break;
            }
            Err(reason) => output.note(&format!("krb5p, {depth} in flight: {} failed: {reason}", pair.name)),
        }
    }
    Ok(())
}

fn at_depth(load: TargetLoad, depth: usize) -> TargetLoad {
    match load {
        TargetLoad::Transfer(shape) => TargetLoad::Transfer(TransferShape { depth, ..shape }),
        TargetLoad::Metadata => load,
    }
}

/// The two servers of a comparison.
struct PeerPair<'a> {
    own: &'a LoadTarget<'a>,
    peer: LoadTarget<'a>,
    /// The peer's, with its version.
    name: String,
    rounds: u32,
}

/// Ganesha's repetitions, or why there are none.
type PeerSamples = Result<Vec<Sample>, String>;

impl PeerPair<'_> {
    /// Measures both in turns.
    fn measure(&self, flavor: Flavor, load: TargetLoad) -> anyhow::Result<(Vec<Sample>, PeerSamples)> {
        let mut own = self.own.mount(ExportStore::Tmpfs.export(), flavor, self.own.options(flavor)?)?;
        let mut peer = self.mount_peer(flavor, load).map_err(|error| format!("{error:#}"));
        let (mut own_measured, mut peer_measured) = (Vec::new(), Vec::new());
        for round in 0..self.rounds {
            own_measured.extend(self.own.repeat(&mut own, load, round, LENGTH)?);
            let Ok(mount) = &mut peer else { break };
            match self.peer.repeat(mount, load, round, LENGTH) {
                Ok(one) => peer_measured.extend(one),
                Err(error) => peer = Err(format!("{error:#}")),
            }
        }
        own.finish()?;
        let peer = peer.map(|mut mount| {
            // The folder is temporary, so remaining files do no harm.
            let _ = mount.finish();
            peer_measured
        });
        Ok((own_measured, peer))
    }

    /// A session with no more slots than the load needs: already the file is written no deeper.
    fn mount_peer(&self, flavor: Flavor, load: TargetLoad) -> anyhow::Result<ExportMount> {
        let mut options = self.peer.options(flavor)?;
        if let TargetLoad::Transfer(shape) = load {
            options.slots_max = u32::try_from(shape.depth)?;
        }
        self.peer.mount(ExportStore::Tmpfs.export(), flavor, options)
    }

    fn report(
        &self,
        output: &mut BenchOutput,
        row: &str,
        load: TargetLoad,
        own: &[Sample],
        peer: &[Sample],
        floor: Floor,
    ) {
        let unit = load.unit();
        for (name, measured) in [("orthrus", own), (self.name.as_str(), peer)] {
            let line = super::flavors::raw(output, &|what| format!("{row}: {name}, {what}"), unit, measured);
            println!("  {name:14}{line}");
        }
        let ratio = compare(own, peer, |a, b| Some(a.server_cost(unit)? / b.server_cost(unit)?));
        let Some(ratio) = ratio else { return };
        output.interval(row, "ratio", ratio, Some(floor));
        println!(
            "  {row}: {:5.3} [{:.3} to {:.3}]   {}",
            ratio.median,
            ratio.low,
            ratio.high,
            floor.verdict(ratio.median)
        );
    }
}
