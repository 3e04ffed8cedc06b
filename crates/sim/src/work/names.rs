//! Names: created, looked up, renamed and removed, in a directory of the client's own and in a
//! shared one.

use crate::client::{
    CacheThis, Client, CompoundReply, Creates, Lost, Op, Reservation, at, link, lookup, mkdir, open, put,
    remove, rename,
};
use crate::history::{Act, NameOp};
use nfs4::{Close4Args, NfsArgop4, NfsResop4, Nfsstat4, Open4Res, Stateid4};
use std::rc::Rc;

/// Names of a directory.
const NAMES: usize = 5;

/// Works on names for some rounds.
pub(crate) async fn work(client: Rc<Client>) {
    let rounds = client.world.lock().plan.rounds * 2;
    for _ in 0..rounds {
        let shared = client.draw(|rng| rng.one_in(2));
        let directory = if shared { "s".to_owned() } else { format!("p{}", client.host) };
        let (name, other, act) = client.draw(|rng| (rng.below(NAMES), rng.below(NAMES), rng.below(12)));
        let (name, other) = (format!("n{name}"), format!("n{other}"));
        match act {
            0..3 => create(&client, &directory, &name, shared).await,
            3 => make(&client, &directory, &name, |name| vec![mkdir(name)]).await,
            // Hard links of one file are not renamed to each other, which would have no effect (RFC
            // 8881 section 18.26.3).
            4 if shared => make(&client, &directory, &format!("k{name}"), link_of_old).await,
            5 if shared => take(&client, &directory, &format!("k{name}")).await,
            4..7 => take(&client, &directory, &name).await,
            7..9 if name != other => move_name(&client, &directory, &name, &other).await,
            _ => look(&client, &directory, &name).await,
        }
        super::think(&client).await;
    }
}

/// Notes the call of an operation, and returns its place in the history.
pub(super) fn begin(client: &Client, directory: &str, name: &str, act: Act) -> usize {
    let begin = client.world.now();
    let path = format!("{directory}/{name}");
    let op = NameOp { client: client.host, path, act, begin, end: None, done: None, lost: false };
    let mut inner = client.world.lock();
    inner.history.names.push(op);
    inner.history.names.len() - 1
}

/// Notes the reply to an operation.
pub(super) fn end(client: &Client, at: usize, done: bool) {
    let now = client.world.now();
    if let Some(op) = client.world.lock().history.names.get_mut(at) {
        (op.end, op.done) = (Some(now), Some(done));
    }
}

/// Notes that an operation has had no effect.
pub(super) fn forget(client: &Client, at: usize) {
    let now = client.world.now();
    if let Some(op) = client.world.lock().history.names.get_mut(at) {
        (op.act, op.end, op.done) = (Act::Look, Some(now), None);
    }
}

/// Notes the outcome of an operation by its status. `fails` is the status for a name that exists,
/// or does not.
fn answered(client: &Client, at: usize, reply: &CompoundReply, fails: Nfsstat4) {
    match reply.status {
        Nfsstat4::NFS4_OK => end(client, at, true),
        status if status == fails => end(client, at, false),
        status => {
            client.complain("an operation on a name has an expected status", status);
            forget(client, at);
        }
    }
}

async fn create(client: &Rc<Client>, directory: &str, name: &str, shared: bool) {
    let (tag, exclusive) = client.draw(|rng| (rng.next() | 1, rng.one_in(2)));
    let creates = if exclusive { Creates::Exclusive(tag) } else { Creates::Guarded };
    let owner = tag.to_be_bytes();
    let close = |open_stateid| NfsArgop4::OP_CLOSE(Close4Args { seqid: 0, open_stateid });
    let operations = || {
        let last =
            [open(name, &owner, creates, Reservation::PLAIN), NfsArgop4::OP_GETFH, close(Stateid4::CURRENT)];
        at(directory).into_iter().chain(last).collect::<Vec<Op>>()
    };
    loop {
        let place = begin(client, directory, name, Act::Create { tag, repeats: exclusive });
        let reply = loop {
            match client.call(operations(), CacheThis::Yes).await {
                Ok(reply) if is_later(&reply) && opened(&reply).is_none() => client.pause(100, 1500).await,
                other => break other,
            }
        };
        match reply {
            Ok(reply) => match opened(&reply) {
                Some(stateid) => {
                    end(client, place, true);
                    // CLOSE may have got NFS4ERR_DELAY.
                    if let (Some(handle), true) = (reply.handle(), is_later(&reply)) {
                        let _ = client.run(CacheThis::Yes, || vec![put(&handle), close(stateid)]).await;
                    }
                    return;
                }
                None => return answered(client, place, &reply, Nfsstat4::NFS4ERR_EXIST),
            },
            // If no other client removes the name, an exclusive create can be repeated after a
            // restart.
            Err(Lost) => {
                client.world.lock().history.lose(place);
                if shared || !exclusive {
                    return;
                }
            }
        }
    }
}

fn is_later(reply: &CompoundReply) -> bool {
    matches!(reply.status, Nfsstat4::NFS4ERR_DELAY | Nfsstat4::NFS4ERR_GRACE)
}

/// Returns the stateid of a successful OPEN.
fn opened(reply: &CompoundReply) -> Option<Stateid4> {
    reply.results.iter().find_map(|result| match result {
        NfsResop4::OP_OPEN(Open4Res::NFS4_OK(ok)) => Some(ok.stateid),
        _ => None,
    })
}

async fn make(client: &Rc<Client>, directory: &str, name: &str, how: fn(&str) -> Vec<Op>) {
    let tag = client.draw(|rng| rng.next() | 1);
    let place = begin(client, directory, name, Act::Create { tag, repeats: false });
    let operations = || at(directory).into_iter().chain(how(name)).collect();
    match client.run(CacheThis::Yes, operations).await {
        Ok(reply) => answered(client, place, &reply, Nfsstat4::NFS4ERR_EXIST),
        Err(Lost) => client.world.lock().history.lose(place),
    }
}

/// Makes the operations of LINK for a file that always exists.
fn link_of_old(name: &str) -> Vec<Op> {
    [lookup("old"), NfsArgop4::OP_SAVEFH].into_iter().chain(at("s")).chain([link(name)]).collect()
}

async fn take(client: &Rc<Client>, directory: &str, name: &str) {
    let place = begin(client, directory, name, Act::Take);
    let operations = || at(directory).into_iter().chain([remove(name)]).collect();
    match client.run(CacheThis::Yes, operations).await {
        Ok(reply) => answered(client, place, &reply, Nfsstat4::NFS4ERR_NOENT),
        Err(Lost) => client.world.lock().history.lose(place),
    }
}

async fn move_name(client: &Rc<Client>, directory: &str, from: &str, to: &str) {
    let tag = client.draw(|rng| rng.next() | 1);
    let source = begin(client, directory, from, Act::Take);
    let target = begin(client, directory, to, Act::Put { tag });
    let operations = || {
        let saved = [NfsArgop4::OP_SAVEFH, rename(from, to)];
        at(directory).into_iter().chain(saved).collect()
    };
    let Ok(reply) = client.run(CacheThis::Yes, operations).await else {
        let mut inner = client.world.lock();
        inner.history.lose(source);
        return inner.history.lose(target);
    };
    match reply.status {
        Nfsstat4::NFS4_OK => {
            end(client, source, true);
            end(client, target, true);
        }
        Nfsstat4::NFS4ERR_NOENT => {
            end(client, source, false);
            forget(client, target);
        }
        // A directory and a file do not replace each other.
        Nfsstat4::NFS4ERR_EXIST | Nfsstat4::NFS4ERR_NOTDIR | Nfsstat4::NFS4ERR_ISDIR => {
            forget(client, source);
            forget(client, target);
        }
        status => {
            client.complain("an operation on a name has an expected status", status);
            forget(client, source);
            forget(client, target);
        }
    }
}

async fn look(client: &Rc<Client>, directory: &str, name: &str) {
    let place = begin(client, directory, name, Act::Look);
    let operations = || at(directory).into_iter().chain([lookup(name)]).collect();
    match client.run(CacheThis::No, operations).await {
        Ok(reply) => answered(client, place, &reply, Nfsstat4::NFS4ERR_NOENT),
        Err(Lost) => forget(client, place),
    }
}
