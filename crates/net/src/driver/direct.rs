//! Bytes by system calls: one a connection and direction.

use super::{Received, Sent};
use crate::input::Input;
use crate::output::Output;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;

/// Replies handed to the kernel in one call.
const SLICES_MAX: usize = 64;
/// Bytes handed to the kernel in one call: other connections are looked after in between.
const STEP_BYTES_MAX: usize = 256 << 10;
/// Bytes read from a socket at once when no large record is under way.
pub(super) const SCRATCH_SIZE: usize = 256 << 10;

/// Bytes read beyond a large record: enough to learn what follows it.
const HEAD_SIZE: usize = 4 << 10;

/// Reads once: first into the record under way, then into the scratch memory.
pub(super) fn receive(mut stream: &TcpStream, input: &mut Input, scratch: &mut [u8]) -> io::Result<Received> {
    let beyond = if input.expects_large() { HEAD_SIZE } else { scratch.len() };
    let target = input.target();
    let room = target.len();
    let mut places =
        [IoSliceMut::new(target), IoSliceMut::new(scratch.get_mut(..beyond).unwrap_or_default())];
    let places = if room == 0 { &mut places[1..] } else { &mut places[..] };
    let count = stream.read_vectored(places)?;
    input.advance(count.min(room));
    input.push(scratch.get(..count.saturating_sub(room)).unwrap_or_default());
    Ok(Received { count, more: count == room + beyond })
}

/// Sends once, as many replies as one step may.
pub(super) fn send(mut stream: &TcpStream, output: &Output) -> io::Result<Sent> {
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    let (used, bytes) = output.slices(&mut slices, STEP_BYTES_MAX);
    let count = stream.write_vectored(slices.get(..used).unwrap_or_default())?;
    Ok(Sent { count, more: count == bytes })
}
