//! What the engine itself costs; run with `--release -- --ignored --nocapture`.

use crate::helper::*;
use nfs4::*;
use rpc::ConnectionId;
use server::engine::Call;
use std::{net::SocketAddr, time::Instant};
use xdr::Encoder;

/// Rounds of the measurement.
const ROUNDS: u32 = 200_000;
/// Where sa_sequenceid stands: tag, minor version, count, operation, session.
const SEQUENCEID_AT: usize = 8 + 4 + 4 + 4 + 16;

#[test]
#[ignore = "a measurement, not a test"]
fn the_time_of_a_read_without_disk_and_network_is_printed() {
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let fh = client.make_file("export", "f", &[7; 1 << 18]);
    let stateid = client.at("export", vec![open("f", 1)]).ok().opened().stateid;
    for count in [0, 4096, 65_536] {
        let ops = [client.next_sequence(), put(&fh), read(stateid, 0, count)];
        let mut args = encode(1, &ops);
        let mut buffer = Vec::new();
        let start = Instant::now();
        for _ in 0..ROUNDS {
            args[SEQUENCEID_AT..SEQUENCEID_AT + 4].copy_from_slice(&client.sequence.to_be_bytes());
            client.sequence += 1;
            let call = Call {
                connection: ConnectionId(1),
                peer: SocketAddr::from(([192, 0, 2, 1], 800)),
                security: &client.security,
                args: &args,
                request_size: args.len(),
                reply_overhead: 0,
                now: client.now,
            };
            buffer.clear();
            let mut reply = Encoder::from_vec(buffer);
            assert_eq!(server.nfs.compound(&call, &mut reply).status, Nfsstat4::NFS4_OK);
            buffer = reply.into_vec();
        }
        client.sequence -= 1;
        println!("READ of {count} bytes: {:?} each", start.elapsed() / ROUNDS);
    }
}
