//! The principals of a keytab. Only MIT's library reads the keys.

use std::path::Path;

/// The largest keytab that is read, in bytes. A keytab with thousands of keys is far smaller.
const KEYTAB_SIZE_MAX: u64 = 16 << 20;

/// The principal and the enctype of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeytabEntry {
    /// The realm, such as `EXAMPLE.ORG`.
    pub realm: String,
    /// The components, such as `nfs` and `server.example.org`.
    pub components: Vec<String>,
    /// The version number of the key.
    pub kvno: u32,
    /// The encryption type of the key (RFC 3961 section 8).
    pub etype: u16,
}

/// Lists the entries of a keytab (MIT's format 0x0502) in their order. Skips the holes of removed
/// entries, and entries that it cannot read: services share the file, and a name that is not UTF-8
/// must not take the keys of the others.
///
/// # Errors
/// Errors of reading the file; `InvalidData` if it is not a keytab of this format.
pub fn keytab_entries(path: &Path) -> std::io::Result<Vec<KeytabEntry>> {
    select_keys(path, |_| true).map(|(entries, _)| entries)
}

/// Selects entries of a keytab. Returns them, and a keytab that has only them.
///
/// # Errors
/// As for [`keytab_entries`].
pub fn select_keys(
    path: &Path,
    keep: impl Fn(&KeytabEntry) -> bool,
) -> std::io::Result<(Vec<KeytabEntry>, Vec<u8>)> {
    let wrong = |what| std::io::Error::new(std::io::ErrorKind::InvalidData, what);
    let file = std::fs::metadata(path)?;
    // Others have no end, or wait for a writer.
    if !file.is_file() {
        return Err(wrong("no regular file"));
    }
    if file.len() > KEYTAB_SIZE_MAX {
        return Err(wrong("too large for a keytab"));
    }
    let bytes = std::fs::read(path)?;
    let mut rest = bytes.strip_prefix(&[5, 2]).ok_or_else(|| wrong("no keytab of format 0x0502"))?;
    let (mut entries, mut kept) = (Vec::new(), vec![5, 2]);
    while let Some((size_bytes, after)) = rest.split_first_chunk::<4>() {
        let size = i32::from_be_bytes(*size_bytes);
        let length = size.unsigned_abs() as usize;
        let (entry, after) =
            after.split_at_checked(length).ok_or_else(|| wrong("the keytab ends within an entry"))?;
        let parsed = (size > 0).then(|| parse(entry)).flatten();
        if let Some(parsed) = parsed.filter(&keep) {
            kept.extend_from_slice(size_bytes);
            kept.extend_from_slice(entry);
            entries.push(parsed);
        }
        rest = after;
    }
    Ok((entries, kept))
}

fn parse(mut entry: &[u8]) -> Option<KeytabEntry> {
    let count = u16_of(&mut entry)?;
    let realm = text(&mut entry)?;
    let components = (0..count).map(|_| text(&mut entry)).collect::<Option<Vec<_>>>()?;
    // Skip the name type and the timestamp.
    let (kvno, mut rest) = entry.get(8..)?.split_first()?;
    let etype = u16_of(&mut rest)?;
    let length = usize::from(u16_of(&mut rest)?);
    // Newer files repeat the version with all of its bits behind the key.
    let long = rest.get(length..)?.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes));
    let kvno = long.filter(|long| *long != 0).unwrap_or_else(|| u32::from(*kvno));
    Some(KeytabEntry { realm, components, kvno, etype })
}

fn u16_of(bytes: &mut &[u8]) -> Option<u16> {
    let (value, rest) = bytes.split_first_chunk::<2>()?;
    *bytes = rest;
    Some(u16::from_be_bytes(*value))
}

fn text(bytes: &mut &[u8]) -> Option<String> {
    let length = usize::from(u16_of(bytes)?);
    let (value, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    String::from_utf8(value.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keytab_of_a_realm_names_its_service_principals() {
        let folder = tempfile::tempdir().unwrap();
        let realm = match realm::Realm::create(&folder.path().join("realm"), &realm::RealmOptions::default())
        {
            Ok(realm) => realm,
            Err(error) => return println!("skipped: {error}"),
        };
        let entries = keytab_entries(&realm.server_keytab()).unwrap();
        let of_localhost = |entry: &KeytabEntry| entry.components == ["nfs", "localhost"];
        let (selected, bytes) = select_keys(&realm.server_keytab(), of_localhost).unwrap();
        let copy = folder.path().join("copy");
        std::fs::write(&copy, bytes).unwrap();
        let listed = realm.command("klist").args(["-k", "-e", "-t"]).arg(&copy).output().unwrap();
        realm::Realm::down(realm.dir()).unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(listed.contains("nfs/localhost@") && !listed.contains("nfs/127.0.0.1@"), "{listed}");
        assert!(
            selected.iter().all(|entry| of_localhost(entry) && (1..=2).contains(&entry.kvno)),
            "{selected:?}"
        );
        assert!(selected.len() < entries.len() && keytab_entries(&copy).unwrap() == selected);
        let localhost = ["nfs".to_owned(), "localhost".to_owned()];
        assert!(
            entries.iter().all(|entry| entry.realm == "ORTHRUS.TEST" && (17..=20).contains(&entry.etype))
        );
        assert!(entries.iter().any(|entry| entry.components == localhost), "{entries:?}");
    }

    #[test]
    fn damaged_files_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keytab");
        for bytes in [&b""[..], b"\x05\x01", b"\x05\x02\x00\x00\x00\x10ab", b"\x05\x02\x80\x00\x00\x00"] {
            std::fs::write(&path, bytes).unwrap();
            assert!(keytab_entries(&path).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_device_and_a_folder_are_no_keytabs() {
        for path in ["/dev/zero", "/dev/null", "/"] {
            let refused = keytab_entries(Path::new(path)).unwrap_err();
            assert_eq!(refused.to_string(), "no regular file", "{path}");
        }
    }

    /// Returns an entry of version 1 of an nfs service with a name and 4 bytes of a key.
    fn entry(host: &[u8]) -> Vec<u8> {
        let counted = |text: &[u8]| [&[0, u8::try_from(text.len()).unwrap()], text].concat();
        let names = [counted(b"TEST"), counted(b"nfs"), counted(host)].concat();
        let body = [&[0, 2], names.as_slice(), &[0; 8], &[1], &[0, 18, 0, 4], &[7; 4]].concat();
        [&[0, 0, 0, u8::try_from(body.len()).unwrap()], body.as_slice()].concat()
    }

    #[test]
    fn an_odd_entry_costs_only_its_own_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keytab");
        let (good, latin, torn) = (entry(b"a"), entry(b"m\xfcller"), [0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff]);
        std::fs::write(&path, [&[5, 2], latin.as_slice(), &torn, &good].concat()).unwrap();
        let (entries, kept) = select_keys(&path, |_| true).unwrap();
        assert_eq!((entries.len(), kept), (1, [&[5, 2], good.as_slice()].concat()));
        assert_eq!(entries[0].components, ["nfs", "a"]);
    }
}
