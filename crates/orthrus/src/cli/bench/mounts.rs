//! Mounts on the command line: folders that somebody mounted, or an export that is mounted with
//! each flavor.

use anyhow::{Context, bail, ensure};
use bench::Flavor;
use bench::mounted::{Mount, MountPlace, MountPlan, MountStats, OwnMounts};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// The mounts to measure through the Linux client instead of the project's own.
#[derive(Clone, clap::Args)]
pub(super) struct MountArguments {
    /// Measure mounts with the programs of the published evaluations: FLAVOR=FOLDER for each, such
    /// as sys=/mnt/sys krb5p=/mnt/krb5p (a FOLDER alone takes the flavor of its mount). As root,
    /// SERVER:/EXPORT is mounted with each of
    /// --flavors in a private mount namespace.
    #[arg(long = "mount", value_name = "WHAT", num_args = 1.., conflicts_with_all = ["target", "link", "folder"])]
    mounts: Vec<Mounted>,
    /// Further mount options for SERVER:/EXPORT, such as vers=4.2,nconnect=4 (default: vers=4.1).
    #[arg(long, value_name = "OPTIONS", requires = "mounts")]
    mount_options: Option<String>,
    /// Accept folders that are not NFS mounts.
    #[arg(long, requires = "mounts")]
    any_file_system: bool,
}

/// The meaning of one word after --mount.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mounted {
    /// A folder, with the side that it is measured for where that is said.
    Folder { variant: Option<String>, folder: PathBuf },
    /// An export to be mounted.
    Export(String),
}

impl std::str::FromStr for Mounted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((variant, folder)) = text.split_once('=')
            && let Ok(flavor) = variant.parse::<Flavor>()
        {
            return Ok(Self::Folder { variant: Some(flavor.name().to_owned()), folder: folder.into() });
        }
        match text.split_once(":/") {
            Some((host, _)) if !host.is_empty() && !text.starts_with(['/', '.']) => {
                Ok(Self::Export(text.to_owned()))
            }
            _ if text.contains('/') => Ok(Self::Folder { variant: None, folder: text.into() }),
            _ => Err("it must be FLAVOR=FOLDER, FOLDER or SERVER:/EXPORT".to_owned()),
        }
    }
}

/// The mounts of a run.
pub(super) struct Mounts {
    own: Option<(OwnMounts, MountPlan)>,
    folders: Vec<(String, PathBuf)>,
    any_file_system: bool,
}

impl MountArguments {
    /// Returns whether mounts are measured.
    pub(super) fn any(&self) -> bool {
        !self.mounts.is_empty()
    }

    /// Names the measured server for the report.
    pub(super) fn label(&self) -> String {
        let word = |mounted: &Mounted| match mounted {
            Mounted::Folder { variant: Some(variant), folder } => format!("{variant}={}", folder.display()),
            Mounted::Folder { variant: None, folder } => folder.display().to_string(),
            Mounted::Export(source) => source.clone(),
        };
        format!("mounts of {}", self.mounts.iter().map(word).collect::<Vec<_>>().join(" "))
    }

    /// Resolves the mounts; an export is mounted when it is first needed. This process must not
    /// have threads yet.
    ///
    /// # Errors
    /// Two folders for one flavor, folders and an export together, an export without root.
    pub(super) fn resolve(&self, port: u16, flavors: &[Flavor]) -> anyhow::Result<Mounts> {
        let mut found = Mounts { own: None, folders: Vec::new(), any_file_system: self.any_file_system };
        for mounted in &self.mounts {
            match mounted {
                Mounted::Export(source) => {
                    ensure!(self.mounts.len() == 1, "one export, or folders: not several of these");
                    let plan =
                        MountPlan { source: source.clone(), port, options: self.mount_options.clone() };
                    found.own = Some((OwnMounts::begin()?, plan));
                    let points = flavors.iter().map(|flavor| (flavor.name().to_owned(), PathBuf::new()));
                    found.folders = points.collect();
                }
                Mounted::Folder { variant, folder } => {
                    let variant = variant.clone().map_or_else(|| variant_of(folder), Ok)?;
                    let taken = found.folders.iter().any(|(other, _)| *other == variant);
                    ensure!(!taken, "two folders are for {variant}");
                    found.folders.push((variant, folder.clone()));
                }
            }
        }
        Ok(found)
    }
}

/// The flavor that a folder is mounted with.
fn variant_of(folder: &std::path::Path) -> anyhow::Result<String> {
    let mount = Mount::of(folder).with_context(|| folder.display().to_string())?;
    let sec = mount.value("sec").map(str::to_owned);
    match sec {
        Some(sec) if sec.parse::<Flavor>().is_ok() => Ok(sec),
        _ => bail!("the flavor of {0} is not known; name it, such as krb5p={0}", folder.display()),
    }
}

impl Mounts {
    /// Returns the sides, in their order.
    pub(super) fn variants(&self) -> Vec<String> {
        self.folders.iter().map(|(variant, _)| variant.clone()).collect()
    }

    /// Returns whether this run makes the mounts; `--mount-options` then gives the number of
    /// connections.
    pub(super) fn are_own(&self) -> bool {
        self.own.is_some()
    }

    /// Creates a folder on the mount of a flavor, with `connections` on a mount with that many.
    ///
    /// # Errors
    /// The output of mount, or the reason why the folder is unsuitable.
    pub(super) fn place(
        &mut self,
        variant: &str,
        connections: Option<u32>,
        stop: &AtomicBool,
    ) -> anyhow::Result<MountPlace> {
        let found = self.folders.iter_mut().find(|(other, _)| other == variant);
        let (_, folder) = found.with_context(|| format!("there is no mount for {variant}"))?;
        if let Some((own, plan)) = &mut self.own
            && folder.as_os_str().is_empty()
        {
            *folder = own.mount(plan, variant.parse().map_err(anyhow::Error::msg)?, connections, stop)?;
        }
        let place = MountPlace::claim(variant, folder, self.any_file_system)?;
        if let Some(wanted) = connections.filter(|_| self.own.is_none()) {
            let found = MountStats::of(place.mount_point())?.connections;
            ensure!(
                found == wanted,
                "{} has {found} connections, not {wanted}: mount it with nconnect={wanted}, or name SERVER:/EXPORT",
                folder.display()
            );
        }
        Ok(place)
    }

    /// Ends the mounts that were made; they are made anew when they are needed.
    ///
    /// # Errors
    /// When one is still in use.
    pub(super) fn unmount(&mut self) -> anyhow::Result<()> {
        let Some((own, _)) = &mut self.own else { return Ok(()) };
        self.folders.iter_mut().for_each(|(_, folder)| *folder = PathBuf::new());
        own.unmount_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Mounted, String> {
        text.parse()
    }

    fn folder(variant: Option<&str>, folder: &str) -> Result<Mounted, String> {
        Ok(Mounted::Folder { variant: variant.map(str::to_owned), folder: folder.into() })
    }

    #[test]
    fn folders_and_exports_are_told_apart() {
        assert_eq!(parse("krb5p=/mnt/a"), folder(Some("krb5p"), "/mnt/a"));
        assert_eq!(parse("/mnt/a=b"), folder(None, "/mnt/a=b"));
        assert_eq!(parse("./x:/y"), folder(None, "./x:/y"));
        assert_eq!(parse("server:/export"), Ok(Mounted::Export("server:/export".into())));
        assert_eq!(parse("[fd00::1]:/export"), Ok(Mounted::Export("[fd00::1]:/export".into())));
        assert!(parse("server").is_err() && parse(":").is_err());
    }

    #[test]
    fn two_folders_for_one_variant_are_refused() {
        let arguments = |mounts: &[&str]| MountArguments {
            mounts: mounts.iter().map(|text| text.parse().unwrap()).collect(),
            mount_options: None,
            any_file_system: true,
        };
        assert!(arguments(&["sys=/tmp", "sys=/"]).resolve(2049, &[]).is_err());
        let found = arguments(&["sys=/tmp", "krb5=/"]).resolve(2049, &[]).unwrap();
        assert_eq!(found.variants(), ["sys", "krb5"]);
        assert!(arguments(&["a:/b", "sys=/"]).resolve(2049, &[]).is_err());
    }
}
