//! The options of a lab.

use anyhow::bail;
use bench::link::LinkSpec;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The flavors that each node mounts the server with, each on `/nfs/FLAVOR`.
pub const FLAVORS: [&str; 4] = ["sys", "krb5", "krb5i", "krb5p"];

/// Most nodes of a lab: each is a kernel with memory of its own.
const NODES_MAX: u8 = 32;
/// Least memory of a node in MiB: below it the kernel has no room for dirty pages.
const MEMORY_MIB_MIN: u32 = 128;
/// Longest path of a lab's folder: the kernels' command lines carry it several times.
const DIR_BYTES_MAX: usize = 200;

/// The tool with which the head node translates addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Nat {
    /// The command `nft` of nftables.
    Nft,
    /// By `iptables`, where there is no `nft` or the kernel has nothing for it.
    Iptables,
}

/// The storage below the exported folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LabStorage {
    /// The file system of the lab's folder.
    Disk,
    /// Memory, without a disk.
    Tmpfs,
}

/// The options of a lab; all paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabOptions {
    /// The folder for everything that the lab writes.
    pub dir: PathBuf,
    /// How many compute nodes.
    pub nodes: u8,
    /// Memory of a node, in MiB.
    pub memory_mib: u32,
    /// Encryption types of all keys, as `orthrus realm up --enctypes` takes them.
    pub enctypes: String,
    /// The storage below the exported folder.
    pub storage: LabStorage,
    /// The `orthrus` program, for the server and the realm.
    pub program: PathBuf,
    /// The kernel of the nodes.
    pub kernel: PathBuf,
    /// The folder with its modules.
    pub modules: PathBuf,
    /// The tool with which the head node translates addresses.
    pub nat: Nat,
    /// The rate of every cable, in each direction; without it as fast as this machine allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkSpec>,
}

impl LabOptions {
    /// Refuses options that cannot work.
    ///
    /// # Errors
    /// Names the option and its allowed values.
    pub fn check(&self) -> anyhow::Result<()> {
        if !(1..=NODES_MAX).contains(&self.nodes) {
            bail!("--nodes {}: 1 to {NODES_MAX}", self.nodes);
        }
        if self.memory_mib < MEMORY_MIB_MIN {
            bail!("--memory {}: at least {MEMORY_MIB_MIN} MiB", self.memory_mib);
        }
        for path in [&self.dir, &self.program, &self.kernel, &self.modules] {
            check_path(path)?;
        }
        // Over these the lab lays file systems of its own, in its own view.
        if ["/proc", "/dev", "/sys"].iter().any(|taken| self.dir.starts_with(taken)) {
            bail!("--dir {}: not below /proc, /dev or /sys", self.dir.display());
        }
        Ok(())
    }
}

/// Paths become words of command lines, of the kernel's too, and of MIT's configuration.
fn check_path(path: &Path) -> anyhow::Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte);
    let bytes = path.as_os_str().as_encoded_bytes();
    if !path.is_absolute() || bytes.len() > DIR_BYTES_MAX || !bytes.iter().all(|byte| plain(*byte)) {
        bail!(
            "{}: the lab wants paths that begin with / and have letters, digits and . _ - + only, {DIR_BYTES_MAX} bytes at most",
            path.display()
        );
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn options() -> LabOptions {
        LabOptions {
            dir: "/var/lib/orthrus-lab".into(),
            nodes: 3,
            memory_mib: 256,
            enctypes: "sha1".to_owned(),
            storage: LabStorage::Disk,
            program: "/usr/bin/orthrus".into(),
            kernel: "/usr/bin/linux.uml".into(),
            modules: "/usr/lib/uml/modules/6.1".into(),
            nat: Nat::Nft,
            link: None,
        }
    }

    #[test]
    fn ambiguous_arguments_of_a_command_line_are_refused() {
        options().check().unwrap();
        for dir in ["lab", "/a b", "/a\nb", "/a'b", "/a\"b", "/a=b,c", "/dev/shm/lab", "/proc/1"] {
            assert!(LabOptions { dir: dir.into(), ..options() }.check().is_err(), "{dir:?}");
        }
    }

    #[test]
    fn nodes_and_memory_have_bounds() {
        for nodes in [0, NODES_MAX + 1] {
            assert!(LabOptions { nodes, ..options() }.check().is_err(), "{nodes}");
        }
        assert!(LabOptions { memory_mib: 64, ..options() }.check().is_err());
    }
}
