//! How a batch is worked on: with which instructions, and when others get their turn.

use crate::{Cpu, cpu};

/// Something that is called every so many bytes of work, so that a large batch does not starve
/// others.
pub struct Pause<'p> {
    bytes: usize,
    call: &'p mut dyn FnMut(),
}

impl<'p> Pause<'p> {
    /// Calls `call` about every `bytes` of messages, at the latest every `bytes` and what the lanes
    /// take at once (128 KiB). The batch is in the middle of its work then and not to be looked at.
    pub fn new(bytes: usize, call: &'p mut dyn FnMut()) -> Self {
        Self { bytes, call }
    }
}

/// How a batch is worked on.
pub struct Run<'p> {
    /// The instructions; those that the processor does not have are replaced by [`Cpu::Portable`].
    pub cpu: Cpu,
    /// Who else gets a turn meanwhile.
    pub pause: Option<Pause<'p>>,
    /// The bytes worked on since the last pause.
    worked: usize,
}

impl<'p> Run<'p> {
    /// Works with `cpu` and without pauses.
    pub fn new(cpu: Cpu) -> Self {
        Self { cpu: if cpu.is_available() { cpu } else { Cpu::Portable }, pause: None, worked: 0 }
    }

    /// Lets others have their turn.
    pub fn with_pause(self, pause: Pause<'p>) -> Self {
        Self { pause: Some(pause), ..self }
    }

    /// Takes note of work that was done, and pauses when enough of it is.
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
    /// What the whole process works with, see [`cpu()`](crate::cpu()).
    fn default() -> Self {
        Self::new(cpu())
    }
}
