//! Data: a block of a file with one writer holds its last write. After a crash, it may hold an
//! earlier one, but none before the last write that was known to be on stable storage.

use crate::contents::{BLOCK, BLOCKS, id_of};
use crate::disk::SimDisk;
use crate::history::{History, Violation, WriteOp};
use crate::trace::{digest, line};
use std::collections::BTreeMap;
use std::time::Duration;

/// The content of a block, as a client or the checker has read it.
struct Seen {
    by: String,
    file: u64,
    block: usize,
    id: Option<u64>,
    begin: Duration,
    end: Duration,
}

/// Checks all reads, and the disk.
pub(super) fn check(history: &History, disk: &SimDisk) -> Vec<Violation> {
    let mut writes: BTreeMap<(u64, usize), Vec<&WriteOp>> = BTreeMap::new();
    for write in &history.writes {
        let (start, count) = write.blocks;
        (start..start + count).for_each(|block| writes.entry((write.file, block)).or_default().push(write));
    }
    let reads = history.reads.iter().map(|read| Seen {
        by: format!("client {} reads", read.client),
        file: read.file,
        block: read.block,
        id: read.id,
        begin: read.begin,
        end: read.end,
    });
    let seen = reads.chain(on_disk(disk, &writes));
    seen.filter_map(|seen| judge(history, &seen, writes.get(&(seen.file, seen.block)))).collect()
}

/// Reads the files of the writers at the end. A missing file counts as empty.
fn on_disk(disk: &SimDisk, writes: &BTreeMap<(u64, usize), Vec<&WriteOp>>) -> Vec<Seen> {
    let mut seen = Vec::new();
    for (host, life) in (0..16).flat_map(|host| (0..16).map(move |life| (host, life))) {
        let path = format!("d/f{host}-{life}");
        let file = digest(path.as_bytes());
        if writes.range((file, 0)..=(file, BLOCKS)).next().is_none() {
            continue;
        }
        let mut content = disk.read(&path).unwrap_or_default();
        content.resize(BLOCKS * BLOCK, 0);
        for (block, bytes) in content.chunks(BLOCK).enumerate() {
            let by = "the disk holds at the end".to_owned();
            seen.push(Seen { by, file, block, id: id_of(bytes), begin: Duration::MAX, end: Duration::MAX });
        }
    }
    seen
}

fn judge(history: &History, seen: &Seen, writes: Option<&Vec<&WriteOp>>) -> Option<Violation> {
    let writes = writes.map_or(&[][..], Vec::as_slice);
    let found = match seen.id {
        Some(0) => Some(None),
        id => writes.iter().position(|write| Some(write.id) == id).map(Some),
    };
    let wrong = |property, detail: String| {
        let describe = |write: &&WriteOp| {
            let time = |time: Option<Duration>| {
                time.map_or("never".to_owned(), |time| format!("{:.6}", time.as_secs_f64()))
            };
            let (acked, durable) = (time(write.acked), time(write.durable));
            line(
                write.begin,
                format_args!("{:016x} is written, answered {acked}, stable {durable}", write.id),
            )
        };
        let mut events: Vec<String> = writes.iter().map(describe).collect();
        events.extend(history.crashes.iter().map(|at| line(*at, format_args!("the server crashes"))));
        if seen.begin < Duration::MAX {
            events.push(line(seen.begin, format_args!("{} {detail}", seen.by)));
        }
        events.sort();
        Some(Violation { property, detail: format!("block {}: {} {detail}", seen.block, seen.by), events })
    };
    let Some(found) = found else {
        return wrong(
            "no read of data never written",
            format!("{:016x?}, which no client wrote there", seen.id),
        );
    };
    if found.is_some_and(|at| writes[at].begin > seen.end) {
        return wrong("no read of data never written", "a write that was called later".to_owned());
    }
    let later = writes.iter().skip(found.map_or(0, |at| at + 1)).rev();
    let mut missed = later.filter(|write| {
        let known = |time: Option<Duration>| time.is_some_and(|time| time <= seen.begin);
        let crashed = || history.crashes.iter().any(|at| *at >= write.begin && *at <= seen.end);
        known(write.durable) || (known(write.acked) && !crashed())
    });
    let missed = missed.next()?;
    wrong("no lost acknowledged data", format!("{:016x}, and not {:016x}", seen.id.unwrap_or(0), missed.id))
}
