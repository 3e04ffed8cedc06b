//! Images and messages of a handover: another process may send anything. An image is refused, or
//! gives a server that is sound: its own image restores the same, and it forgets every client in
//! time.
#![no_main]

use handover::{HandoverImage, Hello, Order, SuccessorAnswer};
use identity::{Mapper, Rules, StaticSource};
use image::ImageError;
use libfuzzer_sys::fuzz_target;
use orthrus_fuzz::bounded;
use runtime::{Builder, Deterministic, NfsService, ServerImage, housekeeping};
use server::dispatch::Environment;
use server::engine::{FileKey, ObjectsIn, ObjectsOut, Start};
use server::rpcsec::{AcceptError, RpcsecLimits};
use state::Boot;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use vfs::{
    Backend, Broken, Caller, Export, ExportTable, Exports, Lease, LocalLock, LockKind, LockOutcome,
    MemoryBackend, MemoryLimits, OpenAccess, OpenFile, RangeLocks, SetAttributes, Timestamp, VfsResult,
};

/// Bytes that a byte of an image may take on the heap, once decoded.
const GROWTH_MAX: usize = 400;
/// Longer than all leases, contexts and courtesy.
const LATER: u64 = 400 * 24 * 3600;

fuzz_target!(|data: &[u8]| {
    let Some((kind, data)) = data.split_first() else { return };
    if kind & 1 == 0 {
        bounded(data, GROWTH_MAX, || {
            message::<Hello>(data);
            message::<Order>(data);
            message::<SuccessorAnswer>(data);
        });
        return;
    }
    let Ok(image) = bounded(data, GROWTH_MAX, || HandoverImage::read(data)) else { return };
    assert_eq!(HandoverImage::read(&image::encode(&image)).as_ref(), Ok(&image));
    let (files, clock) = (ImageFiles::new(), Arc::new(AtomicU64::new(1000)));
    let Ok((service, executor)) = restored(image.server, &files, &clock) else { return };
    while executor.step() {}
    if let Ok(own) = image_of(&service, &files) {
        let (again, _) = restored(own.clone(), &files, &clock).expect("an image of a sound server");
        assert_eq!(image_of(&again, &files), Ok(own));
    }
    // All state of its clients expires.
    for round in 1..4 {
        clock.store(round * LATER, Relaxed);
        housekeeping::round(&service, &files.exports, false);
        while executor.step() {}
    }
    let counts = service.server().engine().counts();
    assert_eq!((counts.clients, counts.sessions, counts.opens, counts.ranges), (0, 0, 0, 0), "{counts:?}");
    assert_eq!((counts.delegations, counts.copies, counts.owners), (0, 0, 0), "{counts:?}");
});

fn message<T: for<'b> minicbor::Decode<'b, ()> + minicbor::Encode<()> + PartialEq + std::fmt::Debug>(
    data: &[u8],
) {
    if let Ok(message) = image::decode::<T>(data) {
        assert_eq!(image::decode::<T>(&image::encode(&message)), Ok(message));
    }
}

type Service = Arc<NfsService<Deterministic>>;

fn restored(
    image: ServerImage,
    files: &ImageFiles,
    clock: &Arc<AtomicU64>,
) -> Result<(Service, Deterministic), ImageError> {
    let boot = Boot { epoch: 0, hash_key: [0; 16], principal_key: [0; 16], prior_clients: Vec::new() };
    let start = Start { boot, write_verifier: [0; 8], filehandle_key: [0; 16] };
    let now = clock.clone();
    let environment = Environment {
        clock: Box::new(move || Duration::from_secs(now.load(Relaxed))),
        random: Box::new(|bytes| bytes.fill(3)),
    };
    let refuse =
        |_: &[u8]| Err(AcceptError { major: 1, minor: 0, message: String::new(), is_temporary: false });
    let accounts = Arc::new(Mapper::new(Rules::default(), StaticSource::default()));
    let executor = Deterministic::new(|_| 0, 0);
    let service = Builder::new(files.exports.clone(), start, environment)
        .kerberos(Box::new(refuse), Box::new(accounts), RpcsecLimits::default())
        .inherit(&executor, image, &mut files.clone())?;
    Ok((service, executor))
}

fn image_of(service: &Service, files: &ImageFiles) -> Result<ServerImage, ImageError> {
    service.pause_copies();
    service.image(&mut files.clone())
}

/// Gives the same file for every number.
#[derive(Clone)]
struct ImageFiles {
    exports: Arc<Exports>,
    file: Arc<dyn OpenFile>,
}

impl ImageFiles {
    fn new() -> Self {
        let limits = MemoryLimits { bytes_max: 1 << 16, objects_max: 10 };
        let backend = Arc::new(MemoryBackend::new(limits, [7; 16]).expect("room"));
        let access = OpenAccess { read: true, write: true };
        let set = SetAttributes::default();
        let made = backend.create_file(&Caller::root(), &backend.root(), b"file", access, &set);
        let export = Export::new("/data", backend).expect("a path");
        let table = ExportTable::new(vec![export], Timestamp::default()).expect("an export");
        Self { exports: Arc::new(Exports::new(table)), file: made.expect("room").1 }
    }
}

impl ObjectsOut for ImageFiles {
    fn file(&mut self, _: &FileKey, _: &Arc<dyn OpenFile>) -> u32 {
        0
    }

    fn lease(&mut self, _: &FileKey, _: &Arc<dyn Lease>) -> u32 {
        0
    }

    fn locks(&mut self, _: &FileKey, _: &Arc<dyn RangeLocks>) -> u32 {
        0
    }
}

impl ObjectsIn for ImageFiles {
    fn file(&mut self, _: &FileKey, _: u32) -> Result<Arc<dyn OpenFile>, ImageError> {
        Ok(self.file.clone())
    }

    fn lease(&mut self, _: &FileKey, _: u32, _: Broken) -> Result<Arc<dyn Lease>, ImageError> {
        Ok(Arc::new(NoLease))
    }

    fn locks(&mut self, _: &FileKey, _: u32) -> Result<Arc<dyn RangeLocks>, ImageError> {
        Ok(Arc::new(NoLocks))
    }
}

struct NoLease;

impl Lease for NoLease {
    fn is_broken(&self) -> bool {
        false
    }

    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

struct NoLocks;

impl RangeLocks for NoLocks {
    fn can_write(&self) -> bool {
        true
    }

    fn set(&self, _: u64, _: u64, _: Option<LockKind>) -> VfsResult<LockOutcome> {
        Ok(LockOutcome::Done)
    }

    fn find(&self, _: u64, _: u64, _: LockKind) -> VfsResult<Option<LocalLock>> {
        Ok(None)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}
