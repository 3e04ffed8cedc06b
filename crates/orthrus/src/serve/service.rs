//! Between the network layer and the server.

use net::{Action, Reply, Request, Service};
use rpc::ConnectionId;
use server::dispatch::Server;
use server::dispatch::{self, Scratch};
use server::engine::Nfs;

/// The server as the network layer sees it.
pub struct NfsService(pub Server<Nfs>);

impl Service for NfsService {
    type Shard = Scratch;

    fn shard(&self) -> Scratch {
        Scratch::new()
    }

    fn tick(&self, scratch: &mut Scratch, requests: &mut Vec<Request>, replies: &mut Vec<Reply>) {
        let arrived = requests.drain(..).map(|request| (request.connection, request.peer, request.record));
        self.0.tick(scratch, arrived, |connection, action| {
            let action = match action {
                dispatch::Action::Send(record) => Action::Send(record),
                dispatch::Action::Close => Action::Close,
            };
            replies.push(Reply { connection, action });
        });
    }

    fn closed(&self, connection: ConnectionId) {
        self.0.closed(connection);
    }
}
