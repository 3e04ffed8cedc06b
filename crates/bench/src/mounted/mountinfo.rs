//! The source and options of a folder's mount, from the kernel: /proc/thread-self/mountinfo and
//! /sys/class/bdi (proc(5)).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// A line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountLine {
    /// The device as MAJOR:MINOR.
    pub device: String,
    /// Where it is mounted.
    pub point: PathBuf,
    /// The type of the file system.
    pub fs_type: String,
    /// The source of the mount: `server:/export`.
    pub source: String,
    /// Options of the mount and of the file system, each once.
    pub options: Vec<String>,
}

/// The properties of a mount that decide the result of a run, for the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountFacts {
    /// The variant that was measured there.
    #[serde(rename = "side")]
    pub variant: String,
    /// The folder as the user named it.
    pub folder: PathBuf,
    /// The source of the mount: `server:/export`.
    pub source: String,
    /// The type of the file system.
    pub fs_type: String,
    /// All mount options in force.
    pub options: Vec<String>,
    /// How far the kernel reads ahead, in KiB.
    pub read_ahead_kib: Option<u64>,
    /// Encryption type of the session key of the ticket for the server; none where it could not be
    /// found out.
    pub enctype: Option<String>,
}

impl MountLine {
    /// Reads a line; `None` when it is none.
    pub fn parse(line: &str) -> Option<Self> {
        let (front, back) = line.split_once(" - ")?;
        let front: Vec<&str> = front.split(' ').collect();
        let mut back = back.split(' ');
        let (fs_type, source) = (back.next()?.to_owned(), back.next()?);
        let mut options: Vec<String> = Vec::new();
        for option in front.get(5)?.split(',').chain(back.next().unwrap_or_default().split(',')) {
            if !option.is_empty() && !options.iter().any(|known| known == option) {
                options.push(option.to_owned());
            }
        }
        Some(Self {
            device: (*front.get(2)?).to_owned(),
            point: PathBuf::from(unescape(front.get(4)?)),
            fs_type,
            source: unescape(source).to_string_lossy().into_owned(),
            options,
        })
    }

    /// Finds the mount that a folder is on.
    ///
    /// # Errors
    /// When the folder is not there, or /proc is not.
    pub fn of(folder: &Path) -> Result<Self> {
        let whole = folder.canonicalize().with_context(|| folder.display().to_string())?;
        let table = "/proc/thread-self/mountinfo";
        let text = std::fs::read_to_string(table).context(table)?;
        find(&text, &whole).with_context(|| format!("{} is on no mount that {table} knows", folder.display()))
    }

    /// Says whether the NFSv4 client serves it.
    pub fn is_nfs(&self) -> bool {
        matches!(self.fs_type.as_str(), "nfs4" | "nfs")
    }

    /// Says whether it may only be read.
    pub fn is_read_only(&self) -> bool {
        self.has("ro")
    }

    /// Says whether an option is set.
    pub fn has(&self, name: &str) -> bool {
        self.options.iter().any(|option| option == name)
    }

    /// Returns the value of an option, such as `sec`.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.options.iter().find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }

    /// Returns the name or address of the server.
    pub fn host(&self) -> Option<&str> {
        let (host, _) = self.source.rsplit_once(":/")?;
        Some(host.trim_start_matches('[').trim_end_matches(']'))
    }

    /// Returns how far the kernel reads ahead, in KiB.
    pub fn read_ahead_kib(&self) -> Option<u64> {
        let path = format!("/sys/class/bdi/{}/read_ahead_kb", self.device);
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    }
}

/// The encryption type in reports for a mount without Kerberos.
pub(super) const NO_ENCTYPE: &str = "none";

impl MountFacts {
    /// Returns the encryption type, where there is one and it is known.
    pub fn kerberos(&self) -> Option<String> {
        self.enctype.clone().filter(|name| name != NO_ENCTYPE)
    }

    /// Says whether the NFS client serves it.
    pub fn is_nfs(&self) -> bool {
        self.fs_type.starts_with("nfs")
    }

    /// Says it all in a sentence without its full stop.
    pub fn words(&self) -> String {
        let ahead = self.read_ahead_kib.map_or("unknown".to_owned(), |kib| format!("{kib} KiB"));
        let enctype = self.enctype.as_deref().unwrap_or("unknown");
        format!(
            "{}: {} is {} ({}, {}); read-ahead {ahead}; encryption type {enctype}",
            self.variant,
            self.folder.display(),
            self.source,
            self.fs_type,
            self.options.join(","),
        )
    }
}

/// Finds the mount whose mount point is the longest prefix of the path; of several at one point,
/// the last.
fn find(table: &str, whole: &Path) -> Option<MountLine> {
    let lines = table.lines().filter_map(MountLine::parse);
    lines.filter(|line| whole.starts_with(&line.point)).max_by_key(|line| line.point.as_os_str().len())
}

/// Replaces `\040` and the like.
pub(super) fn unescape(text: &str) -> OsString {
    let (mut bytes, mut out) = (text.as_bytes(), Vec::new());
    while let Some((first, rest)) = bytes.split_first() {
        let code = rest.get(..3).filter(|_| *first == b'\\').and_then(|octal| {
            let octal = std::str::from_utf8(octal).ok()?;
            u8::from_str_radix(octal, 8).ok()
        });
        out.push(code.unwrap_or(*first));
        bytes = rest.get(if code.is_some() { 3 } else { 0 }..).unwrap_or_default();
    }
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro
40 21 0:45 / /mnt rw,relatime shared:9 - tmpfs none rw
41 40 0:51 / /mnt/a\\040b ro,relatime - nfs4 server.example.org:/home ro,vers=4.2,rsize=1048576,sec=krb5p,nconnect=8
42 40 0:52 / /mnt/a\\040b rw,relatime shared:3 master:4 - nfs4 [fd00::1]:/home rw,vers=4.2,sec=sys
43 21 0:60 / /old rw - nfs server:/ rw,vers=3
";

    #[test]
    fn the_longest_point_is_meant_and_the_last_mount_on_it() {
        let found = find(TABLE, Path::new("/mnt/a b/c")).unwrap();
        assert_eq!((found.device.as_str(), found.host()), ("0:52", Some("fd00::1")));
        assert_eq!(
            (found.value("sec"), found.value("vers"), found.value("se")),
            (Some("sys"), Some("4.2"), None)
        );
        assert!(found.is_nfs() && !found.is_read_only());
        assert_eq!(find(TABLE, Path::new("/mnt/a")).unwrap().fs_type, "tmpfs");
        assert_eq!(find(TABLE, Path::new("/home")).unwrap().fs_type, "ext4");
        assert_eq!(find("", Path::new("/home")), None);
    }

    #[test]
    fn options_of_mount_and_file_system_are_told_once() {
        let line = TABLE.lines().nth(2).and_then(MountLine::parse).unwrap();
        assert_eq!(line.options, ["ro", "relatime", "vers=4.2", "rsize=1048576", "sec=krb5p", "nconnect=8"]);
        assert_eq!((line.host(), line.is_read_only()), (Some("server.example.org"), true));
    }

    #[test]
    fn what_is_no_line_is_none() {
        for text in ["", "a b c", "1 2 0:1 / /x rw - ", " - nfs4 a:/ rw", "1 2 0:1 / - nfs4 a:/ rw"] {
            assert_eq!(MountLine::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn escapes_are_bytes_and_what_is_none_stays() {
        assert_eq!(unescape("a\\040b\\134"), "a b\\");
        assert_eq!(unescape("\\9\\"), "\\9\\");
    }

    #[test]
    fn the_root_of_this_machine_has_a_mount() {
        let root = MountLine::of(Path::new("/")).unwrap();
        assert_eq!(root.point, Path::new("/"));
        assert!(MountLine::of(Path::new("/no/such/folder")).is_err());
    }
}
