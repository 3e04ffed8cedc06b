//! The requirements of a lab, checked before anything is created.

use crate::commands::words;
use crate::{Nat, files};
use bench::link::LinkSpec;
use bench::tools::{fed, find};
use nix::unistd::geteuid;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs and the packages that have them.
const PROGRAMS: [(&str, &str); 16] = [
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("unshare", "util-linux"),
    ("setpriv", "util-linux"),
    ("mount", "mount"),
    ("hostname", "hostname"),
    ("insmod", "kmod"),
    ("modprobe", "kmod"),
    ("dnsmasq", "dnsmasq-base"),
    ("rpc.gssd", "nfs-common"),
    ("mount.nfs4", "nfs-common"),
    ("krb5kdc", "krb5-kdc"),
    ("kdb5_util", "krb5-kdc"),
    ("kadmin.local", "krb5-admin-server"),
    ("kinit", "krb5-user"),
    ("pidof", "sysvinit-utils"),
];
/// Modules that a node's kernel loads.
const MODULES: [&str; 3] =
    ["fs/overlayfs/overlay.ko", "fs/nfs/nfsv4.ko", "net/sunrpc/auth_gss/rpcsec_gss_krb5.ko"];
/// Memory that KDC, server and name service take together, in MiB.
const ENTERPRISE_MIB: u64 = 256;

/// One thing that a lab needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Name of the requirement.
    pub what: String,
    /// The part that fulfils it; or the missing part and the remedy.
    pub found: Result<String, String>,
}

/// The requirements of a lab, and the parts that it will use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// All needs, met or not.
    pub all: Vec<Need>,
    /// The kernel of the nodes.
    pub kernel: PathBuf,
    /// The folder with its modules.
    pub modules: PathBuf,
    /// The tool with which the head node can translate addresses.
    pub nat: Nat,
}

impl Needs {
    /// Returns the missing parts in one line; `None` if the lab can start.
    pub fn missing(&self) -> Option<String> {
        let missing: Vec<&str> =
            self.all.iter().filter_map(|need| need.found.as_ref().err()).map(String::as_str).collect();
        (!missing.is_empty()).then(|| missing.join("; "))
    }
}

/// Checks the machine; `kernel` and `modules` replace those of the package.
pub fn check(
    nodes: u8,
    memory_mib: u32,
    kernel: Option<&Path>,
    modules: Option<&Path>,
    link: Option<LinkSpec>,
) -> Needs {
    let mut all = vec![root(), packages(kernel)];
    let kernel = kernel.map(Path::to_owned).or_else(|| find("linux.uml")).unwrap_or_default();
    let modules = modules.map(Path::to_owned).or_else(newest_modules).unwrap_or_default();
    all.push(nodes_modules(&modules));
    let mut nat = Nat::Nft;
    // The rest is tried out, which only root can.
    if all.first().is_some_and(|need| need.found.is_ok()) {
        all.push(tun());
        all.push(namespaces());
        all.push(links());
        all.extend(link.map(rates));
        let (found, which) = translation();
        all.push(found);
        nat = which.unwrap_or(nat);
    }
    all.push(memory(nodes, memory_mib, &fs::read_to_string("/proc/meminfo").unwrap_or_default()));
    Needs { all, kernel, modules, nat }
}

fn need(what: &str, found: Result<String, String>) -> Need {
    Need { what: what.to_owned(), found }
}

fn root() -> Need {
    let found = match geteuid().is_root() {
        true => Ok("yes".to_owned()),
        false => Err("it needs root, for namespaces, links and mounts of its own".to_owned()),
    };
    need("root", found)
}

fn packages(kernel: Option<&Path>) -> Need {
    let mut missing: Vec<&str> =
        PROGRAMS.iter().filter(|(program, _)| find(program).is_none()).map(|(_, package)| *package).collect();
    if kernel.is_none() && find("linux.uml").is_none() {
        missing.push("user-mode-linux");
    }
    if find("nft").is_none() && find("iptables-restore").is_none() {
        missing.push("nftables");
    }
    missing.sort_unstable();
    missing.dedup();
    let found = match missing.is_empty() {
        true => Ok(format!("all {} programs", PROGRAMS.len() + 2)),
        false => Err(format!("missing packages: apt install {}", missing.join(" "))),
    };
    need("packages", found)
}

/// The package's modules; of several versions the last.
fn newest_modules() -> Option<PathBuf> {
    let entries = fs::read_dir("/usr/lib/uml/modules").ok()?;
    let mut folders: Vec<PathBuf> =
        entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    folders.sort();
    folders.pop()
}

fn nodes_modules(modules: &Path) -> Need {
    let missing = MODULES.iter().find(|module| !modules.join("kernel").join(module).is_file());
    let found = match missing {
        None => Ok(modules.display().to_string()),
        Some(module) => {
            let folder =
                if modules.as_os_str().is_empty() { Path::new("/usr/lib/uml/modules") } else { modules };
            Err(format!("the nodes' kernel has no module {module} in {}", folder.display()))
        }
    };
    need("modules of the nodes' kernel", found)
}

fn tun() -> Need {
    let found = match fs::File::options().read(true).write(true).open("/dev/net/tun") {
        Ok(_) => Ok("/dev/net/tun".to_owned()),
        Err(error) => {
            Err(format!("/dev/net/tun: {error} (modprobe tun; a container must be given the device)"))
        }
    };
    need("tap devices", found)
}

fn namespaces() -> Need {
    let kinds =
        ["--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc", "true"];
    let found = tried("unshare", &kinds, "").map(|()| "network, mount, process, name, IPC".to_owned());
    need("namespaces", found.map_err(|why| format!("this machine allows no new namespaces: {why}")))
}

fn links() -> Need {
    let batch = "link add name br0 type bridge\nlink add name v0 type veth peer name v1\nlink set v0 master br0\ntuntap add dev tap0 mode tap\nlink set tap0 master br0\n";
    let found =
        tried("unshare", &["--net", "ip", "-batch", "-"], batch).map(|()| "bridge, veth, tap".to_owned());
    need("network devices", found.map_err(|why| format!("this kernel has no bridge, veth or tap: {why}")))
}

/// Tries the rate, and the delay if there is one, on an unused device.
fn rates(link: LinkSpec) -> Need {
    let why = |why: String| {
        format!(
            "this kernel makes no cables of a stated rate (tbf: modprobe sch_tbf; a delay needs netem: modprobe sch_netem): {why}"
        )
    };
    let found = match find("tc") {
        None => Err("missing packages: apt install iproute2".to_owned()),
        Some(_) => tried("unshare", &["--net", "tc", "-batch", "-"], &link.shaping("lo")).map_err(why),
    };
    need("rate of the cables", found.map(|()| link.to_string()))
}

/// Tries the head node's own rules in a namespace without traffic.
fn translation() -> (Need, Option<Nat>) {
    let mut why = Vec::new();
    for nat in [Nat::Nft, Nat::Iptables] {
        let command = files::nat_command(nat);
        if command.first().is_some_and(|program| find(program).is_none()) {
            continue;
        }
        let mut arguments = words(&["--net"]);
        arguments.extend(words(command));
        match tried("unshare", &arguments, &files::nat_rules(nat)) {
            Ok(()) => return (need("address translation", Ok(command.join(" "))), Some(nat)),
            Err(error) => why.push(error),
        }
    }
    let why = format!("this kernel translates no addresses: {}", why.join("; "));
    (need("address translation", Err(why)), None)
}

fn memory(nodes: u8, memory_mib: u32, meminfo: &str) -> Need {
    let wanted = u64::from(nodes) * u64::from(memory_mib) + ENTERPRISE_MIB;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let available = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    let found = match available.map(|kib| kib / 1024) {
        Some(available) if available < wanted => Err(format!(
            "{wanted} MiB of free memory are needed, {available} are there: fewer --nodes, less --memory"
        )),
        Some(available) => Ok(format!("{wanted} MiB of {available}")),
        None => Ok(format!("{wanted} MiB; what is free is unknown")),
    };
    need("memory", found)
}

/// Runs a program that leaves nothing behind.
fn tried(program: &str, arguments: &[impl AsRef<OsStr>], input: &str) -> Result<(), String> {
    let path = find(program).ok_or_else(|| format!("no {program}"))?;
    let ran = fed(Command::new(path).args(arguments).env("PATH", crate::commands::path()), input);
    ran.map(drop).map_err(|error| format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_says_how_much_is_needed() {
        let meminfo = "MemTotal: 2000000 kB\nMemAvailable:  900000 kB\n";
        assert!(memory(2, 256, meminfo).found.is_ok());
        let why = memory(3, 256, meminfo).found.unwrap_err();
        assert!(why.contains("1024 MiB") && why.contains("878"), "{why}");
    }

    #[test]
    fn all_missing_programs_are_named_in_one_line() {
        let needs = |all| Needs { all, kernel: PathBuf::new(), modules: PathBuf::new(), nat: Nat::Nft };
        assert_eq!(needs(vec![need("root", Ok("yes".into()))]).missing(), None);
        let two =
            vec![need("a", Err("no a".into())), need("b", Ok(String::new())), need("c", Err("no c".into()))];
        assert_eq!(needs(two).missing().as_deref(), Some("no a; no c"));
    }

    #[test]
    fn a_folder_without_modules_is_no_kernel_s() {
        let folder = tempfile::tempdir().unwrap();
        assert!(nodes_modules(folder.path()).found.is_err());
    }
}
