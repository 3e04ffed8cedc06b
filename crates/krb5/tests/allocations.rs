//! No instruction set allocates memory for a message or for a batch.
#![allow(unsafe_code, reason = "an allocator is unsafe to implement")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use orthrus_krb5::{
    ContextKeys, Cpu, Enctype, MicMessage, MicToken, ProtocolKey, Role, Run, Segments, TokenError,
    UnwrapMessage, VerifyMessage, WRAP_HEADROOM, WrapMessage,
};

/// The system's allocator, with a count of allocations per thread.
struct CountingAllocator;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: this function has the same requirements.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: this function has the same requirements.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Returns how often `work` allocates.
fn allocations(work: impl FnOnce()) -> usize {
    let before = COUNT.get();
    work();
    COUNT.get() - before
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1u8; 10]))), 1);
}

#[test]
fn wrap_unwrap_and_both_sides_of_mics_allocate_nothing() {
    let keys = |enctype: Enctype, role| {
        ContextKeys::new(enctype, ProtocolKey::AcceptorSubkey(&vec![7; enctype.key_len()]), role)
            .expect("the right length")
    };
    let contexts =
        Enctype::ALL.map(|enctype| (keys(enctype, Role::Acceptor), keys(enctype, Role::Initiator)));
    for cpu in Cpu::available() {
        // Batches of one enctype, and of all enctypes mixed, with different lengths.
        for count in [1, 2, 5, 16, 64] {
            for mixed in [1, 4] {
                allocates_nothing(cpu, &contexts[..mixed], count);
            }
        }
        for context in &contexts {
            allocates_nothing(cpu, std::slice::from_ref(context), 16);
        }
    }
}

fn allocates_nothing(cpu: Cpu, contexts: &[(ContextKeys, ContextKeys)], count: usize) {
    let each = || contexts.iter().cycle().take(count);
    let lengths = (0..count).map(|n| n * 331 % 9000);
    let room = |(context, length): (&(ContextKeys, _), usize)| {
        vec![7; WRAP_HEADROOM + length + context.0.wrap_trailer_len()]
    };
    let mut tokens: Vec<Vec<u8>> = each().zip(lengths).map(room).collect();
    let texts = tokens.clone();

    let to_wrap = each().zip(&mut tokens).map(|((keys, _), token)| {
        let token = Segments::from(token);
        WrapMessage { keys, sequence: 1, confounder: [3; 16], token }
    });
    let mut batch: Vec<WrapMessage<'_>> = to_wrap.collect();
    assert_eq!(
        allocations(|| orthrus_krb5::wrap_with(&mut Run::new(cpu), &mut batch)),
        0,
        "wrap, {cpu}, {count}"
    );

    let to_unwrap = each().zip(&mut tokens).map(|((_, keys), token)| {
        let token = Segments::from(token);
        UnwrapMessage { keys, token, result: Err(TokenError::Malformed) }
    });
    let mut batch: Vec<UnwrapMessage<'_>> = to_unwrap.collect();
    assert_eq!(
        allocations(|| orthrus_krb5::unwrap_with(&mut Run::new(cpu), &mut batch)),
        0,
        "unwrap, {cpu}, {count}"
    );
    assert!(batch.iter().all(|message| message.result.is_ok()));

    let to_sign = each().zip(&texts);
    let to_sign =
        to_sign.map(|((keys, _), data)| MicMessage { keys, sequence: 1, data, token: MicToken::EMPTY });
    let mut signed: Vec<MicMessage<'_>> = to_sign.collect();
    assert_eq!(
        allocations(|| orthrus_krb5::get_mic_with(&mut Run::new(cpu), &mut signed)),
        0,
        "MIC, {cpu}, {count}"
    );

    let to_verify = each().zip(&texts).zip(&signed).map(|(((_, keys), data), signed)| {
        let token = &*signed.token;
        VerifyMessage { keys, data, token, result: Err(TokenError::Malformed) }
    });
    let mut batch: Vec<VerifyMessage<'_>> = to_verify.collect();
    let made = allocations(|| orthrus_krb5::verify_mic_with(&mut Run::new(cpu), &mut batch));
    assert_eq!(made, 0, "verification, {cpu}, {count}");
    assert!(batch.iter().all(|message| message.result.is_ok()));
}
