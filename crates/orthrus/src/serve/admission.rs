//! The rules of admission by flavor: checked before a set of exports serves, and logged when it
//! does.
//! does.

use anyhow::bail;
use vfs::{Export, ExportTable, Network, SecFlavor, Squash};

/// Checks that each export can be used with a flavor that the server speaks: without keys that is
/// `sys` alone.
///
/// # Errors
/// The first export that allows only Kerberos, with the remedies.
pub(super) fn check(exports: &ExportTable, have_keys: bool) -> anyhow::Result<()> {
    for export in exports.iter().filter(|_| !have_keys) {
        let mut lists = export.flavors_from.iter().map(|(_, flavors)| flavors).chain([&export.flavors]);
        if !lists.clone().any(|flavors| flavors.contains(&SecFlavor::Sys)) {
            bail!(
                "export {}: sec={} needs a keytab, and there is none; name one with --keytab (`orthrus realm up` \
                 makes a realm to try), or trust the clients' word for who their users are: sec = [\"sys\"] in the \
                 file, --sec sys on the command line",
                export.pseudo_path,
                names(&export.flavors),
            );
        }
        if lists.any(|flavors| *flavors != [SecFlavor::Sys]) {
            tracing::warn!(
                "export {}: no keytab, so only sec=sys works; name one with --keytab",
                export.pseudo_path
            );
        }
    }
    Ok(())
}

/// Logs the clients, flavors and identities of each export.
pub(super) fn log(exports: &ExportTable) {
    for export in exports.iter() {
        for line in lines(export) {
            tracing::info!("export {}: {line}", export.pseudo_path);
        }
    }
}

/// One line for each list of flavors: the first network that has a client counts, so they are in
/// that order.
fn lines(export: &Export) -> Vec<String> {
    let access = if export.read_only { "read only" } else { "read and write" };
    let squash = match export.squash {
        Squash::None => "nobody is squashed".to_owned(),
        Squash::Root => format!("root becomes uid {}", export.anon_uid),
        Squash::All => format!("all become uid {}", export.anon_uid),
    };
    let line = |from: &str, flavors: &[SecFlavor]| {
        let port = match (flavors.contains(&SecFlavor::Sys), export.secure) {
            (false, _) => "",
            (true, true) => " (sys from source ports below 1024)",
            (true, false) => " (sys from any source port: any program may name any user)",
        };
        format!("{from} with sec={}{port}, {access}, {squash}", names(flavors))
    };
    let special = export.flavors_from.iter().map(|(network, flavors)| line(&network.to_string(), flavors));
    let rest = if export.networks.is_empty() { "any address".to_owned() } else { list(&export.networks) };
    special.chain([line(&rest, &export.flavors)]).collect()
}

fn list(networks: &[Network]) -> String {
    networks.iter().map(Network::to_string).collect::<Vec<_>>().join(", ")
}

fn names(flavors: &[SecFlavor]) -> String {
    flavors.iter().map(|flavor| flavor.name()).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use vfs::{MemoryBackend, MemoryLimits, Timestamp};

    fn export() -> Export {
        Export::new("/x", Arc::new(MemoryBackend::new(MemoryLimits::default(), [7; 16]).unwrap())).unwrap()
    }

    #[test]
    fn each_list_of_flavors_is_logged_with_its_network_access_and_squashing() {
        assert_eq!(
            lines(&export()),
            ["any address with sec=krb5p:krb5i:krb5, read and write, root becomes uid 65534"]
        );
        let network = |text: &str| text.parse::<Network>().unwrap();
        let mut export = export();
        export.flavors = vec![SecFlavor::Krb5p];
        export.flavors_from = vec![(network("10.1.0.0/16"), vec![SecFlavor::Sys])];
        export.networks = vec![network("10.0.0.0/8"), network("2001:db8::/32")];
        (export.read_only, export.squash, export.anon_uid) = (true, Squash::All, 7);
        let rest = "10.0.0.0/8, 2001:db8::/32 with sec=krb5p, read only, all become uid 7";
        assert_eq!(
            lines(&export),
            [
                "10.1.0.0/16 with sec=sys (sys from source ports below 1024), read only, all become uid 7",
                rest
            ]
        );
        (export.secure, export.squash) = (false, Squash::None);
        let [special, _] = &lines(&export)[..] else { panic!() };
        assert!(special.contains("from any source port") && special.ends_with("nobody is squashed"));
    }

    #[test]
    fn without_keys_each_export_must_name_sys_somewhere() {
        let refusal = |export: Export| {
            let table = ExportTable::new(vec![export], Timestamp::default()).unwrap();
            check(&table, true).expect("with keys all is well");
            check(&table, false).err().map(|error| error.to_string())
        };
        let said = refusal(export()).expect("Kerberos only");
        for part in ["/x", "krb5p:krb5i:krb5", "--keytab", "sec = [\"sys\"]", "--sec sys"] {
            assert!(said.contains(part), "{said}");
        }
        let mut named = export();
        named.flavors.push(SecFlavor::Sys);
        assert_eq!(refusal(named), None);
        let mut elsewhere = export();
        elsewhere.flavors_from.push(("::1".parse().unwrap(), vec![SecFlavor::Sys]));
        assert_eq!(refusal(elsewhere), None);
    }
}
