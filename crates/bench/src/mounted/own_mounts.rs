//! Mounts that a run makes itself, as root, in a mount namespace of its own: they end with the process, however that ends.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, ensure};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::geteuid;

use super::tools::{MOUNT, MOUNT_NFS, UMOUNT, run};
use crate::Flavor;

/// What to mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPlan {
    /// `SERVER:/export`.
    pub source: String,
    /// TCP port.
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
    /// Leaves the machine's mount namespace; what is mounted from now on is seen by this process and its children only.
    /// This process must not have other threads that are to see it.
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
        // Not removed with what is in it: that would be the export, if a mount stayed.
        let folder = tempfile::Builder::new().prefix("orthrus-mounts-").tempdir()?.keep();
        Ok(Self { folder, points: Vec::new() })
    }

    /// Mounts with one flavor and returns where.
    ///
    /// # Errors
    /// What mount said.
    pub fn mount(&mut self, plan: &MountPlan, flavor: Flavor, stop: &AtomicBool) -> Result<PathBuf> {
        let point = self.folder.join(flavor.name());
        std::fs::create_dir(&point).with_context(|| point.display().to_string())?;
        self.points.push(point.clone());
        let mut command = MOUNT.command()?;
        command.args(["-t", "nfs4", "-o", &options(plan, flavor)]).arg(&plan.source).arg(&point);
        run(&mut command, stop)?.context("it was interrupted")?;
        Ok(point)
    }

    fn unmount(&self, point: &Path) {
        let unmounted = |more: &[&str]| -> Result<()> {
            run(UMOUNT.command()?.args(more).arg(point), &AtomicBool::new(false)).map(drop)
        };
        // A server that is gone would be waited for; the namespace's end does the rest.
        let _ = unmounted(&[]).or_else(|_| unmounted(&["--force", "--lazy"]));
        let _ = std::fs::remove_dir(point);
    }
}

impl Drop for OwnMounts {
    fn drop(&mut self) {
        self.points.iter().rev().for_each(|point| self.unmount(point));
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// Our options, but for those that the user gives: mount refuses some of them twice.
fn options(plan: &MountPlan, flavor: Flavor) -> String {
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
    // Another flavor than the one that is measured would be measured under its name.
    all.extend(more.iter().filter(|one| !one.starts_with("sec=")).map(|one| (*one).to_owned()));
    all.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_options_take_the_place_of_ours() {
        let of = |options: Option<&str>, flavor| {
            let (source, options) = ("server:/export".to_owned(), options.map(str::to_owned));
            super::options(&MountPlan { source, port: 2049, options }, flavor)
        };
        assert_eq!(of(None, Flavor::Krb5i), "sec=krb5i,vers=4.1,port=2049");
        assert_eq!(of(Some("vers=4.2,nconnect=4"), Flavor::Sys), "sec=sys,port=2049,vers=4.2,nconnect=4");
        assert_eq!(of(Some("sec=krb5,port=1,"), Flavor::Sys), "sec=sys,vers=4.1,port=1");
    }
}
