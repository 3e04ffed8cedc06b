//! The worker of an NFSv4.0 client: creates files, and locks bytes of files that NFSv4.1 clients
//! lock as well.

use super::names::{begin, end, forget};
use crate::client::{CELLS, Client, Opened40, SimClient40, at};
use crate::history::Act;
use nfs4::Nfsstat4;
use std::rc::Rc;

/// Creates and locks for some rounds.
pub(crate) async fn work(client: Rc<Client>) {
    let rounds = client.world.lock().plan.rounds * 2;
    let mut old = SimClient40::new(client.clone());
    for round in 0..rounds {
        if client.draw(|rng| rng.one_in(2)) {
            create(&client, &mut old, round).await;
        } else {
            lock(&client, &mut old).await;
        }
        super::think(&client).await;
    }
}

/// Creates and closes a file. Each name is new, so each OPEN succeeds, and a copy of it gets the
/// same answer.
async fn create(client: &Rc<Client>, old: &mut SimClient40, round: usize) {
    let name = format!("h{}-{}-{round}", client.host, client.life);
    let tag = client.draw(|rng| rng.next() | 1);
    let place = begin(client, "z", &name, Act::Create { tag, repeats: false });
    match old.create(&at("z"), &name).await {
        Opened40::Open { handle, stateid, .. } => {
            end(client, place, true);
            client.pause(0, 3000).await;
            old.close(&handle, stateid).await;
        }
        Opened40::Failed(Nfsstat4::NFS4ERR_EXIST) => end(client, place, false),
        Opened40::Failed(_) => forget(client, place),
        Opened40::Unknown => {}
    }
}

/// Locks and unlocks ranges of a file.
async fn lock(client: &Rc<Client>, old: &mut SimClient40) {
    let (name, steps) = client.draw(|rng| (format!("l{}", rng.below(2)), rng.between(1, 4)));
    let Some(mut file) = old.open_for_locks("l", &name).await else { return };
    for _ in 0..steps {
        let (start, length, write) =
            client.draw(|rng| (rng.below(CELLS), rng.between(1, CELLS / 2), rng.one_in(2)));
        old.lock(&mut file, write, start, length).await;
        client.pause(0, 4000).await;
        if client.draw(|rng| rng.one_in(2)) && !file.lost {
            old.renew(&mut file).await;
        }
        if client.draw(|rng| rng.one_in(3)) {
            old.unlock(&mut file, (start + 1).min(CELLS - 1), length / 2 + 1).await;
        }
    }
    super::think(client).await;
    old.unlock(&mut file, 0, CELLS).await;
    old.close_locked(file).await;
}
