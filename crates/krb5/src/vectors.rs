//! The vectors of RFC 3961 appendix A.1, RFC 3962 appendix B and RFC 8009 appendix A.

use subtle::ConstantTimeEq;

use crate::{
    Cpu, Run, Segments,
    cipher::CIPHER_STATE,
    cts,
    derive::{KeyPurpose, derive, dk, n_fold},
    hmac::HmacKey,
    suite::{Aes128Sha1, Aes128Sha256, Aes256Sha1, Aes256Sha384, Suite},
};

fn encrypt<S: Suite>(cpu: Cpu, key: &[u8; 32], data: &mut [u8]) {
    let (key, range) = (&S::encrypt_key(key), 0..data.len());
    let message = cts::Plain { key, token: &mut Segments::from(data), range, done: 0, chain: [0; 16] };
    cts::encrypt::<S>(&mut Run::new(cpu), [message].into_iter());
}

fn decrypt<S: Suite>(cpu: Cpu, key: &[u8; 32], data: &mut [u8]) {
    let (key, range) = (&S::decrypt_key(key), 0..data.len());
    cts::decrypt::<S>(&mut Run::new(cpu), key, &mut Segments::from(data), range, 0, [0; 16]);
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
}

fn key(text: &str) -> [u8; 32] {
    let mut key = [0; 32];
    let bytes = unhex(text);
    key[..bytes.len()].copy_from_slice(&bytes);
    key
}

#[test]
fn n_fold_stretches_and_shrinks() {
    // RFC 3961 appendix A.1
    assert_eq!(n_fold::<8>(b"012345").to_vec(), unhex("be072631276b1955"));
    assert_eq!(n_fold::<7>(b"password").to_vec(), unhex("78a07b6caf85fa"));
    assert_eq!(n_fold::<8>(b"Rough Consensus, and Running Code").to_vec(), unhex("bb6ed30870b7f0e0"));
    assert_eq!(n_fold::<21>(b"password").to_vec(), unhex("59e4a8ca7c0385c3c37b3f6d2000247cb6e6bd5b3e"));
    let folded = n_fold::<24>(b"MASSACHVSETTS INSTITVTE OF TECHNOLOGY").to_vec();
    assert_eq!(folded, unhex("db3b0d8f0b061e603282b308a50841229ad798fab9540c1b"));
    assert_eq!(n_fold::<21>(b"Q").to_vec(), unhex("518a54a215a8452a518a54a215a8452a518a54a215"));
    assert_eq!(n_fold::<21>(b"ba").to_vec(), unhex("fb25d531ae8974499f52fd92ea9857c4ba24cf297e"));
}

#[test]
fn n_fold_of_the_well_known_constant_of_string_to_key() {
    // RFC 3961 appendix A.1
    assert_eq!(n_fold::<8>(b"kerberos").to_vec(), unhex("6b65726265726f73"));
    assert_eq!(n_fold::<16>(b"kerberos").to_vec(), unhex("6b65726265726f737b9b5b2b93132b93"));
    assert_eq!(n_fold::<21>(b"kerberos").to_vec(), unhex("8372c236344e5f1550cd0747e15d62ca7a5a3bcea4"));
    let folded = unhex("6b65726265726f737b9b5b2b93132b935c9bdcdad95c9899c4cae4dee6d6cae4");
    assert_eq!(n_fold::<32>(b"kerberos").to_vec(), folded);
}

#[test]
fn dk_makes_the_keys_of_string_to_key() {
    // RFC 3962 appendix B: the last step of string-to-key is DK(tkey, "kerberos").
    let tkey = key("cdedb5281bb2f801565a1122b2563515");
    let expected = unhex("42263c6e89f4fc28b8df68ee09799f15");
    assert_eq!(dk(&Aes128Sha1::encrypt_key(&tkey).library, b"kerberos")[..16], expected);

    let tkey = key("cdedb5281bb2f801565a1122b25635150ad1f7a04bb9f3a333ecc0e2e1f70837");
    let expected = unhex("fe697b52bc0d3ce14432ba036a92e65bbb52280990a2fa27883998d72af30161");
    assert_eq!(dk(&Aes256Sha1::encrypt_key(&tkey).library, b"kerberos").to_vec(), expected);

    let tkey = key("01dbee7f4a9e243e988b62c73cda935da05378b93244ec8f48a99e61ad799d86");
    let expected = unhex("a2e16d16b36069c135d5e9d2e25f896102685618b95914b467c67622225824ff");
    assert_eq!(dk(&Aes256Sha1::encrypt_key(&tkey).library, b"kerberos").to_vec(), expected);
}

#[test]
fn ciphertext_stealing_always_swaps_the_last_two_blocks() {
    // RFC 3962 appendix B
    let text = b"I would like the General Gau's Chicken, please, and wonton soup.";
    let mut chicken = [0; 32];
    chicken[..16].copy_from_slice(b"chicken teriyaki");
    let blocks = [
        "97687268d6ecccc0c07b25e25ecfe584",
        "39312523a78662d5be7fcbcc98ebf5a8",
        "4807efe836ee89a526730dbc2f7bc840",
        "9dad8bbb96c4cdc03bc103e1a194bbd8",
    ];
    let [first, second, fourth, third] = blocks;
    let cases = [
        (17, "c6353568f2bf8cb4d8a580362da7ff7f97".to_owned()),
        (31, "fc00783e0efdb2c1d445d4c8eff7ed2297687268d6ecccc0c07b25e25ecfe5".to_owned()),
        (32, [second, first].concat()),
        (47, [first, "b3fffd940c16a18c1b5549d2f838029e", &second[..30]].concat()),
        (48, [first, third, second].concat()),
        (64, [first, second, fourth, third].concat()),
    ];
    for (cpu, (len, expected)) in Cpu::available().flat_map(|cpu| cases.iter().map(move |case| (cpu, case))) {
        let mut data = text[..*len].to_vec();
        encrypt::<Aes128Sha1>(cpu, &chicken, &mut data);
        assert_eq!(data, unhex(expected), "{cpu}, {len} bytes");
        decrypt::<Aes128Sha1>(cpu, &chicken, &mut data);
        assert_eq!(data, text[..*len], "{cpu}");
    }
}

fn derives<S: Suite>(base: &str, checksum: &str, encryption: &str, integrity: &str) {
    let cases = [
        (KeyPurpose::Checksum, checksum),
        (KeyPurpose::Encryption, encryption),
        (KeyPurpose::Integrity, integrity),
    ];
    for (purpose, expected) in cases {
        let (derived, len) = derive::<S>(&key(base), 2, purpose);
        assert_eq!(derived[..len], unhex(expected));
    }
}

const KC_128: &str = "b31a018a48f54776f403e9a396325dc3";
const KE_128: &str = "9b197dd1e8c5609d6e67c3e37c62c72e";
const KI_128: &str = "9fda0e56ab2d85e1569a688696c26a6c";
const KC_256: &str = "ef5718be86cc84963d8bbb5031e9f5c4ba41f28faf69e73d";
const KE_256: &str = "56ab22bee63d82d7bc5227f6773f8ea7a5eb1c825160c38312980c442e5c7e49";
const KI_256: &str = "69b16514e3cd8e56b82010d5c73012b622c4d00ffc23ed1f";

#[test]
fn the_kdf_makes_keys_for_each_purpose() {
    // RFC 8009 appendix A
    derives::<Aes128Sha256>("3705d96080c17728a0e800eab6e0d23c", KC_128, KE_128, KI_128);
    let base = "6d404d37faf79f9df0d33568d320669800eb4836472ea8a026d16b7182460c52";
    derives::<Aes256Sha384>(base, KC_256, KE_256, KI_256);
}

fn encrypts<S: Suite>(ke: &str, ki: &str, confounder: &str, plaintext: &str, ciphertext: &str) {
    let mac_len = S::ENCTYPE.mac_len();
    let mac_key = HmacKey::<S::Hash>::new(&unhex(ki));
    let plain = unhex(&[confounder, plaintext].concat());
    for cpu in Cpu::available() {
        let mut data = plain.clone();
        encrypt::<S>(cpu, &key(ke), &mut data);
        data.extend_from_slice(&mac_key.mac(&[&CIPHER_STATE, &data])[..mac_len]);
        assert_eq!(data, unhex(ciphertext));

        let (covered, mac) = data.split_at_mut(plain.len());
        assert!(bool::from(mac_key.mac(&[&CIPHER_STATE, covered])[..mac_len].ct_eq(mac)));
        decrypt::<S>(cpu, &key(ke), covered);
        assert_eq!(covered, plain);
    }
}

#[test]
fn aes128_cts_hmac_sha256_128_encrypts_then_signs() {
    // RFC 8009 appendix A
    let encrypts = |confounder, plaintext, ciphertext: &[&str]| {
        encrypts::<Aes128Sha256>(KE_128, KI_128, confounder, plaintext, &ciphertext.concat());
    };
    encrypts(
        "7e5895eaf2672435bad817f545a37148",
        "",
        &["ef85fb890bb8472f4dab20394dca781d", "ad877eda39d50c870c0d5a0a8e48c718"],
    );
    encrypts(
        "7bca285e2fd4130fb55b1a5c83bc5b24",
        "000102030405",
        &["84d7f30754ed987bab0bf3506beb09cfb55402cef7e6", "877ce99e247e52d16ed4421dfdf8976c"],
    );
    encrypts(
        "56ab21713ff62c0a1457200f6fa9948f",
        "000102030405060708090a0b0c0d0e0f",
        &[
            "3517d640f50ddc8ad3628722b3569d2ae07493fa8263254080ea65c1008e8fc2",
            "95fb4852e7d83e1e7c48c37eebe6b0d3",
        ],
    );
    encrypts(
        "a7a4e29a4728ce10664fb64e49ad3fac",
        "000102030405060708090a0b0c0d0e0f1011121314",
        &[
            "720f73b18d9859cd6ccb4346115cd336c70f58edc0c4437c5573544c31c813bce1e6d072c1",
            "86b39a413c2f92ca9b8334a287ffcbfc",
        ],
    );
}

#[test]
fn aes256_cts_hmac_sha384_192_encrypts_then_signs() {
    // RFC 8009 appendix A
    let encrypts = |confounder, plaintext, ciphertext: &[&str]| {
        encrypts::<Aes256Sha384>(KE_256, KI_256, confounder, plaintext, &ciphertext.concat());
    };
    encrypts(
        "f764e9fa15c276478b2c7d0c4e5f58e4",
        "",
        &["41f53fa5bfe7026d91faf9be959195a0", "58707273a96a40f0a01960621ac612748b9bbfbe7eb4ce3c"],
    );
    encrypts(
        "b80d3251c1f6471494256ffe712d0b9a",
        "000102030405",
        &["4ed7b37c2bcac8f74f23c1cf07e62bc7b75fb3f637b9", "f559c7f664f69eab7b6092237526ea0d1f61cb20d69d10f2"],
    );
    encrypts(
        "53bf8a0d105265d4e276428624ce5e63",
        "000102030405060708090a0b0c0d0e0f",
        &[
            "bc47ffec7998eb91e8115cf8d19dac4bbbe2e163e87dd37f49beca92027764f6",
            "8cf51f14d798c2273f35df574d1f932e40c4ff255b36a266",
        ],
    );
    encrypts(
        "763e65367e864f02f55153c7e3b58af1",
        "000102030405060708090a0b0c0d0e0f1011121314",
        &[
            "40013e2df58e8751957d2878bcd2d6fe101ccfd556cb1eae79db3c3ee86429f2b2a602ac86",
            "fef6ecb647d6295fae077a1feb517508d2c16b4192e01f62",
        ],
    );
}

#[test]
fn a_checksum_is_cut_to_its_length() {
    // RFC 8009 appendix A
    let data = unhex("000102030405060708090a0b0c0d0e0f1011121314");
    let mac = HmacKey::<<Aes128Sha256 as Suite>::Hash>::new(&unhex(KC_128)).mac(&[&data]);
    assert_eq!(mac[..16], unhex("d78367186643d67b411cba9139fc1dee"));
    let mac = HmacKey::<<Aes256Sha384 as Suite>::Hash>::new(&unhex(KC_256)).mac(&[&data]);
    assert_eq!(mac[..24], unhex("45ee791567eefca37f4ac1e0222de80d43c3bfa06699672a"));
}
