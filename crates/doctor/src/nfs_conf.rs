//! Reads the files of nfs-utils, such as nfs.conf(5) and idmapd.conf(5): a file, then its drop-ins.

use std::path::Path;

use crate::Surroundings;
use crate::machine::{read_text, sorted_files};

/// Files that one configuration may have.
const FILES_MAX: usize = 64;

/// A configuration of nfs-utils.
#[derive(Clone, Debug, Default)]
pub(crate) struct NfsConf {
    /// Section and key in lower case, and value, in the order of the files.
    values: Vec<(String, String, String)>,
    files: usize,
}

impl NfsConf {
    /// Reads `/etc/NAME` and the files `/etc/NAME.d/*.conf` in the order of their names.
    pub(crate) fn read(machine: &Surroundings, name: &str) -> Self {
        let mut conf = Self::default();
        conf.file(&machine.path(&format!("/etc/{name}")));
        let folder = machine.path(&format!("/etc/{name}.d"));
        let drop_ins = sorted_files(&folder, |name| name.ends_with(".conf"));
        drop_ins.iter().for_each(|path| conf.file(path));
        conf
    }

    fn file(&mut self, path: &Path) {
        self.files += 1;
        if self.files > FILES_MAX {
            return;
        }
        let text = read_text(path).unwrap_or_default();
        let mut section = String::new();
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
            if let Some(name) = line.strip_prefix('[') {
                section = name.trim_end_matches(']').trim().to_lowercase();
            } else if let Some((key, value)) = line.split_once('=') {
                let (key, value) = (key.trim().to_lowercase(), value.trim().trim_matches('"'));
                match key.as_str() {
                    // A dash in front allows that the file is missing.
                    "include" | "-include" => self.include(path, value),
                    _ => self.values.push((section.clone(), key, value.to_owned())),
                }
            }
        }
    }

    fn include(&mut self, from: &Path, other: &str) {
        let folder = from.parent().unwrap_or(Path::new("/"));
        self.file(&folder.join(other.trim_start_matches('-')));
    }

    /// Returns the keys of a section with their values, in the order of the files.
    pub(crate) fn section<'c>(&'c self, section: &'c str) -> impl Iterator<Item = (&'c str, &'c str)> {
        let of_section = self.values.iter().filter(move |(at, _, _)| at == section);
        of_section.map(|(_, key, value)| (key.as_str(), value.as_str()))
    }

    /// Returns the value of a key; the last one is in force.
    pub(crate) fn value(&self, section: &str, key: &str) -> Option<&str> {
        let found = self.values.iter().rfind(|(at, name, _)| at == section && name == key);
        found.map(|(_, _, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_ins_follow_the_file_in_the_order_of_their_names() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join("etc").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("nfs.conf", "[gssd]\n# keytab-file = /no\nKeytab-File = /a\nverbosity = 1\n");
        write("nfs.conf.d/20-late.conf", "[gssd]\nkeytab-file=/c\ninclude = ../more\n");
        write("nfs.conf.d/10-early.conf", "[ gssd ]\nkeytab-file = \"/b\"\n");
        write("nfs.conf.d/ignored", "[gssd]\nkeytab-file = /d\n");
        write("more", "[gssd]\navoid-dns = 0\ninclude = more\n");
        let conf = NfsConf::read(&Surroundings::of_process(root.path()), "nfs.conf");
        assert_eq!(conf.value("gssd", "keytab-file"), Some("/c"));
        assert_eq!(
            (conf.value("gssd", "verbosity"), conf.value("gssd", "avoid-dns")),
            (Some("1"), Some("0"))
        );
        assert_eq!(conf.value("other", "keytab-file"), None);
    }
}
