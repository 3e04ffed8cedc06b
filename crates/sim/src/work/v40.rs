//! Files that a client of NFSv4.0 creates and closes: each name is new, so each OPEN succeeds, and
//! a copy of it gets the same answer.

use super::names::{begin, end, forget};
use crate::client::{Client, Opened40, SimClient40, at};
use crate::history::Act;
use nfs4::Nfsstat4;
use std::rc::Rc;

/// Creates for some rounds.
pub(crate) async fn work(client: Rc<Client>) {
    let rounds = client.world.lock().plan.rounds;
    let mut old = SimClient40::new(client.clone());
    for round in 0..rounds {
        let name = format!("h{}-{}-{round}", client.host, client.life);
        let tag = client.draw(|rng| rng.next() | 1);
        let place = begin(&client, "z", &name, Act::Create { tag, repeats: false });
        match old.create(&at("z"), &name).await {
            Opened40::Open(handle, stateid) => {
                end(&client, place, true);
                client.pause(0, 3000).await;
                old.close(&handle, stateid).await;
            }
            Opened40::Failed(Nfsstat4::NFS4ERR_EXIST) => end(&client, place, false),
            Opened40::Failed(_) => forget(&client, place),
            Opened40::Unknown => {}
        }
        super::think(&client).await;
    }
}
