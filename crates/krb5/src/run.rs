//! The settings of a batch: the instruction set, and the pauses.

use crate::{Cpu, cpu};

/// A callback that runs after a number of bytes, so that a large batch does not starve other work.
pub struct Pause<'p> {
    bytes: usize,
    call: &'p mut dyn FnMut(),
}

impl<'p> Pause<'p> {
    /// Calls `call` about every `bytes` of messages. A call may be late by the bytes that the lanes
    /// take at once (128 KiB). During the call the batch is incomplete and must not be read.
    pub fn new(bytes: usize, call: &'p mut dyn FnMut()) -> Self {
        Self { bytes, call }
    }
}

/// The settings of a batch, and its progress to the next pause.
pub struct Run<'p> {
    /// The instruction set. [`Cpu::Portable`] replaces a set that the processor lacks.
    pub cpu: Cpu,
    /// The callback for other work, if there is one.
    pub pause: Option<Pause<'p>>,
    /// The bytes processed since the last pause.
    worked: usize,
}

impl<'p> Run<'p> {
    /// Makes a run that uses `cpu` and does not pause.
    pub fn new(cpu: Cpu) -> Self {
        Self { cpu: if cpu.is_available() { cpu } else { Cpu::Portable }, pause: None, worked: 0 }
    }

    /// Adds pauses for other work.
    pub fn with_pause(self, pause: Pause<'p>) -> Self {
        Self { pause: Some(pause), ..self }
    }

    /// Counts processed bytes, and pauses when enough have been counted.
    pub(crate) fn worked(&mut self, bytes: usize) {
        let Some(pause) = &mut self.pause else { return };
        self.worked += bytes;
        if self.worked >= pause.bytes {
            self.worked = 0;
            (pause.call)();
        }
    }
}

impl Default for Run<'_> {
    /// Uses the instruction set of the process, see [`cpu()`](crate::cpu()).
    fn default() -> Self {
        Self::new(cpu())
    }
}
