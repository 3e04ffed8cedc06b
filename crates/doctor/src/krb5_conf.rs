//! Reads krb5.conf: sections, nested relations, `include` and `includedir`.

use std::path::{Path, PathBuf};

use crate::machine::{read_text, sorted_files};

/// Files that one configuration may include.
const FILES_MAX: usize = 64;

/// A configuration of the Kerberos library.
#[derive(Clone, Debug, Default)]
pub(crate) struct Krb5Conf {
    /// Section, path of relations in it, and value, in the order of the files.
    relations: Vec<(Vec<String>, String)>,
    /// Files that could not be read, with the reason.
    pub unreadable: Vec<(PathBuf, String)>,
    /// Lines that are none of the format, with their file.
    pub malformed: Vec<(PathBuf, String)>,
    files: usize,
}

impl Krb5Conf {
    /// Reads the files in their order.
    pub(crate) fn read(paths: &[PathBuf]) -> Self {
        let mut conf = Self::default();
        paths.iter().for_each(|path| conf.file(path));
        conf
    }

    fn file(&mut self, path: &Path) {
        self.files += 1;
        if self.files > FILES_MAX {
            return;
        }
        match read_text(path) {
            Ok(text) => self.text(path, &text),
            Err(error) => self.unreadable.push((path.to_owned(), error.to_string())),
        }
    }

    fn text(&mut self, path: &Path, text: &str) {
        let mut place: Vec<String> = Vec::new();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                place = vec![section.0.trim().to_owned()];
            } else if let Some(other) = line.strip_prefix("includedir ") {
                self.folder(Path::new(other.trim()));
            } else if let Some(other) = line.strip_prefix("include ") {
                self.file(Path::new(other.trim()));
            } else if line.trim_end_matches('*') == "}" && place.len() > 1 {
                place.pop();
            } else if let Some((key, value)) = line.split_once('=') {
                let mut at = place.clone();
                at.push(key.trim().trim_end_matches('*').to_owned());
                match value.trim() {
                    "{" => place = at,
                    value => self.relations.push((at, value.trim_matches('"').to_owned())),
                }
            } else if !line.starts_with("module ") {
                self.malformed.push((path.to_owned(), line.to_owned()));
            }
        }
    }

    fn folder(&mut self, folder: &Path) {
        let is_plain = |name: &str| {
            let word = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
            word || (name.ends_with(".conf") && !name.starts_with('.'))
        };
        sorted_files(folder, is_plain).iter().for_each(|path| self.file(path));
    }

    /// Returns all values of a relation.
    pub(crate) fn all(&self, place: &[&str]) -> Vec<&str> {
        let found = self.relations.iter().filter(|(at, _)| at.iter().eq(place));
        found.map(|(_, value)| value.as_str()).collect()
    }

    /// Returns the first value of a relation, which is the one in force.
    pub(crate) fn value(&self, place: &[&str]) -> Option<&str> {
        self.all(place).first().copied()
    }

    /// Returns a boolean of `[libdefaults]`, or its default.
    pub(crate) fn flag(&self, name: &str, default: bool) -> bool {
        let word = self.value(&["libdefaults", name]).map(str::to_lowercase);
        match word.as_deref() {
            Some("y" | "yes" | "true" | "t" | "1" | "on") => true,
            Some("n" | "no" | "false" | "nil" | "0" | "off") => false,
            _ => default,
        }
    }

    /// Returns the default realm.
    pub(crate) fn default_realm(&self) -> Option<&str> {
        self.value(&["libdefaults", "default_realm"])
    }

    /// Returns the KDCs of a realm, as `HOST[:PORT]`.
    pub(crate) fn kdcs(&self, realm: &str) -> Vec<&str> {
        self.all(&["realms", realm, "kdc"])
    }

    /// Returns the realm of a host by `[domain_realm]`: that of the name, else of the longest
    /// domain.
    pub(crate) fn realm_of(&self, host: &str) -> Option<&str> {
        let host = host.to_lowercase();
        if let Some(realm) = self.value(&["domain_realm", &host]) {
            return Some(realm);
        }
        let mut rest = host.as_str();
        while let Some((_, domain)) = rest.split_once('.') {
            let dotted = format!(".{domain}");
            if let Some(realm) = self.value(&["domain_realm", &dotted]) {
                return Some(realm);
            }
            if let Some(realm) = self.value(&["domain_realm", domain]) {
                return Some(realm);
            }
            rest = domain;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_realms_and_domains_are_read() {
        let mut conf = Krb5Conf::default();
        conf.text(
            Path::new("krb5.conf"),
            "# one\n[libdefaults]\n default_realm = A.TEST\n rdns = no\n[realms]\n A.TEST = {\n  kdc = k1:88\n  kdc = k2\n }\n\
             [domain_realm]\n .a.test = A.TEST\n h.b.test = B.TEST\nnonsense\n",
        );
        assert_eq!(conf.default_realm(), Some("A.TEST"));
        assert!(!conf.flag("rdns", true) && conf.flag("dns_canonicalize_hostname", true));
        assert_eq!(conf.kdcs("A.TEST"), ["k1:88", "k2"]);
        assert_eq!(conf.realm_of("x.y.a.test"), Some("A.TEST"));
        assert_eq!((conf.realm_of("H.B.TEST"), conf.realm_of("c.test")), (Some("B.TEST"), None));
        assert_eq!(conf.malformed.len(), 1);
    }

    #[test]
    fn a_file_that_includes_itself_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("krb5.conf");
        std::fs::write(&path, format!("include {}\n", path.display())).unwrap();
        assert!(Krb5Conf::read(&[path]).files >= FILES_MAX);
    }
}
