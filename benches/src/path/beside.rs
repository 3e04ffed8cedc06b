//! Beside NFS-Ganesha: the server's processor time for the same requests on the same folder.

use super::LENGTH;
use super::rows::{RANDOM_READ, SEQUENTIAL_READ};
use crate::ganesha::{self, Ganesha, Package};
use crate::output::{BenchOutput, Floor};
use crate::peers::{PeerRow, Peers};
use crate::stopped;
use crate::test_bed::TestBed;
use bench::Flavor;
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;

/// Requests in flight for Kerberos, from the row's own downwards: Ganesha 4.3 leaves calls
/// unanswered when several are in flight, and both servers are compared where it does not.
const DEPTHS: [u32; 5] = [16, 8, 4, 2, 1];

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
    let name = package.name();
    if !package.exports_tmpfs() {
        output.note(&format!("skipped: {name} exports no tmpfs; `bench peers` compares on ext4"));
        return Ok(());
    }
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let start = || {
        Ganesha::start(&package, test_bed.work(), &test_bed.export(), test_bed.site().realm(), address, None)
    };
    let ganesha = test_bed.cores().on_server(start)?;
    output.note(&format!("peer: {name}, the same folder on tmpfs, on the same core in turns"));
    output.note(ganesha::METADATA_REMARK);
    let peer = test_bed.site().target(&name, ganesha.pid(), address, "/data");
    let mut peers = Peers { servers: [test_bed.target("/data"), peer], rounds, length: LENGTH, stop };
    peers.row(
        output,
        &PeerRow {
            flavor: Flavor::Sys,
            load: RANDOM_READ,
            depth: 64,
            name: "randread sys, 64 in flight".to_owned(),
            ratio: format!("cpu/op sys against {name}"),
            floor: Some(Floor::AtMost(0.25)),
        },
    );
    for depth in DEPTHS {
        let row = PeerRow {
            flavor: Flavor::Krb5p,
            load: SEQUENTIAL_READ,
            depth,
            name: format!("seqread krb5p, {depth} in flight"),
            ratio: format!("cpu/GB krb5p seqread against {name}"),
            floor: Some(Floor::AtMost(0.1)),
        };
        if stopped(stop) || peers.row(output, &row) {
            break;
        }
    }
    Ok(())
}
