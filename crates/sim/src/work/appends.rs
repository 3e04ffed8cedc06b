//! Records that several clients append to one file, each under a lock of the whole file, as
//! programs do with a mail folder or a log.

use crate::client::{CELLS, CacheThis, Client, ClientOpen, Lost, commit, getattr_size, put, size_of, write};
use crate::history::Append;
use nfs4::*;
use std::cell::RefCell;
use std::rc::Rc;

/// Bytes of a record: its number and its complement.
pub(crate) const RECORD: usize = 16;

/// Returns the bytes of a record.
pub(crate) fn record(id: u64) -> Vec<u8> {
    [id.to_be_bytes(), (!id).to_be_bytes()].concat()
}

/// Returns the numbers of a file's records; `None` for bytes that are no record.
pub(crate) fn records(content: &[u8]) -> Vec<Option<u64>> {
    let id = |bytes: &[u8]| Some(u64::from_be_bytes(bytes.get(..8)?.try_into().ok()?));
    content.chunks(RECORD).map(|bytes| id(bytes).filter(|id| record(*id) == bytes)).collect()
}

/// Appends for some rounds.
pub(crate) async fn work(client: Rc<Client>) {
    let rounds = client.world.lock().plan.rounds;
    for _ in 0..rounds {
        if let Ok(open) = client.open("a", "log", 4).await {
            let id = client.draw(|rng| rng.next());
            append(&client, &open, id).await;
            client.close(open).await;
        }
        super::think(&client).await;
    }
}

async fn append(client: &Rc<Client>, open: &Rc<RefCell<ClientOpen>>, id: u64) {
    let mut tries = 0;
    loop {
        match client.lock(open, true, 0, CELLS).await {
            Ok(true) => break,
            _ if open.borrow().lost || tries == 20 => return,
            _ => client.pause(50, 2000).await,
        }
        tries += 1;
    }
    let (begin, host) = (client.world.now(), client.host);
    let size = client.with(open, CacheThis::No, |open| vec![put(&open.handle), getattr_size()]).await;
    let size = size.ok().flatten().and_then(|reply| size_of(&reply));
    if let Some(size) = size.filter(|_| is_locked(open)) {
        let at = {
            let mut inner = client.world.lock();
            inner.history.appends.push(Append { client: host, id, begin, acked: None });
            inner.history.appends.len() - 1
        };
        if put_record(client, open, size, id).await.is_ok() {
            let now = client.world.now();
            client.world.lock().history.appends[at].acked = Some(now);
        }
    }
    client.unlock(open, 0, CELLS).await;
}

fn is_locked(open: &Rc<RefCell<ClientOpen>>) -> bool {
    let open = open.borrow();
    !open.lost && open.locked.is_exclusive() && open.locker.is_some()
}

/// Writes a record and puts it on stable storage, as long as the lock is held.
async fn put_record(
    client: &Rc<Client>,
    open: &Rc<RefCell<ClientOpen>>,
    size: u64,
    id: u64,
) -> Result<(), Lost> {
    let unstable = client.draw(|rng| rng.one_in(2));
    let stable = if unstable { StableHow4::UNSTABLE4 } else { StableHow4::FILE_SYNC4 };
    for _ in 0..200 {
        let operations = |open: &ClientOpen| {
            let stateid = open.locker.unwrap_or(Stateid4::INVALID);
            vec![put(&open.handle), write(stateid, size, record(id), stable)]
        };
        if !is_locked(open) {
            return Err(Lost);
        }
        // After a restart the write is repeated at the same offset: no other client can have had
        // the lock.
        let Ok(reply) = client.with(open, CacheThis::Yes, operations).await else { continue };
        let Some(NfsResop4::OP_WRITE(Write4Res::NFS4_OK(written))) =
            reply.as_ref().and_then(|reply| reply.results.last())
        else {
            return Err(Lost);
        };
        if written.committed != StableHow4::UNSTABLE4 {
            return if is_locked(open) { Ok(()) } else { Err(Lost) };
        }
        let verifier = written.writeverf;
        let reply = client.with(open, CacheThis::No, |open| vec![put(&open.handle), commit()]).await;
        let Ok(reply) = reply else { continue };
        match reply.as_ref().and_then(|reply| reply.results.last()) {
            Some(NfsResop4::OP_COMMIT(Commit4Res::NFS4_OK(ok))) if ok.writeverf == verifier => {
                return if is_locked(open) { Ok(()) } else { Err(Lost) };
            }
            Some(NfsResop4::OP_COMMIT(Commit4Res::NFS4_OK(_))) => {}
            _ => return Err(Lost),
        }
    }
    Err(Lost)
}
