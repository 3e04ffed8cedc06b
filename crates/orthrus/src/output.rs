//! Standard output and standard error. The macros of the standard library panic when a write
//! fails, so `orthrus clients | head -1` could end in a backtrace, and a server whose starter has
//! gone away would end.
//!
//! A reader that goes away, such as `head`, has read enough: further text is dropped. Any other
//! failure of standard output, such as a full disk, is kept for the end of the program.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

/// The first failure of standard output that is no reader gone away.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Writes to standard output, as `print!`.
macro_rules! out {
    ($($argument:tt)*) => { $crate::output::write(format_args!($($argument)*)) };
}

/// Writes a line to standard output, as `println!`.
macro_rules! outln {
    ($($argument:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($argument)*))) };
}

/// Writes a line to standard error, as `eprintln!`. A failure has no better place to be told.
macro_rules! errln {
    ($($argument:tt)*) => { $crate::output::complain(format_args!("{}\n", format_args!($($argument)*))) };
}

pub(crate) use {errln, out, outln};

/// Writes to standard output, and keeps a failure for [`failure`].
pub(crate) fn write(text: Arguments<'_>) {
    let mut stdout = io::stdout().lock();
    keep(stdout.write_fmt(text).and_then(|()| stdout.flush()));
}

/// Writes to standard error.
pub(crate) fn complain(text: Arguments<'_>) {
    let _ = io::stderr().lock().write_fmt(text);
}

/// Returns why standard output lacks text that a reader still wants.
pub(crate) fn failure() -> Option<&'static io::Error> {
    FAILURE.get()
}

/// Returns whether the reader of standard output has gone away, such as `head`. A command that
/// would write for ever then ends.
pub(crate) fn is_reader_gone() -> bool {
    let stdout = io::stdout();
    let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
    // The kernel reports these two without being asked.
    poll(&mut watched, Some(&Timespec::default())).is_ok()
        && watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

fn keep(outcome: io::Result<()>) {
    match outcome {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => drop(FAILURE.set(error)),
        _ => {}
    }
}
