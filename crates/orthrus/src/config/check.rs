//! Completes the settings of a file: paths, storage and names of exports.

use super::folders::{Answers, FOLDERS, is_folder};
use super::locations::check_referral;
use super::{CephStorage, ClusterSettings, ConfigError, ExportSettings, Nested, Settings, Storage};
use mounts::HiddenFolder;
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a file system may take to answer for a folder.
const FOLDER_TIME_MAX: Duration = Duration::from_secs(5);

/// Completes the settings that `text`, the contents of `file`, has. Paths are relative to the file,
/// wherever the server is started. Leaves out the exports that do not fit the other settings or
/// this machine, and returns an error for each.
pub(super) fn complete(file: &Path, text: &str, mut settings: Settings) -> (Settings, Vec<ConfigError>) {
    let mut errors = Vec::new();
    if settings.exports.is_empty() {
        let message = "nothing is exported; add an [[export]] with path = \"/some/folder\"".to_owned();
        errors.push(ConfigError::Whole { file: file.to_owned(), message });
    }
    if settings.limits.rules.iter().any(|rule| !rule.names_any()) {
        let message =
            "a [[limits.rule]] has neither principals nor clients, so that it applies to nobody".to_owned();
        errors.push(ConfigError::Whole { file: file.to_owned(), message });
    }
    let folder = file.parent().unwrap_or(Path::new(""));
    let Settings { keytab, state_dir, web_certificate, web_key, .. } = &mut settings;
    for path in [keytab, state_dir, web_certificate, web_key].into_iter().flatten() {
        *path = folder.join(&*path);
    }
    settings.identity.sources.iter_mut().for_each(|source| source.resolve(folder));
    if let Some(cluster) = &mut settings.cluster {
        cluster.ceph_conf = folder.join(&cluster.ceph_conf);
        cluster.ceph_keyring = cluster.ceph_keyring.as_ref().map(|keyring| folder.join(keyring));
        let faults = cluster_faults(cluster, &settings.exports);
        errors.extend(faults.map(|message| ConfigError::Whole { file: file.to_owned(), message }));
    }
    let paths = settings.exports.iter().filter_map(|export| Some(folder.join(export.path.as_ref()?)));
    let folders = FOLDERS.ask(paths.collect(), FOLDER_TIME_MAX, is_folder);
    settings.exports.retain_mut(|export| {
        let completed = complete_export(export, folder, &folders, settings.cluster.as_ref());
        let wrong = |(key, message)| ConfigError::at_key(file, text, export.offset, key, message);
        completed.map_err(|error| errors.push(wrong(error))).is_ok()
    });
    (settings, errors)
}

/// Checks the table of the cluster.
fn cluster_faults(
    cluster: &ClusterSettings,
    exports: &[ExportSettings],
) -> impl Iterator<Item = String> + use<> {
    let node = match cluster.node.as_str() {
        "" => Some("[cluster] needs `node`, the name of this member, such as node = \"gw1\"".to_owned()),
        node => node.parse::<grace::NodeId>().err().map(|error| format!("[cluster] node: {error}")),
    };
    let empty = [("pool", &cluster.pool), ("object", &cluster.object), ("ceph_user", &cluster.ceph_user)];
    let empty = empty.map(|(key, value)| value.is_empty().then(|| format!("[cluster] {key} is empty")));
    let shares = exports.iter().any(|export| export.ceph.is_some());
    let alone = (!shares).then(|| {
        "[cluster] is for exports of CephFS: add an [[export]] with `ceph`, or remove [cluster]".to_owned()
    });
    node.into_iter().chain(empty.into_iter().flatten()).chain(alone)
}

/// Refuses an export of another Ceph cluster than that of `[cluster]`, which is the only one that
/// shuts a replaced gateway out.
pub(crate) fn check_ceph_cluster(cluster: &ClusterSettings, storage: &Storage) -> Result<(), String> {
    match storage {
        Storage::Ceph(ceph) if ceph.configuration != cluster.ceph_conf => Err(format!(
            "a member of a cluster exports one Ceph cluster, that of [cluster], which shuts a replaced gateway out: name \
             {} here, or serve this export outside of the cluster",
            cluster.ceph_conf.display()
        )),
        _ => Ok(()),
    }
}

/// Fills in storage and name of an export, or returns the key that is wrong and the reason.
fn complete_export(
    export: &mut ExportSettings,
    folder: &Path,
    folders: &Answers,
    cluster: Option<&ClusterSettings>,
) -> Result<(), (&'static str, String)> {
    let storage = storage(export, folder, folders)?;
    if let Some(cluster) = cluster {
        check_ceph_cluster(cluster, &storage).map_err(|message| ("ceph_conf", message))?;
    }
    export.check_rules()?;
    if !matches!(storage, Storage::Folder(_)) && export.nested == Nested::Show {
        return Err(("nested", "nothing is mounted below an export in memory or of Ceph".into()));
    }
    check_referral(export, &storage)?;
    if export.pseudo.is_empty() {
        export.pseudo = default_pseudo(&storage);
    }
    export.storage = storage;
    Ok(())
}

/// Returns the storage of an export, or the key that is wrong and the reason.
fn storage(
    export: &ExportSettings,
    folder: &Path,
    folders: &Answers,
) -> Result<Storage, (&'static str, String)> {
    if export.ceph.is_none() {
        check_without_ceph(export)?;
    }
    match (&export.path, export.memory, &export.ceph, &export.refer[..]) {
        (Some(path), None, None, []) => {
            let path = existing_folder(folder.join(path), folders).map_err(|message| ("path", message))?;
            Ok(Storage::Folder(path))
        }
        (None, Some(bytes), None, []) => Ok(Storage::Memory(bytes)),
        (None, None, Some(path), []) => Ok(Storage::Ceph(CephStorage {
            path: path.clone(),
            file_system: export.ceph_fs.clone(),
            user: export.ceph_user.clone(),
            configuration: folder.join(&export.ceph_conf),
            keyring: export.ceph_keyring.as_ref().map(|keyring| folder.join(keyring)),
            snapshots: export.ceph_snapshots,
            mounts: export.ceph_mounts,
        })),
        (None, None, None, locations @ [_, ..]) => Ok(Storage::Elsewhere(locations.into())),
        (None, None, None, []) => {
            let message = "an export needs `path`, the folder to export (or `ceph`, a path of CephFS, or `memory`, a \
                           size in bytes, or `refer`, the server that has the files)";
            Err(("export", message.into()))
        }
        (.., [_, ..]) => {
            let message = "a referral is an export without `path`, `ceph` and `memory`: its files are on other \
                           servers";
            Err(("refer", message.into()))
        }
        (_, Some(_), ..) => Err(("memory", ONE_STORAGE.into())),
        _ => Err(("ceph", ONE_STORAGE.into())),
    }
}

const ONE_STORAGE: &str = "an export has one of `path`, `ceph` and `memory`";

/// Refuses keys of Ceph in an export without `ceph`.
fn check_without_ceph(export: &ExportSettings) -> Result<(), (&'static str, String)> {
    let usual = ExportSettings::default();
    let differs = [
        ("ceph_fs", export.ceph_fs != usual.ceph_fs),
        ("ceph_user", export.ceph_user != usual.ceph_user),
        ("ceph_conf", export.ceph_conf != usual.ceph_conf),
        ("ceph_keyring", export.ceph_keyring != usual.ceph_keyring),
        ("ceph_snapshots", export.ceph_snapshots != usual.ceph_snapshots),
        ("ceph_mounts", export.ceph_mounts != usual.ceph_mounts),
    ];
    match differs.into_iter().find(|(_, differs)| *differs) {
        Some((key, _)) => Err((key, "this key needs `ceph`, the path of CephFS to export".into())),
        None => Ok(()),
    }
}

/// Returns the path of a folder. A file system that does not answer is no fault of the settings:
/// other exports can be changed while it hangs.
fn existing_folder(path: PathBuf, folders: &Answers) -> Result<PathBuf, String> {
    match folders.get(&path) {
        Some(Ok(false)) => Err(format!("{} is not a folder", path.display())),
        Some(Err(error)) => Err(format!("{}: {error}{}", path.display(), hidden_remedy(&path))),
        Some(Ok(true)) | None => Ok(path),
    }
}

/// Returns the reason why a service may not see a path that is there, and the remedy, if systemd
/// hides it.
pub(crate) fn hidden_remedy(path: &Path) -> String {
    mounts::hidden(path).map(|HiddenFolder { folder, setting }| {
        format!(
            "; systemd hides the contents of {folder} from this service: choose another place, or set {setting}=no by \
             `systemctl edit orthrus`"
        )
    }).unwrap_or_default()
}

/// Parses `address:port`, `address`, `[v6]:port` or `:port`; the error lists these forms.
pub(crate) fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let refuse = || {
        format!(
            "{text:?} is no address to listen on; allowed are \"address:port\", \"address\" and \":port\", such as \"0.0.0.0:2049\", \"[::1]:2049\" or \":2049\""
        )
    };
    if let Some(port) = text.strip_prefix(':').filter(|port| !port.contains(':')) {
        return Ok((Ipv6Addr::UNSPECIFIED, port.parse().map_err(|_| refuse())?).into());
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    text.trim_matches(['[', ']'])
        .parse()
        .map(|ip| SocketAddr::new(ip, super::settings::NFS_PORT))
        .map_err(|_| refuse())
}

/// Parses the address of the metrics endpoint: `address:port`, or `:port` on loopback; the error
/// lists these forms.
pub(crate) fn parse_metrics(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').and_then(|port| port.parse().ok());
    let loopback = port.map(|port: u16| (Ipv4Addr::LOCALHOST, port).into());
    loopback.or_else(|| text.parse().ok()).ok_or_else(|| {
        format!("{text:?} is no address for metrics; allowed are \"address:port\" and \":port\", which is loopback only")
    })
}

/// Names an export after its folder, so that `orthrus serve /srv/data` is mounted as `host:/data`.
fn default_pseudo(storage: &Storage) -> String {
    let name = match storage {
        Storage::Folder(path) => std::fs::canonicalize(path)
            .ok()
            .and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned())),
        Storage::Memory(_) => Some("memory".to_owned()),
        Storage::Elsewhere(locations) => {
            let first = locations.first().and_then(|location| vfs::path_names(&location.path).last());
            first.map(str::to_owned)
        }
        Storage::Ceph(ceph) => match ceph.path.rsplit_once('/') {
            Some((_, name)) if !name.is_empty() => Some(name.to_owned()),
            _ => Some(ceph.file_system.clone().unwrap_or_else(|| "cephfs".to_owned())),
        },
    };
    format!("/{}", name.unwrap_or_default())
}

/// Names exports from the command line: each after its folder, later ones of one name numbered.
pub(crate) fn distinct_pseudo(taken: &mut HashMap<String, u32>, storage: &Storage) -> String {
    let name = default_pseudo(storage);
    let count = taken.entry(name.clone()).or_default();
    *count += 1;
    if *count == 1 { name } else { format!("{name}-{count}") }
}
