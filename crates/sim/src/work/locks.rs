//! Byte-range locks that several clients want at once.

use crate::client::{CELLS, Client, Lost};
use std::rc::Rc;

/// Locks and unlocks for some rounds.
pub(crate) async fn work(client: Rc<Client>) {
    let rounds = client.world.lock().plan.rounds;
    let name = format!("l{}", client.draw(|rng| rng.below(2)));
    let mut open = None;
    for _ in 0..rounds {
        let file = match open.take() {
            Some(file) => file,
            None => match client.open("l", &name, 3).await {
                Ok(file) => file,
                Err(Lost) => continue,
            },
        };
        let (start, length, write, steps) = client
            .draw(|rng| (rng.below(CELLS), rng.between(1, CELLS / 2), rng.one_in(2), rng.between(1, 4)));
        for step in 0..steps {
            // Overlapping ranges cause upgrades, downgrades, splits and merges.
            let shift = step % 3;
            if client.lock(&file, write ^ (step == 2), (start + shift).min(CELLS - 1), length).await.is_err()
            {
                break;
            }
            client.pause(0, 3000).await;
            if client.draw(|rng| rng.one_in(3)) {
                client.unlock(&file, (start + 1).min(CELLS - 1), length / 2 + 1).await;
            }
        }
        super::think(&client).await;
        client.unlock(&file, 0, CELLS).await;
        let lost = file.borrow().lost;
        if lost || client.draw(|rng| rng.one_in(3)) {
            client.close(file).await;
        } else {
            open = Some(file);
        }
    }
    if let Some(file) = open {
        client.close(file).await;
    }
}
