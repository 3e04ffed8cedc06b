//! Rules for clients by name, with the name service of the system: files, and DNS that fails.

use client::{Client, Filesystem, Options, Security};
use e2e::{
    Serve, Server, in_own_mounts, is_installed, is_root, open_folder, orthrus, program, run, status, until,
};
use nfs4::Nfsstat4::*;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The addresses of the two clients.
const ONE: &str = "127.0.0.1";
const TWO: &str = "::1";

/// A machine with names of its own: files of /etc that the test writes, and a network without an
/// outside.
struct NamedMachine {
    folder: tempfile::TempDir,
}

/// Runs a test on such a machine; skipped, with the reason, where it cannot be made.
fn on_machine(body: impl FnOnce(&NamedMachine) + Send) {
    if !is_root() {
        return println!("skipped: only root can replace files of /etc");
    }
    // It is built with the names of the whole machine.
    program();
    in_own_mounts(|| {
        unshare(CloneFlags::CLONE_NEWNET).expect("root may");
        tool("ip", &["link", "set", "lo", "up"]);
        let machine = NamedMachine { folder: open_folder() };
        machine.cover_etc();
        for (file, content) in [
            ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\nnetgroup: files\n"),
            ("hosts", ""),
            ("netgroup", ""),
            ("resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"),
        ] {
            machine.replace(file, content);
        }
        body(&machine);
    });
}

fn tool(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().expect("it is installed");
    assert!(status.success(), "{program} {arguments:?}");
}

impl NamedMachine {
    /// Lays a folder of this machine over /etc.
    fn cover_etc(&self) {
        let folder = |name: &str| {
            let folder = self.folder.path().join(name);
            fs::create_dir(&folder).expect("the folder is ours");
            folder.display().to_string()
        };
        let layers = format!("lowerdir=/etc,upperdir={},workdir={}", folder("upper"), folder("work"));
        tool("mount", &["-t", "overlay", "overlay", "-o", &layers, "/etc"]);
    }

    /// Gives /etc a file with this content, for this machine alone.
    fn replace(&self, file: &str, content: &str) {
        fs::write(Path::new("/etc").join(file), content).expect("the layer is ours");
    }

    /// Starts a server on an empty folder with these exports, each in memory with its rules.
    fn serve(&self, settings: &str, exports: &[(&str, &str)]) -> Server {
        let mut text = format!("{settings}\n");
        for (name, rules) in exports {
            text += "[[export]]\nmemory = 1048576\nsec = [\"sys\"]\nsecure = false\n";
            text += &format!("pseudo = \"/{name}\"\n{rules}\n");
        }
        let config = self.folder.path().join("orthrus.toml");
        fs::write(&config, text).expect("the folder is ours");
        let listen = (std::net::Ipv6Addr::UNSPECIFIED, 0).into();
        let state = self.folder.path().join("state");
        Serve::new(state).listen(listen).arg("--config").arg(config).start()
    }
}

fn options(server: &Server, address: &str) -> Options {
    Options::new(address, Security::sys_as(0, 0)).port(server.port())
}

fn mount(server: &Server, address: &str, path: &str) -> Result<Filesystem, client::Error> {
    Filesystem::mount(options(server, address), path)
}

#[test]
fn hosts_patterns_and_netgroups_get_the_rights_of_their_rules() {
    // exports(5): machine name formats
    on_machine(|machine| {
        machine.replace("hosts", "127.0.0.1 n1.hpc.example.test n1\n::1 login.example.test login\n");
        machine.replace("netgroup", "trusted (login,,) (gone.example.test,,)\n");
        let rule = |clients: &str| format!("[[export.rule]]\nclients = [{clients:?}]\n");
        let server = machine.serve(
            "",
            &[
                ("host", &rule("login.example.test")),
                ("pattern", &rule("*.HPC.example.test")),
                ("netgroup", &rule("@trusted")),
                ("both", &format!("{}read_only = true\n{}", rule("n?.*.test"), rule("@trusted"))),
            ],
        );
        for (path, one, two) in [
            ("/host", false, true),
            ("/pattern", true, false),
            ("/netgroup", false, true),
            ("/both", true, true),
        ] {
            for (address, admitted) in [(ONE, one), (TWO, two)] {
                match mount(&server, address, path) {
                    Ok(_) => assert!(admitted, "{address} on {path}"),
                    Err(error) => {
                        assert!(!admitted, "{address} on {path}: {error}");
                        assert_eq!(error.status(), Some(NFS4ERR_NOENT));
                    }
                }
            }
        }
        // The first rule that names the client.
        let mut one = mount(&server, ONE, "/both").expect("a rule names it");
        assert_eq!(status(one.write_file("file", b"x")), NFS4ERR_ROFS);
        let mut two = mount(&server, TWO, "/both").expect("a rule names it");
        two.write_file("file", b"x").expect("its rule lets it write");
        assert_eq!(one.read_file("file").expect("it may read"), b"x");
        server.wait_for_log("refused by `read_only`");
        server.wait_for_log("clients=\"n?.*.test (rule 1)\"");
        // The log says under which name the server knows a client that no rule names.
        server.wait_for_log("(its name is n1.hpc.example.test)");

        // A reload looks names up again.
        machine.replace("hosts", "127.0.0.1 n1.elsewhere.test\n::1 login.example.test login\n");
        server.signal(Signal::SIGHUP);
        until("the name is looked up again", || mount(&server, ONE, "/pattern").is_err());
    });
}

#[test]
fn the_check_names_hosts_and_netgroups_that_do_not_exist() {
    on_machine(|machine| {
        machine.replace("hosts", "127.0.0.1 n1.example.test\n");
        machine.replace("netgroup", "trusted (n1.example.test,,)\n");
        let check = |clients: &str| {
            let config = machine.folder.path().join("check.toml");
            let export = "memory = 1048576\nsec = [\"sys\"]";
            let text = format!("listen = \"127.0.0.1:0\"\n[[export]]\n{export}\nclients = [{clients}]\n");
            fs::write(&config, text).expect("the folder is ours");
            let mut command = orthrus(["serve", "--check", "--state-dir"]);
            run(command.arg(machine.folder.path().join("state")).arg("--config").arg(config))
        };
        let right = check("\"n1.example.test\", \"@trusted\", \"*.example.test\"");
        assert!(right.status.success(), "{}", right.stderr);
        let wrong = check("\"n2.example.test\", \"@absent\"");
        assert!(!wrong.status.success());
        for part in ["n2.example.test", "netgroup absent", "does not exist"] {
            assert!(wrong.stderr.contains(part), "{part} is missing: {}", wrong.stderr);
        }
    });
}

/// A DNS server for one machine; dropping it ends it.
struct Dns(Child);

impl Dns {
    fn start() -> Self {
        let child = Command::new("dnsmasq")
            .args([
                "--keep-in-foreground",
                "--conf-file=/dev/null",
                "--no-resolv",
                "--no-hosts",
                "--user=root",
            ])
            .args(["--listen-address=127.0.0.1", "--bind-interfaces", "--pid-file=", "--local=/test/"])
            .args(["--host-record=n1.example.test,127.0.0.1", "--host-record=n2.example.test,::1"])
            .stdin(Stdio::null())
            .spawn()
            .expect("it is installed");
        Self(child)
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().try_into().expect("a process id")), signal).expect("it runs");
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn dns_that_fails_or_hangs_admits_no_stranger_and_keeps_known_clients() {
    if !is_installed("dnsmasq", "dnsmasq-base") {
        return;
    }
    on_machine(|machine| {
        let dns = Dns::start();
        let server = machine.serve(
            "identity.refresh = 4\nidentity.absent = 1\nidentity.timeout = 1",
            &[("named", "clients = [\"*.example.test\"]"), ("open", "clients = [\"*\"]")],
        );
        let mut known = mount(&server, ONE, "/named").expect("DNS answers, in the end");
        known.write_file("file", b"data").expect("it may write");
        let mut open = mount(&server, TWO, "/open").expect("no name is needed");
        open.write_file("file", b"data").expect("it may write");

        // It hangs, then it is gone.
        for stage in ["hangs", "is gone"] {
            match stage {
                "hangs" => dns.signal(Signal::SIGSTOP),
                _ => dns.signal(Signal::SIGKILL),
            }
            let end = Instant::now() + Duration::from_secs(3);
            while Instant::now() < end {
                assert_eq!(known.read_file("file").expect("it is known"), b"data", "DNS {stage}");
                assert_eq!(open.read_file("file").expect("no name is needed"), b"data", "DNS {stage}");
                std::thread::sleep(Duration::from_millis(100));
            }
            // One that is not known can neither enter nor is it refused.
            let options = Options { delay_max: Duration::from_millis(100), ..options(&server, TWO) };
            let mut client = Client::connect(options).expect("/open admits it");
            assert_eq!(status(client.lookup_path("/named")), NFS4ERR_DELAY, "DNS {stage}");
        }
        server.wait_for_log("clients known by this name keep their rights for a time");
        drop(dns);
        let _dns = Dns::start();
        until("DNS is back", || mount(&server, TWO, "/named").is_ok());
    });
}
