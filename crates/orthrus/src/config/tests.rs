use super::*;
use server::tenants::LimitedTenants;
use std::path::PathBuf;
use std::time::Duration;
use vfs::{SecFlavor, Squash};

fn refusal(text: &str) -> String {
    parse(Path::new("/etc/orthrus.toml"), text).expect_err("the configuration is wrong").to_string()
}

#[test]
fn a_whole_configuration_is_read() {
    let text = r#"
        listen = "127.0.0.1:12049"
        metrics = ":9049"
        domain = "example.org"
        lease_time = 30
        nfs40 = false
        delegations = "read"
        recall_time = 20
        local_locks = false
        numeric_owners = "nameless"

        [limits]
        contexts_max = 1000

        [[export]]
        path = "/tmp"
        pseudo = "/home/data/"
        sec = ["krb5p", "krb5i"]
        secure = false
        read_only = true
        squash = "all"
        clients = ["10.0.0.0/8", "::1"]
        fsid = 7
        stable_names = false
        nested = "show"

        [[export]]
        memory = 1048576
    "#;
    let settings = parse(Path::new("/etc/orthrus.toml"), text).expect("it is right");
    assert_eq!(settings.listen.port(), 12049);
    assert_eq!(settings.metrics, Some(([127, 0, 0, 1], 9049).into()));
    assert_eq!(settings.lease_time, Duration::from_secs(30));
    assert!(!settings.nfs40);
    assert_eq!(settings.delegations, server::engine::Delegations::Read);
    assert_eq!(settings.recall_time, Some(Duration::from_secs(20)));
    assert_eq!(settings.limits.contexts_max, 1000);
    assert!(!settings.local_locks);
    assert_eq!(settings.numeric_owners, server::engine::NumericOwners::Nameless);
    let export = &settings.exports[0];
    assert_eq!(export.pseudo, "/home/data");
    assert_eq!(export.flavors, [SecFlavor::Krb5p, SecFlavor::Krb5i]);
    assert_eq!((export.read_only, export.squash, export.fsid), (true, Squash::All, Some(7)));
    assert_eq!(export.clients.as_ref().map(Vec::len), Some(2));
    assert!(!export.stable_names && settings.exports[1].stable_names);
    assert_eq!((export.nested, settings.exports[1].nested), (Nested::Show, Nested::Hide));
    assert_eq!(settings.exports[1].storage, Storage::Memory(1 << 20));
    assert_eq!(settings.exports[1].pseudo, "/memory");
    assert_eq!(settings.exports[1].flavors, SecFlavor::KERBEROS);
    assert_eq!((export.secure, settings.exports[1].secure), (false, true));
}

#[test]
fn rules_replace_keys_of_their_export_and_take_the_others_from_it() {
    let text = r#"
        [[export]]
        path = "/tmp"
        sec = ["krb5p"]
        anon_uid = 7

        [[export.rule]]
        clients = ["10.1.0.0/16", "login.example.org"]
        squash = "none"

        [[export.rule]]
        clients = ["*.HPC.example.org", "@trusted"]
        sec = ["sys", "krb5"]
        secure = false
        read_only = true
        squash = "all"
        anon_gid = 8

        [[export]]
        path = "/tmp"
        pseudo = "/short"
        rule = [{ clients = ["*"], read_only = true }]
    "#;
    let settings = parse(Path::new("/etc/orthrus.toml"), text).expect("it is right");
    let [first, second] = &settings.exports[0].terms()[..] else { panic!("two rules") };
    let clients = |terms: &ExportTerms| terms.clients.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(clients(first), ["10.1.0.0/16", "login.example.org"]);
    assert_eq!((&first.flavors[..], first.secure, first.read_only), (&[SecFlavor::Krb5p][..], true, false));
    assert_eq!((first.squash, first.anon_uid, first.anon_gid), (Squash::None, 7, 65534));
    assert_eq!(clients(second), ["*.hpc.example.org", "@trusted"]);
    assert_eq!(second.flavors, [SecFlavor::Sys, SecFlavor::Krb5]);
    assert_eq!((second.secure, second.read_only, second.squash), (false, true, Squash::All));
    assert_eq!((second.anon_uid, second.anon_gid), (7, 8));
    let [short] = &settings.exports[1].terms()[..] else { panic!("one rule") };
    assert_eq!((clients(short), short.read_only), (vec!["*".to_owned()], true));
}

#[test]
fn rules_that_cannot_apply_are_refused() {
    let export = "[[export]]\npath = \"/tmp\"\n";
    for (text, place, part) in [
        ("clients = [\"::1\"]\n[[export.rule]]\nclients = [\"*\"]\n", "3: key `clients`: ", "either"),
        ("[[export.rule]]\nread_only = true\n", "3: key `export.rule`: ", "`clients` is missing"),
        ("[[export.rule]]\nclients = []\n", "4: key `clients`: ", "for all clients"),
        ("clients = []\n", "3: key `clients`: ", "for all clients"),
        ("clients = [\"a b\"]\n", "3: key `clients`: ", "@trusted"),
        (
            "[[export.rule]]\nclients = [\"::1\"]\nsquash = \"no\"\n",
            "5: key `squash`: ",
            "none, root and all",
        ),
        (
            "[[export.rule]]\nclients = [\"*\"]\n[[export.rule]]\nclients = [\"::1\"]\n",
            "3: key `export.rule`: ",
            "behind number 1",
        ),
    ] {
        let said = refusal(&format!("{export}{text}"));
        assert!(said.starts_with(&format!("/etc/orthrus.toml:{place}")) && said.contains(part), "{said}");
    }
}

#[test]
fn the_lookup_of_accounts_is_read() {
    let text = r#"
        [identity]
        unknown = "refused"
        groups = "server"
        refresh = 60
        absent = 5
        stale = 3600
        timeout = 3

        rules = ["RULE:[1:$1@$0](.*@PARTNER)s/@.*//", "DEFAULT"]

        [[identity.source]]
        kind = "static"
        users.alice = { uid = 5, gid = 6, groups = [7] }
        groups.staff = 7

        [[identity.source]]
        kind = "ldap"
        realms = ["A"]
        servers = ["ldaps://a", "ldaps://b"]
        base = "dc=a"
        group_base = "ou=groups,dc=a"
        schema = "rfc2307bis"
        principal = "krbPrincipalName"
        gid_number = "gid"
        bind_dn = "cn=orthrus,dc=a"
        secret = "secret"
        ca = "/ca.pem"

        [[identity.source]]
        kind = "nss"

        [[export]]
        path = "/tmp"
    "#;
    let settings = parse(Path::new("/etc/orthrus.toml"), text).expect("it is right");
    let identity = &settings.identity;
    assert_eq!((identity.rules.len(), identity.sources.len()), (2, 3));
    let SourceSettings::Ldap(table) = &identity.sources[1] else { panic!("the second is LDAP") };
    assert_eq!(identity.sources[1].realms(), ["A"]);
    let ldap = table.settings().expect("it is right");
    assert_eq!((&*ldap.user_base, &*ldap.group_base), ("dc=a", "ou=groups,dc=a"));
    assert_eq!(ldap.schema.principal.as_deref(), Some("krbPrincipalName"));
    assert_eq!((&*ldap.schema.group_number, &*ldap.schema.member), ("gid", "member"));
    let secret = "/etc/secret".into();
    assert_eq!(ldap.bind, ldap::Bind::Simple { dn: "cn=orthrus,dc=a".into(), secret });
    assert_eq!(identity.groups, server::engine::SysGroups::Server);
    assert_eq!(identity.unknown, identity::Unknown::Refused);
    let times =
        [identity.refresh, identity.absent, identity.stale, identity.timeout].map(|time| time.as_secs());
    assert_eq!(times, [60, 5, 3600, 3]);
}

#[test]
fn a_wrong_flavor_is_named_with_file_line_key_and_what_is_allowed() {
    let said = refusal("[[export]]\npath = \"/tmp\"\nsec = [\"krb6\"]\n");
    assert!(said.starts_with("/etc/orthrus.toml:3: key `sec`: "), "{said}");
    assert!(said.contains("krb6") && said.contains("krb5p"), "{said}");
}

#[test]
fn an_unknown_key_is_named_with_the_keys_that_exist() {
    let said = refusal("[[export]]\npath = \"/tmp\"\nreadonly = true\n");
    assert!(said.starts_with("/etc/orthrus.toml:3: key `readonly`: "), "{said}");
    assert!(said.contains("read_only"), "{said}");
}

#[test]
fn a_value_of_the_wrong_type_is_named_with_its_line() {
    let said = refusal("shards = \"two\"\n");
    assert!(said.starts_with("/etc/orthrus.toml:1: key `shards`: "), "{said}");
}

#[test]
fn a_number_out_of_range_is_named_with_the_range() {
    let said = refusal("delegations = \"some\"\n[[export]]\npath = \"/tmp\"\n");
    assert!(said.starts_with("/etc/orthrus.toml:1: key `delegations`: "), "{said}");
    assert!(said.contains("none, read and all"), "{said}");
    let said = refusal("numeric_owners = \"no\"\n[[export]]\npath = \"/tmp\"\n");
    assert!(said.contains("sys, always and nameless"), "{said}");
    let said = refusal("lease_time = 1\n[[export]]\npath = \"/tmp\"\n");
    assert!(said.starts_with("/etc/orthrus.toml:1: key `lease_time`: "), "{said}");
    assert!(said.contains("5 to 3600"), "{said}");
}

#[test]
fn nested_is_hide_or_show() {
    let said = refusal("[[export]]\npath = \"/tmp\"\nnested = \"yes\"\n");
    assert!(
        said.starts_with("/etc/orthrus.toml:3: key `nested`: ") && said.contains("hide and show"),
        "{said}"
    );
    let said = refusal("[[export]]\nmemory = 1048576\nnested = \"show\"\n");
    assert!(said.starts_with("/etc/orthrus.toml:3: key `nested`: nothing is mounted"), "{said}");
}

#[test]
fn a_folder_that_does_not_exist_is_named() {
    let said = refusal("[[export]]\npath = \"/no/such/folder\"\n");
    assert!(said.starts_with("/etc/orthrus.toml:2: key `path`: /no/such/folder"), "{said}");
}

#[test]
fn a_network_that_is_none_is_named() {
    let said = refusal("[[export]]\npath = \"/tmp\"\nclients = [\"10.0.0.0/40\"]\n");
    assert!(said.starts_with("/etc/orthrus.toml:3: key `clients`: "), "{said}");
}

#[test]
fn a_pattern_of_addresses_is_refused() {
    for client in ["10.*", "10.0.0.*", "10.0.0.[1-9]", "192.168.1.?"] {
        let said = refusal(&format!("[[export]]\npath = \"/tmp\"\nclients = [\"{client}\"]\n"));
        assert!(said.contains("write the network, such as 10.0.0.0/24"), "{said}");
    }
    let named = "[[export]]\npath = \"/tmp\"\nclients = [\"*\", \"10.*.example.org\", \"node[0-9]\"]\n";
    assert!(parse(Path::new("/etc/orthrus.toml"), named).is_ok());
}

#[test]
fn an_empty_path_is_not_the_folder_of_the_file() {
    let export = "[[export]]\npath = \"/tmp\"\n";
    for (text, place) in [
        ("[[export]]\npath = \"\"\n".to_owned(), "2: key `path`: "),
        (format!("state_dir = \" \"\n{export}"), "1: key `state_dir`: "),
        (format!("keytab = \"\"\n{export}"), "1: key `keytab`: "),
        (format!("web_key = \"\"\n{export}"), "1: key `web_key`: "),
        ("[[export]]\nceph = \"/\"\nceph_conf = \"\"\n".to_owned(), "3: key `ceph_conf`: "),
        (format!("[[identity.source]]\nkind = \"ldap\"\nca = \"\"\n{export}"), "3: key `ca`: "),
    ] {
        let said = refusal(&text);
        assert!(
            said.starts_with(&format!("/etc/orthrus.toml:{place}")) && said.contains("the path is empty"),
            "{said}"
        );
    }
}

#[test]
fn a_file_that_is_no_text_is_named_with_the_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("orthrus.toml");
    std::fs::write(&file, b"[[export]]\npath = \"/srv/d\xe4ten\"\n").expect("it is written");
    let said = read(&file).expect_err("it is no text").to_string();
    assert!(
        said.ends_with("orthrus.toml:2: a character is not in UTF-8; save the file in that encoding"),
        "{said}"
    );
}

#[test]
fn errors_of_an_export_name_its_own_lines() {
    let good = "[[export]]\npath = \"/tmp\"\n\n";
    for (table, place, part) in [
        ("[[export]]\nsecure = true\n", "4: key `export`: ", "`path`"),
        ("[[export]]\nmemory = 1048576\npath = \"/tmp\"\n", "5: key `memory`: ", "has one of"),
        ("[[export]]\npath = \"/no/such\"\n", "5: key `path`: ", "/no/such"),
        ("[[export]]\nmemory = 7\n", "5: key `memory`: ", "1048576 to"),
        ("[[export]]\npath = \"/tmp\"\nfsid = 0\n", "6: key `fsid`: ", "1 to 4294967295"),
        ("[[export]]\npath = \"/tmp\"\nsec = []\n", "6: key `sec`: ", "krb5p"),
        ("[[export]]\npath = \"/tmp\"\npseudo = \"a/../b\"\n", "6: key `pseudo`: ", ""),
        ("[limits]\nslots_max = 0\n", "5: key `slots_max`: ", "1 to 1024"),
        ("[[export]]\npath = \"/tmp\"\nstorage = \"/tmp\"\n", "6: key `storage`: ", "there is no key"),
    ] {
        let said = refusal(&format!("{good}{table}"));
        assert!(said.starts_with(&format!("/etc/orthrus.toml:{place}")) && said.contains(part), "{said}");
    }
    let said = refusal("same_user = true\n[[export]]\npath = \"/tmp\"\n");
    assert!(said.contains("there is no key"), "{said}");
}

#[test]
fn a_cluster_needs_a_name_and_an_export_of_ceph() {
    let ceph = "[[export]]\nceph = \"/data\"\n";
    for (table, part) in [
        ("[cluster]\n", "node = \"gw1\""),
        ("[cluster]\nnode = \"gw 1\"\n", "\"gw 1\" is no name of a gateway"),
        ("[cluster]\nnode = \"gw1\"\npool = \"\"\n", "pool is empty"),
        ("[cluster]\nnode = \"gw1\"\nnodes = \"gw1\"\n", "the nearest is `node`"),
    ] {
        let said = refusal(&format!("{table}{ceph}"));
        assert!(said.starts_with("/etc/orthrus.toml") && said.contains(part), "{said}");
    }
    let said = refusal("[cluster]\nnode = \"gw1\"\n[[export]]\npath = \"/tmp\"\n");
    assert!(said.contains("add an [[export]] with `ceph`"), "{said}");
    let own = "[cluster]\nnode = \"gw1\"\nceph_conf = \"own.conf\"\n[[export]]\nceph = \"/data\"\n";
    let said = refusal(&format!("{own}ceph_conf = \"other.conf\"\n"));
    assert!(said.starts_with("/etc/orthrus.toml:6: key `ceph_conf`: "), "{said}");
    assert!(said.contains("name /etc/own.conf here"), "{said}");
    assert!(refusal(own).contains("name /etc/own.conf here"), "the default is another one");
    assert!(parse(Path::new("/etc/orthrus.toml"), &format!("{own}ceph_conf = \"own.conf\"\n")).is_ok());
    let text = format!("[cluster]\nnode = \"gw1\"\nceph_keyring = \"key\"\n{ceph}");
    let cluster = parse(Path::new("/etc/orthrus.toml"), &text).unwrap().cluster.unwrap();
    assert_eq!(cluster.ceph_keyring.as_deref(), Some(Path::new("/etc/key")));
}

#[test]
fn a_configuration_without_export_says_how_to_add_one() {
    assert!(refusal("shards = 1\n").contains("[[export]]"));
}

#[test]
fn an_address_may_leave_out_host_or_port() {
    for (text, expect) in [
        (":2050", "[::]:2050"),
        ("127.0.0.1", "127.0.0.1:2049"),
        ("[::1]:1", "[::1]:1"),
        ("::1", "[::1]:2049"),
    ] {
        assert_eq!(check::parse_listen(text).map(|address| address.to_string()), Ok(expect.to_owned()));
    }
    assert!(check::parse_listen("localhost:1").is_err());
    assert_eq!(check::parse_metrics("[::]:1").map(|address| address.to_string()), Ok("[::]:1".to_owned()));
    assert!(check::parse_metrics("127.0.0.1").is_err() && check::parse_metrics("localhost:1").is_err());
}

#[test]
fn a_referral_names_one_server_or_several() {
    let text = r#"
        addresses = ["nfs.example.org", "192.0.2.1", "[2001:db8::1]:2050"]
        [[export]]
        refer = "a.example.org:/x/data"
        [[export]]
        refer = ["a.example.org:/x", "192.0.2.9:/y"]
        pseudo = "/both"
        sec = ["krb5p"]
        clients = ["10.0.0.0/8"]
        fsid = 9
        [[export]]
        path = "/tmp"
        locations = "b.example.org:/tmp"
    "#;
    let settings = parse(Path::new("/etc/orthrus.toml"), text).expect("it is right");
    let shown = |locations: &[vfs::Location]| locations.iter().map(ToString::to_string).collect::<Vec<_>>();
    let addresses: Vec<_> = settings.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["nfs.example.org", "192.0.2.1", "[2001:db8::1]:2050"]);
    let [one, both, replicated] = &settings.exports[..] else { panic!() };
    let Storage::Elsewhere(locations) = &one.storage else { panic!("{one:?}") };
    assert_eq!((&*one.pseudo, shown(locations)), ("/data", vec!["a.example.org:/x/data".to_owned()]));
    let Storage::Elsewhere(locations) = &both.storage else { panic!("{both:?}") };
    assert_eq!(shown(locations), ["a.example.org:/x", "192.0.2.9:/y"]);
    assert_eq!(shown(&replicated.locations), ["b.example.org:/tmp"]);
}

#[test]
fn a_malformed_location_is_refused_with_its_place_and_the_form() {
    for (lines, parts) in [
        ("refer = \"nowhere\"", ["refer", "host:/path"]),
        ("refer = []", ["refer", "host:/path"]),
        ("refer = 7", ["refer", "host:/path"]),
        ("refer = [\"a:/x\", \"a b:/x\"]", ["refer", "not a server"]),
        ("refer = \"a.example.org:2050:/x\"", ["refer", "address with the port"]),
        ("path = \"/tmp\"\nlocations = [\"/x\"]", ["locations", "host:/path"]),
        ("path = \"/tmp\"\nrefer = \"a:/x\"", ["refer", "without `path`"]),
        ("memory = 1048576\nrefer = \"a:/x\"", ["refer", "without `path`"]),
        ("refer = \"a:/x\"\nread_only = true", ["read_only", "`refer`"]),
        ("refer = \"a:/x\"\nsquash = \"all\"", ["squash", "`refer`"]),
        ("refer = \"a:/x\"\nlocations = \"b:/x\"", ["locations", "`refer`"]),
        (
            "refer = \"a:/x\"\n[[export.rule]]\nclients = [\"*\"]\nsquash = \"none\"",
            ["export.rule", "`refer`"],
        ),
    ] {
        let refusal = refusal(&format!("[[export]]\n{lines}\n"));
        for part in parts.into_iter().chain(["/etc/orthrus.toml:"]) {
            assert!(refusal.contains(part), "{lines}: {refusal}");
        }
    }
    let refusal = refusal("addresses = [\"host:/x\"]\n[[export]]\npath = \"/tmp\"\n");
    assert!(
        refusal.contains("/etc/orthrus.toml:1: key `addresses`") && refusal.contains("not a server"),
        "{refusal}"
    );
}

#[test]
fn the_weight_of_an_export_applies_and_changes_with_the_file() {
    let tenants = LimitedTenants::default();
    let apply = |key: &str| {
        let text = format!("[[export]]\nmemory = 1048576\nfsid = 9\npseudo = \"/heavy\"\n{key}");
        tenants.apply(parse(Path::new("/etc/orthrus.toml"), &text).expect("it is right").limit_rules());
        [9, 10].map(|export| tenants.export_weight(export))
    };
    for (key, weight) in [("", 100), ("weight = 250", 250), ("weight = 1\nopens_max = 5", 1), ("", 100)] {
        assert_eq!(apply(key), [weight, 100], "{key}");
    }
}

#[test]
fn principals_clients_and_exports_have_limits_of_their_own() {
    let text = r#"
        [limits]
        contexts_max = 1000

        [limits.principal]
        contexts_max = 64
        opens_max = 100

        [limits.client]
        bytes_max = 1000000

        [[limits.rule]]
        principals = ["nfs/*@R"]
        clients = ["10.1.0.0/16"]
        operations_max = 7
        opens_max = 200
        weight = 300

        [[export]]
        memory = 1048576
        pseudo = "/scratch"
        fsid = 9
        locks_max = 16

        [[export]]
        memory = 1048576
        pseudo = "/heavy"
        fsid = 10
        weight = 250

        [[export]]
        memory = 1048576
        pseudo = "/free"
    "#;
    let settings = parse(Path::new("/etc/orthrus.toml"), text).expect("it is right");
    let rules = settings.limit_rules();
    let (machine, user) = (rules.of_principal("nfs/a@R"), rules.of_principal("alice@R"));
    assert_eq!(
        (machine.operations_max, machine.opens_max, machine.contexts_max),
        (Some(7), Some(200), Some(64))
    );
    assert_eq!((machine.weight, user.weight), (Some(300), None));
    assert_eq!((user.operations_max, user.opens_max, user.bytes_max), (None, Some(100), None));
    let of_client = |address: [u8; 4]| rules.of_client(address.into());
    let (near, far) = (of_client([10, 1, 2, 3]), of_client([10, 2, 0, 1]));
    assert_eq!((near.operations_max, near.bytes_max), (Some(7), Some(1_000_000)));
    assert_eq!((far.operations_max, far.bytes_max, far.opens_max), (None, Some(1_000_000), None));
    let exports: Vec<_> = rules.exports.iter().map(|one| (one.export, one.locks_max, one.weight)).collect();
    let expected = [(9, Some(16), None), (10, None, Some(250))];
    assert_eq!(exports, expected, "an export without limits costs nothing");
    for (wrong, said) in [
        ("[[limits.rule]]\nopens_max = 1\n", "neither principals nor clients"),
        ("[[limits.rule]]\nprincipals = []\n", "[\"*\"] is for all principals"),
        ("[[limits.rule]]\nclients = [\"host\"]\n", "not an IPv4 or IPv6 address"),
        ("[limits.client]\nlocks_max = 15\n", "16 to 10000000"),
        ("[limits.principal]\nweight = 0\n", "1 to 10000"),
        ("[[export]]\nmemory = 1048576\npseudo = \"/a\"\nweight = 10001\n", "1 to 10000"),
        ("[limits.client]\ncontexts_max = 16\n", "`contexts_max` belongs to [limits]"),
    ] {
        let error = refusal(&format!("{wrong}[[export]]\nmemory = 1048576\n"));
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn relative_paths_begin_at_the_folder_of_the_file() {
    let text = "keytab = \"a\"\nstate_dir = \"b\"\nweb = \"127.0.0.1:8443\"\nweb_certificate = \"c\"\n\
                web_key = \"/d\"\n[[export]]\nmemory = 1048576\n";
    let settings = parse(Path::new("/etc/orthrus/orthrus.toml"), text).expect("it is right");
    let paths = [settings.keytab, settings.state_dir, settings.web_certificate, settings.web_key];
    let expected = ["/etc/orthrus/a", "/etc/orthrus/b", "/etc/orthrus/c", "/d"];
    assert_eq!(paths.map(Option::unwrap), expected.map(PathBuf::from));
}

#[test]
fn a_wrong_key_that_its_table_needs_is_one_fault() {
    for (text, line) in [
        (
            "[[export]]\nmemory = 1048576\n[[identity.source]]\nrealms = []\nkind = \"sssd\"\n",
            ":5: key `kind`",
        ),
        ("[[export]]\nmemory = 1048576\n[[export.rule]]\nclients = [\"10.0.0.0/40\"]\n", ":4: key `clients`"),
    ] {
        let (_, errors) = parse_all(Path::new("/etc/orthrus.toml"), text);
        let [error] = &errors[..] else { panic!("{errors:?}") };
        assert!(error.to_string().contains(line), "{error}");
    }
    let two =
        "[[export]]\nmemory = 1048576\n[[export.rule]]\nclients = []\n[[export.rule]]\nread_only = true\n";
    assert_eq!(parse_all(Path::new("/etc/orthrus.toml"), two).1.len(), 2);
}

#[test]
fn a_realm_without_a_name_is_refused() {
    for wrong in ["", "EXAMPLE.ORG ", "alice@EXAMPLE.ORG"] {
        let said = refusal(&format!("realms = [\"A\", \"{wrong}\"]\n[[export]]\nmemory = 1048576\n"));
        assert!(said.starts_with("/etc/orthrus.toml:1: ") && said.contains("name of a realm"), "{said}");
        let source = format!("[[identity.source]]\nkind = \"nss\"\nrealms = [\"{wrong}\"]\n");
        let said = refusal(&format!("[[export]]\nmemory = 1048576\n{source}"));
        assert!(said.contains("name of a realm"), "{said}");
    }
}

#[test]
fn a_principal_without_its_realm_is_refused() {
    for wrong in ["bob", "bob@", "@EXAMPLE.ORG", ""] {
        let said = refusal(&format!("[principals]\n\"{wrong}\" = \"root\"\n[[export]]\nmemory = 1048576\n"));
        assert!(said.starts_with("/etc/orthrus.toml:2: ") && said.contains("its realm"), "{said}");
    }
}
