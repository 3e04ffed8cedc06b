use super::*;
use rng::SplitMix64;

fn listed(values: &AttributeValues<'_>, mask: &Bitmap4) -> (Bitmap4, Vec<u8>) {
    let mut encoder = Encoder::new();
    let written = encode_fattr4(mask, values, &mut encoder);
    (written, encoder.into_vec())
}

fn some_values() -> AttributeValues<'static> {
    AttributeValues {
        r#type: Some(NfsFtype4::NF4REG),
        change: Some(9),
        size: Some(1 << 40),
        fsid: Some(Fsid4 { major: 1, minor: 2 }),
        filehandle: Some(b"handle".as_slice().into()),
        fileid: Some(77),
        mode: Some(0o644),
        owner: Some(b"alice@ORTHRUS.TEST".as_slice().into()),
        owner_group: Some(b"100".as_slice().into()),
        time_modify: Some(Nfstime4 { seconds: -1, nseconds: 999_999_999 }),
        suppattr_exclcreat: Some(SETTABLE),
        xattr_support: Some(true),
        ..AttributeValues::default()
    }
}

#[test]
fn attributes_are_written_in_ascending_order_behind_their_bitmap() {
    // RFC 8881 section 3.3.7
    let values =
        AttributeValues { size: Some(5), r#type: Some(NfsFtype4::NF4DIR), ..AttributeValues::default() };
    let (written, bytes) = listed(&values, &Bitmap4::of(&[FATTR4_SIZE, FATTR4_TYPE]));
    assert_eq!(written, Bitmap4::of(&[1, 4]));
    let expected = [0, 0, 0, 1, 0, 0, 0, 0b1_0010, 0, 0, 0, 12, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5];
    assert_eq!(bytes, expected);
}

#[test]
fn only_attributes_that_are_asked_for_and_present_are_written() {
    // RFC 8881 section 18.7.3
    let mask = Bitmap4::of(&[FATTR4_SIZE, FATTR4_MODE, FATTR4_ACL, 100, 127]);
    let (written, bytes) = listed(&some_values(), &mask);
    assert_eq!(written, Bitmap4::of(&[FATTR4_SIZE, FATTR4_MODE]));
    let mut decoder = Decoder::new(&bytes);
    assert_eq!(decoder.value(), Ok(written));
    assert_eq!(decoder.opaque(100).map(<[u8]>::len), Ok(12));
    assert_eq!(decoder.finish(), Ok(()));
}

#[test]
fn a_list_of_many_attributes_comes_back_as_it_was() {
    let values = some_values();
    let list = fattr4(&KNOWN, &values);
    assert_eq!(list.attrmask, values.present());
    assert_eq!(decode_fattr4(&list, Purpose::Learn, &KNOWN), Ok(values.clone()));
    let mut encoder = Encoder::new();
    encoder.value(&list);
    assert_eq!(encoder.into_vec(), listed(&values, &KNOWN).1);
}

#[test]
fn every_known_attribute_has_a_name_and_its_place() {
    // RFC 8881 sections 5.6 and 5.7, RFC 7862 section 12, RFC 8275, RFC 8276, RFC 9754
    assert_eq!(KNOWN.iter().collect::<Vec<_>>(), (0..=86).collect::<Vec<_>>());
    assert!(KNOWN.iter().all(|bit| name(bit) != "FATTR4_UNKNOWN"));
    assert_eq!(name(FATTR4_MODE_UMASK), "FATTR4_MODE_UMASK");
    assert!(REQUIRED.is_subset_of(&GETTABLE));
    assert_eq!(SETTABLE | GETTABLE, KNOWN);
}

#[test]
fn setting_an_unsupported_attribute_is_refused() {
    // RFC 8881 section 18.30.3
    let list = fattr4(&KNOWN, &some_values());
    let supported = Bitmap4::of(&[FATTR4_TYPE]);
    let error = decode_fattr4(&list, Purpose::Set, &supported).err();
    assert_eq!(error, Some(AttributeError::Unsupported(Some(FATTR4_CHANGE))));
    assert_eq!(error.map(|error| error.status()), Some(Nfsstat4::NFS4ERR_ATTRNOTSUPP));

    let mut encoder = Encoder::new();
    encoder.array(&[0u32, 0, 0, 0, 1]);
    let bytes = encoder.into_vec();
    let mask = Decoder::new(&bytes).value().unwrap_or_default();
    let error = decode_attributes(&mask, &[], Purpose::Set, &KNOWN).err();
    assert_eq!(error, Some(AttributeError::Unsupported(None)));
}

#[test]
fn setting_an_attribute_that_can_only_be_read_is_invalid() {
    // RFC 8881 section 5.5
    let list = fattr4(&Bitmap4::of(&[FATTR4_SIZE, FATTR4_FILEID]), &some_values());
    let error = decode_fattr4(&list, Purpose::Set, &KNOWN).err();
    assert_eq!(error, Some(AttributeError::GetOnly(FATTR4_FILEID)));
    assert_eq!(error.map(|error| error.status()), Some(Nfsstat4::NFS4ERR_INVAL));
}

#[test]
fn comparing_with_an_attribute_that_can_only_be_set_is_invalid() {
    // RFC 8881 section 18.31.3
    let values = AttributeValues {
        time_modify_set: Some(Settime4::Default(TimeHow4::SET_TO_SERVER_TIME4)),
        rdattr_error: Some(Nfsstat4::NFS4_OK),
        ..AttributeValues::default()
    };
    for attribute in [FATTR4_TIME_MODIFY_SET, FATTR4_RDATTR_ERROR] {
        let list = fattr4(&Bitmap4::of(&[attribute]), &values);
        let error = decode_fattr4(&list, Purpose::Compare, &KNOWN).err();
        assert_eq!(error, Some(AttributeError::SetOnly(attribute)));
        assert_eq!(error.map(|error| error.status()), Some(Nfsstat4::NFS4ERR_INVAL));
    }
}

#[test]
fn values_that_do_not_fit_the_bitmap_are_bad_xdr() {
    // RFC 8881 section 15.1.1.1
    let mut list = fattr4(&Bitmap4::of(&[FATTR4_SIZE, FATTR4_MODE]), &some_values());
    let mut cut = list.attr_vals.to_vec();
    cut.pop();
    let truncated = Fattr4 { attrmask: list.attrmask, attr_vals: cut.into() };
    list.attr_vals.to_mut().extend([0, 0, 0, 0]);
    for list in [truncated, list] {
        let error = decode_fattr4(&list, Purpose::Set, &KNOWN).err();
        assert!(matches!(error, Some(AttributeError::Xdr(_))), "{error:?}");
        assert_eq!(error.map(|error| error.status()), Some(Nfsstat4::NFS4ERR_BADXDR));
    }
}

#[test]
fn a_filehandle_attribute_keeps_its_bound() {
    // RFC 8881 section 3.3.4 and section 5.8.1.12
    let long = AttributeValues { filehandle: Some(vec![0; 129].into()), ..AttributeValues::default() };
    let list = fattr4(&KNOWN, &long);
    let error = decode_fattr4(&list, Purpose::Learn, &KNOWN).err();
    assert_eq!(error, Some(AttributeError::Xdr(xdr::Error::TooLong { length: 129, max: 128 })));
}

#[test]
fn a_layout_type_of_the_future_does_not_hide_the_other_attributes() {
    // RFC 8881 section 22.5: the registry of layout types grows
    let values = AttributeValues {
        fs_layout_types: Some(vec![4, 0x8000_0001]),
        mode: Some(0o755),
        ..AttributeValues::default()
    };
    assert_eq!(decode_fattr4(&fattr4(&KNOWN, &values), Purpose::Learn, &KNOWN), Ok(values));
}

#[test]
fn no_bytes_make_the_decoder_panic() {
    let mut random = SplitMix64(0);
    for round in 0..20_000 {
        let mut bytes = Vec::with_capacity(64);
        for _ in 0..round % 64 {
            let seed = random.draw();
            // Small numbers are likelier to be taken for lengths and enums.
            bytes.push(if seed >> 62 == 0 { (seed >> 40) as u8 } else { (seed >> 60) as u8 & 1 });
        }
        let seed = random.draw();
        let mask = [seed as u32 % 87, (seed >> 8) as u32 % 87].into_iter().collect();
        let _ = decode_attributes(&mask, &bytes, Purpose::Learn, &KNOWN);
    }
}
