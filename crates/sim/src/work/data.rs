//! Data: each client writes a file of its own, block by block, and reads the files of others.

use crate::client::{CacheThis, Client, ClientOpen, CompoundReply, Lost, commit, put, read, write};
use crate::contents::{BLOCK, BLOCKS, block, id_of};
use crate::history::{ReadOp, WriteOp};
use nfs4::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The write verifier of a write without a reply.
const UNKNOWN: Verifier4 = [0xff; 8];

/// A writer's view of its file.
struct Writer {
    client: Rc<Client>,
    file: u64,
    open: Rc<RefCell<ClientOpen>>,
    /// Writes that may not be on stable storage, by block: the place in the history, and the
    /// verifier.
    loose: BTreeMap<usize, (usize, Verifier4)>,
}

/// Writes and reads for some rounds.
pub(crate) async fn work(client: Rc<Client>) {
    let (rounds, clients) = {
        let inner = client.world.lock();
        (inner.plan.rounds * 2, inner.plan.clients)
    };
    let name = |host: usize, life: u32| format!("f{host}-{life}");
    let Some(open) = reopen(&client, &name(client.host, client.life)).await else { return };
    let file = open.borrow().file;
    let mut writer = Writer { client: client.clone(), file, open, loose: BTreeMap::new() };
    for _ in 0..rounds {
        match client.draw(|rng| rng.below(10)) {
            0..5 => writer.write().await,
            5..7 => writer.commit().await,
            7 => look(&client, &writer.open).await,
            _ => {
                let other = client.draw(|rng| rng.below(clients));
                if let Ok(open) = client.open("d", &name(other, 0), 2).await {
                    look(&client, &open).await;
                    client.close(open).await;
                }
            }
        }
        if writer.open.borrow().lost {
            client.close(writer.open.clone()).await;
            let Some(open) = reopen(&client, &name(client.host, client.life)).await else { return };
            writer.open = open;
        }
        super::think(&client).await;
    }
    while !writer.loose.is_empty() {
        writer.commit().await;
        if writer.open.borrow().lost {
            client.close(writer.open.clone()).await;
            let Some(open) = reopen(&client, &name(client.host, client.life)).await else { return };
            writer.open = open;
        }
    }
    client.close(writer.open).await;
}

/// Opens a file, with many attempts.
async fn reopen(client: &Rc<Client>, name: &str) -> Option<Rc<RefCell<ClientOpen>>> {
    for _ in 0..100 {
        if let Ok(open) = client.open("d", name, 1).await {
            return Some(open);
        }
        client.pause(10, 100).await;
    }
    None
}

impl Writer {
    async fn write(&mut self) {
        let (start, count, stable, id) =
            self.client.draw(|rng| (rng.below(BLOCKS), rng.between(1, 3), rng.below(4), rng.next() | 1));
        let count = count.min(BLOCKS - start);
        let stable =
            [StableHow4::UNSTABLE4, StableHow4::UNSTABLE4, StableHow4::DATA_SYNC4, StableHow4::FILE_SYNC4]
                [stable];
        let at = {
            let mut inner = self.client.world.lock();
            let (begin, file) = (inner.now, self.file);
            let op = WriteOp { file, blocks: (start, count), id, begin, acked: None, durable: None };
            inner.history.writes.push(op);
            inner.history.writes.len() - 1
        };
        self.send(at, stable).await;
    }

    /// Sends a write until it has a reply. If the open is lost, a later commit sends it again.
    async fn send(&mut self, at: usize, stable: StableHow4) {
        let Some(op) = self.client.world.lock().history.writes.get(at).cloned() else { return };
        let (start, count) = op.blocks;
        // Without a reply it may be in memory, on the disk, or nowhere.
        self.loose.extend((start..start + count).map(|block| (block, (at, UNKNOWN))));
        let data = block(op.id).repeat(count);
        loop {
            let operations = |open: &ClientOpen| {
                vec![put(&open.handle), write(open.stateid, (start * BLOCK) as u64, data.clone(), stable)]
            };
            match self.client.with(&self.open, CacheThis::Yes, operations).await {
                Err(Lost) => continue,
                Ok(None) => return,
                Ok(Some(reply)) => return self.written(at, &op, stable, &reply),
            }
        }
    }

    fn written(&mut self, at: usize, op: &WriteOp, asked: StableHow4, reply: &CompoundReply) {
        let Some(NfsResop4::OP_WRITE(Write4Res::NFS4_OK(ok))) = reply.results.last() else {
            return self.client.complain("a file that is open for writing can be written", reply.status);
        };
        let (start, count) = op.blocks;
        let unstable = asked == StableHow4::UNSTABLE4 && ok.committed == StableHow4::UNSTABLE4;
        if unstable {
            self.loose.extend((start..start + count).map(|block| (block, (at, ok.writeverf))));
        } else {
            self.loose.retain(|block, _| !(start..start + count).contains(block));
        }
        // A write that is repeated block by block is complete when all its blocks are.
        let mut left = self.loose.values().filter(|(of, _)| *of == at).peekable();
        let durable = left.peek().is_none();
        let acked = left.all(|(_, verifier)| *verifier != UNKNOWN);
        let mut inner = self.client.world.lock();
        let now = inner.now;
        if let Some(noted) = inner.history.writes.get_mut(at).filter(|_| acked) {
            noted.acked.get_or_insert(now);
            if durable {
                noted.durable.get_or_insert(now);
            }
        }
    }

    /// Sends COMMIT, and repeats the writes that were made under another verifier (RFC 8881 section
    /// 18.3.3).
    async fn commit(&mut self) {
        let reply =
            self.client.with(&self.open, CacheThis::No, |open| vec![put(&open.handle), commit()]).await;
        let Ok(Some(reply)) = reply else { return };
        let Some(NfsResop4::OP_COMMIT(Commit4Res::NFS4_OK(ok))) = reply.results.last() else {
            return self.client.complain("a file can be committed", reply.status);
        };
        let mut lost: Vec<usize> = Vec::new();
        {
            let mut inner = self.client.world.lock();
            let now = inner.now;
            lost.extend(
                self.loose.values().filter(|(_, verifier)| *verifier != ok.writeverf).map(|(at, _)| *at),
            );
            lost.sort_unstable();
            lost.dedup();
            for (at, _) in self.loose.values().filter(|(at, _)| !lost.contains(at)) {
                // Of a partly overwritten write, the rest counts.
                inner.history.writes[*at].durable.get_or_insert(now);
            }
        }
        self.loose.retain(|_, (_, verifier)| *verifier != ok.writeverf);
        for at in lost {
            self.send_again(at).await;
        }
    }

    /// Sends the blocks of a write again that no later write has overwritten.
    async fn send_again(&mut self, at: usize) {
        let blocks: Vec<usize> =
            self.loose.iter().filter(|(_, (of, _))| *of == at).map(|(block, _)| *block).collect();
        let Some(op) = self.client.world.lock().history.writes.get(at).cloned() else { return };
        for start in blocks {
            let part = WriteOp { blocks: (start, 1), ..op.clone() };
            loop {
                let data = block(op.id);
                let offset = (start * BLOCK) as u64;
                let operations = |open: &ClientOpen| {
                    vec![put(&open.handle), write(open.stateid, offset, data.clone(), StableHow4::UNSTABLE4)]
                };
                match self.client.with(&self.open, CacheThis::Yes, operations).await {
                    Err(Lost) => continue,
                    Ok(None) => return,
                    Ok(Some(reply)) => {
                        self.written(at, &part, StableHow4::UNSTABLE4, &reply);
                        break;
                    }
                }
            }
        }
    }
}

/// Reads all blocks of a file into the history.
async fn look(client: &Rc<Client>, open: &Rc<RefCell<ClientOpen>>) {
    let begin = client.world.now();
    let operations =
        |open: &ClientOpen| vec![put(&open.handle), read(open.stateid, 0, (BLOCKS * BLOCK) as u32)];
    let Ok(Some(reply)) = client.with(open, CacheThis::No, operations).await else { return };
    let Some(NfsResop4::OP_READ(Read4Res::NFS4_OK(ok))) = reply.results.last() else {
        return client.complain("a file that is open for reading can be read", reply.status);
    };
    let mut inner = client.world.lock();
    let (end, file, host) = (inner.now, open.borrow().file, client.host);
    let mut bytes = ok.data.to_vec();
    bytes.resize(BLOCKS * BLOCK, 0);
    for (block, bytes) in bytes.chunks(BLOCK).enumerate() {
        inner.history.reads.push(ReadOp { client: host, file, block, id: id_of(bytes), begin, end });
    }
}
