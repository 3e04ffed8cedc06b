//! Every path of the processor against the portable one: batches of 1 to 64 messages of mixed
//! contexts, lengths up to 1 MiB, tokens in pieces, and tokens that are damaged on their way. The
//! input says which.
#![no_main]

#[path = "../../crates/krb5/tests/differential/model.rs"]
mod model;

use libfuzzer_sys::fuzz_target;
use model::{CONTEXTS, Message, ModelContext, TokenDamage, agree, contexts};
use std::sync::LazyLock;

/// Bytes of plaintext in a batch at most: the same work is done a dozen times, and an input has a
/// time limit.
const BATCH_MAX: usize = 2 << 20;

static CONTEXTS_MADE: LazyLock<Vec<ModelContext>> = LazyLock::new(contexts);

fuzz_target!(|data: &[u8]| {
    let mut input = FuzzInput(data);
    let size = usize::from(input.byte() % 64) + 1;
    let mut left = BATCH_MAX;
    let messages: Vec<_> = (0..size)
        .map(|_| {
            let message = input.message(left);
            left -= message.len;
            message
        })
        .collect();
    agree::<Box<[u8]>>(&CONTEXTS_MADE, &messages);
});

/// The bytes of the input; zeros behind its end.
struct FuzzInput<'a>(&'a [u8]);

impl FuzzInput<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> usize {
        usize::from(self.byte()) << 8 | usize::from(self.byte())
    }

    /// Mostly short; one kind of message in sixteen is long, up to 1 MiB.
    fn message(&mut self, len_max: usize) -> Message {
        let kind = self.byte();
        let len = match kind & 15 {
            0..=9 => usize::from(self.byte()),
            10..=14 => self.word() & 0x1fff,
            _ => self.word() << 4 | usize::from(self.byte() & 15),
        };
        let len = if kind & 15 == 15 && len == 0xf_ffff { 1 << 20 } else { len };
        let cuts: Vec<_> = (0..kind >> 4 & 3).map(|_| self.word()).collect();
        let context = usize::from(self.byte()) % CONTEXTS;
        Message::new(context, len.min(len_max)).cut(&cuts).damaged(self.damage(kind >> 6))
    }

    fn damage(&mut self, kind: u8) -> TokenDamage {
        match kind {
            0 => TokenDamage::None,
            1 => TokenDamage::Flip { at: self.word(), mask: self.byte() },
            2 => TokenDamage::Rotate { count: self.word() as u16 },
            _ => TokenDamage::Cut { at: self.word() },
        }
    }
}
