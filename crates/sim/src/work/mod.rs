//! The workers of the clients.

pub(crate) mod appends;
pub(crate) mod data;
pub(crate) mod locks;
pub(crate) mod names;
pub(crate) mod private;
pub(crate) mod shares;
pub(crate) mod v40;

use crate::client::Client;
use std::rc::Rc;

/// Lists the directories and files that exist from the beginning.
pub(crate) fn paths(clients: usize) -> Vec<String> {
    let private = (0..clients).map(|client| format!("p{client}/"));
    let mut paths: Vec<String> = private.collect();
    paths.extend(["s/", "d/", "l/", "a/", "x/", "z/", "k/", "s/old"].map(str::to_owned));
    paths.extend(shares::FILES.map(|name| format!("x/{name}")));
    paths
}

/// Waits between two rounds: mostly briefly, sometimes as long as a lease.
async fn think(client: &Rc<Client>) {
    let long = client.draw(|rng| rng.one_in(6));
    client.pause(0, if long { 20_000 } else { 1500 }).await;
}
