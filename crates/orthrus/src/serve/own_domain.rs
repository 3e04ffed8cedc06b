//! The domain of owner names on a machine without a realm: that of libnfsidmap, which the clients
//! of its domain use.

use std::fs::read_to_string;

/// Returns the domain that idmapd.conf names, or else that of the machine's full name. A name
/// server is not asked: a start and a reload do not wait for it.
pub(super) fn own_domain() -> Option<String> {
    let read = |path| read_to_string(path).unwrap_or_default();
    find(&read("/etc/idmapd.conf"), read("/proc/sys/kernel/hostname").trim(), &read("/etc/hosts"))
}

fn find(idmapd: &str, host: &str, hosts: &str) -> Option<String> {
    let of_name = |name: &str| name.split_once('.').map(|(_, domain)| domain.to_owned());
    let full = || {
        let lines = hosts.lines().map(|line| line.split('#').next().unwrap_or_default());
        let mut names = lines.map(|line| line.split_whitespace().skip(1));
        names.find(|names| names.clone().any(|name| name.eq_ignore_ascii_case(host)))?.next()
    };
    let found = configured(idmapd).or_else(|| of_name(host)).or_else(|| of_name(full()?))?;
    Some(found.to_lowercase()).filter(|domain| !domain.is_empty())
}

/// Returns the key `Domain` of the section `General`.
fn configured(idmapd: &str) -> Option<String> {
    let mut is_general = false;
    idmapd.lines().map(str::trim).find_map(|line| {
        if let Some(section) = line.strip_prefix('[') {
            is_general = section.trim_end_matches(']').trim().eq_ignore_ascii_case("general");
        }
        let (key, value) = line.split_once('=')?;
        (is_general && key.trim().eq_ignore_ascii_case("domain")).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_is_that_of_idmapd_or_of_the_full_name() {
        let idmapd = "[General]\n# Domain = localdomain\nDomain = Site.example\n[Mapping]\nDomain = other\n";
        let hosts = "127.0.0.1 localhost\n127.0.1.1 server.example.org server # this\n";
        for (idmapd, host, hosts, domain) in [
            (idmapd, "server.example.org", hosts, Some("site.example")),
            ("[Mapping]\nDomain = other\n", "server.Example.org", "", Some("example.org")),
            ("# Domain = a\n", "server", hosts, Some("example.org")),
            ("", "other", hosts, None),
            ("", "server", "127.0.1.1 server\n", None),
            ("", "", "", None),
        ] {
            assert_eq!(find(idmapd, host, hosts).as_deref(), domain, "{host}");
        }
    }
}
