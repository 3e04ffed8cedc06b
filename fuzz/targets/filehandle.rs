//! Filehandles (RFC 8881 section 4.2): the server's own come back whole, no other bytes are one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nfs4::filehandle::{FILEHANDLE_MAX, OBJECT_HANDLE_MAX};
use nfs4::{Filehandle, FilehandleKey};
use orthrus_fuzz::bounded;
use std::hash::{DefaultHasher, Hash, Hasher};

fuzz_target!(|data: &[u8]| {
    // The fuzzer sees both sides of a comparison: a key that it knew would tell it the checksum.
    let (key, other) = (key(data, 1), key(data, 2));
    bounded(data, 0, || {
        // A checksum of 64 bits is not met by chance.
        assert!(Filehandle::decode(&key, data).is_err());
    });
    let Some((export, rest)) = data.split_first_chunk::<4>() else { return };
    let Some((&split, rest)) = rest.split_first() else { return };
    let (object, damage) = rest.split_at(rest.len().min(usize::from(split) % (OBJECT_HANDLE_MAX + 2)));
    let filehandle = Filehandle { export: u32::from_be_bytes(*export), object };
    let Ok(bytes) = filehandle.encode(&key) else {
        assert!(object.len() > OBJECT_HANDLE_MAX);
        return;
    };
    assert!(bytes.len() <= FILEHANDLE_MAX);
    assert_eq!(Filehandle::decode(&key, &bytes), Ok(filehandle));
    assert!(Filehandle::decode(&other, &bytes).is_err());
    let mut forged = bytes.clone();
    for (at, flip) in damage.iter().zip(damage.iter().skip(1)) {
        let at = usize::from(*at) % forged.len();
        forged[at] ^= flip;
    }
    assert!(forged == bytes || Filehandle::decode(&key, &forged).is_err());
    for len in 0..bytes.len() {
        assert!(Filehandle::decode(&key, &bytes[..len]).is_err());
    }
});

/// Returns a key that is another one for every input.
fn key(data: &[u8], salt: u8) -> FilehandleKey {
    let mut hasher = DefaultHasher::new();
    (salt, data).hash(&mut hasher);
    let half = hasher.finish().to_be_bytes();
    let mut key = [salt; 16];
    key[..8].copy_from_slice(&half);
    FilehandleKey::new(key)
}
