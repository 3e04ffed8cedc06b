//! The rules of admission: checked before a set of exports serves, and logged when it does.

use crate::config::ExportSettings;
use anyhow::bail;
use std::sync::Arc;
use vfs::{Export, ExportRule, ExportTable, RuleClient, SecFlavor, Squash};

/// Checks that each export can be used with a flavor that the server speaks: without keys that is
/// `sys` alone.
///
/// # Errors
/// The first export that allows only Kerberos, with the remedies.
pub(super) fn check(exports: &[ExportSettings], have_keys: bool) -> anyhow::Result<()> {
    for export in exports.iter().filter(|_| !have_keys) {
        let terms = export.terms();
        let mut lists = terms.iter().map(|terms| &terms.flavors);
        if !lists.clone().any(|flavors| flavors.contains(&SecFlavor::Sys)) {
            bail!(
                "export {}: sec={} needs a keytab, and there is none; name one with --keytab (`orthrus realm up` \
                 makes a realm to try), or trust the clients' word for who their users are: sec = [\"sys\"] in the \
                 file, --sec sys on the command line",
                export.pseudo,
                lists.next().map(|flavors| names(flavors)).unwrap_or_default(),
            );
        }
        if lists.any(|flavors| *flavors != [SecFlavor::Sys]) {
            tracing::warn!(
                "export {}: no keytab, so only sec=sys works; name one with --keytab",
                export.pseudo
            );
        }
    }
    Ok(())
}

/// Warns of rules that let root change owners, where the process cannot.
pub(super) fn warn_of_owners(exports: &ExportTable) {
    let gives = |export: &&Arc<Export>| export.rules.iter().any(|rule| rule.squash == Squash::None);
    for export in exports.iter().filter(gives) {
        tracing::warn!(
            "export {}: squash = \"none\", but root of a client cannot change owners without CAP_CHOWN (systemctl \
             edit orthrus: CapabilityBoundingSet=CAP_CHOWN)",
            export.pseudo_path
        );
    }
}

/// Logs the clients, flavors and identities of each export, and warns of exports that are open to
/// all addresses. Flavors that the server does not speak are left out.
pub(super) fn log(exports: &ExportTable, flavors: &[SecFlavor], warn: bool) {
    for export in exports.iter() {
        for line in lines(export, flavors) {
            tracing::info!("export {}: {line}", export.pseudo_path);
        }
        for warning in warnings(export).into_iter().filter(|_| warn) {
            tracing::warn!("export {}: {warning}", export.pseudo_path);
        }
    }
}

/// Returns a line for each rule: the first that names a client counts, so they are in that order.
fn lines(export: &Export, flavors: &[SecFlavor]) -> Vec<String> {
    let line = |rule: &ExportRule| {
        let access = if rule.read_only { "read only" } else { "read and write" };
        let squash = match rule.squash {
            Squash::None => "nobody is squashed".to_owned(),
            Squash::Root => format!("root becomes uid {}", rule.anon_uid),
            Squash::All => format!("all become uid {}", rule.anon_uid),
        };
        let port = match (rule.flavors.contains(&SecFlavor::Sys), rule.secure) {
            (false, _) => "",
            (true, true) => " (sys from source ports below 1024)",
            (true, false) => " (sys from any source port: any program may name any user)",
        };
        let usable: Vec<_> = rule.flavors.iter().filter(|flavor| flavors.contains(flavor)).copied().collect();
        let clients = clients(rule);
        match (usable.is_empty(), export.absent) {
            (true, _) => format!("{clients} with no flavor that works here"),
            (false, true) => format!(
                "{clients} with sec={}{port} is referred to {}",
                names(&usable),
                texts(&export.locations)
            ),
            (false, false) => format!("{clients} with sec={}{port}, {access}, {squash}", names(&usable)),
        }
    };
    export.rules.iter().map(line).collect()
}

/// Returns a sentence for each danger in the rules.
fn warnings(export: &Export) -> Vec<String> {
    let mut warnings = Vec::new();
    for rule in &export.rules {
        for client in &rule.clients {
            match client {
                client if is_any(client) && rule.flavors.contains(&SecFlavor::Sys) => warnings.push(
                    "any address may use it with sec=sys and name any user; name your clients with `clients`"
                        .to_owned(),
                ),
                client if is_any(client) => warnings
                    .push("any address may use it; name your clients with `clients`".to_owned()),
                RuleClient::Named(named) if named.is_open_ended() => warnings.push(format!(
                    "the owner of any address can choose a name that matches {named}; end the pattern with your \
                     domain, as in *.example.org"
                )),
                RuleClient::Any | RuleClient::Named(_) | RuleClient::Network(_) => {}
            }
        }
    }
    warnings.dedup();
    warnings
}

/// Returns whether it stands for all addresses, at least of a family.
fn is_any(client: &RuleClient) -> bool {
    match client {
        RuleClient::Any => true,
        RuleClient::Network(network) => network.prefix() == 0,
        RuleClient::Named(_) => false,
    }
}

fn clients(rule: &ExportRule) -> String {
    if rule.clients.iter().any(|client| matches!(client, RuleClient::Any)) {
        return "any address".to_owned();
    }
    texts(&rule.clients)
}

fn texts<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

fn names(flavors: &[SecFlavor]) -> String {
    flavors.iter().map(|flavor| flavor.name()).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Storage;
    use std::cell::Cell;
    use std::fmt;
    use std::net::IpAddr;
    use std::time::Duration;
    use vfs::{MemoryBackend, MemoryLimits, NamedClients};

    fn export(rules: Vec<ExportRule>) -> Export {
        let backend = Arc::new(MemoryBackend::new(MemoryLimits::default(), [7; 16]).unwrap());
        Export { rules, ..Export::new("/x", backend).unwrap() }
    }

    fn networks(list: &[&str]) -> Vec<RuleClient> {
        list.iter().map(|text| RuleClient::Network(text.parse().unwrap())).collect()
    }

    #[derive(Debug)]
    struct OpenEnded;

    impl fmt::Display for OpenEnded {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("node*")
        }
    }

    impl NamedClients for OpenEnded {
        fn contains(&self, _: IpAddr, _: Duration) -> Option<bool> {
            None
        }
        fn resolve(&self, _: IpAddr, _: Duration, _: &Cell<Duration>) -> bool {
            false
        }
        fn is_open_ended(&self) -> bool {
            true
        }
    }

    #[test]
    fn each_rule_is_logged_with_its_clients_access_and_squashing() {
        assert_eq!(
            lines(&export(vec![ExportRule::default()]), &SecFlavor::ALL),
            ["any address with sec=krb5p:krb5i:krb5, read and write, root becomes uid 65534"]
        );
        let sys = ExportRule {
            clients: networks(&["10.1.0.0/16"]),
            flavors: vec![SecFlavor::Sys],
            squash: Squash::None,
            ..ExportRule::default()
        };
        let rest = ExportRule {
            clients: networks(&["10.0.0.0/8", "2001:db8::/32"]),
            flavors: vec![SecFlavor::Krb5p],
            read_only: true,
            squash: Squash::All,
            anon_uid: 7,
            ..ExportRule::default()
        };
        let any_port = ExportRule { secure: false, ..sys.clone() };
        let said = lines(&export(vec![sys, rest.clone(), any_port]), &SecFlavor::ALL);
        let first = "10.1.0.0/16 with sec=sys (sys from source ports below 1024), read and write, \
                     nobody is squashed";
        let second = "10.0.0.0/8, 2001:db8::/32 with sec=krb5p, read only, all become uid 7";
        assert_eq!(said[..2], [first, second]);
        assert!(said[2].contains("from any source port"), "{said:?}");
        // Without a keytab Kerberos does not work.
        assert_eq!(
            lines(&export(vec![rest]), &[SecFlavor::Sys]),
            ["10.0.0.0/8, 2001:db8::/32 with no flavor that works here"]
        );
        let both = ExportRule { flavors: vec![SecFlavor::Krb5p, SecFlavor::Sys], ..ExportRule::default() };
        assert!(lines(&export(vec![both]), &[SecFlavor::Sys])[0].contains("with sec=sys (sys from"));
    }

    #[test]
    fn a_referral_is_logged_with_its_places() {
        let places = ["a.example.org:/x", "192.0.2.9:2050:/y"].map(|text| text.parse().unwrap());
        assert_eq!(
            lines(&Export::referral("/r", places.into()).unwrap(), &SecFlavor::ALL),
            ["any address with sec=krb5p:krb5i:krb5 is referred to a.example.org:/x, 192.0.2.9:2050:/y"]
        );
    }

    #[test]
    fn exports_for_all_addresses_and_patterns_for_any_domain_get_a_warning() {
        let rule = |clients, flavor| ExportRule { clients, flavors: vec![flavor], ..ExportRule::default() };
        let closed = rule(networks(&["10.0.0.0/8"]), SecFlavor::Sys);
        assert_eq!(warnings(&export(vec![closed.clone()])), [""; 0]);
        let krb5p = rule(vec![RuleClient::Any], SecFlavor::Krb5p);
        let [said] = &warnings(&export(vec![closed, krb5p]))[..] else { panic!("one") };
        assert!(said.contains("any address") && said.contains("`clients`"), "{said}");
        for any in [vec![RuleClient::Any], networks(&["0.0.0.0/0", "::/0"])] {
            let said = warnings(&export(vec![rule(any, SecFlavor::Sys)]));
            assert!(said.len() == 1 && said[0].contains("name any user"), "{said:?}");
        }
        let open = rule(vec![RuleClient::Named(Arc::new(OpenEnded))], SecFlavor::Sys);
        assert!(warnings(&export(vec![open]))[0].contains("node*"));
    }

    #[test]
    fn without_keys_each_export_must_name_sys_somewhere() {
        let refusal = |export: &ExportSettings| {
            check(std::slice::from_ref(export), true).expect("with keys all is well");
            check(std::slice::from_ref(export), false).err().map(|error| error.to_string())
        };
        let kerberos = ExportSettings::new(Storage::Memory(1 << 20), "/x");
        let said = refusal(&kerberos).expect("Kerberos only");
        for part in ["/x", "krb5p:krb5i:krb5", "--keytab", "sec = [\"sys\"]", "--sec sys"] {
            assert!(said.contains(part), "{said}");
        }
        let mut both = kerberos.clone();
        both.flavors = vec![SecFlavor::Krb5p, SecFlavor::Sys];
        assert_eq!(refusal(&both), None);
        let rule = "clients = [\"::1\"]\nsec = [\"krb5p\", \"sys\"]";
        let mut elsewhere = kerberos;
        elsewhere.rules = vec![toml::from_str(rule).expect("it is a rule")];
        assert_eq!(refusal(&elsewhere), None);
    }
}
