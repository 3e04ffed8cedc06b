//! Faults of the configuration, each with its remedy.

use crate::common::{directory, file, open};
use orthrus_vfs_ceph::{CephBackend, CephOptions};
use std::path::PathBuf;
use vfs::Backend;

/// Returns the message of an export that cannot be opened.
fn message(change: impl FnOnce(&mut CephOptions)) -> Option<String> {
    let (path, cluster) = directory()?;
    let mut options = CephOptions::new(path);
    options.configuration = cluster.configuration();
    options.user = "admin".to_owned();
    change(&mut options);
    Some(CephBackend::open(&options).expect_err("it is refused").to_string())
}

#[test]
fn a_wrong_setting_is_named_with_its_remedy() {
    let nowhere = PathBuf::from("/nowhere/ceph.conf");
    let Some(said) = message(|options| options.configuration = nowhere) else { return };
    assert!(said.contains("/nowhere/ceph.conf") && said.contains("`ceph_conf`"), "{said}");
    let said = message(|options| options.user = "nobody".to_owned()).unwrap();
    assert!(said.contains("client.nobody") && said.contains("ceph auth get client.nobody"), "{said}");
    let said = message(|options| options.file_system = Some("none".to_owned())).unwrap();
    assert!(said.contains("none") && said.contains("ceph fs ls"), "{said}");
    let said = message(|options| options.path = "/no/such/path".to_owned()).unwrap();
    assert!(said.contains("/no/such/path"), "{said}");
}

#[test]
fn a_path_that_is_a_file_is_refused() {
    let Some((path, cluster)) = directory() else { return };
    let backend = open(cluster, &path, |_| ());
    file(&backend, &backend.root(), "file", b"");
    backend.sync_names(&backend.root(), None).unwrap();
    let said = message(|options| options.path = format!("{path}/file")).unwrap();
    assert!(said.contains("not a directory"), "{said}");
}

#[test]
fn a_user_with_rights_to_a_path_serves_that_path_only() {
    let Some((path, cluster)) = directory() else { return };
    let name = path.trim_start_matches('/').to_owned();
    let keyring = cluster.user(&name, "cephfs", &path, "rw").unwrap();
    let limited = |path: &str| {
        let mut options = CephOptions::new(path);
        options.configuration = cluster.configuration();
        options.user = name.clone();
        options.keyring = Some(keyring.clone());
        CephBackend::open(&options)
    };
    let backend = limited(&path).unwrap();
    file(&backend, &backend.root(), "file", b"data");
    assert!(backend.handle_key().is_some());
    let said = limited("/").expect_err("it is refused").to_string();
    assert!(said.contains(&format!("client.{name}")), "{said}");
}
