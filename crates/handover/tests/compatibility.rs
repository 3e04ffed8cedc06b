//! Images of earlier versions can be restored.
//!
//! `ORTHRUS_UPGRADE_IMAGE=FILE cargo test -p e2e --test programs image_of` makes the image of the
//! present version: of a server with a client of each flavor, each with two connections, two opens,
//! a lock and a delegation.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use identity::{Mapper, Rules, StaticSource};
use image::ImageError;
use net::InheritedConnections;
use orthrus_handover::HandoverImage;
use runtime::{Builder, NfsService, Threads};
use rustix::fd::OwnedFd;
use server::dispatch::Environment;
use server::engine::{InboundObjects, OutboundObjects, Start};
use server::rpcsec::{AcceptError, RpcsecLimits};
use state::Boot;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfs::{ExportTable, Exports, InboundFds, Timestamp};
use vfs_local::Orphans;

const IMAGES: [(&str, &[u8]); 1] = [("1.0", include_bytes!("images/1.0.cbor"))];

/// More descriptors than the images have.
const FDS: usize = 100;

fn files(count: usize) -> Vec<OwnedFd> {
    (0..count).map(|_| tempfile::tempfile().expect("a temporary file").into()).collect()
}

/// Restores the server of an image, whose exports are all gone.
fn restored(image: &HandoverImage, exports: &Arc<Exports>) -> Result<Arc<NfsService>, ImageError> {
    let boot = Boot { epoch: 0, hash_key: [0; 16], principal_key: [0; 16], prior_clients: Vec::new() };
    let start = Start { boot, write_verifier: [0; 8], filehandle_key: [0; 16] };
    let environment =
        Environment { clock: Box::new(|| Duration::from_secs(3)), random: Box::new(|bytes| bytes.fill(3)) };
    let accounts = Arc::new(Mapper::new(Rules::default(), StaticSource::default()));
    let refuse = |_: &[u8]| {
        let message = "no token is sent".to_owned();
        Err(AcceptError { major: 1, minor: 0, message, is_temporary: false })
    };
    let (table, orphans) = (exports.snapshot(), Orphans::default());
    let fds = InboundFds::new(files(FDS));
    let mut objects = InboundObjects::new(&table, &orphans, image.objects.clone(), fds)?;
    Builder::new(exports.clone(), start, environment)
        .kerberos(Box::new(refuse), Box::new(accounts), RpcsecLimits::default())
        .inherit(&Threads, image.server.clone(), &mut objects)
}

#[test]
fn the_images_of_all_versions_are_restored() {
    for (version, bytes) in IMAGES {
        let image = HandoverImage::read(bytes).unwrap();
        assert_eq!(image.net.len(), 8, "{version}");
        let sockets = files(8);
        InheritedConnections { image: image.net.clone(), sockets }.check().unwrap();
        let exports = Arc::new(Exports::new(ExportTable::new(Vec::new(), Timestamp::default()).unwrap()));
        let service = restored(&image, &exports).unwrap();
        let counts = service.server().engine().counts();
        let numbers = [counts.clients, counts.sessions, counts.opens, counts.ranges, counts.delegations];
        assert_eq!(numbers, [4, 4, 8, 4, 4], "{version}");
        let contexts = service.server().rpcsec().unwrap().contexts();
        assert!(contexts.len() >= 3, "{version}: each Kerberos client has one");
        // Its own image is one as well.
        service.pause_copies();
        assert!(service.wait_for_copies(Instant::now() + Duration::from_secs(10)));
        let (table, orphans) = (exports.snapshot(), Orphans::default());
        let mut objects = OutboundObjects::new(&table, &orphans);
        let server = service.image(&mut objects).unwrap();
        let (objects, _fds) = objects.finish().unwrap();
        let again = HandoverImage { server, objects, ..image };
        assert_eq!(HandoverImage::read(&image::encode(&again)).unwrap(), again);
    }
}
