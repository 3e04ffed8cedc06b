//! A bare stream of a file's bytes over TCP: the rate of a core that only sends.

use super::cores::Cores;
use anyhow::{Context, ensure};
use bench::cpu;
use bench::measuring::Sample;
use rpc::{RECORD_MARK_LEN, RecordLimits, RecordReader, record_mark};
use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Bytes of a pread and of a record.
const SIZE: usize = 1 << 20;

/// Length of the reply to READ before the data, rounded up.
const HEAD_LEN: usize = 128;

/// How long it runs before it counts.
const LEAD_IN: Duration = Duration::from_millis(50);

/// Bytes that the receiver reads beside the record in progress: as the client library.
const SCRATCH_LEN: usize = 256 << 10;

/// The calls and bytes that the sender counts.
struct SentCalls {
    bytes: u64,
    seconds: f64,
    cpu: Duration,
}

/// Sends `file` in a loop from the server's core to this thread, which cuts the bytes into records
/// as the client library does. The sender's processor time is that of the server in the result.
pub(crate) fn stream(cores: Cores, file: &File, length: Duration) -> anyhow::Result<Sample> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let to = TcpStream::connect(listener.local_addr()?)?;
    let (from, _) = listener.accept()?;
    to.set_nodelay(true)?;
    std::thread::scope(|scope| {
        // Threads start on the core of the thread that makes them.
        let sender = cores.on_server(|| Ok(scope.spawn(move || send(file, to, length))))?;
        let (before, start) = (cpu::of_this_thread(), Instant::now());
        let received = receive(from)?;
        let (client, whole) = (cpu::of_this_thread().saturating_sub(before), start.elapsed());
        let sent = sender.join().ok().context("the sender panicked")??;
        ensure!(received >= sent.bytes, "{received} of {} bytes arrived", sent.bytes);
        // The receiver also counts bytes sent before the sender's clock started.
        let part = sent.seconds / whole.as_secs_f64();
        Ok(Sample {
            operations: sent.bytes / SIZE as u64,
            bytes: sent.bytes,
            seconds: sent.seconds,
            client_cpu_seconds: Some(client.as_secs_f64() * part),
            server_cpu_seconds: Some(sent.cpu.as_secs_f64()),
            ..Sample::default()
        })
    })
}

fn send(file: &File, mut to: TcpStream, length: Duration) -> anyhow::Result<SentCalls> {
    let mut data = vec![0; SIZE];
    let mut head = [0; RECORD_MARK_LEN + HEAD_LEN];
    if let Some(mark) = head.first_chunk_mut() {
        *mark = record_mark(HEAD_LEN + SIZE);
    }
    let size = file.metadata()?.len();
    let mut offset = 0;
    let mut run = |length: Duration| -> anyhow::Result<SentCalls> {
        let (start, before, mut bytes) = (Instant::now(), cpu::of_this_thread(), 0);
        while start.elapsed() < length {
            file.read_exact_at(&mut data, offset)?;
            offset = (offset + SIZE as u64) % size;
            write_all(&mut to, &head, &data)?;
            bytes += SIZE as u64;
        }
        let cpu = cpu::of_this_thread().saturating_sub(before);
        Ok(SentCalls { bytes, seconds: start.elapsed().as_secs_f64(), cpu })
    };
    run(LEAD_IN)?;
    run(length)
}

/// Writes both with one system call where the socket has room for them.
fn write_all(to: &mut TcpStream, head: &[u8], data: &[u8]) -> std::io::Result<()> {
    let written = to.write_vectored(&[IoSlice::new(head), IoSlice::new(data)])?;
    to.write_all(head.get(written..).unwrap_or_default())?;
    to.write_all(data.get(written.saturating_sub(head.len())..).unwrap_or_default())
}

/// Takes records until the stream ends; returns their bytes of data.
fn receive(mut from: TcpStream) -> anyhow::Result<u64> {
    let mut reader = RecordReader::new(RecordLimits::default());
    let (mut scratch, mut records, mut bytes) = (vec![0; SCRATCH_LEN], Vec::new(), 0);
    loop {
        let target = reader.target();
        let room = target.len();
        let mut slices = [IoSliceMut::new(target), IoSliceMut::new(&mut scratch)];
        let slices = if room == 0 { slices.split_at_mut(1).1 } else { &mut slices[..] };
        let count = from.read_vectored(slices)?;
        if count == 0 {
            return Ok(bytes);
        }
        reader.advance(count.min(room), &mut records)?;
        reader.push(scratch.get(..count.saturating_sub(room)).unwrap_or_default(), &mut records)?;
        bytes += records.iter().map(|record| (record.len() - HEAD_LEN) as u64).sum::<u64>();
        records.drain(..).for_each(rpc::memory::give);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_sent_arrives() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; 2 * SIZE]).unwrap();
        let cores = Cores::choose().unwrap();
        let one = stream(cores, &file, Duration::from_millis(20)).unwrap();
        assert!(one.bytes > 0 && one.bytes == one.operations * SIZE as u64);
        assert!(one.seconds >= 0.02 && one.server_cpu_seconds.unwrap() > 0.0);
    }
}
