//! Private files: each client reads its own, and none reads that of another.

use crate::client::{CacheThis, Client, at, lookup, read};
use crate::contents::{BLOCK, private_content, private_path};
use nfs4::{NfsResop4, Nfsstat4, Read4Res, Stateid4};
use std::rc::Rc;

/// Reads private files for some rounds.
pub(crate) async fn work(client: Rc<Client>) {
    let (rounds, clients) = {
        let inner = client.world.lock();
        (inner.plan.rounds, inner.plan.clients)
    };
    for _ in 0..rounds {
        let of = client.draw(|rng| rng.below(clients));
        let name = private_path(of);
        let name = name.trim_start_matches("k/");
        let last = || [lookup(name), read(Stateid4::ANONYMOUS, 0, BLOCK as u32)];
        if let Ok(reply) = client.run(CacheThis::No, || at("k").into_iter().chain(last()).collect()).await {
            check(&client, of, reply.status, reply.results.last());
        }
        super::think(&client).await;
    }
}

fn check(client: &Client, of: usize, status: Nfsstat4, result: Option<&NfsResop4<'_>>) {
    match result {
        Some(NfsResop4::OP_READ(Read4Res::NFS4_OK(ok)))
            if of == client.host && *ok.data == *private_content(of) => {}
        _ if of != client.host && status == Nfsstat4::NFS4ERR_ACCESS => {}
        _ if of == client.host => client.complain("an owner reads its private file", status),
        _ => client.complain("a private file is read by its owner only", status),
    }
}
