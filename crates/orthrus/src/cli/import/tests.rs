use super::*;
use crate::config::Settings;

/// Imports a text, and parses the result as a configuration.
fn import(kind: ImportKind, text: &str) -> (String, Settings) {
    let imported = match kind {
        ImportKind::Exports => exports::import(text),
        ImportKind::Ganesha => ganesha::import(text),
    };
    let text = imported.expect("its syntax is right").text(Path::new("a\nb"));
    let settings = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    (text, settings)
}

#[test]
fn a_file_of_exportfs_becomes_exports_with_the_same_clients_and_rights() {
    let (text, settings) = import(
        ImportKind::Exports,
        "# a comment\n\
         /srv/data 10.0.0.0/8(rw,no_root_squash,sec=krb5p:krb5i) 2001:db8::/32(rw,no_root_squash,sec=krb5p:krb5i)\n\
         \"/srv/with blank\" \\\n  192.0.2.0/255.255.255.0(rw,insecure,all_squash,anonuid=5,anongid=6,async,pnfs)\n\
         /srv/pub\\040lic *(crossmnt)\n\
         /srv/home -rw,sec=krb5 *.example.org @netgroup\n\
         /srv/mixed 10.0.0.1(rw) 10.0.0.2(ro)\n\
         /srv/old gss/krb5p(rw)\n",
    );
    let export = |pseudo: &str| {
        let found = settings.exports.iter().find(|export| export.pseudo == pseudo);
        found.unwrap_or_else(|| panic!("{pseudo} is missing:\n{text}"))
    };
    let data = export("/srv/data");
    assert_eq!((data.networks.len(), data.read_only, data.squash), (2, false, vfs::Squash::None));
    assert_eq!(data.flavors, [vfs::SecFlavor::Krb5p, vfs::SecFlavor::Krb5i]);
    let blank = export("/srv/with blank");
    assert_eq!(blank.networks[0].to_string(), "192.0.2.0/24");
    assert_eq!((blank.anon_uid, blank.anon_gid, blank.secure), (5, 6, false));
    assert_eq!((blank.squash, &blank.flavors[..]), (vfs::Squash::All, &[vfs::SecFlavor::Sys][..]));
    assert!(
        text.contains("# async has no equivalent") && text.contains("# pnfs has no equivalent"),
        "{text}"
    );
    let public = export("/srv/pub lic");
    assert_eq!((public.read_only, public.nested), (true, crate::config::Nested::Show));
    assert!(public.networks.is_empty());
    assert_eq!(export("/srv/old").flavors, [vfs::SecFlavor::Krb5p]);
    // Names of clients are never dropped silently, and never become "all".
    assert!(!settings.exports.iter().any(|export| export.pseudo == "/srv/home"), "{text}");
    assert!(text.contains("*.example.org, @netgroup"), "{text}");
    // One of the two sets of options.
    let mixed = export("/srv/mixed");
    assert_eq!((mixed.networks.len(), mixed.networks[0].to_string()), (1, "10.0.0.1/32".to_owned()));
    assert!(text.contains("#clients = [\"10.0.0.2\"]"), "{text}");
}

#[test]
fn paths_are_relative_to_the_export_with_fsid_0() {
    let (_, settings) =
        import(ImportKind::Exports, "/export *(ro,fsid=0)\n/export/data *(rw)\n/exports *(rw)\n/srv *(rw)\n");
    let pseudo: Vec<_> = settings.exports.iter().map(|export| export.pseudo.as_str()).collect();
    assert_eq!(pseudo, ["/", "/data", "/exports", "/srv"]);
}

#[test]
fn blocks_of_ganesha_become_exports() {
    let file = r#"
        NFS_CORE_PARAM { NFS_Port = 12049; Bind_addr = ::1; Clustered = true; }
        NFSv4 { Lease_Lifetime = 90; Grace_Period = 1; Minor_Versions = 1, 2; Delegations = false; }
        NFS_KRB5 { PrincipalName = nfs; KeytabPath = /etc/krb5.keytab; Active_krb5 = true; }
        LOG { Default_Log_Level = EVENT; }
        EXPORT_DEFAULTS { SecType = krb5p; PrivilegedPort = true; }
        EXPORT {
            Export_Id = 1; Path = "/srv/data"; Pseudo = /data; # a comment
            Access_Type = RW; Squash = No_Root_Squash;
            FSAL { Name = VFS; }
        }
        EXPORT {
            Export_Id = 2; Path = /srv/home; Pseudo = /home; Tag = home;
            SecType = "sys", krb5; Anonymous_Uid = 7;
            CLIENT { Clients = 10.0.0.0/8, 192.0.2.7; Access_Type = RO; }
            CLIENT { Clients = *.example.org; Access_Type = RO; }
        }
        EXPORT { Path = /ceph; Pseudo = /ceph; Access_Type = RW; FSAL { Name = CEPH; } }
        EXPORT { Path = /named; Pseudo = /named; CLIENT { Clients = host.example.org; Access_Type = RW; } }
        EXPORT { Path = /closed; Pseudo = /closed; }
    "#;
    assert!(recognise(file) == ImportKind::Ganesha);
    let (text, settings) = import(ImportKind::Ganesha, file);
    assert_eq!(settings.listen.to_string(), "[::1]:12049");
    assert_eq!(
        (settings.lease_time.as_secs(), settings.grace_time.as_secs(), settings.nfs40),
        (90, 5, false)
    );
    assert_eq!(settings.delegations, server::engine::Delegations::None);
    let [data, home] = &settings.exports[..] else { panic!("two are of use:\n{text}") };
    assert_eq!((data.read_only, data.squash, data.secure), (false, vfs::Squash::None, true));
    assert_eq!(data.flavors, [vfs::SecFlavor::Krb5p]);
    assert_eq!((home.read_only, home.squash, home.anon_uid), (true, vfs::Squash::Root, 7));
    assert_eq!((home.networks.len(), home.flavors.len()), (2, 2));
    for note in ["clustered = true", "log", "tag = home", "*.example.org", "FSAL ceph", "host.example.org"] {
        assert!(text.contains(note), "{note} is missing:\n{text}");
    }
}

#[test]
fn wrong_syntax_is_refused_with_its_line() {
    for (kind, text, part) in [
        (ImportKind::Exports, "/a *(rw\n", "line 1"),
        (ImportKind::Exports, "\nsrv *(rw)\n", "line 2"),
        (ImportKind::Exports, "/a\\9 *\n", "line 1"),
        (ImportKind::Exports, "\"/a *\n", "line 1"),
        (ImportKind::Ganesha, "EXPORT {\n Path = /a\n}\n", "line 2"),
        (ImportKind::Ganesha, "EXPORT {\n Path /a;\n}\n", "line 2"),
        (ImportKind::Ganesha, "EXPORT { Path = \"/a; }\n", "line 1"),
        (ImportKind::Ganesha, "EXPORT {", "has no end"),
        (ImportKind::Ganesha, "}", "line 1"),
        (ImportKind::Ganesha, "%include \"a\"", "line 1"),
    ] {
        let error = match kind {
            ImportKind::Exports => exports::import(text),
            ImportKind::Ganesha => ganesha::import(text),
        };
        let error = format!("{:#}", error.expect_err(text));
        assert!(error.contains(part), "{text}: {error}");
    }
    let deep = "A {".repeat(100_000);
    assert!(ganesha::import(&deep).unwrap_err().to_string().contains("inside each other"));
}

#[test]
fn text_of_the_file_cannot_leave_its_comment_or_its_string() {
    let (text, settings) = import(ImportKind::Exports, "/a\\042\\012b \"x\\012[[export]]\"(rw) 10.0.0.1\n");
    assert_eq!(settings.exports.len(), 0, "{text}");
    let file = std::path::PathBuf::from("/etc/ex\nports");
    assert!(ImportedConfig::default().text(&file).starts_with("# Imported from /etc/ex?ports.\n"));
}
