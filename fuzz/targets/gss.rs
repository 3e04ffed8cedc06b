//! RPCSEC_GSS (RFC 2203): credentials, creation of contexts, the frames of protected bodies, the
//! sequence window.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orthrus_fuzz::bounded;
use rpc::gss::{
    GssCredential, InitRes, SEQUENCE_LEN, init_argument, integrity_body, privacy_body, protected_data,
};
use rpc::{AuthSys, MAXSEQ, SequenceWindow, WindowOutcome};
use std::collections::HashSet;
use xdr::{Decode, Decoder, Encode, Encoder};

fuzz_target!(|data: &[u8]| {
    let Some((&at, rest)) = data.split_first() else { return };
    // Decoded values borrow from the input; only encoding allocates.
    bounded(rest, 4, || {
        credential(rest);
        auth_sys(rest);
        bodies(rest, usize::from(at));
        creation(rest);
    });
    window(rest);
});

fn credential(body: &[u8]) {
    let Ok(credential) = GssCredential::parse(body) else { return };
    let mut encoder = Encoder::new();
    credential.encode(&mut encoder);
    assert_eq!(GssCredential::parse(encoder.as_slice()), Ok(credential));
}

fn auth_sys(body: &[u8]) {
    let Ok(sys) = AuthSys::parse(body) else { return };
    let mut encoder = Encoder::new();
    sys.encode(&mut encoder);
    assert_eq!(AuthSys::parse(encoder.as_slice()), Ok(sys));
}

fn bodies(record: &[u8], at: usize) {
    if let Ok((body, sequence)) = integrity_body(record, at) {
        assert!(record.get(body.checksum.clone()).is_some());
        let (again, data) = protected_data(record, body.signed.clone()).expect("it has a number");
        assert_eq!((again, data.clone()), (sequence, body.data()));
        assert_eq!(data.len() + SEQUENCE_LEN, body.signed.len());
        assert!(record.get(data).is_some());
    }
    if let Ok(token) = privacy_body(record, at) {
        assert!(record.get(token.clone()).is_some());
        if let Ok((_, data)) = protected_data(record, token) {
            assert!(record.get(data).is_some());
        }
    }
}

fn creation(bytes: &[u8]) {
    if let Ok(token) = init_argument(bytes, 256) {
        assert!(token.len() <= 256);
    }
    let Ok(result) = InitRes::decode(&mut Decoder::new(bytes)) else { return };
    let mut encoder = Encoder::new();
    result.encode(&mut encoder);
    assert_eq!(InitRes::decode(&mut Decoder::new(encoder.as_slice())), Ok(result));
}

/// Compares the window with a set that forgets nothing (RFC 2203 section 5.3.3.1).
fn window(bytes: &[u8]) {
    let mut window = SequenceWindow::new(64);
    let size = u64::from(window.size());
    let (mut seen, mut highest) = (HashSet::new(), None::<u64>);
    for bytes in bytes.as_chunks::<4>().0 {
        // Small steps near the top find more than numbers from everywhere.
        let number = u32::from_be_bytes(*bytes);
        let sequence = match (number >> 30, highest) {
            (0, Some(top)) => (top as u32).wrapping_sub(64).wrapping_add(number & 0xff),
            _ => number,
        };
        let expected = if sequence > MAXSEQ {
            WindowOutcome::BeyondMaxseq
        } else if highest.is_some_and(|top| u64::from(sequence) + size <= top) {
            WindowOutcome::TooOld
        } else if seen.insert(sequence) {
            highest = highest.max(Some(sequence.into()));
            WindowOutcome::Accepted
        } else {
            WindowOutcome::Replayed
        };
        assert_eq!(window.check(sequence), expected, "number {sequence}");
    }
}
