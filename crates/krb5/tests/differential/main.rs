//! Compares every path of this processor with the portable one: every batch size, every split into
//! pieces, lengths around the edges of blocks and lanes, and damaged tokens. No path touches a byte
//! outside its messages.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod guard;
mod model;

use guard::{AtEnd, AtStart};
use model::{CONTEXTS, Message, Place, TokenDamage, agree, contexts};
use orthrus_krb5::Cpu;
use rng::SplitMix64;

type Heap = Box<[u8]>;

/// A generator of pseudo-random numbers, with the same sequence in each run.
struct DifferentialRng(SplitMix64);

impl DifferentialRng {
    fn below(&mut self, end: usize) -> usize {
        self.0.index(end)
    }

    /// Makes a message of any context, with up to `len_max` bytes, sometimes in pieces.
    fn message(&mut self, len_max: usize) -> Message {
        let message = Message::new(self.below(CONTEXTS), self.below(len_max + 1));
        let cuts: Vec<_> = (0..self.below(4)).map(|_| self.below(1 << 20)).collect();
        message.cut(&cuts)
    }

    fn damage(&mut self) -> TokenDamage {
        match self.below(6) {
            0 => TokenDamage::Flip { at: self.below(1 << 20), mask: 1 << self.below(8) },
            1 => TokenDamage::Cut { at: self.below(1 << 20) },
            2 => TokenDamage::Rotate { count: self.below(1 << 16) as u16 },
            _ => TokenDamage::None,
        }
    }
}

/// Lengths at which the processing changes: blocks of AES and of the hashes, and steps of lanes.
const EDGES: [usize; 10] = [256, 512, 1024, 1536, 2048, 4096, 8192, 16_384, 32_768, 65_536];

fn every_size_of_batch<P: Place>(len_max: usize) {
    let (contexts, mut numbers) = (contexts(), DifferentialRng(SplitMix64(1)));
    for size in 1..=64 {
        let messages: Vec<_> = (0..size).map(|_| numbers.message(len_max)).collect();
        agree::<P>(&contexts, &messages);
        let damaged: Vec<_> =
            (0..size).map(|_| numbers.message(len_max / 4).damaged(numbers.damage())).collect();
        agree::<P>(&contexts, &damaged);
    }
}

fn every_split<P: Place>(lens: &[usize]) {
    let contexts = contexts();
    for context in 0..4 {
        for &len in lens {
            let token_len = 32 + len + contexts_trailer(context);
            let cuts =
                (0..=token_len).flat_map(|first| (first..=token_len).map(move |second| [first, second]));
            let messages: Vec<_> = cuts.map(|cuts| Message::new(context, len).cut(&cuts)).collect();
            messages.chunks(61).for_each(|batch| agree::<P>(&contexts, batch));
        }
    }
}

/// Returns the length of header and checksum behind the plaintext.
fn contexts_trailer(context: usize) -> usize {
    [28, 28, 32, 40][context]
}

fn edges<P: Place>(edges: &[usize], sizes: &[usize]) {
    let contexts = contexts();
    for &edge in edges {
        for context in 0..4 {
            for &size in sizes {
                // The lengths of neighbours differ by a byte, so lanes end one after the other.
                let around = |n: usize| Message::new(context, (edge + n % 68).saturating_sub(50));
                let messages: Vec<_> = (0..size).map(around).collect();
                agree::<P>(&contexts, &messages);
            }
        }
    }
}

#[test]
fn batches_of_every_size_agree_on_every_path() {
    // RFC 4121 section 4.2: 1 to 64 messages of mixed contexts, enctypes, lengths and pieces;
    // intact and damaged.
    let paths: Vec<_> = Cpu::available().map(Cpu::name).collect();
    println!("paths: {}", paths.join(", "));
    every_size_of_batch::<Heap>(1500);
}

#[test]
fn every_split_of_a_short_token_agrees_on_every_path() {
    // Every pair of cuts, including empty pieces.
    every_split::<Heap>(&[0, 1, 16, 33]);
}

#[test]
fn every_length_around_the_edges_of_blocks_and_lanes_agrees_on_every_path() {
    // RFC 3962 section 5: every length modulo the block, and every length modulo the hashes'
    // blocks.
    let contexts = contexts();
    for context in 0..4 {
        for size in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33] {
            for start in (0..300).step_by(size) {
                let messages: Vec<_> = (0..size).map(|n| Message::new(context, start + n)).collect();
                agree::<Heap>(&contexts, &messages);
            }
        }
    }
    edges::<Heap>(&EDGES, &[1, 4, 17]);
}

#[test]
fn messages_up_to_a_mebibyte_agree_on_every_path() {
    let (contexts, mut numbers) = (contexts(), DifferentialRng(SplitMix64(2)));
    for context in 0..4 {
        for len in [(1 << 20) - 1, 1 << 20] {
            agree::<Heap>(&contexts, &[Message::new(context, len)]);
        }
        let message = |n: usize| Message::new(context, (1 << 20) - n).cut(&[numbers.below(1 << 20)]);
        let messages: Vec<_> = (0..3).map(message).collect();
        agree::<Heap>(&contexts, &messages);
    }
}

#[test]
fn a_long_message_among_many_short_ones_agrees_wherever_it_stands() {
    // A lane that ends takes the next message; the long one stays in its lane.
    let (contexts, mut numbers) = (contexts(), DifferentialRng(SplitMix64(3)));
    for context in 0..4 {
        for place in [0, 1, 15, 16, 20, 39] {
            let mut messages: Vec<_> = (0..40).map(|_| Message::new(context, numbers.below(200))).collect();
            messages[place].len = 40_000;
            agree::<Heap>(&contexts, &messages);
            messages.iter_mut().for_each(|message| message.context = numbers.below(CONTEXTS));
            agree::<Heap>(&contexts, &messages);
        }
    }
}

#[test]
fn one_damaged_message_of_a_batch_is_refused_and_no_other() {
    // RFC 4121 section 4.2.4
    let contexts = contexts();
    for context in 0..4 {
        for damaged in 0..20 {
            let mut messages: Vec<_> = (0..20).map(|n| Message::new(context, 90 + 7 * n)).collect();
            messages[damaged].damage = TokenDamage::Flip { at: 16 + 5 * damaged, mask: 0x10 };
            agree::<Heap>(&contexts, &messages);
        }
    }
}

#[test]
fn a_paused_batch_gives_the_same_and_is_paused_at_all() {
    let contexts = contexts();
    let messages = vec![Message::new(1, 100_000); 40];
    for cpu in Cpu::available() {
        let mut pauses = 0;
        let mut pause = || pauses += 1;
        let mut run = orthrus_krb5::Run::new(cpu).with_pause(orthrus_krb5::Pause::new(300_000, &mut pause));
        model::seal::<Heap>(&contexts, &messages, &mut run);
        // At most a batch of 16 runs between two checks, and a pause is due after 300 kB.
        assert!(pauses >= 2, "{cpu}: {pauses} pauses in 4 MB");
    }
}

/// The tests that find accesses outside a buffer.
fn ends<P: Place>() {
    every_size_of_batch::<P>(300);
    edges::<P>(&[50, 256, 4096], &[1, 5, 17]);
    every_split::<P>(&[0]);
}

#[test]
fn no_path_touches_a_byte_behind_its_messages() {
    // Every token, piece, message and signature ends directly before an inaccessible page.
    ends::<AtEnd>();
}

#[test]
fn no_path_touches_a_byte_before_its_messages() {
    ends::<AtStart>();
}

/// The environment variable that selects the child process's part of the test below.
const OUTSIDE: &str = "KRB5_TEST_READ_OUTSIDE";

#[test]
#[allow(clippy::disallowed_methods, reason = "the test starts itself again")]
fn a_byte_outside_ends_the_process() {
    match std::env::var(OUTSIDE).as_deref() {
        Ok("behind") => panic!("read {}", guard::read_outside(&AtEnd::of(b"seven"))),
        Ok("before") => panic!("read {}", guard::read_outside(&AtStart::of(b"seven"))),
        _ => {}
    }
    for side in ["behind", "before"] {
        let ended = std::process::Command::new(std::env::current_exe().expect("a program"))
            .args(["--exact", "a_byte_outside_ends_the_process"])
            .env(OUTSIDE, side)
            .output()
            .expect("the program runs");
        // By a signal, or by a checker that caught it, not by the panic.
        assert!(!ended.status.success());
        assert!(!String::from_utf8_lossy(&ended.stdout).contains("read "), "{side}: nobody noticed");
    }
}
