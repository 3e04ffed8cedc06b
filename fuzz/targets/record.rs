//! Cutting a stream into records (RFC 5531 section 11) and reading the heads of calls and replies.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orthrus_fuzz::peak_of;
use rpc::{CallHeader, Message, RecordError, RecordLimits, RecordReader, ReplyHeader};
use xdr::{Encode, Encoder};

const LIMITS: RecordLimits = RecordLimits { record_size_max: 4096, fragments_max: 8 };
/// Memory that a reader may hold beside the received bytes: its minimum buffer and the whole
/// record.
const MEMORY_MAX: usize = 64 * 1024 + 2 * LIMITS.record_size_max;

fuzz_target!(|data: &[u8]| {
    let Some((&pace, stream)) = data.split_first() else { return };
    let at_once = cut(stream, usize::MAX);
    let in_pieces = cut(stream, usize::from(pace) + 1);
    let in_place = cut_in_place(stream, usize::from(pace) + 1);
    assert_eq!(at_once, in_pieces, "the pieces in which bytes arrive do not matter");
    assert_eq!(at_once, in_place, "the place that bytes are read to does not matter");
    for record in &at_once.0 {
        assert!(!record.is_empty() && record.len() <= LIMITS.record_size_max);
        head(record);
    }
    head(stream);
});

type Cut = (Vec<Vec<u8>>, Option<RecordError>);

fn cut(stream: &[u8], piece: usize) -> Cut {
    let (mut reader, mut records) = (RecordReader::new(LIMITS), Vec::new());
    for bytes in stream.chunks(piece.min(stream.len().max(1))) {
        let (result, peak) = peak_of(|| reader.push(bytes, &mut records));
        assert!(peak <= MEMORY_MAX + 64 * bytes.len());
        if let Err(error) = result {
            return (records, Some(error));
        }
        assert!(reader.memory() <= MEMORY_MAX);
    }
    (records, None)
}

/// Like a connection: reads the rest of a fragment straight into its place and pushes the bytes
/// after it.
fn cut_in_place(mut stream: &[u8], piece: usize) -> Cut {
    let (mut reader, mut records) = (RecordReader::new(LIMITS), Vec::new());
    while !stream.is_empty() {
        let (now, later) = stream.split_at(stream.len().min(piece));
        stream = later;
        let target = reader.target();
        assert!(target.len() <= MEMORY_MAX);
        let (direct, pushed) = now.split_at(now.len().min(target.len()));
        target[..direct.len()].copy_from_slice(direct);
        let result =
            reader.advance(direct.len(), &mut records).and_then(|()| reader.push(pushed, &mut records));
        if let Err(error) = result {
            return (records, Some(error));
        }
    }
    (records, None)
}

fn head(record: &[u8]) {
    let _ = ReplyHeader::parse(record);
    let Ok(Message::Call(call)) = Message::parse(record) else { return };
    assert!(record.starts_with(call.signed));
    assert!(call.arguments_at <= record.len());
    let mut encoder = Encoder::new();
    let target = (call.program, call.version, call.procedure);
    CallHeader::encode_signed(&mut encoder, call.xid, target, &call.credential);
    call.verifier.encode(&mut encoder);
    let again = encoder.into_vec();
    let Ok(Message::Call(second)) = Message::parse(&again) else { panic!("our own call is refused") };
    assert_eq!((second.credential, second.verifier), (call.credential, call.verifier));
    assert_eq!((second.xid, target), (call.xid, (second.program, second.version, second.procedure)));
}
