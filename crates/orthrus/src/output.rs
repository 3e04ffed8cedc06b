//! Standard output and standard error. The macros of the standard library panic when a write
//! fails, so `orthrus clients | head -1` could end in a backtrace, and a server whose starter has
//! gone away would end.
//!
//! A reader that goes away, such as `head`, has read enough: further text is dropped. Any other
//! failure of standard output, such as a full disk, is kept for the end of the program.

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

fn keep(outcome: io::Result<()>) {
    match outcome {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => drop(FAILURE.set(error)),
        _ => {}
    }
}
