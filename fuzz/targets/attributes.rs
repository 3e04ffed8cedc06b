//! Attribute lists (RFC 8881 sections 3.3.7 and 5): a bitmap, and values that only the bitmap tells
//! apart.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nfs4::attributes::{GETTABLE, KNOWN, SETTABLE};
use nfs4::{Bitmap4, Fattr4, Purpose, decode_attributes, decode_fattr4, encode_fattr4};
use orthrus_fuzz::bounded;
use xdr::{Decode, Decoder, Encode, Encoder};

/// All attribute values take a few kilobytes in memory, whatever the input; lists add to it.
const MEMORY_FACTOR: usize = 64;

fuzz_target!(|data: &[u8]| {
    let Some((&what, bytes)) = data.split_first() else { return };
    let purpose = [Purpose::Set, Purpose::Compare, Purpose::Learn][usize::from(what % 3)];
    bitmap(bytes);
    if let Ok(fattr) = bounded(bytes, MEMORY_FACTOR, || Fattr4::decode(&mut Decoder::new(bytes))) {
        let _ = decode_fattr4(&fattr, purpose, &KNOWN);
    }
    // A mask that is right more often than by chance: three words, unless the first byte says one
    // attribute.
    let Some((words, values)) = bytes.split_first_chunk::<12>() else { return };
    let numbers = (0..96).filter(|bit| words[bit / 8] >> (bit % 8) & 1 != 0);
    let mask: Bitmap4 = if what & 0x80 == 0 {
        numbers.map(|bit| bit as u32).collect()
    } else {
        Bitmap4::of(&[u32::from(words[0]) % 96, u32::from(words[1]) % 96])
    };
    list(&mask, values, purpose);
    list(&mask.and(&KNOWN), values, Purpose::Learn);
});

fn bitmap(bytes: &[u8]) {
    let Ok(set) = bounded(bytes, 0, || Bitmap4::decode(&mut Decoder::new(bytes))) else { return };
    let mut encoder = Encoder::new();
    set.encode(&mut encoder);
    let again = Bitmap4::decode(&mut Decoder::new(encoder.as_slice())).expect("it was written by us");
    assert!(again == set || set.has_beyond());
    assert_eq!(again.iter().count(), set.len());
}

fn list(mask: &Bitmap4, values: &[u8], purpose: Purpose) {
    let Ok(decoded) = bounded(values, MEMORY_FACTOR, || decode_attributes(mask, values, purpose, &KNOWN))
    else {
        return;
    };
    match purpose {
        Purpose::Set => assert!(mask.is_subset_of(&SETTABLE)),
        Purpose::Compare => assert!(mask.is_subset_of(&GETTABLE)),
        Purpose::Learn => assert!(mask.is_subset_of(&KNOWN)),
    }
    let mut encoder = Encoder::new();
    assert_eq!(encode_fattr4(mask, &decoded, &mut encoder), *mask);
    let bytes = encoder.into_vec();
    let mut decoder = Decoder::new(&bytes);
    let written = Fattr4::decode(&mut decoder).expect("it was written by us");
    assert_eq!((decoder.remaining(), written.attrmask), (0, *mask));
    let again = decode_fattr4(&written, purpose, &KNOWN).expect("it was written by us");
    // Only a bitmap with undefined words is written shorter than it was read.
    assert!(again == decoded || written.attr_vals.len() < values.len());
}
