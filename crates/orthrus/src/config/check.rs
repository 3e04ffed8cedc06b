//! Checks the file and turns it into settings, or names the error and its place.

use super::file::{File, FileExport, FileLimits};
use super::{ConfigError, ExportSettings, Limits, Settings, Storage};
use serde_spanned::Spanned;
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use vfs::SecFlavor;

/// Leases shorter than this renew too often, longer ones keep dead clients' locks too long
/// (seconds).
const LEASE_TIME: RangeInclusive<u64> = 5..=3600;
/// Seconds of grace. Zero is for tests; above an hour, clients give up.
const GRACE_TIME: RangeInclusive<u64> = 0..=3600;
/// Seconds until a delegation is revoked. A client needs some time to write back its data.
const RECALL_TIME: RangeInclusive<u64> = 1..=3600;
const SHARDS: RangeInclusive<u64> = 0..=256;
/// An export in memory: at least 1 MiB, at most 1 TiB.
const MEMORY: RangeInclusive<u64> = (1 << 20)..=(1 << 40);

type Checked<T> = Result<T, ConfigError>;

/// The file's name and text, for messages.
pub(super) struct Checker<'a> {
    file: &'a Path,
    text: &'a str,
}

impl<'a> Checker<'a> {
    pub(super) fn new(file: &'a Path, text: &'a str) -> Self {
        Self { file, text }
    }

    pub(super) fn settings(&self, raw: File) -> Checked<Settings> {
        let default = Settings::default();
        let exports =
            raw.export.into_iter().map(|export| self.export(export)).collect::<Checked<Vec<_>>>()?;
        if exports.is_empty() {
            return Err(self.whole("nothing is exported; add an [[export]] with path = \"/some/folder\""));
        }
        let seconds = |value: Option<Spanned<u32>>, range, default: Duration| match value {
            Some(value) => self.in_range(&spanned_u64(&value), range, "seconds").map(Duration::from_secs),
            None => Ok(default),
        };
        Ok(Settings {
            listen: raw.listen.map_or(Ok(default.listen), |value| self.listen(&value))?,
            same_user: default.same_user,
            metrics: raw.metrics.map(|value| self.metrics(&value)).transpose()?,
            shards: match raw.shards {
                Some(value) => {
                    self.in_range(&spanned_u64(&value), SHARDS, "threads (0: one a core)")? as usize
                }
                None => default.shards,
            },
            domain: raw.domain.map_or(Ok(default.domain), |value| self.domain(value))?,
            keytab: raw.keytab.map(|value| self.relative(value.get_ref())),
            realms: raw.realms.unwrap_or_default(),
            principals: raw.principals,
            state_dir: raw.state_dir.map(|value| self.relative(value.get_ref())),
            lease_time: seconds(raw.lease_time, LEASE_TIME, default.lease_time)?,
            grace_time: seconds(raw.grace_time, GRACE_TIME, default.grace_time)?,
            recall_time: match raw.recall_time {
                Some(value) => Some(seconds(Some(value), RECALL_TIME, Duration::ZERO)?),
                None => default.recall_time,
            },
            nfs40: raw.nfs40.unwrap_or(default.nfs40),
            delegations: raw.delegations.map_or(Ok(default.delegations), |value| self.parsed(&value))?,
            numeric_owners: raw
                .numeric_owners
                .map_or(Ok(default.numeric_owners), |value| self.parsed(&value))?,
            local_locks: raw.local_locks.unwrap_or(default.local_locks),
            limits: self.limits(raw.limits)?,
            exports,
        })
    }

    fn listen(&self, value: &Spanned<String>) -> Checked<SocketAddr> {
        parse_listen(value.get_ref()).map_err(|message| self.at(value.span(), message))
    }

    fn metrics(&self, value: &Spanned<String>) -> Checked<SocketAddr> {
        parse_metrics(value.get_ref()).map_err(|message| self.at(value.span(), message))
    }

    fn domain(&self, value: Spanned<String>) -> Checked<String> {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        if value.get_ref().is_empty() || !value.get_ref().chars().all(good) {
            return Err(self.at(value.span(), "must be a DNS domain such as \"example.org\""));
        }
        Ok(value.into_inner())
    }

    fn limits(&self, raw: FileLimits) -> Checked<Limits> {
        let default = Limits::default();
        let limit = |value: Option<Spanned<u64>>, range: RangeInclusive<u64>, default: usize| match value {
            Some(value) => self.in_range(&value, range, "").map(|value| value as usize),
            None => Ok(default),
        };
        Ok(Limits {
            connections_max: limit(raw.connections_max, 1..=1_000_000, default.connections_max)?,
            contexts_max: limit(raw.contexts_max, 16..=10_000_000, default.contexts_max)?,
            clients_max: limit(raw.clients_max, 1..=1_000_000, default.clients_max)?,
            input_bytes_max: limit(raw.input_bytes_max, (4 << 20)..=(1 << 40), default.input_bytes_max)?,
            slots_max: limit(raw.slots_max, 1..=1024, default.slots_max as usize)? as u32,
            open_files_max: limit(raw.open_files_max, 64..=10_000_000, default.open_files_max)?,
        })
    }

    fn export(&self, raw: Spanned<FileExport>) -> Checked<ExportSettings> {
        let place = raw.span();
        let raw = raw.into_inner();
        let storage = self.storage(&raw, place)?;
        let pseudo = match &raw.pseudo {
            Some(value) => {
                vfs::normalise(value.get_ref()).map_err(|error| self.at(value.span(), error.to_string()))?
            }
            None => default_pseudo(&storage),
        };
        let mut export = ExportSettings::new(storage, pseudo);
        if let Some(values) = raw.sec {
            export.flavors = self.flavors(values, &export.pseudo)?;
        }
        for from in raw.sec_from.unwrap_or_default() {
            let flavors = self.flavors(from.sec, &export.pseudo)?;
            let networks = self.each(from.clients)?.into_iter();
            export.flavors_from.extend(networks.map(|network| (network, flavors.clone())));
        }
        if let Some(value) = raw.squash {
            export.squash = self.parsed(&value)?;
        }
        export.networks = self.each(raw.clients.unwrap_or_default())?;
        export.secure = raw.secure.unwrap_or(export.secure);
        export.read_only = raw.read_only.unwrap_or(false);
        export.setid = raw.setid.unwrap_or(export.setid);
        export.anon_uid = raw.anon_uid.unwrap_or(export.anon_uid);
        export.anon_gid = raw.anon_gid.unwrap_or(export.anon_gid);
        export.stable_names = raw.stable_names.unwrap_or(true);
        if let Some(nested) = raw.nested {
            if matches!(export.storage, Storage::Memory(_)) {
                return Err(self.at(nested.span(), "nothing is mounted below an export in memory"));
            }
            export.nested = self.parsed(&nested)?;
        }
        if let Some(fsid) = raw.fsid {
            export.fsid = Some(self.in_range(&spanned_u64(&fsid), 1..=u64::from(u32::MAX), "")? as u32);
        }
        Ok(export)
    }

    fn flavors(&self, values: Vec<Spanned<String>>, pseudo: &str) -> Checked<Vec<SecFlavor>> {
        let flavors: Vec<SecFlavor> = self.each(values)?;
        if flavors.is_empty() {
            let said = format!("export {pseudo}: `sec` is empty; allowed are sys, krb5, krb5i and krb5p");
            return Err(self.whole(said));
        }
        Ok(flavors)
    }

    fn storage(&self, raw: &FileExport, place: Range<usize>) -> Checked<Storage> {
        match (&raw.path, &raw.memory) {
            (Some(path), None) => {
                let folder = self.relative(path.get_ref());
                match std::fs::metadata(&folder) {
                    Ok(found) if found.is_dir() => Ok(Storage::Folder(folder)),
                    Ok(_) => Err(self.at(path.span(), format!("{} is not a folder", folder.display()))),
                    Err(error) => Err(self.at(path.span(), format!("{}: {error}", folder.display()))),
                }
            }
            (None, Some(bytes)) => self.in_range(bytes, MEMORY, "bytes").map(Storage::Memory),
            (Some(_), Some(memory)) => {
                Err(self.at(memory.span(), "an export has either `path` or `memory`, not both"))
            }
            (None, None) => {
                Err(self
                    .at(place, "an export needs `path`, the folder to export (or `memory`, a size in bytes)"))
            }
        }
    }

    fn each<T: FromStr<Err: std::fmt::Display>>(&self, values: Vec<Spanned<String>>) -> Checked<Vec<T>> {
        values.iter().map(|value| self.parsed(value)).collect()
    }

    fn parsed<T: FromStr<Err: std::fmt::Display>>(&self, value: &Spanned<String>) -> Checked<T> {
        value.get_ref().parse().map_err(|error: T::Err| self.at(value.span(), error.to_string()))
    }

    fn in_range(&self, value: &Spanned<u64>, range: RangeInclusive<u64>, unit: &str) -> Checked<u64> {
        if range.contains(value.get_ref()) {
            return Ok(*value.get_ref());
        }
        let allowed = format!(
            "{} is out of range; allowed is {} to {} {unit}",
            value.get_ref(),
            range.start(),
            range.end()
        );
        Err(self.at(value.span(), allowed.trim_end()))
    }

    /// Paths are relative to the configuration file, wherever the server is started.
    fn relative(&self, path: &str) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("")).join(path)
    }

    fn at(&self, span: Range<usize>, message: impl Into<String>) -> ConfigError {
        ConfigError::at(self.file, self.text, span, message)
    }

    fn whole(&self, message: impl Into<String>) -> ConfigError {
        ConfigError::Whole { file: self.file.to_owned(), message: message.into() }
    }
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

fn spanned_u64(value: &Spanned<u32>) -> Spanned<u64> {
    Spanned::new(value.span(), u64::from(*value.get_ref()))
}
