//! Opens with share_deny, with and without delegations, of files that several clients want at once.

use crate::client::{CacheThis, Client, Reservation, at, getattr_size, lookup, size_of};
use crate::history::SizeLook;
use crate::trace::digest;
use nfs4::*;
use std::rc::Rc;

/// The files of this worker, in their own directory.
pub(crate) const FILES: [&str; 2] = ["x0", "x1"];

/// Delegations that an OPEN may want.
const WANTS: [u32; 4] = [
    OPEN4_SHARE_ACCESS_WANT_NO_DELEG,
    OPEN4_SHARE_ACCESS_WANT_READ_DELEG,
    OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG,
    OPEN4_SHARE_ACCESS_WANT_ANY_DELEG,
];

/// Opens and closes for some rounds.
pub(crate) async fn work(client: Rc<Client>) {
    let rounds = client.world.lock().plan.rounds;
    for _ in 0..rounds {
        let (file, looks, access, deny, want, stays) = client.draw(|rng| {
            let deny = if rng.one_in(3) { rng.between(1, 3) as u32 } else { 0 };
            let want = WANTS[rng.below(WANTS.len())];
            let file = FILES[rng.below(FILES.len())];
            (file, rng.one_in(4), rng.between(1, 3) as u32, deny, want, rng.one_in(2))
        });
        if looks {
            look(&client, file).await;
        } else if let Ok(Some(open)) =
            client.open_as("x", file, 5, Reservation { access: access | want, deny }).await
        {
            client.pause(0, 6000).await;
            client.close(open).await;
            if !stays {
                client.return_all().await;
            }
        }
        super::think(&client).await;
    }
    client.return_all().await;
}

/// Reads the size of a file, which the holder of a write delegation may have changed.
async fn look(client: &Rc<Client>, name: &str) {
    let begin = client.world.now();
    let operations = || at("x").into_iter().chain([lookup(name), getattr_size()]).collect();
    let Ok(reply) = client.run(CacheThis::No, operations).await else { return };
    let Some(size) = size_of(&reply) else {
        return client.complain("a readable file has a size", reply.status);
    };
    let mut inner = client.world.lock();
    let (end, file) = (inner.now, digest(format!("x/{name}").as_bytes()));
    let client = (client.host, client.life);
    inner.history.sizes.push(SizeLook { client, file, size, begin, end });
}
