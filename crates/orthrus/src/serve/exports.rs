//! Backends for the configured exports, kept over a reload where they did not change.

use crate::config::{ExportSettings, Nested, Storage};
use anyhow::Context;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use vfs::{Backend, Caller, Export, ExportTable, MemoryBackend, MemoryLimits, SetAttributes, Timestamp};
use vfs_local::{LocalBackend, LocalOptions, NestedBackend};

/// The settings that must be equal for a backend to serve on after a reload: storage, pseudo path,
/// `nested` and `stable_names`.
type BackendKey = (Storage, String, Nested, bool);

fn place(settings: &ExportSettings) -> BackendKey {
    (settings.storage.clone(), settings.pseudo.clone(), settings.nested, settings.stable_names)
}

/// The backends in use, each with the place that it serves.
#[derive(Default)]
pub(super) struct Backends {
    used: Vec<(BackendKey, Arc<dyn Backend>)>,
    /// Objects that one local backend keeps open.
    objects_max: usize,
}

impl Backends {
    /// Starts without backends; `objects_max` bounds those to come.
    pub(super) fn new(objects_max: usize) -> Self {
        Self { used: Vec::new(), objects_max }
    }

    /// Makes the table of exports. Backends of the former table serve on if their settings are
    /// equal, so that a reload keeps the contents of memory exports.
    ///
    /// # Errors
    /// Names the export whose folder cannot be served, or the two that clash.
    pub(super) fn table(&mut self, exports: &[ExportSettings]) -> anyhow::Result<ExportTable> {
        let mut used = Vec::new();
        let mut table = Vec::new();
        for settings in exports {
            let backend = self.backend(settings)?;
            used.push((place(settings), backend.clone()));
            let mut export = Export::new(&settings.pseudo, backend)?;
            export.flavors = settings.flavors.clone();
            export.flavors_from = settings.flavors_from.clone();
            export.secure = settings.secure;
            export.read_only = settings.read_only;
            export.squash = settings.squash;
            export.setid = settings.setid;
            export.delegated = settings.delegated;
            export.anon_uid = settings.anon_uid;
            export.anon_gid = settings.anon_gid;
            export.networks = settings.networks.clone();
            export.id = settings.fsid.unwrap_or(export.id);
            table.push(export);
        }
        let table = ExportTable::new(table, wall_clock())?;
        self.used = used;
        Ok(table)
    }

    fn backend(&self, settings: &ExportSettings) -> anyhow::Result<Arc<dyn Backend>> {
        let wanted = place(settings);
        if let Some((_, backend)) = self.used.iter().find(|(place, _)| *place == wanted) {
            return Ok(backend.clone());
        }
        match &settings.storage {
            Storage::Folder(path) => {
                let named = || format!("export {} of {}", settings.pseudo, path.display());
                let options = LocalOptions {
                    object_cache_max: self.objects_max,
                    stable_names: settings.stable_names,
                    ..LocalOptions::default()
                };
                Ok(match settings.nested {
                    Nested::Hide => Arc::new(LocalBackend::open(path, &options).with_context(named)?),
                    Nested::Show => Arc::new(NestedBackend::open(path, &options).with_context(named)?),
                })
            }
            Storage::Memory(bytes) => {
                let limits = MemoryLimits { bytes_max: *bytes, ..MemoryLimits::default() };
                let mut handle_key = [0; 16];
                getrandom::fill(&mut handle_key).context("the system gives no random numbers")?;
                let backend = MemoryBackend::new(limits, handle_key)?;
                // Everybody may write there, as in /tmp.
                let open = SetAttributes { mode: Some(0o1777), ..SetAttributes::default() };
                backend.setattr(&Caller::root(), &backend.root(), &open)?;
                Ok(Arc::new(backend))
            }
        }
    }
}

/// Returns an export with the squashing of the settings, but without its files.
///
/// # Errors
/// The pseudo path is of no use.
pub(super) fn without_files(settings: &ExportSettings) -> anyhow::Result<Export> {
    let limits = MemoryLimits { bytes_max: 1 << 20, ..MemoryLimits::default() };
    let mut export = Export::new(&settings.pseudo, Arc::new(MemoryBackend::new(limits, [0; 16])?))?;
    export.squash = settings.squash;
    export.anon_uid = settings.anon_uid;
    export.anon_gid = settings.anon_gid;
    Ok(export)
}

fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: i64::try_from(since.as_secs()).unwrap_or(0), nanoseconds: since.subsec_nanos() }
}
