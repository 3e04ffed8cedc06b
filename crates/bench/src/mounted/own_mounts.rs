//! Mounts that a run makes itself, as root, in a mount namespace of its own: they end with the
//! process, however that ends.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, bail, ensure};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::geteuid;

use super::MountStats;
use crate::Flavor;
use crate::tools::{MOUNT, MOUNT_NFS, UMOUNT, run};

/// The export to mount, and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPlan {
    /// The export as `SERVER:/export`.
    pub source: String,
    /// TCP port of the server.
    pub port: u16,
    /// More mount options, such as `nconnect=4,rsize=65536`.
    pub options: Option<String>,
}

/// Mounts of one export, one for each flavor.
#[derive(Debug)]
pub struct OwnMounts {
    /// The folder that the mount points are in; it is removed only while it is empty.
    folder: PathBuf,
    points: Vec<PathBuf>,
}

impl OwnMounts {
    /// Leaves the machine's mount namespace; only this process and its children see later mounts.
    /// Other threads of this process do not see them.
    ///
    /// # Errors
    /// Without root, or when a program is missing.
    pub fn begin() -> Result<Self> {
        ensure!(
            geteuid().is_root(),
            "only root can mount; mount the export with each flavor yourself and name the folders, such as \
             sys=/mnt/sys krb5p=/mnt/krb5p"
        );
        for tool in [MOUNT, MOUNT_NFS, UMOUNT] {
            tool.find()?;
        }
        unshare(CloneFlags::CLONE_NEWNS).context("no mount namespace of one's own can be made")?;
        let mut private = MOUNT.command()?;
        run(private.args(["--make-rprivate", "/"]), &AtomicBool::new(false))?;
        // Not removed with its contents: if a mount stayed, that would be the export.
        let folder = private::temporary("orthrus-mounts-")?.keep();
        Ok(Self { folder, points: Vec::new() })
    }

    /// Mounts with one flavor, over `connections` connections if they are given, and returns the
    /// mount point.
    ///
    /// # Errors
    /// The message of mount, or that the kernel has another number of connections to this server.
    pub fn mount(
        &mut self,
        plan: &MountPlan,
        flavor: Flavor,
        connections: Option<u32>,
        stop: &AtomicBool,
    ) -> Result<PathBuf> {
        let point = self.folder.join(flavor.name());
        std::fs::create_dir(&point).with_context(|| point.display().to_string())?;
        let mut command = MOUNT.command()?;
        command.args(["-t", "nfs4", "-o", &options(plan, flavor, connections)]);
        let mounted = run(command.arg(&plan.source).arg(&point), stop);
        if let Err(error) = mounted.and_then(|ran| ran.context("it was interrupted")) {
            let _ = std::fs::remove_dir(&point);
            return Err(error);
        }
        self.points.push(point.clone());
        if let Some(wanted) = connections {
            let found = MountStats::of(&point)?.connections;
            ensure!(found == wanted, "{}", shared(&plan.source, wanted, found));
        }
        Ok(point)
    }

    /// Ends all mounts.
    ///
    /// # Errors
    /// When one is still in use; it then ends with the mount namespace.
    pub fn unmount_all(&mut self) -> Result<()> {
        let points = std::mem::take(&mut self.points);
        let left: Vec<String> = points
            .iter()
            .rev()
            .filter(|point| !self.unmount(point))
            .map(|point| point.display().to_string())
            .collect();
        if !left.is_empty() {
            bail!("{} cannot be unmounted", left.join(", "));
        }
        Ok(())
    }

    /// Returns whether the mount is gone.
    fn unmount(&self, point: &Path) -> bool {
        let unmounted = |more: &[&str]| -> Result<()> {
            run(UMOUNT.command()?.args(more).arg(point), &AtomicBool::new(false)).map(drop)
        };
        let gone = unmounted(&[]).is_ok();
        if !gone {
            // A server that is gone would be waited for; the namespace's end does the rest.
            let _ = unmounted(&["--force", "--lazy"]);
        }
        let _ = std::fs::remove_dir(point);
        gone
    }
}

impl Drop for OwnMounts {
    fn drop(&mut self) {
        // The namespace ends with the process, and the mounts with it.
        let _ = self.unmount_all();
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// Linux gives all mounts of a server and a minor version the connections of the first, also in
/// other namespaces and with `nosharecache`.
fn shared(source: &str, wanted: u32, found: u32) -> String {
    format!(
        "{wanted} connections were asked for, and the kernel uses {found}: it shares those of another mount of {source}'s \
         server; unmount that, or use another NFS version for it"
    )
}

/// Returns our options, without the ones that the user gives: mount refuses some of them twice.
fn options(plan: &MountPlan, flavor: Flavor, connections: Option<u32>) -> String {
    let more: Vec<&str> =
        plan.options.iter().flat_map(|more| more.split(',')).filter(|one| !one.is_empty()).collect();
    let given = |names: &[&str]| more.iter().any(|one| names.contains(&one.split('=').next().unwrap_or(one)));
    let mut all = vec![format!("sec={}", flavor.name())];
    if !given(&["vers", "nfsvers", "minorversion"]) {
        all.push("vers=4.1".to_owned());
    }
    if !given(&["port"]) {
        all.push(format!("port={}", plan.port));
    }
    // Another flavor, or number of connections, than the one that is measured would be measured
    // under its name.
    let ours = |one: &str| one.starts_with("sec=") || connections.is_some() && one.starts_with("nconnect=");
    all.extend(more.iter().filter(|one| !ours(one)).map(|one| (*one).to_owned()));
    all.extend(connections.map(|connections| format!("nconnect={connections}")));
    all.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_options_take_the_place_of_ours() {
        let of = |options: Option<&str>, flavor, connections| {
            let (source, options) = ("server:/export".to_owned(), options.map(str::to_owned));
            super::options(&MountPlan { source, port: 2049, options }, flavor, connections)
        };
        assert_eq!(of(None, Flavor::Krb5i, None), "sec=krb5i,vers=4.1,port=2049");
        let own = Some("vers=4.2,nconnect=4");
        assert_eq!(of(own, Flavor::Sys, None), "sec=sys,port=2049,vers=4.2,nconnect=4");
        assert_eq!(of(own, Flavor::Sys, Some(16)), "sec=sys,port=2049,vers=4.2,nconnect=16");
        assert_eq!(of(Some("sec=krb5,port=1,"), Flavor::Sys, None), "sec=sys,vers=4.1,port=1");
    }
}
