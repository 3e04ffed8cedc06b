//! The sandbox of the server: a module of the name service tries what it forbids, in the server's
//! own process.

use e2e::{Serve, Server, data_folder, in_own_mounts, is_root, open_folder, orthrus, program, run};
use nix::errno::Errno;
use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::Command;

/// System calls that the server does not need, and arguments that it does not use.
const FORBIDDEN: [&str; 33] = [
    "execve",
    "execveat",
    "fork",
    "vfork",
    "ptrace",
    "process_vm_readv",
    "mount",
    "umount",
    "pivot_root",
    "chroot",
    "init_module",
    "finit_module",
    "kexec_load",
    "bpf",
    "perf_event_open",
    "setns",
    "unshare",
    "keyctl",
    "userfaultfd",
    "io_uring_setup",
    "personality",
    "reboot",
    "settimeofday",
    "sethostname",
    "capset",
    "privileges",
    "kill",
    "tgkill",
    "raw",
    "packet",
    "netfilter",
    "vsock",
    "terminal",
];

/// A server whose name service tries things.
struct ConfinedServer {
    folder: tempfile::TempDir,
    server: Server,
}

impl ConfinedServer {
    fn start(settings: &str) -> Self {
        let folder = open_folder();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/sandbox_probe.c");
        let library = folder.path().join("libnss_orthrusprobe.so.2");
        let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
        assert!(built.expect("a C compiler").success());
        let conf = folder.path().join("nsswitch.conf");
        fs::write(&conf, "passwd: files orthrusprobe\ngroup: files\n").expect("the folder is ours");
        let mounted = Command::new("mount").arg("--bind").arg(&conf).arg("/etc/nsswitch.conf").status();
        assert!(mounted.expect("it is installed").success());
        let text =
            format!("realms = [\"TEST\"]\n{settings}\n[[export]]\nmemory = 1048576\nsec = [\"sys\"]\n");
        let config = folder.path().join("orthrus.toml");
        fs::write(&config, text).expect("the folder is ours");
        let server = Serve::new(folder.path().join("state"))
            .arg("--config")
            .arg(config)
            .env("LD_LIBRARY_PATH", folder.path())
            .start();
        Self { folder, server }
    }

    /// Tries something in the process of the server; returns the error, `None` if it succeeds.
    fn tries(&self, what: &str) -> Option<Errno> {
        let mut ask = orthrus(["id", "--json", "--state-dir"]);
        let ended = run(ask.arg(self.folder.path().join("state")).arg(format!("try-{what}@TEST")));
        assert!(ended.status.success(), "{what}: {}{}", ended.stderr, self.server.log());
        let report: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
        let number = report["identity"]["uid"].as_i64().expect("a number") - 10_000;
        (number != 0).then(|| Errno::from_raw(number.try_into().expect("an error number")))
    }
}

fn skipped() -> bool {
    if !is_root() {
        println!("skipped: only root can replace /etc/nsswitch.conf");
        return true;
    }
    program();
    false
}

#[test]
fn the_process_can_do_nothing_that_serving_does_not_need() {
    if skipped() {
        return;
    }
    in_own_mounts(|| {
        let name = SocketAddr::from_abstract_name("orthrus-sandbox-test").expect("a name");
        let _other = UnixListener::bind_addr(&name).expect("it is free");
        let probe = ConfinedServer::start("");
        let mut wrong = Vec::new();
        let mut expect = |what: &str, allowed: &[Option<Errno>]| {
            let tried = probe.tries(what);
            if !allowed.contains(&tried) {
                wrong.push(format!("{what}: {tried:?}, and not {allowed:?}"));
            }
        };
        // The probe itself works.
        expect("nothing", &[None]);
        FORBIDDEN.iter().for_each(|what| expect(what, &[Some(Errno::ENOSYS)]));
        // The process has no capability for it.
        expect("device", &[Some(Errno::EPERM)]);
        let log = probe.server.log();
        if log.contains("no writable code") {
            expect("code", &[Some(Errno::EACCES), Some(Errno::EPERM)]);
            expect("changed-code", &[Some(Errno::EACCES), Some(Errno::EPERM)]);
        } else {
            println!("skipped: this kernel does not deny writable code (Linux 6.3)");
        }
        if log.contains("TCP connections to directories alone") {
            expect("bind", &[Some(Errno::EACCES)]);
            expect("connect", &[Some(Errno::EACCES)]);
            // Nothing may listen there, but it may be tried.
            expect("connect-ldap", &[Some(Errno::ECONNREFUSED), None]);
        } else {
            println!("skipped: this kernel has no Landlock for TCP ports (Linux 6.7)");
        }
        if log.contains("no abstract sockets") {
            expect("abstract", &[Some(Errno::EPERM)]);
        }
        assert!(wrong.is_empty(), "{wrong:#?}\n{log}");
        let status = fs::read_to_string(format!("/proc/{}/status", probe.server.pid())).expect("it runs");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field");
            line.trim_start_matches(':').trim().to_owned()
        };
        assert_eq!((field("NoNewPrivs"), field("Seccomp")), ("1".to_owned(), "2".to_owned()));
        // CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, SETGID, SETUID and LEASE.
        assert_eq!(u64::from_str_radix(&field("CapPrm"), 16), Ok(0x1000_00cf));
    });
}

#[test]
fn without_the_sandbox_the_server_says_so() {
    if skipped() {
        return;
    }
    in_own_mounts(|| {
        let probe = ConfinedServer::start("sandbox = \"off\"");
        probe.server.wait_for_log("sandbox = \"off\"");
        assert!(probe.server.log().contains(" WARN sandbox = "), "{}", probe.server.log());
        // It gives up capabilities all the same.
        assert_eq!(probe.tries("mount"), Some(Errno::EPERM));
        assert_eq!(probe.tries("kill"), None);
    });
}

#[test]
fn root_without_the_capabilities_to_act_as_its_callers_refuses_to_start() {
    if skipped() {
        return;
    }
    let folder = open_folder();
    let serve = |drop: &str| {
        let mut command = Command::new("setpriv");
        command
            .arg(format!("--bounding-set=-{drop}"))
            .arg(program())
            .args(["serve", "--check", "--sec", "sys"]);
        command.args(["--listen", "127.0.0.1:0", "--state-dir"]).arg(folder.path().join("state"));
        run(command.arg(data_folder(&folder)))
    };
    let refused = serve("setuid,-dac_read_search");
    assert!(!refused.status.success());
    for part in ["CAP_SETUID", "CAP_DAC_READ_SEARCH", "each of them would be root", "--cap-add"] {
        assert!(refused.stderr.contains(part), "{part} is missing: {}", refused.stderr);
    }
    // As the unit of the package does.
    let served = serve("mknod,-net_bind_service,-sys_admin");
    assert!(served.status.success(), "{}", served.stderr);
}
