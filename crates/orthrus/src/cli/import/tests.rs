use super::*;
use crate::config::{ExportSettings, ExportTerms, Nested, Settings};
use vfs::{SecFlavor, Squash};

fn parsed(kind: ImportKind, text: &str) -> anyhow::Result<ImportedConfig> {
    match kind {
        ImportKind::Exports => exports::import(&[("a".into(), text.to_owned())]),
        ImportKind::Ganesha => ganesha::import(Path::new("a"), text),
    }
}

/// Imports a text, and parses the result as a configuration.
fn import(kind: ImportKind, text: &str) -> (String, Settings) {
    let text = parsed(kind, text).expect("its syntax is right").text(Path::new("a\nb"));
    let settings = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    (text, settings)
}

fn find<'s>(settings: &'s Settings, pseudo: &str) -> &'s ExportSettings {
    let found = settings.exports.iter().find(|export| export.pseudo == pseudo);
    found.unwrap_or_else(|| panic!("{pseudo} is missing"))
}

fn clients(terms: &ExportTerms) -> Vec<String> {
    terms.clients.iter().map(ToString::to_string).collect()
}

#[test]
fn a_file_of_exportfs_becomes_exports_with_the_same_clients_and_rights() // exports(5)
{
    let (text, settings) = import(
        ImportKind::Exports,
        "# a comment\n\
         /srv/data 10.0.0.0/8(rw,no_root_squash,sec=krb5p:krb5i) 2001:db8::/32(rw,no_root_squash,sec=krb5p:krb5i)\n\
         \"/srv/with blank\" \\\n  192.0.2.0/255.255.255.0(rw,insecure,all_squash,anonuid=5,anongid=6,async,pnfs)\n\
         /srv/pub\\040lic *(crossmnt)\n\
         /srv/home -rw,sec=krb5 *.example.org @netgroup\n\
         /srv/old gss/krb5p(rw)\n",
    );
    let export = |pseudo: &str| {
        let [terms] = &find(&settings, pseudo).terms()[..] else { panic!("{pseudo} has one rule:\n{text}") };
        terms.clone()
    };
    let data = export("/srv/data");
    assert_eq!(clients(&data), ["10.0.0.0/8", "2001:db8::/32"]);
    assert_eq!((data.read_only, data.squash), (false, Squash::None));
    assert_eq!(data.flavors, [SecFlavor::Krb5p, SecFlavor::Krb5i]);
    let blank = export("/srv/with blank");
    assert_eq!(clients(&blank), ["192.0.2.0/24"]);
    assert_eq!((blank.anon_uid, blank.anon_gid, blank.secure), (5, 6, false));
    assert_eq!((blank.squash, &blank.flavors[..]), (Squash::All, &[SecFlavor::Sys][..]));
    assert!(
        text.contains("# async has no equivalent") && text.contains("# pnfs has no equivalent"),
        "{text}"
    );
    let public = export("/srv/pub lic");
    assert_eq!((public.read_only, find(&settings, "/srv/pub lic").nested), (true, Nested::Show));
    assert_eq!(clients(&public), ["*"]);
    assert_eq!(export("/srv/old").flavors, [SecFlavor::Krb5p]);
    assert_eq!(clients(&export("/srv/home")), ["*.example.org", "@netgroup"]);
}

#[test]
fn clients_with_options_of_their_own_become_rules_in_the_order_of_precedence() // exports(5)
{
    let (text, settings) = import(
        ImportKind::Exports,
        "/srv *(ro) @trusted(rw,anonuid=7) *.example.org(rw,sec=krb5p) 10.0.0.0/8(rw,insecure) \
         n1.example.org(rw,no_root_squash) n2.example.org(rw,no_root_squash)\n\
         /srv 192.0.2.7(ro,all_squash)\n",
    );
    let terms = find(&settings, "/srv").terms();
    let list: Vec<_> = terms.iter().map(|terms| clients(terms).join(" ")).collect();
    let order =
        ["n1.example.org n2.example.org", "192.0.2.7/32", "10.0.0.0/8", "*.example.org", "@trusted", "*"];
    assert_eq!(list, order, "{text}");
    let access: Vec<_> = terms.iter().map(|terms| (terms.read_only, terms.squash, terms.secure)).collect();
    use Squash::{All, None, Root};
    assert_eq!(access[..3], [(false, None, true), (true, All, true), (false, Root, false)]);
    assert_eq!(access[3..], [(false, Root, true), (false, Root, true), (true, Root, true)]);
    assert_eq!((terms[3].flavors[..].to_vec(), terms[4].anon_uid), (vec![SecFlavor::Krb5p], 7));
}

#[test]
fn a_line_goes_on_behind_a_blank_and_never_behind_a_comment() {
    let (text, settings) = import(
        ImportKind::Exports,
        "/a n1.example.org\\\nn2.example.org(rw)\n# old \\\n/b 10.0.0.9(ro) # \\\n/c#d *(ro)\n",
    );
    let list = |pseudo: &str| {
        find(&settings, pseudo).terms().iter().map(|terms| clients(terms).join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(list("/a").join(" "), "n1.example.org n2.example.org", "{text}");
    assert_eq!((list("/b").join(" ").as_str(), list("/c#d").len()), ("10.0.0.9/32", 1), "{text}");
}

#[test]
fn flavors_with_options_of_their_own_get_the_strictest() // exports(5), "sec="
{
    let (text, settings) = import(
        ImportKind::Exports,
        "/a *(no_root_squash,sec=krb5:krb5p,rw,sec=sys,ro)\n/b *(rw,sec=krb5,sec=sys,root_squash)\n",
    );
    let [a] = &find(&settings, "/a").terms()[..] else { panic!("{text}") };
    assert_eq!(a.flavors, [SecFlavor::Krb5, SecFlavor::Krb5p, SecFlavor::Sys]);
    assert_eq!((a.read_only, a.squash), (true, Squash::None));
    assert!(text.contains("# Flavors with options of their own"), "{text}");
    let [b] = &find(&settings, "/b").terms()[..] else { panic!("{text}") };
    assert_eq!((b.read_only, &b.flavors[..]), (false, &[SecFlavor::Krb5, SecFlavor::Sys][..]));
}

#[test]
fn options_before_flavors_of_a_client_change_none_of_the_defaults() // nfs-utils, parseopts()
{
    let (text, settings) = import(
        ImportKind::Exports,
        "/a -sec=krb5p,ro *(rw)\n\
         /b -sec=krb5p,root_squash *(rw,no_root_squash)\n\
         /c -sec=krb5p,ro *(rw,sec=krb5i,no_root_squash)\n\
         /d -rw,no_root_squash *(sec=krb5p)\n",
    );
    let terms = |pseudo: &str| {
        let [terms] = &find(&settings, pseudo).terms()[..] else { panic!("{pseudo} has one rule:\n{text}") };
        (terms.read_only, terms.squash, terms.flavors.clone())
    };
    assert_eq!(terms("/a"), (true, Squash::Root, vec![SecFlavor::Krb5p]));
    assert_eq!(terms("/b"), (true, Squash::Root, vec![SecFlavor::Krb5p]));
    assert_eq!(terms("/c"), (true, Squash::Root, vec![SecFlavor::Krb5p, SecFlavor::Krb5i]));
    assert_eq!(terms("/d"), (false, Squash::None, vec![SecFlavor::Krb5p]));
}

#[test]
fn no_client_gets_more_than_it_had() {
    let (text, settings) = import(
        ImportKind::Exports,
        "/pattern 10.0.0.*(ro) *(rw)\n\
         /set 10.0.0.[1-9](ro) *(rw)\n\
         /gss gss/krb5p(rw,no_root_squash) *(ro,sec=krb5p)\n\
         /only 10.0.0.*(rw)\n\
         /same 10.0.0.*(rw) 192.0.2.1(rw)\n\
         /tls a.example.org(rw,xprtsec=mtls) *(rw)\n\
         /maybe a.example.org(rw,xprtsec=none:tls)\n\
         /flavor a.example.org(rw,sec=lkey) b.example.org(rw)\n\
         /nested a.example.org(rw,crossmnt) b.example.org(rw)\n\
         /nohide *(rw,nohide)\n",
    );
    let served: Vec<_> = settings.exports.iter().map(|export| export.pseudo.as_str()).collect();
    assert_eq!(served, ["/same", "/maybe", "/nested", "/nohide"], "{text}");
    for note in [
        "# No equivalent for the clients 10.0.0.*.",
        "# Commented out: 10.0.0.* might get the rights of a later rule.",
        "# Commented out: 10.0.0.[1-9] might get the rights of a later rule.",
        "# Commented out: flavors as clients, such as gss/krb5p, are next to other clients.",
        "# Commented out: no client has access.",
        "# Left out: a.example.org, since xprtsec=mtls asks for TLS",
        "# Left out: a.example.org, since no flavor of theirs has an equivalent.",
        "# crossmnt for some clients alone has no equivalent: no client gets it.",
    ] {
        assert!(text.contains(note), "{note} is missing:\n{text}");
    }
    assert!(settings.exports.iter().all(|export| export.nested == Nested::Hide));
    assert_eq!(clients(&find(&settings, "/same").terms()[0]), ["192.0.2.1/32"]);
}

#[test]
fn referrals_and_replicas_become_locations() {
    let (text, settings) = import(
        ImportKind::Exports,
        "/srv/gone *(ro,sec=krb5p,refer=/a@one.example.org+192.0.2.7:/b@[2001:db8::7],all_squash)\n\
         /srv/both *(rw,replicas=/c@two.example.org)\n\
         /srv/odd *(rw,refer=/d)\n\
         /srv/none *(rw,replicas=/e@)\n\
         /srv/some 10.0.0.1(rw,refer=/f@three.example.org) 10.0.0.2(rw)\n\
         /srv/two 10.0.0.1(sec=krb5p,rw,refer=/g@four) 10.0.0.2(ro,no_root_squash,refer=/g@four)\n",
    );
    let [gone, both, two] = &settings.exports[..] else { panic!("three are of use:\n{text}") };
    assert_eq!((&*gone.pseudo, &gone.flavors[..]), ("/srv/gone", &[vfs::SecFlavor::Krb5p][..]));
    assert!(text.contains(r#"refer = ["one.example.org:/a", "192.0.2.7:/a", "[2001:db8::7]:/b"]"#), "{text}");
    assert_eq!((gone.squash, gone.read_only), (vfs::Squash::Root, false), "a referral has no files:\n{text}");
    assert_eq!(both.locations[0].to_string(), "two.example.org:/c");
    // An export whose files were elsewhere never becomes one of files that are here.
    assert!(text.contains("#path = \"/srv/odd\"") && text.contains("\"/d\" is not PATH@HOST"), "{text}");
    assert!(text.contains("#path = \"/srv/none\""), "{text}");
    assert!(text.contains("#pseudo = \"/srv/some\""), "{text}");
    let flavors: Vec<_> = two.terms().iter().map(|terms| terms.flavors.clone()).collect();
    assert_eq!(flavors, [[vfs::SecFlavor::Krb5p], [vfs::SecFlavor::Sys]], "{text}");
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
            CLIENT { Clients = *.example.org; Access_Type = RW; }
            CLIENT { Clients = @admins; Access_Type = RW; Squash = None; SecType = krb5p; PrivilegedPort = false; }
        }
        EXPORT { Path = /ceph; Pseudo = /ceph; Access_Type = RW; FSAL { Name = CEPH; } }
        EXPORT { Path = /named; Pseudo = /named; CLIENT { Clients = host.example.org; Access_Type = RW; } }
        EXPORT { Path = /closed; Pseudo = /closed; }
        EXPORT {
            Path = /but; Pseudo = /but; Access_Type = RW;
            CLIENT { Clients = 192.0.2.9; Access_Type = NONE; }
        }
        EXPORT { Path = /meta; Pseudo = /meta; Access_Type = MDONLY; }
    "#;
    assert!(recognise(file) == ImportKind::Ganesha);
    let (text, settings) = import(ImportKind::Ganesha, file);
    assert_eq!(settings.listen.to_string(), "[::1]:12049");
    assert_eq!(
        (settings.lease_time.as_secs(), settings.grace_time.as_secs(), settings.nfs40),
        (90, 5, false)
    );
    assert_eq!(settings.delegations, server::engine::Delegations::None);
    let served: Vec<_> = settings.exports.iter().map(|export| export.pseudo.as_str()).collect();
    assert_eq!(served, ["/data", "/home", "/ceph", "/named"], "{text}");
    let [data] = &find(&settings, "/data").terms()[..] else { panic!("{text}") };
    assert_eq!((data.read_only, data.squash, data.secure), (false, Squash::None, true));
    assert_eq!((&data.flavors[..], clients(data)), (&[SecFlavor::Krb5p][..], vec!["*".to_owned()]));
    let [networks, named, one] = &find(&settings, "/home").terms()[..] else { panic!("{text}") };
    assert_eq!(clients(networks), ["10.0.0.0/8", "192.0.2.7/32"]);
    assert_eq!((networks.read_only, networks.squash, networks.anon_uid), (true, Squash::Root, 7));
    assert_eq!(networks.flavors, [SecFlavor::Sys, SecFlavor::Krb5]);
    assert_eq!((clients(named), named.read_only), (vec!["*.example.org".to_owned()], false));
    assert_eq!((clients(one), &one.flavors[..]), (vec!["@admins".to_owned()], &[SecFlavor::Krb5p][..]));
    assert_eq!((one.squash, one.secure), (Squash::None, false));
    for note in ["clustered = true", "log", "tag = home", "they have no access", "mdonly"] {
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
    ] {
        let error = format!("{:#}", parsed(kind, text).expect_err(text));
        assert!(error.contains(part), "{text}: {error}");
    }
    let deep = "A {".repeat(100_000);
    assert!(parsed(ImportKind::Ganesha, &deep).unwrap_err().to_string().contains("inside each other"));
}

#[test]
fn text_of_the_file_cannot_leave_its_comment_or_its_string() {
    let (text, settings) = import(ImportKind::Exports, "/a\\042\\012b \"x\\012[[export]]\"(rw) 10.0.0.1\n");
    let [export] = &settings.exports[..] else { panic!("{text}") };
    assert_eq!(clients(&export.terms()[0]), ["10.0.0.1/32"], "{text}");
    let file = std::path::PathBuf::from("/etc/ex\nports");
    assert!(ImportedConfig::default().text(&file).starts_with("# Imported from /etc/ex?ports.\n"));
}

#[test]
fn the_address_that_ganesha_takes_for_all_clients_stands_for_all() // conf_lex.l of NFS-Ganesha
{
    let (text, settings) = import(
        ImportKind::Ganesha,
        "EXPORT { Path = /a; Pseudo = /a; Access_Type = RW; CLIENT { Clients = 0.0.0.0; Access_Type = RO; } }",
    );
    let [terms] = &find(&settings, "/a").terms()[..] else { panic!("one rule:\n{text}") };
    assert_eq!((clients(terms), terms.read_only), (vec!["*".to_owned()], true), "{text}");
}

#[test]
fn a_block_that_refuses_all_others_ends_the_clients_of_ganesha() {
    let (text, settings) = import(
        ImportKind::Ganesha,
        "EXPORT { Path = /a; Pseudo = /a; Access_Type = RW;\n\
           CLIENT { Clients = 10.0.0.0/8; } CLIENT { Clients = *; Access_Type = None; } }\n\
         EXPORT { Path = /b; Pseudo = /b; Access_Type = RW;\n\
           CLIENT { Clients = 10.0.0.9; Access_Type = None; } CLIENT { Clients = 10.0.0.0/8; }\n\
           CLIENT { Clients = *; Access_Type = None; } }",
    );
    let [export] = &settings.exports[..] else { panic!("the host of /b would get more:\n{text}") };
    let [terms] = &export.terms()[..] else { panic!("one rule:\n{text}") };
    assert_eq!((export.pseudo.as_str(), clients(terms)), ("/a", vec!["10.0.0.0/8".to_owned()]), "{text}");
}

#[test]
fn lines_about_one_folder_are_of_one_export_by_whichever_path() // nfs-utils, getexportent()
{
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("it is there");
    std::fs::create_dir(root.join("target")).expect("it is free");
    std::os::unix::fs::symlink("target", root.join("link")).expect("it is free");
    let root = root.display();
    let (text, settings) = import(
        ImportKind::Exports,
        &format!(
            "{root}/link 10.0.0.1(ro)\n{root}/target *(rw)\n/no/such/ 10.0.0.1(ro)\n/no/such *(rw)\n/ *(ro)\n"
        ),
    );
    let places: Vec<_> = settings.exports.iter().map(|export| export.pseudo.clone()).collect();
    assert_eq!(places, [format!("{root}/target"), "/no/such".to_owned(), "/".to_owned()], "{text}");
    for export in settings.exports.iter().take(2) {
        let rights: Vec<_> =
            export.terms().iter().map(|terms| (clients(terms).join(" "), terms.read_only)).collect();
        assert_eq!(rights, [("10.0.0.1/32".to_owned(), true), ("*".to_owned(), false)], "{text}");
    }
    let notes = text.lines().filter(|line| line.contains("which clients mount")).count();
    assert!(notes == 1 && text.contains(&format!("# {root}/link leads to {root}/target, which")), "{text}");
}

#[test]
fn a_character_that_excludes_others_here_alone_widens_no_pattern() // nfs-utils, wildmat()
{
    let (text, settings) = import(
        ImportKind::Exports,
        "/a n[!1].example.org(rw) n2.example.org(rw)\n/b n[!1].example.org(ro) *(rw)\n/c 10.0.0.1(rw,sec=unix)\n",
    );
    let [a, c] = &settings.exports[..] else { panic!("the hosts of /b might get more:\n{text}") };
    assert_eq!(clients(&a.terms()[0]), ["n2.example.org"], "{text}");
    assert_eq!(c.flavors, [SecFlavor::Sys], "{text}");
}

#[test]
fn a_list_of_clients_of_ganesha_is_extended_and_no_other_key() {
    let (text, settings) = import(
        ImportKind::Ganesha,
        "EXPORT { Path = /a; Pseudo = /a; Access_Type = RW; Squash = No_Root_Squash;\n\
           CLIENT { Clients = 10.0.0.1; Clients = 10.0.0.2; Access_Type = RO; Squash = All; } }\n\
         EXPORT { Path = /b; Pseudo = /b; Access_Type = RW;\n\
           CLIENT { Clients = 10.0.0.1; Access_Type = RO; Access_Type = RW; } }\n\
         EXPORT { Path = /c; Pseudo = /c; Access_Type = RW; Path = /d; }",
    );
    let [few, all] = &find(&settings, "/a").terms()[..] else { panic!("{text}") };
    assert_eq!((clients(few), few.read_only), (vec!["10.0.0.1/32".into(), "10.0.0.2/32".into()], true));
    assert_eq!((clients(all), few.squash, all.squash), (vec!["*".into()], Squash::All, Squash::None));
    let served: Vec<_> = settings.exports.iter().map(|export| export.pseudo.as_str()).collect();
    assert_eq!(served, ["/a", "/c"], "{text}");
    assert!(text.contains("their access_type is repeated"), "{text}");
    assert!(text.contains("# export { path = /c } is repeated: the last one counts."), "{text}");
}

#[test]
fn clients_of_the_defaults_of_ganesha_are_those_of_exports_without_their_own() {
    let (text, settings) = import(
        ImportKind::Ganesha,
        "EXPORT_DEFAULTS { CLIENT { Clients = 10.0.0.0/8; Access_Type = RO; } Tag = x; }\n\
         EXPORT { Path = /a; Pseudo = /a; Access_Type = RW; }\n\
         EXPORT { Path = /b; Pseudo = /b; CLIENT { Clients = 192.0.2.1; Access_Type = RW; } }",
    );
    let rights = |pseudo: &str| -> Vec<_> {
        find(&settings, pseudo)
            .terms()
            .iter()
            .map(|terms| (clients(terms).join(" "), terms.read_only))
            .collect()
    };
    assert_eq!(rights("/a"), [("10.0.0.0/8".to_owned(), true), ("*".to_owned(), false)], "{text}");
    assert_eq!(rights("/b"), [("192.0.2.1/32".to_owned(), false)], "{text}");
    assert!(text.contains("# export_defaults { tag = x } has no equivalent."), "{text}");
}

#[test]
fn an_export_of_ganesha_without_nfs4_is_commented_out() {
    let (text, settings) = import(
        ImportKind::Ganesha,
        "NFS_CORE_PARAM { Protocols = 3; }\n\
         EXPORT { Path = /a; Pseudo = /a; Access_Type = RW; Protocols = 3; }\n\
         EXPORT { Path = /b; Pseudo = /b; Access_Type = RW; Protocols = 3, NFSv4; }\n\
         EXPORT { Path = /c; Pseudo = /c; Access_Type = RW; CLIENT { Clients = 10.0.0.1; Protocols = 3; } }",
    );
    let served: Vec<_> = settings.exports.iter().map(|export| export.pseudo.as_str()).collect();
    assert_eq!(served, ["/b"], "{text}");
    assert!(text.contains("they have no access by NFSv4"), "{text}");
    assert!(text.contains("# Clients had no NFSv4"), "{text}");
}

#[test]
fn keys_of_ganesha_with_the_same_meaning_are_converted() {
    let file = r#"
        NFSv4 { DomainName = example.org; }
        DIRECTORY_SERVICES { DomainName = example.org; Idmapping_Active = true; }
        CEPH { Ceph_Conf = /etc/ceph/two.conf; Umask = 0; }
        EXPORT_DEFAULTS { Manage_Gids = true; Access_Type = RW; }
        EXPORT {
            Path = /volumes/a; Pseudo = /a;
            FSAL { Name = CEPH; User_Id = gateway; Filesystem = one; Secret_Access_Key = abc; }
        }
        EXPORT { Path = /m; Pseudo = /m; FSAL { Name = MEM; } }
    "#;
    let (text, settings) = import(ImportKind::Ganesha, file);
    assert_eq!((settings.domain.as_str(), settings.exports.len()), ("example.org", 1), "{text}");
    assert_eq!(settings.identity.groups, server::engine::SysGroups::Server);
    for line in [
        "\nceph = \"/volumes/a\"\n",
        "\nceph_user = \"gateway\"\n",
        "\nceph_fs = \"one\"\n",
        "\nceph_conf = \"/etc/ceph/two.conf\"\n",
        "# Commented out: FSAL mem names no size; the key `memory` does",
        "# Secret_Access_Key: name a file with the key, by ceph_keyring.",
    ] {
        assert!(text.contains(line), "{line} is missing:\n{text}");
    }
    assert!(!text.contains("abc"), "a secret is no comment:\n{text}");
    let (text, settings) = import(
        ImportKind::Ganesha,
        "EXPORT { Path = /a; Access_Type = RW; Manage_Gids = true; } EXPORT { Path = /b; Access_Type = RW; }",
    );
    assert_eq!(settings.identity.groups, server::engine::SysGroups::Client);
    assert!(text.contains("# Manage_Gids of some exports alone"), "{text}");
}

#[test]
fn numbers_and_principals_of_ganesha_are_read_as_it_reads_them() {
    let (text, settings) = import(
        ImportKind::Ganesha,
        "NFS_KRB5 { PrincipalName = nfs@a.example.org; }\n\
         EXPORT { Path = /a; Pseudo = /a; Access_Type = RW; Anonymous_Uid = 0100; Anonymous_Gid = 0x64; }\n\
         EXPORT { Path = /b; Pseudo = /b; Access_Type = RW; Anonymous_Uid = 0; Anonymous_Gid = -2; }",
    );
    let services = (settings.keytab_services, settings.keytab_hosts);
    assert_eq!(services, (vec!["nfs".to_owned()], vec!["a.example.org".to_owned()]), "{text}");
    let anonymous = |index: usize| (settings.exports[index].anon_uid, settings.exports[index].anon_gid);
    assert_eq!((anonymous(0), anonymous(1)), ((64, 100), (0, vfs::ANON_ID)), "{text}");
    assert!(text.contains("# anonymous_gid is no number that Orthrus takes."), "{text}");
}

#[test]
fn files_that_ganesha_includes_are_read_and_others_turn_exports_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let main = folder.path().join("ganesha.conf");
    let other = folder.path().join("other.conf");
    std::fs::write(&other, "EXPORT_DEFAULTS { Access_Type = RO; }\n").expect("it is written");
    let export = "EXPORT { Path = /a; Pseudo = /a; }";
    let imported =
        ganesha::import(&main, &format!("%include \"other.conf\"\n{export}")).expect("it is right");
    let settings: Settings = toml::from_str(&imported.text(&main)).expect("it is TOML");
    assert!(find(&settings, "/a").read_only);
    for line in ["%include absent.conf", "%url rados://pool/object"] {
        let imported = ganesha::import(&main, &format!("{export}\n{line}\n")).expect("it is right");
        let text = imported.text(&main);
        assert!(text.contains(&format!("# Not read: {line}")) && text.contains("\n#path = "), "{text}");
    }
    let exports = folder.path().join("exports.d");
    std::fs::create_dir(&exports).expect("it is free");
    for (name, path) in [("b.conf", "/b"), ("a.conf", "/c"), ("old", "/d")] {
        let text = format!("EXPORT {{ Path = {path}; Pseudo = {path}; Access_Type = RW; }}");
        std::fs::write(exports.join(name), text).expect("it is written");
    }
    for (line, served) in [
        ("%dir \"exports.d/\" # all of them", &["/c", "/b", "/d"][..]),
        ("%dir exports.d/*.conf", &["/c", "/b"]),
        ("%dir absent.d", &[]),
    ] {
        let imported = ganesha::import(&main, &format!("{line}\n{export}\n")).expect("it is right");
        let text = imported.text(&main);
        let settings: Settings = toml::from_str(&text).expect("it is TOML");
        let found: Vec<_> = settings.exports.iter().map(|export| export.pseudo.as_str()).collect();
        assert_eq!(found, served, "{text}");
    }
    let alone = ganesha::import(&main, "%url rados://pool/object\n").expect("it is right").without_exports();
    assert!(alone.contains("%url rados://pool/object") && alone.contains("%include"), "{alone}");
    std::fs::write(&other, "\nA { b }\n").expect("it is written");
    let error = ganesha::import(&main, "%include other.conf").expect_err("its syntax is wrong");
    assert!(format!("{error:#}").contains("other.conf: line 2"), "{error:#}");
    std::fs::write(&other, "%include other.conf\n").expect("it is written");
    let error = ganesha::import(&main, "%include other.conf").expect_err("it includes itself");
    assert!(error.root_cause().to_string().contains("files are included"), "{error:#}");
}

#[test]
fn files_of_the_folder_of_exportfs_are_read_in_their_order() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["b.exports", "a.exports", ".c.exports", "d"] {
        std::fs::write(folder.path().join(name), "/a *(rw)\n").expect("it is written");
    }
    let files = exports::further_files(folder.path());
    assert_eq!(files, ["a.exports", "b.exports"].map(|name| folder.path().join(name)));
    let files = [("a".into(), "/srv *(ro)\n".to_owned()), ("b".into(), "/srv *(rw)\nsrv\n".to_owned())];
    let error = format!("{:#}", exports::import(&files).expect_err("its second file is wrong"));
    assert!(error.contains("b: line 2"), "{error}");
}

#[test]
fn the_kind_of_a_file_is_recognised_wherever_its_braces_are() {
    for text in [
        "EXPORT { Export_Id = 2; Path = /a; }",
        "EXPORT\n{\n Path = \"/a\";\n}",
        "# a\n%include \"a\"\n",
        "LOG {} EXPORT { Path = /a; }",
    ] {
        assert!(recognise(text) == ImportKind::Ganesha, "{text}");
    }
    for text in ["/srv/{a} *(rw)\n", "\"/srv {\" *(rw)\n", "# EXPORT {\n/srv *\n", ""] {
        assert!(recognise(text) == ImportKind::Exports, "{text}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "srv\n").expect("it is written");
    let error = super::import(&file, None, folder.path()).expect_err("its syntax is wrong");
    assert!(format!("{error:#}").contains("--from"), "{error:#}");
}
