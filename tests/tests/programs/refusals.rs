//! Settings that are refused, at a start and by a check, with what is allowed.

use crate::control::{export, options};
use client::Client;
use e2e::{Ended, Serve, empty_folder, is_root, nobody, orthrus, run, status};
use nfs4::Nfsstat4::NFS4ERR_NOENT;
use nix::sys::signal::Signal;
use std::fs;
use std::net::TcpListener;
use std::path::Path;

fn refused(arguments: &[&str], parts: &[&str]) -> Ended {
    let ended = run(orthrus(["serve", "--end-with-input"]).args(arguments));
    check_refusal(&ended, parts);
    ended
}

fn check_refusal(ended: &Ended, parts: &[&str]) {
    assert!(!ended.status.success() && !ended.stdout.contains("orthrus serves"), "{ended:?}");
    for part in parts {
        assert!(ended.stderr.contains(part), "{part:?} is missing: {}", ended.stderr);
    }
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

#[test]
fn a_wrong_configuration_is_refused_with_file_line_and_key() {
    let folder = empty_folder();
    let file = folder.path().join("orthrus.toml");
    let name = file.to_str().expect("the name is plain");
    let cases = [
        ("[[export]]\npath = \"/tmp\"\nsec = [\"krb6\"]\n", ":3: key `sec`: ", "krb5p"),
        ("[[export]]\npath = \"/tmp\"\nreadonly = true\n", ":3: key `readonly`: ", "read_only"),
        ("[[export]]\npath = \"/no/such\"\n", ":2: key `path`: ", "/no/such"),
        ("lease_time = 0\n[[export]]\npath = \"/tmp\"\n", ":1: key `lease_time`: ", "3600"),
        ("listen = \"nowhere\"\n[[export]]\npath = \"/tmp\"\n", ":1: key `listen`: ", "2049"),
        ("[[export]]\npath = \"/tmp\"\nsquash = \"some\"\n", ":3: key `squash`: ", "root"),
        ("[[export]]\npath = \"/tmp\"\nclients = [\"10.0.0.0/40\"]\n", ":3: key `clients`: ", "0 to 32"),
        ("[limits]\ncontexts_max = \"many\"\n", ":2: key `contexts_max`: ", "many"),
        ("[principals]\n\"bob\" = \"root\"\n", ":2: key `\"bob\"`: ", "its realm"),
        ("log = \"inof\"\n", ":1: key `log`: ", "debug"),
        ("[[export]\n", ":1: ", ""),
        ("", "", "[[export]]"),
    ];
    for (text, place, allowed) in cases {
        fs::write(&file, text).expect("the folder is ours");
        refused(&["--config", name, "--check"], &[&format!("{name}{place}"), allowed]);
    }
    refused(&["--config", "/no/such.toml"], &["/no/such.toml", "cannot be read"]);
}

#[test]
fn a_check_reports_every_fault_at_once_and_changes_nothing() {
    let folder = empty_folder();
    let path = |name: &str| folder.path().join(name).to_str().expect("the name is plain").to_owned();
    fs::create_dir(path("export")).expect("the folder is ours");
    fs::write(path("keytab"), b"no keytab").expect("the folder is ours");
    fs::write(path("file"), b"").expect("the folder is ours");
    let export = |folder: &str, pseudo: &str| {
        format!("[[export]]\npath = \"{}\"\npseudo = \"{pseudo}\"\nsec = [\"krb5p\"]\n", path(folder))
    };
    let text = format!(
        "listen = \"203.0.113.77:2049\"\nmetrics = \"203.0.113.77:9000\"\nkeytab = \"{}\"\nstate_dir = \"{}/state\"\n\
         audit = \"/no/such/audit\"\n\
         [principals]\n\"alice@EXAMPLE.ORG\" = \"no-such-user\"\n{}{}{}{}",
        path("keytab"),
        path("file"),
        export("export", "/one"),
        export("export", "/one"),
        export("absent", "/two"),
        export("file", "/three"),
    );
    fs::write(path("orthrus.toml"), text).expect("the folder is ours");
    let before = fs::read_dir(folder.path()).expect("ours").count();
    let parts = [
        "203.0.113.77:2049 is not an address",
        "metrics cannot be served on 203.0.113.77:9000; choose another address with --metrics: Cannot assign",
        "keytab",
        "state folder",
        "audit: /no/such/audit cannot be written",
        "no-such-user",
        "/one",
        ":17: key `path`: ",
        ":21: key `path`: ",
        "9 fault(s)",
    ];
    refused(&["--config", &path("orthrus.toml"), "--check"], &parts);
    assert_eq!(fs::read_dir(folder.path()).expect("ours").count(), before, "the check leaves files");
    let text = format!(
        "listen = \"127.0.0.1:0\"\nstate_dir = \"{}/new/state\"\naudit = \"{}\"\n{}",
        path("."),
        path("audit"),
        export("export", "/one")
    );
    fs::write(path("orthrus.toml"), text.replace("krb5p", "sys")).expect("the folder is ours");
    let ended = run(orthrus(["serve", "--check", "--config"]).arg(path("orthrus.toml")));
    assert!(ended.status.success() && ended.stdout.contains("is right: 1 export"), "{ended:?}");
    assert_eq!(fs::read_dir(folder.path()).expect("ours").count(), before, "the check leaves files");
}

#[test]
fn a_check_finds_addresses_that_the_settings_give_twice() {
    let folder = empty_folder();
    let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let address = free.to_string();
    for other in ["--metrics", "--web"] {
        let mut command =
            orthrus(["serve", "--check", "--memory", "1", "--sec", "sys", "--listen", &address]);
        let ended = run(command.args([other, &address, "--state-dir"]).arg(folder.path().join("state")));
        let fault = format!("{address} is taken by {address} of the same settings");
        assert!(!ended.status.success() && ended.stderr.contains(&fault), "{ended:?}");
    }
}

#[test]
fn an_export_that_would_show_the_state_folder_is_refused_by_check_start_and_reload() {
    let folder = empty_folder();
    let (state, safe) = (folder.path().join("data/state"), export(folder.path(), "safe"));
    let (unsafe_one, file) = (export(folder.path(), "data"), folder.path().join("orthrus.toml"));
    let settings = format!("listen = \"127.0.0.1:0\"\nstate_dir = {state:?}\n{safe}");
    let name = file.to_str().expect("the name is plain");
    let said = [state.to_str().expect("the name is plain"), "/data", "the server's secret", "--state-dir"];
    fs::write(&file, format!("{settings}{unsafe_one}")).expect("the folder is ours");
    for check in [&["--check"][..], &[]] {
        refused(&[&["--config", name], check].concat(), &said);
        assert!(!state.exists(), "the refused start leaves a state folder");
    }
    fs::write(&file, &settings).expect("the folder is ours");
    let server = Serve::new(&state).arg("--config").arg(&file).start();
    fs::write(&file, format!("{settings}{unsafe_one}")).expect("the folder is ours");
    server.signal(Signal::SIGHUP);
    server.wait_for_log("the settings stay as they were");
    assert!(said.iter().all(|part| server.log().contains(part)), "{}", server.log());
    let mut client = Client::connect(options(server.port())).expect("the server goes on");
    assert_eq!(status(client.lookup_path("/data")), NFS4ERR_NOENT);
    client.lookup_path("/safe").expect("it stays");
}

#[test]
fn an_export_in_the_folder_of_another_with_other_rules_is_named_and_no_refusal_is_made_up() {
    let folder = empty_folder();
    let (file, state) = (folder.path().join("orthrus.toml"), folder.path().join("state"));
    fs::create_dir_all(folder.path().join("outer/inner")).expect("the folder is ours");
    let export = |pseudo: &str, name: &str| {
        let path = folder.path().join(name);
        format!("[[export]]\npath = {path:?}\npseudo = {pseudo:?}\nsec = [\"sys\"]\nsecure = false\n")
    };
    let (outer, inner) = (export("/", "outer"), export("/inner", "outer/inner"));
    let write = |rest: &str| {
        let text = format!("listen = \"127.0.0.1:0\"\nstate_dir = {state:?}\n{outer}{inner}{rest}");
        fs::write(&file, text).expect("the folder is ours");
    };
    let check = || run(orthrus(["serve", "--check", "--config"]).arg(&file));
    let warning = "export /inner: its folder is in that of /, so clients of / reach";
    write("");
    assert!(!check().stdout.contains(warning), "both have the same rules");
    write("clients = [\"192.0.2.1\"]\n");
    let checked = check();
    assert!(checked.status.success() && checked.stdout.contains(warning), "{checked:?}");
    let server = Serve::new(&state).arg("--config").arg(&file).start();
    server.wait_for_log(warning);
    let mut client = Client::connect(options(server.port())).expect("the outer export admits it");
    client.lookup_path("/inner").expect("it is a folder of the outer export");
    assert_eq!(status(client.lookup_path("/absent")), NFS4ERR_NOENT);
    assert!(!server.log().contains("refused by"), "{}", server.log());
}

#[test]
fn a_trial_does_not_serve_a_folder_with_its_own_keys() {
    let folder = empty_folder();
    let ended = run(orthrus(["try", "--quick"]).arg(folder.path()).env("TMPDIR", folder.path()));
    check_refusal(&ended, &["keys among them", "set TMPDIR"]);
    assert_eq!(fs::read_dir(folder.path()).expect("ours").count(), 0, "it leaves files");
}

#[test]
fn a_check_before_the_first_start_lacks_no_folder_that_systemd_makes() // README.md, Install
{
    if Path::new("/var/log/orthrus").exists() {
        return eprintln!("skipped: the folder is there");
    }
    let folder = empty_folder();
    let check = |audit: &str| {
        let mut command = orthrus(["serve", "--check", "--memory", "1", "--sec", "sys", "--listen"]);
        command.args(["127.0.0.1:0", "--audit", audit, "--state-dir"]);
        run(command.arg(folder.path().join("state")))
    };
    let ended = check("/var/log/orthrus/audit.jsonl");
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(ended.status.success() && said.contains("/var/log/orthrus is missing"), "{ended:?}");
    assert!(!check("/var/log/another/audit.jsonl").status.success());
}

#[test]
fn a_check_reports_every_wrong_key_beside_the_faults_of_the_others() {
    let folder = empty_folder();
    let file = folder.path().join("orthrus.toml");
    let name = file.to_str().expect("the name is plain");
    let text = "lease_time = 0\nnonsense = 1\nlisten = \"203.0.113.77:2049\"\nstate_dir = \"state\"\n\
                limits = { slots_max = 0, clients_max = \"many\" }\n[identity]\nunknown = \"perhaps\"\n\
                [[export]]\npath = \"/no/such\"\nsec = [\"krb6\"]\nsquash = \"some\"\n\
                [[export.rule]]\nread_only = true\n[[export]]\npath = \"/no/such\"\n";
    fs::write(&file, text).expect("the folder is ours");
    let parts = [
        ":1: key `lease_time`: ",
        ":2: key `nonsense`: ",
        "203.0.113.77:2049 is not an address",
        ":5: key `limits`: ",
        ":7: key `unknown`: ",
        ":10: key `sec`: ",
        ":11: key `squash`: ",
        ":12: key `export.rule`: `clients` is missing",
        ":15: key `path`: ",
        "10 fault(s)",
    ];
    refused(&["--config", name, "--check"], &parts);
    // Syntax: what follows cannot be read, but each error has its line.
    fs::write(&file, "listen = \nlease_time = 0\n[[export]\npath = \n").expect("the folder is ours");
    refused(&["--config", name, "--check"], &[":1: ", ":3: ", "2 fault(s)"]);
}

#[test]
fn a_wrong_command_line_is_refused_with_what_is_allowed() {
    let folder = empty_folder();
    let path = folder.path().to_str().expect("the name is plain");
    refused(&[], &["nothing to export"]);
    refused(&["/no/such/folder"], &["/no/such/folder"]);
    refused(&[path, "--sec", "krb6"], &["krb6", "krb5p"]);
    refused(&[path, "--listen", "nowhere"], &["nowhere", "address:port"]);
    refused(&[path, "--squash", "some"], &["some", "root"]);
    refused(&[path, "--map", "alice"], &["PRINCIPAL=USER"]);
    refused(&[path, "--map", "alice=root"], &["its realm", "alice@EXAMPLE.ORG"]);
    refused(&["--memory", "0"], &["--memory", "1..=1048576"]);
    refused(&["--log", "infoo", path], &["--log", "infoo"]);
    let wrong = ["/no/such/one", "/no/such/two", "--check", "--listen", "203.0.113.77:2049"];
    refused(&wrong, &["/no/such/one", "/no/such/two", "203.0.113.77:2049", "fault(s)"]);
    let failed = |format: &str| run(&mut orthrus(["serve", "/no/such", "--log-format", format])).stderr;
    assert!(failed("journal").starts_with("<3>/no/such: "), "{}", failed("journal"));
    let event: serde_json::Value = serde_json::from_str(&failed("json")).expect("it is a line of JSON");
    assert_eq!(event["level"], "ERROR");
    assert!(failed("text").starts_with("orthrus: /no/such: "), "{}", failed("text"));
    refused(&[path, "--clients", "10.0.0.0/99"], &["10.0.0.0/99"]);
    refused(&["--log", "loud=shouting", path], &["--log"]);
}

#[test]
fn a_missing_requirement_of_a_server_is_named() {
    let folder = empty_folder();
    let state = |name: &str| folder.path().join(name).to_str().expect("the name is plain").to_owned();
    let path = state("data");
    fs::create_dir(&path).expect("the folder is ours");
    let (one, two) = (state("one"), state("two"));
    let common = ["--memory", "1", "--listen", "127.0.0.1:0"];

    let taken = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = taken.local_addr().expect("it is bound").to_string();
    refused(&["--memory", "1", "--sec", "sys", "--listen", &address, "--state-dir", &one], &[&address]);

    let keytab = state("no.keytab");
    let arguments = [&common[..], &["--state-dir", &one, "--keytab", &keytab]].concat();
    refused(&arguments, &["no.keytab"]);
    fs::write(state("bad.keytab"), "no keytab at all").expect("the folder is ours");
    let keytab = state("bad.keytab");
    let arguments = [&common[..], &["--state-dir", &one, "--keytab", &keytab]].concat();
    refused(&arguments, &["bad.keytab"]);

    fs::write(state("file"), "").expect("the folder is ours");
    let below = state("file/state");
    refused(
        &[&common[..], &["--sec", "sys", "--state-dir", &below]].concat(),
        &["file/state", "--state-dir"],
    );

    let first = Serve::new(&two).args(["--memory", "1", "--sec", "sys"]).start();
    refused(&[&common[..], &["--sec", "sys", "--state-dir", &two]].concat(), &["in use", "--state-dir"]);
    Client::connect(options(first.port())).expect("the first one goes on");
}

#[test]
fn an_export_for_kerberos_without_a_keytab_is_refused_with_the_way_out() {
    if Path::new("/etc/krb5.keytab").exists() {
        return eprintln!("skipped: this machine has a keytab");
    }
    let folder = empty_folder();
    let state = folder.path().join("state").to_str().expect("the name is plain").to_owned();
    let arguments = ["--memory", "1", "--listen", "127.0.0.1:0", "--state-dir", &state];
    // The default has no `sys`: it must be named.
    for more in [&[][..], &["--sec", "krb5p"]] {
        let said = ["keytab", "orthrus realm up", "sec = [\"sys\"]", "--sec sys"];
        refused(&[&arguments[..], more].concat(), &said);
        assert!(!Path::new(&state).exists(), "the refused start leaves a state folder");
    }
}

#[test]
fn a_user_without_rights_is_told_so_for_the_port_and_the_state_folder() {
    if !is_root() {
        return eprintln!("skipped: only root can become nobody");
    }
    let folder = empty_folder();
    let state = folder.path().join("state");
    let mut command =
        nobody(["serve", "--memory", "1", "--sec", "sys", "--listen", "127.0.0.1:0", "--state-dir"]);
    check_refusal(&run(command.arg(&state)), &["state", "--state-dir"]);
    let mut command = nobody(["serve", "--memory", "1", "--sec", "sys", "--listen", "127.0.0.1:0"]);
    check_refusal(&run(&mut command), &["/nonexistent"]);
}
