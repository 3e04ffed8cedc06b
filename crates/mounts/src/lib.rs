//! The mounts that a thread sees, from `/proc/thread-self/mountinfo` (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The kernel's table for the calling thread, which can have a name space of its own.
pub const TABLE: &str = "/proc/thread-self/mountinfo";

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The number of the mount, as statx(2) reports it.
    pub id: u64,
    /// Major and minor number of the file system; on btrfs those of the whole and not of the
    /// subvolume.
    pub device: (u32, u32),
    /// The folder of the file system that is mounted, as it sees it.
    pub root: PathBuf,
    /// The mount point, as the thread sees it.
    pub point: PathBuf,
    /// File system type, such as `nfs4`.
    pub fs_type: String,
    /// The mounted device or export, such as `server:/export`.
    pub source: String,
    /// Options of the mount and of the file system, each once.
    pub options: Vec<String>,
}

/// A folder that systemd replaces by another one for a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HiddenFolder {
    /// The folder, such as `/home`.
    pub folder: &'static str,
    /// The setting of the unit, such as `ProtectHome`.
    pub setting: &'static str,
}

/// Returns the folder above a path that systemd hides from this process.
pub fn hidden(path: &Path) -> Option<HiddenFolder> {
    let above = |mount: &Mount| path.starts_with(&mount.point);
    all().ok()?.iter().filter(|mount| above(mount)).find_map(Mount::hides)
}

/// Returns all mounts, later ones over earlier ones.
///
/// # Errors
/// A table that cannot be read.
pub fn all() -> io::Result<Vec<Mount>> {
    Ok(parse_table(&std::fs::read(TABLE)?))
}

fn parse_table(table: &[u8]) -> Vec<Mount> {
    table.split(|byte| *byte == b'\n').filter_map(Mount::parse).collect()
}

impl Mount {
    /// Parses a line; `None` for one that lacks a field.
    pub fn parse(line: &[u8]) -> Option<Self> {
        // Optional fields end with a hyphen of its own.
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let hyphen = 6 + fields.get(6..)?.iter().position(|field| *field == b"-")?;
        let text = |at: usize| fields.get(at).map(|field| String::from_utf8_lossy(field).into_owned());
        let path = |at: usize| Some(PathBuf::from(OsString::from_vec(unescape(fields.get(at)?))));
        let (device, mut options) = (text(2)?, Vec::new());
        let (major, minor) = device.split_once(':')?;
        for option in text(5)?.split(',').chain(text(hyphen + 3).unwrap_or_default().split(',')) {
            if !option.is_empty() && !options.iter().any(|known| known == option) {
                options.push(option.to_owned());
            }
        }
        Some(Self {
            id: text(0)?.parse().ok()?,
            device: (major.parse().ok()?, minor.parse().ok()?),
            root: path(3)?,
            point: path(4)?,
            fs_type: text(hyphen + 1)?,
            source: String::from_utf8_lossy(&unescape(fields.get(hyphen + 2)?)).into_owned(),
            options,
        })
    }

    /// Finds the mount that a folder is on.
    ///
    /// # Errors
    /// A folder or a table that cannot be read.
    pub fn of(folder: &Path) -> io::Result<Self> {
        let whole = folder.canonicalize()?;
        let found = longest(all()?, &whole);
        let missing = || format!("{} is on no mount that {TABLE} lists", folder.display());
        found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, missing()))
    }

    /// Returns whether the kernel's NFS client serves it.
    pub fn is_nfs(&self) -> bool {
        matches!(self.fs_type.as_str(), "nfs4" | "nfs")
    }

    /// Returns whether an option is set.
    pub fn has(&self, name: &str) -> bool {
        self.options.iter().any(|option| option == name)
    }

    /// Returns the folder that systemd hides from a service by this mount.
    pub fn hides(&self) -> Option<HiddenFolder> {
        let by = |folders: &[&'static str], setting| {
            let folder = folders.iter().find(|folder| self.point == Path::new(folder))?;
            Some(HiddenFolder { folder, setting })
        };
        let is_private = self.root.to_string_lossy().contains("/systemd-private-");
        let home = by(&["/home", "/root", "/run/user"], "ProtectHome").filter(|_| self.fs_type == "tmpfs");
        home.or_else(|| by(&["/tmp", "/var/tmp"], "PrivateTmp").filter(|_| is_private))
    }

    /// Returns the value of an option, such as `sec`.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.options.iter().find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }

    /// Returns the name or address of the server, without brackets.
    pub fn host(&self) -> Option<&str> {
        let (host, _) = self.source.rsplit_once(":/")?;
        Some(host.trim_start_matches('[').trim_end_matches(']'))
    }
}

/// Returns the mount whose point is the longest part of a path; of several on one point the last.
fn longest(mounts: Vec<Mount>, path: &Path) -> Option<Mount> {
    let around = mounts.into_iter().filter(|mount| path.starts_with(&mount.point));
    around.max_by_key(|mount| mount.point.as_os_str().len())
}

/// Undoes the kernel's `\040` for a space and its like, in this and other tables of /proc.
pub fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, behind)) = rest.split_first() {
        let octal = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = octal.filter(|_| *first == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = behind.get(if escaped.is_some() { 3 } else { 0 }..).unwrap_or_default();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"\
21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro
40 21 0:45 / /mnt rw,relatime shared:9 - tmpfs none rw
41 40 0:51 / /mnt/a\\040b ro,relatime - nfs4 server.example.org:/home ro,vers=4.2,rsize=1048576,sec=krb5p,nconnect=8
42 40 0:52 / /mnt/a\\040b rw,relatime shared:3 master:4 - nfs4 [fd00::1]:/home rw,vers=4.2,sec=sys
43 21 0:60 / /old rw - nfs server:/ rw,vers=3
";

    #[test]
    fn a_line_gives_number_device_and_point() {
        let found = &parse_table(TABLE)[0];
        assert_eq!((found.id, found.device, found.point.as_path()), (21, (254, 1), Path::new("/")));
        assert_eq!((found.fs_type.as_str(), found.source.as_str()), ("ext4", "/dev/vda1"));
    }

    #[test]
    fn the_longest_point_is_meant_and_the_last_mount_on_it() {
        let find = |path: &str| longest(parse_table(TABLE), Path::new(path));
        let found = find("/mnt/a b/c").unwrap();
        assert_eq!((found.device, found.host()), ((0, 52), Some("fd00::1")));
        assert_eq!(
            (found.value("sec"), found.value("vers"), found.value("se")),
            (Some("sys"), Some("4.2"), None)
        );
        assert!(found.is_nfs() && !found.has("ro"));
        assert_eq!(find("/mnt/a").unwrap().fs_type, "tmpfs");
        assert_eq!(find("/home").unwrap().fs_type, "ext4");
        assert_eq!(longest(Vec::new(), Path::new("/home")), None);
    }

    #[test]
    fn options_of_mount_and_file_system_are_listed_once() {
        let line = &parse_table(TABLE)[2];
        assert_eq!(line.options, ["ro", "relatime", "vers=4.2", "rsize=1048576", "sec=krb5p", "nconnect=8"]);
        assert_eq!((line.host(), line.has("ro")), (Some("server.example.org"), true));
    }

    #[test]
    fn folders_that_a_unit_hides_are_known() {
        let home = Some(HiddenFolder { folder: "/home", setting: "ProtectHome" });
        let private = "/tmp/systemd-private-0a-orthrus.service-x/tmp";
        for (root, point, fs_type, found) in [
            ("/", "/home", "tmpfs", home),
            ("/", "/run/user", "tmpfs", Some(HiddenFolder { folder: "/run/user", setting: "ProtectHome" })),
            ("/", "/home", "ext4", None),
            ("/", "/home/data", "tmpfs", None),
            ("/", "/srv", "tmpfs", None),
            ("/", "/tmp", "tmpfs", None),
            (private, "/tmp", "ext4", Some(HiddenFolder { folder: "/tmp", setting: "PrivateTmp" })),
            (private, "/srv", "ext4", None),
        ] {
            let line = format!("40 21 0:45 {root} {point} rw,relatime - {fs_type} source rw");
            assert_eq!(Mount::parse(line.as_bytes()).unwrap().hides(), found, "{line}");
        }
    }

    #[test]
    fn a_line_that_lacks_a_field_is_none() {
        let lines = [
            "",
            "a b c",
            "36 35 no device",
            "1 2 0:1 / /x rw - ",
            " - nfs4 a:/ rw",
            "1 2 0:1 / - nfs4 a:/ rw",
            "1 2 0:1 / /x rw master:1 nfs4 a:/ rw",
        ];
        for text in lines {
            assert_eq!(Mount::parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn escapes_are_bytes_and_other_backslashes_stay() {
        assert_eq!(unescape(b"a\\040b\\134"), b"a b\\");
        assert_eq!(unescape(b"\\9\\"), b"\\9\\");
        let point = Mount::parse(b"1 2 0:1 / /\\377 rw - tmpfs none rw").unwrap().point;
        assert_eq!(point.into_os_string().into_vec(), b"/\xff");
    }

    #[test]
    fn the_root_of_this_machine_has_a_mount() {
        assert_eq!(Mount::of(Path::new("/")).unwrap().point, Path::new("/"));
        assert!(Mount::of(Path::new("/no/such/folder")).is_err());
    }
}
