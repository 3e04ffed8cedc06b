//! A TCP relay that makes connections differ, as several network paths would.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Bytes that are passed on at once.
const PIECE: usize = 64 << 10;

/// A relay to a server; each of its connections is delayed by another time. Its threads end with
/// their connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
}

impl Proxy {
    /// Starts a relay whose n-th connection waits `delays[n]` before each piece; after the last
    /// delay it begins with the first again.
    pub fn start(server: SocketAddr, delays: Vec<Duration>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let address = listener.local_addr().expect("it is bound");
        std::thread::spawn(move || {
            for (index, client) in listener.incoming().enumerate() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) else { return };
                let delay = delays[index % delays.len()];
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let back = (server.try_clone().expect("a socket"), client.try_clone().expect("a socket"));
                std::thread::spawn(move || relay(client, server, delay));
                std::thread::spawn(move || relay(back.0, back.1, Duration::ZERO));
            }
        });
        Self { address }
    }

    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn relay(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let mut piece = vec![0; PIECE];
    while let Ok(count @ 1..) = from.read(&mut piece) {
        std::thread::sleep(delay);
        if to.write_all(&piece[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
