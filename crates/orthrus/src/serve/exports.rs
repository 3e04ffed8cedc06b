//! Backends for the configured exports, kept over a reload where they did not change.

use super::clients::ClientRules;
use super::membership::SessionLog;
use super::roots::{RootKey, Roots};
use crate::config::{CephStorage, ExportSettings, Nested, Storage};
use anyhow::Context;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vfs::{
    AbsentBackend, Backend, Caller, Export, ExportRule, ExportTable, ExportsError, MemoryBackend,
    MemoryLimits, ServerAddress, SetAttributes, Timestamp,
};
use vfs_ceph::{CephBackend, CephOptions, CephSession};
use vfs_local::{ClientsFolders, ExportedFolder, Limitation, LocalBackend, LocalOptions, SubmountBackend};

/// The settings that must be equal for a backend to serve on after a reload: pseudo path, by which
/// most differ, storage, `nested` and `stable_names`.
type BackendKey = (String, Storage, Nested, bool);

fn place(settings: &ExportSettings) -> BackendKey {
    (settings.pseudo.clone(), settings.storage.clone(), settings.nested, settings.stable_names)
}

/// Cores that one mount of Ceph's library serves.
const CORES_PER_MOUNT: usize = 8;

/// The facts about this server that backends of Ceph need.
#[derive(Clone)]
pub(super) struct CephNode {
    /// The name of the server for the metadata servers, by which a new start ends the state of the
    /// last one; `None` in a check and in a process that takes over.
    pub(super) identity: Option<String>,
    /// As a member of a cluster: the log of sessions, which all have names of their own then.
    pub(super) sessions: Option<Arc<SessionLog>>,
    /// The time in which clients return recalled delegations.
    pub(super) recall_time: Duration,
}

/// The sessions of a backend, which the log of the cluster has, if there is one.
struct BackendSessions {
    /// The pseudo path of the export.
    path: String,
    /// The name of the backend for the metadata servers.
    name: Option<String>,
    /// The names of its mounts.
    identities: Vec<String>,
    /// Empty if the backend could not be opened.
    mounts: Vec<CephSession>,
    /// Whether the log says that the backend is not served any more.
    retired: bool,
}

impl BackendSessions {
    fn have_ended(&self) -> bool {
        self.mounts.iter().all(CephSession::has_ended)
    }
}

/// A backend in use, and the place that it serves.
struct UsedBackend {
    place: BackendKey,
    backend: Arc<dyn Backend>,
    /// The folder of this machine that it serves.
    folder: Option<ExportedFolder>,
}

/// A table that is not in force yet.
pub(super) struct PreparedTable {
    table: ExportTable,
    used: Vec<UsedBackend>,
    roots: Roots,
}

/// The backends in use.
pub(super) struct Backends {
    clients: ClientRules,
    used: Vec<UsedBackend>,
    /// The folders that exports have had.
    roots: Roots,
    /// Whether the path of a folder in use may lead elsewhere by now.
    looks_again: bool,
    /// Objects that one backend keeps open.
    objects_max: usize,
    ceph: CephNode,
    /// The sessions of backends of Ceph that have not ended.
    sessions: Vec<BackendSessions>,
    /// The number of backends of Ceph that were opened.
    opened: u32,
}

impl Backends {
    /// Starts without backends; `objects_max` bounds the objects of each to come. A check has no
    /// `roots`.
    pub(super) fn new(
        clients: ClientRules,
        objects_max: usize,
        roots: Option<Roots>,
        ceph: CephNode,
    ) -> Self {
        let (looks_again, roots) = (roots.is_some(), roots.unwrap_or_default());
        let (used, sessions) = (Vec::new(), Vec::new());
        Self { clients, used, roots, looks_again, objects_max, ceph, sessions, opened: 0 }
    }

    /// Returns the maker of the rules.
    pub(super) fn clients(&self) -> &ClientRules {
        &self.clients
    }

    /// Returns the backend in use that serves an export on.
    pub(super) fn served(&self, settings: &ExportSettings) -> Option<&Arc<dyn Backend>> {
        let wanted = place(settings);
        self.used.iter().find(|used| used.place == wanted).map(|used| &used.backend)
    }

    /// Returns a sentence for each export whose files clients reach through another one, by other
    /// rules. Links and bind mounts on the way are not followed.
    pub(super) fn overlaps(&self, exports: &[ExportSettings]) -> Vec<String> {
        let mut of_folder: HashMap<&Path, Vec<&ExportSettings>> = HashMap::new();
        for export in exports {
            folder_of(export)
                .into_iter()
                .for_each(|folder| of_folder.entry(folder).or_default().push(export));
        }
        let mut sentences = Vec::new();
        for inner in exports {
            let folders = folder_of(inner).into_iter().flat_map(Path::ancestors);
            for outer in folders.filter_map(|folder| of_folder.get(folder)).flatten() {
                let differs = inner.pseudo != outer.pseudo && inner.terms() != outer.terms();
                if differs && self.shows(outer, inner) {
                    sentences.push(format!(
                        "export {}: its folder is in that of {}, so clients of {} reach its files by the rules there",
                        inner.pseudo, outer.pseudo, outer.pseudo
                    ));
                }
            }
        }
        sentences
    }

    /// Returns whether clients of an export see the folder of another one below its own.
    fn shows(&self, outer: &ExportSettings, inner: &ExportSettings) -> bool {
        let exported = |settings: &ExportSettings| {
            let wanted = place(settings);
            self.used.iter().find(|used| used.place == wanted).and_then(|used| used.folder.as_ref())
        };
        let folders = exported(outer).zip(exported(inner));
        outer.nested == Nested::Show || folders.is_some_and(|(outer, inner)| outer.shares_mount(inner))
    }

    /// Makes the table of exports of a server with these addresses. Backends of the table in force
    /// serve on if their settings are equal, so that a reload keeps the contents of memory exports.
    ///
    /// # Errors
    /// Names the export whose folder cannot be served, or the two that clash.
    pub(super) fn prepare(
        &mut self,
        exports: &[ExportSettings],
        addresses: &[ServerAddress],
    ) -> anyhow::Result<PreparedTable> {
        let prepared = self.open_all(exports, addresses);
        if prepared.is_err() {
            self.retire_sessions();
        }
        prepared
    }

    fn open_all(
        &mut self,
        exports: &[ExportSettings],
        addresses: &[ServerAddress],
    ) -> anyhow::Result<PreparedTable> {
        let (mut used, mut roots, mut table) = (Vec::new(), self.roots.clone(), Vec::new());
        let folders = clients_folders(exports);
        for settings in exports {
            let (backend, export) = self.open(settings, &folders, &mut roots)?;
            used.push(backend);
            table.push(export);
        }
        Ok(PreparedTable { table: table_of(table, addresses)?, used, roots })
    }

    /// Opens each export once, for a check. Returns those that can be served together, and the
    /// faults of the others.
    pub(super) fn examine(
        &mut self,
        exports: &[ExportSettings],
        addresses: &[ServerAddress],
    ) -> (Vec<ExportSettings>, Vec<anyhow::Error>) {
        let (mut used, mut roots, mut table) = (Vec::new(), self.roots.clone(), Vec::new());
        let (mut served, mut faults) = (Vec::new(), Vec::new());
        let folders = clients_folders(exports);
        for settings in exports {
            match self.open(settings, &folders, &mut roots) {
                Ok((backend, export)) => {
                    used.push(backend);
                    table.push(export);
                    served.push(settings.clone());
                }
                Err(fault) => faults.push(fault),
            }
        }
        self.used = used;
        if table_of(table.clone(), addresses).is_ok() {
            return (served, faults);
        }
        let mut fitting: Vec<Export> = Vec::new();
        let mut exports = table.into_iter();
        served.retain(|_| {
            fitting.extend(exports.next());
            let fault = table_of(fitting.clone(), addresses).err();
            let fits = fault.is_none();
            if !fits {
                fitting.pop();
            }
            faults.extend(fault);
            fits
        });
        (served, faults)
    }

    /// Opens an export, or goes on with its backend.
    fn open(
        &mut self,
        settings: &ExportSettings,
        folders: &Arc<ClientsFolders>,
        roots: &mut Roots,
    ) -> anyhow::Result<(UsedBackend, Export)> {
        let (backend, folder) = self.backend(settings, folders, roots)?;
        let used = UsedBackend { place: place(settings), backend: backend.clone(), folder };
        let mut export = Export::new(&settings.pseudo, backend)?;
        export.rules = settings.terms().iter().map(|terms| self.clients.rule(terms)).collect();
        export.setid = settings.setid;
        export.delegated = settings.delegated;
        export.id = number(settings)?;
        (export.locations, export.absent) = match &settings.storage {
            Storage::Elsewhere(locations) => (locations.clone(), true),
            Storage::Folder(_) | Storage::Memory(_) | Storage::Ceph(_) => (settings.locations.clone(), false),
        };
        Ok((used, export))
    }

    /// Returns a table to put in force, and forgets the backends that are only in the former one.
    ///
    /// # Errors
    /// The folders of the exports cannot be recorded in the state folder.
    pub(super) fn adopt(&mut self, prepared: PreparedTable) -> anyhow::Result<ExportTable> {
        let PreparedTable { table, used, roots } = prepared;
        roots.replace(&mut self.roots, used.len())?;
        self.used = used;
        self.retire_sessions();
        Ok(table)
    }

    /// Forgets the sessions that have ended. In the log of the cluster, it strikes them out, and
    /// retires those of exports that are not served any more: open files and locks keep a retired
    /// session, and a successor must be able to end it.
    fn retire_sessions(&mut self) {
        let Some(log) = &self.ceph.sessions else {
            return self.sessions.retain(|sessions| !sessions.have_ended());
        };
        let used = &self.used;
        // Clients reclaim in an export with changed settings, so that its former sessions count.
        let is_unused = |logged: &&mut BackendSessions| {
            !used.iter().any(|UsedBackend { place: (path, ..), .. }| *path == logged.path)
        };
        for unused in self.sessions.iter_mut().filter(is_unused).filter(|logged| !logged.retired) {
            match log.retire(&unused.identities) {
                Ok(()) => unused.retired = true,
                Err(error) => tracing::warn!("cluster: {error:#}"),
            }
        }
        for ended in self.sessions.extract_if(.., |logged| logged.have_ended()) {
            if let Err(error) = log.forget(&ended.identities) {
                tracing::warn!("cluster: {error:#}");
            }
        }
    }

    /// Returns the backend of an export, with its folder if it is one of this machine: that of the
    /// table in force if its settings are equal and the path leads to the same folder still.
    fn backend(
        &mut self,
        settings: &ExportSettings,
        folders: &Arc<ClientsFolders>,
        roots: &mut Roots,
    ) -> anyhow::Result<(Arc<dyn Backend>, Option<ExportedFolder>)> {
        let options = LocalOptions {
            object_cache_max: self.objects_max,
            stable_names: settings.stable_names,
            clients_folders: Arc::clone(folders),
            ..LocalOptions::default()
        };
        let wanted = place(settings);
        let serves_on = |used: &&UsedBackend| {
            let folder = used.folder.as_ref().filter(|_| self.looks_again).zip(folder_of(settings));
            used.place == wanted && folder.is_none_or(|(folder, path)| folder.is_at(path, folders))
        };
        if let Some(used) = self.used.iter().find(serves_on) {
            return Ok((used.backend.clone(), used.folder.clone()));
        }
        let backend: Arc<dyn Backend> = match &settings.storage {
            Storage::Folder(path) => {
                let (backend, folder) = open_folder(settings, path, &options, roots)
                    .with_context(|| format!("export {} of {}", settings.pseudo, path.display()))?;
                return Ok((backend, Some(folder)));
            }
            Storage::Elsewhere(_) => Arc::new(AbsentBackend),
            Storage::Memory(bytes) => Arc::new(memory(*bytes)?),
            Storage::Ceph(storage) => self.ceph(settings, storage)?,
        };
        Ok((backend, None))
    }

    fn ceph(&mut self, settings: &ExportSettings, storage: &CephStorage) -> anyhow::Result<Arc<dyn Backend>> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let [identity, former] = self.names(&settings.pseudo);
        let options = CephOptions {
            configuration: storage.configuration.clone(),
            user: storage.user.clone(),
            keyring: storage.keyring.clone(),
            file_system: storage.file_system.clone(),
            path: storage.path.clone(),
            snapshots: storage.snapshots,
            mounts: if storage.mounts == 0 { cores.div_ceil(CORES_PER_MOUNT) } else { storage.mounts },
            stable_names: settings.stable_names,
            object_cache_max: self.objects_max,
            recall_time: self.ceph.recall_time,
            identity,
            former,
        };
        let named = || format!("export {} of ceph:{}", settings.pseudo, storage.path);
        let (log, identities) = (self.ceph.sessions.as_ref(), vfs_ceph::identities(&options));
        if let Some(log) = log {
            log.begin(&identities, &storage.user, storage.file_system.as_deref())?;
        }
        let opened = CephBackend::open(&options).with_context(named);
        let mounts = opened.as_ref().map(CephBackend::sessions).unwrap_or_default();
        let (path, name) = (settings.pseudo.clone(), options.identity);
        let sessions = BackendSessions { path, name, identities, mounts, retired: false };
        let began = opened.and_then(|backend| {
            if let Some(log) = log {
                log.began(&sessions.identities, &backend.addresses()?)?;
            }
            Ok(backend)
        });
        self.sessions.push(sessions);
        Ok(Arc::new(began?))
    }

    /// Returns the name of a new backend of Ceph for the metadata servers, and another one that the
    /// backend of a former process may have had.
    fn names(&mut self, pseudo: &str) -> [Option<String>; 2] {
        let number = self.opened;
        self.opened += 1;
        let Some(identity) = &self.ceph.identity else { return [None, None] };
        if self.ceph.sessions.is_some() {
            return [Some(format!("{identity}{pseudo}#{number}")), None];
        }
        free_names(identity, pseudo, |name| {
            self.sessions.iter().any(|used| used.name.as_deref() == Some(name) && !used.have_ended())
        })
    }
}

/// Returns the names of an export that no session of this process has, for its next backend.
///
/// A backend that a reload opens must not end the state of the one that it replaces, and the next
/// process ends both. With open files of two former backends, it has no name: the metadata servers
/// keep its state for a while after a crash.
fn free_names(identity: &str, pseudo: &str, is_used: impl Fn(&str) -> bool) -> [Option<String>; 2] {
    let names = [format!("{identity}{pseudo}"), format!("{identity}~{pseudo}")];
    let mut free = names.into_iter().filter(|name| !is_used(name));
    [free.next(), free.next()]
}

/// Opens the folder of an export, with the key for its handles.
fn open_folder(
    settings: &ExportSettings,
    path: &Path,
    options: &LocalOptions,
    roots: &mut Roots,
) -> anyhow::Result<(Arc<dyn Backend>, ExportedFolder)> {
    let mut enter = |backend: &mut LocalBackend| {
        log_limitations(settings, backend.limitations());
        let RootKey { key, is_another } = roots.enter(number(settings)?, backend)?;
        backend.set_handle_key(key);
        if is_another {
            tracing::warn!(
                "export {}: {} is not the folder of before, so the filehandles of clients are stale: they have to \
                 mount again",
                settings.pseudo,
                path.display()
            );
        }
        anyhow::Ok(backend.folder())
    };
    Ok(match settings.nested {
        Nested::Hide => {
            let mut backend = LocalBackend::open(path, options)?;
            let folder = enter(&mut backend)?;
            (Arc::new(backend), folder)
        }
        Nested::Show => {
            let mut backend = SubmountBackend::open(path, options)?;
            let folder = enter(backend.outer())?;
            (Arc::new(backend), folder)
        }
    })
}

/// Makes a file system in memory, where everybody may write, as in /tmp.
fn memory(bytes: u64) -> anyhow::Result<MemoryBackend> {
    let limits = MemoryLimits { bytes_max: bytes, ..MemoryLimits::default() };
    let mut handle_key = [0; 16];
    getrandom::fill(&mut handle_key).context("the system gives no random numbers")?;
    let backend = MemoryBackend::new(limits, handle_key)?;
    let open = SetAttributes { mode: Some(0o1777), ..SetAttributes::default() };
    backend.setattr(&Caller::root(), &backend.root(), &open)?;
    Ok(backend)
}

fn folder_of(settings: &ExportSettings) -> Option<&Path> {
    match &settings.storage {
        Storage::Folder(path) => Some(path),
        Storage::Memory(_) | Storage::Ceph(_) | Storage::Elsewhere(_) => None,
    }
}

/// Returns the folders that clients can change, of all exports.
fn clients_folders(exports: &[ExportSettings]) -> Arc<ClientsFolders> {
    let folders = exports.iter().filter_map(folder_of).map(Path::to_owned).collect();
    Arc::new(ClientsFolders::new(folders))
}

/// Makes the table of a server with these addresses.
fn table_of(exports: Vec<Export>, addresses: &[ServerAddress]) -> anyhow::Result<ExportTable> {
    Ok(ExportTable::new(exports, wall_clock())?.with_addresses(addresses.to_vec())?)
}

/// Returns the number of an export.
fn number(settings: &ExportSettings) -> Result<u32, ExportsError> {
    match settings.fsid {
        Some(fsid) => Ok(fsid),
        None => vfs::normalise(&settings.pseudo).map(|path| vfs::export_id(&path)),
    }
}

/// Returns the callers that an export sees for a caller: one for each rule, by the path that
/// clients mount, with the clients of the rule if there are several.
pub(super) fn seen(pseudo: &str, rules: &[ExportRule], caller: Option<&Caller>) -> Vec<(String, Caller)> {
    let clients =
        |rule: &ExportRule| rule.clients.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let place = |rule: &ExportRule| match rules.len() {
        1 => pseudo.to_owned(),
        _ => format!("{pseudo} for {}", clients(rule)),
    };
    rules.iter().map(|rule| (place(rule), rule.squash(caller))).collect()
}

/// Logs what the file system of an export lacks.
fn log_limitations(settings: &ExportSettings, limitations: &[Limitation]) {
    let only_read = settings.terms().iter().all(|terms| terms.read_only);
    for limitation in
        limitations.iter().filter(|limitation| !only_read || **limitation != Limitation::ReadOnly)
    {
        match limitation.has_remedy() {
            true => tracing::warn!("export {}: {limitation}", settings.pseudo),
            false => tracing::info!("export {}: {limitation}", settings.pseudo),
        }
    }
}

fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: i64::try_from(since.as_secs()).unwrap_or(0), nanoseconds: since.subsec_nanos() }
}

#[cfg(test)]
mod tests {
    use super::super::clock::ServerClock;
    use super::*;
    use crate::config::Settings;

    #[test]
    fn a_check_finds_all_faults_of_exports_and_opens_each_once() {
        let clients = ClientRules::new(&Settings::default(), ServerClock::start(false));
        let ceph = CephNode { identity: None, sessions: None, recall_time: Duration::ZERO };
        let mut backends = Backends::new(clients, 100, None, ceph);
        let memory = |pseudo: &str, fsid| {
            let mut settings = ExportSettings::new(Storage::Memory(1 << 20), pseudo);
            settings.fsid = fsid;
            settings
        };
        let missing = ExportSettings::new(Storage::Folder("/nowhere/at/all".into()), "/gone");
        let exports =
            [memory("/a", Some(7)), missing, memory("/a", None), memory("/b", Some(7)), memory("/c", None)];
        let (served, faults) = backends.examine(&exports, &[]);
        assert_eq!(served.iter().map(|export| &*export.pseudo).collect::<Vec<_>>(), ["/a", "/c"]);
        let faults: Vec<_> = faults.iter().map(|fault| format!("{fault:#}")).collect();
        assert_eq!(faults.len(), 3, "{faults:?}");
        for (fault, named) in faults.iter().zip(["/nowhere/at/all", "/a", "/b"]) {
            assert!(fault.contains(named), "{faults:?}");
        }
        assert_eq!(backends.used.len(), 4, "those that could be opened");
    }

    #[test]
    fn a_backend_that_a_reload_opens_has_another_name_than_the_one_that_it_replaces() {
        let (plain, other) = ("orthrus-1/a", "orthrus-1~/a");
        for (used, expect) in [
            (vec![], [Some(plain), Some(other)]),
            (vec![plain], [Some(other), None]),
            (vec![other], [Some(plain), None]),
            (vec![plain, other], [None, None]),
            (vec!["orthrus-1/b"], [Some(plain), Some(other)]),
        ] {
            let names = free_names("orthrus-1", "/a", |name| used.contains(&name));
            assert_eq!(names, expect.map(|name| name.map(str::to_owned)), "{used:?}");
        }
    }
}
