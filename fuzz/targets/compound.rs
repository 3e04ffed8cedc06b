//! Arguments and results of COMPOUND and CB_COMPOUND (RFC 8881 sections 16.2 and 20.2), operation
//! by operation.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nfs4::{
    CbCompound4Args, CbCompound4Res, Compound4Args, Compound4Res, NfsArgop4, NfsCbArgop4, NfsCbResop4,
    NfsResop4,
};
use orthrus_fuzz::bounded;
use xdr::{Decode, Decoder, Encode, Encoder};

/// How much memory a byte of input may take: the largest operation in memory stands for the four
/// bytes of its number on the wire, and while an array of them grows it is there twice.
const MEMORY_FACTOR: usize = 256;

/// Decodes values until one fails. Each decoded value, encoded and decoded again, is equal to the
/// first, and so is its owned copy. Only a bitmap with undefined words is written shorter than it
/// was read.
macro_rules! round_trips {
    ($value:ident, $bytes:expr) => {{
        let mut decoder = Decoder::new($bytes);
        let mut begin = 0;
        while let Ok(value) = bounded($bytes, MEMORY_FACTOR, || $value::decode(&mut decoder)) {
            let mut encoder = Encoder::new();
            value.encode(&mut encoder);
            let written = encoder.into_vec();
            let mut rest = Decoder::new(&written);
            let again = $value::decode(&mut rest).expect("it was written by us");
            assert_eq!(rest.remaining(), 0);
            assert!(again == value || decoder.position() - begin > written.len(), "{again:?} was {value:?}");
            let mut encoder = Encoder::new();
            again.encode(&mut encoder);
            assert_eq!(encoder.into_vec(), written);
            assert_eq!(value.clone().into_owned(), value);
            begin = decoder.position();
        }
    }};
}

fuzz_target!(|data: &[u8]| {
    let Some((&what, bytes)) = data.split_first() else { return };
    match what % 8 {
        0 => round_trips!(Compound4Args, bytes),
        1 => round_trips!(Compound4Res, bytes),
        2 => round_trips!(CbCompound4Args, bytes),
        3 => round_trips!(CbCompound4Res, bytes),
        // The server also decodes an operation only after the ones before it.
        4 => round_trips!(NfsArgop4, bytes),
        5 => round_trips!(NfsResop4, bytes),
        6 => round_trips!(NfsCbArgop4, bytes),
        _ => round_trips!(NfsCbResop4, bytes),
    }
});
