//! Limits of clients, as docs/serve.md describes them.

use client::{Filesystem, OpenFile, OpenHow, Options, Security};
use e2e::{Serve, empty_folder, orthrus, run, status};
use nfs4::Nfsstat4::NFS4ERR_NOSPC;
use nfs4::OPEN4_SHARE_ACCESS_READ;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};

#[test]
fn a_client_at_its_limit_of_opens_is_refused_alone_until_a_reload_raises_it() {
    // RFC 8881 section 18.16.3
    let folder = empty_folder();
    let path = folder.path().join("data");
    fs::create_dir(&path).expect("the folder is ours");
    (0..32).for_each(|number| fs::write(path.join(number.to_string()), b"x").expect("the folder is ours"));
    let config = folder.path().join("orthrus.toml");
    let write = |limits: &str| {
        let export = format!("path = {path:?}\npseudo = \"/data\"\nsec = [\"sys\"]\nsecure = false\n");
        fs::write(&config, format!("{limits}\n[[export]]\n{export}")).expect("the folder is ours");
    };
    write("[limits.client]\nopens_max = 8\n[[limits.rule]]\nclients = [\"127.0.0.3\"]\nopens_max = 16");
    let server = Serve::new(folder.path().join("state")).arg("--config").arg(&config).start();
    let mount = |last| {
        let mut options = Options::new("127.0.0.1", Security::sys()).port(server.port());
        options.source = Some(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)));
        Filesystem::mount(options, "/data").expect("it is exported")
    };
    // Opens other files until the client may have no more. A user gets half of a client's opens.
    let open_all = |files: &mut Filesystem, opened: &mut Vec<OpenFile>| loop {
        let name = opened.len().to_string();
        match files.open(&name, &OpenHow::new(OPEN4_SHARE_ACCESS_READ)) {
            Ok(file) => opened.push(file),
            refused => break assert_eq!(status(refused), NFS4ERR_NOSPC),
        }
    };

    let mut clients = [1, 2, 3].map(|last| (mount(last), Vec::new()));
    clients.iter_mut().for_each(|(files, opened)| open_all(files, opened));
    // Each address has its own, and the rule is for one of them.
    assert_eq!(clients.each_ref().map(|(_, opened)| opened.len()), [4, 4, 8]);
    // Their programs report a full disk, so the log names the limit.
    server.wait_for_log("refused by `opens_max`, as too many files are open: see `orthrus clients`");
    let line = server.log().lines().find(|line| line.contains("opens_max")).expect("it is there").to_owned();
    assert!(line.contains("WARN") && line.contains("export=\"/data\""), "{line}");
    let status = run(orthrus(["status", "--json", "--state-dir"]).arg(folder.path().join("state")));
    let report: serde_json::Value = serde_json::from_str(&status.stdout).expect("it is JSON");
    assert_eq!(report["refusals"]["opens_max"], 3, "{report:#}");

    write("[limits.client]\nopens_max = 16");
    let ended = run(orthrus(["reload", "--state-dir"]).arg(folder.path().join("state")));
    assert!(ended.status.success(), "{ended:?}");
    let [(files, opened), ..] = &mut clients;
    open_all(files, opened);
    assert_eq!(opened.len(), 8);
    let first = opened.remove(0);
    files.close(&first).expect("an open outlives the reload");
    opened.push(files.open("0", &OpenHow::new(OPEN4_SHARE_ACCESS_READ)).expect("a close makes room"));
}
