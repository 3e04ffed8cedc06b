//! Over sockets of this process.

use crate::{Completion, Events, Options, Ring};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

const SMALL: Options = Options { entries: 4, buffers: 2, buffer_size: 16 };
const LONG: Duration = Duration::from_secs(10);

/// A ring, unless this machine has none; then it is said.
fn ring() -> Option<Ring> {
    Ring::new(&SMALL).map_err(|error| eprintln!("skipped: no io_uring here: {error}")).ok()
}

fn pair() -> (UnixStream, Arc<UnixStream>) {
    let (near, far) = UnixStream::pair().expect("sockets");
    (near, Arc::new(far))
}

fn wait(ring: &mut Ring) -> Vec<Completion> {
    let mut completions = Vec::new();
    ring.wait(LONG, &mut completions).expect("waited");
    completions
}

#[test]
fn what_arrives_is_in_a_chunk_until_it_is_given_back() {
    let Some(mut ring) = ring() else { return };
    let (mut near, far) = pair();
    for round in 0..5u8 {
        ring.receive(far.clone(), u64::from(round)).expect("queued");
        near.write_all(&[round; 20]).expect("sent");
        let mut bytes = Vec::new();
        while bytes.len() < 20 {
            let one = wait(&mut ring).pop().expect("one");
            assert_eq!(one.tag, u64::from(round));
            let chunk = one.chunk.expect("a chunk");
            bytes.extend_from_slice(ring.bytes(&chunk));
            ring.give_back(chunk);
            if bytes.len() < 20 {
                ring.receive(far.clone(), u64::from(round)).expect("queued");
            }
        }
        assert_eq!(bytes, [round; 20]);
    }
}

#[test]
fn without_a_free_buffer_a_receive_fails_and_loses_nothing() {
    let Some(mut ring) = ring() else { return };
    let (mut near, far) = pair();
    near.write_all(&[1; 40]).expect("sent");
    let mut chunks = Vec::new();
    for _ in 0..2 {
        ring.receive(far.clone(), 1).expect("queued");
        chunks.extend(wait(&mut ring).pop().expect("one").chunk);
    }
    ring.receive(far.clone(), 1).expect("queued");
    assert!(wait(&mut ring).pop().expect("one").result.is_err());
    chunks.into_iter().for_each(|chunk| ring.give_back(chunk));
    ring.receive(far, 1).expect("queued");
    assert_eq!(wait(&mut ring).pop().expect("one").result.expect("received"), 8);
}

#[test]
fn a_cancelled_operation_completes() {
    let Some(mut ring) = ring() else { return };
    let (_near, far) = pair();
    ring.poll(far, Events::Input, 1).expect("queued");
    ring.cancel(1, 2).expect("queued");
    let mut tags = Vec::new();
    while tags.len() < 2 {
        tags.extend(wait(&mut ring).iter().map(|completion| completion.tag));
    }
    tags.sort_unstable();
    assert_eq!(tags, [1, 2]);
}

#[test]
fn more_operations_than_entries_are_told_in_parts() {
    let Some(mut ring) = ring() else { return };
    let pairs: Vec<_> = (0..20).map(|_| pair()).collect();
    for (tag, (_, far)) in pairs.iter().enumerate() {
        ring.poll(far.clone(), Events::Output, tag as u64).expect("queued");
    }
    let mut ready = Vec::new();
    while ready.len() < pairs.len() {
        ready.extend(wait(&mut ring).iter().map(|completion| completion.tag));
    }
}

#[test]
fn a_wait_without_time_returns_at_once() {
    let Some(mut ring) = ring() else { return };
    let (mut near, far) = pair();
    ring.poll(far, Events::Input, 7).expect("queued");
    let mut completions = Vec::new();
    ring.wait(Duration::ZERO, &mut completions).expect("waited");
    assert!(completions.is_empty());
    near.write_all(b"x").expect("sent");
    while completions.is_empty() {
        ring.wait(Duration::ZERO, &mut completions).expect("waited");
    }
    assert_eq!(completions.first().map(|completion| completion.tag), Some(7));
}

#[test]
fn a_ring_ends_with_operations_under_way() {
    let Some(mut ring) = ring() else { return };
    let (_near, far) = pair();
    ring.receive(far.clone(), 1).expect("queued");
    let mut none = Vec::new();
    ring.wait(Duration::ZERO, &mut none).expect("waited");
    drop(ring);
    assert_eq!(Arc::strong_count(&far), 1);
}
