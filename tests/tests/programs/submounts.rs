//! File systems that are mounted below an exported folder, shown or hidden as the configuration
//! says.

use client::{Filesystem, OpenHow, Options, Security};
use e2e::{Disk, Serve, Server, empty_folder, in_own_mounts, status};
use nfs4::Nfsstat4::*;
use nfs4::{
    AttributeValues, Bitmap4, FATTR4_FILEID, FATTR4_FSID, FATTR4_MOUNTED_ON_FILEID, FATTR4_TYPE, Fsid4,
};
use nix::sys::stat::stat;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A user without rights of its own.
const USER: u32 = 12345;
const IDS: Bitmap4 = Bitmap4::of(&[FATTR4_FSID, FATTR4_FILEID, FATTR4_MOUNTED_ON_FILEID]);

/// A folder that is exported, with a file system mounted on its folder "inner".
fn export(folder: &Path) -> (PathBuf, Disk) {
    let export = folder.join("export");
    fs::create_dir(&export).expect("the folder is ours");
    fs::set_permissions(&export, Permissions::from_mode(0o777)).expect("it is ours");
    let disk = Disk::tmpfs(&export, "inner", 1 << 20);
    (export, disk)
}

fn serve(folder: &Path, export: &Path, nested: &str) -> Server {
    let text = format!(
        "listen = \"127.0.0.1:0\"\n[[export]]\npath = {export:?}\npseudo = \"/export\"\nsec = [\"sys\"]\nsecure = false\nnested = {nested:?}\n"
    );
    let file = folder.join("orthrus.toml");
    fs::write(&file, text).expect("the folder is ours");
    Serve::new(folder.join("state")).arg("--config").arg(file).start()
}

fn mount(server: &Server) -> Filesystem {
    let options = Options::new("127.0.0.1", Security::sys_as(USER, USER)).port(server.port());
    Filesystem::mount(options, "/export").expect("it is exported")
}

fn ids(values: &AttributeValues<'_>) -> (Fsid4, u64, u64) {
    (
        values.fsid.expect("asked for"),
        values.fileid.expect("asked for"),
        values.mounted_on_fileid.expect("asked for"),
    )
}

/// fsid, fileid and mounted_on_fileid of a path.
fn ids_of(files: &mut Filesystem, path: &str) -> (Fsid4, u64, u64) {
    let (handle, _) = files.lookup(path).expect("it is there");
    let attributes = files.client().getattr(&handle, IDS).expect("it is there");
    let values = attributes.values().expect("they are sound");
    ids(&values)
}

#[test]
fn a_file_system_below_an_export_is_shown_with_an_fsid_of_its_own() {
    // RFC 8881 sections 5.8.1.9, 5.8.2.23, 7.7, 18.14 and 18.26
    in_own_mounts(|| {
        let folder = empty_folder();
        let (export, disk) = export(folder.path());
        let mut server = serve(folder.path(), &export, "show");
        let mut files = mount(&server);
        files.write_file("outside", b"outside").expect("everybody may");
        files.write_file("inner/file", b"inside").expect("everybody may");
        assert_eq!(fs::read(disk.path().join("file")).expect("it is there"), b"inside");
        let (root, inner, file) =
            (ids_of(&mut files, ""), ids_of(&mut files, "inner"), ids_of(&mut files, "inner/file"));
        assert_ne!(root.0, inner.0);
        assert_eq!(inner.0, file.0);
        assert_eq!(inner.1, stat(disk.path()).expect("it is there").st_ino, "fileid is of what is mounted");
        assert_eq!(file.1, file.2);
        for wanted in [IDS, Bitmap4::of(&[FATTR4_FILEID, FATTR4_MOUNTED_ON_FILEID])] {
            let entries = files.list_entries("", wanted).expect("it is a directory");
            let entry = entries.iter().find(|entry| entry.name == b"inner").expect("it is listed");
            let values = entry.attributes.values().expect("they are sound");
            assert_eq!((values.fileid, values.mounted_on_fileid), (Some(inner.1), Some(inner.2)));
        }
        let (above, _) = files.lookup("").expect("it is there");
        let (handle, _) = files.lookup("inner").expect("it is there");
        let (parent, _) = files.client().lookup_parent(&handle).expect("it has one");
        assert_eq!(parent, above);
        assert_eq!(status(files.rename("outside", "inner/moved")), NFS4ERR_XDEV);
        assert_eq!(status(files.link("inner/file", "linked")), NFS4ERR_XDEV);

        let open = files.open("inner/file", &OpenHow::read()).expect("it may be read");
        files.close(&open).expect("it is open");
        drop(files);
        server.restart();
        let mut files = mount(&server);
        let attributes = files.client().getattr(&open.handle, Bitmap4::of(&[FATTR4_TYPE]));
        attributes.expect("its handle has survived");
        let unmounted = Command::new("umount").arg("--lazy").arg(disk.path()).status().expect("it was there");
        assert!(unmounted.success());
        let gone = files.client().getattr(&open.handle, Bitmap4::of(&[FATTR4_TYPE]));
        assert_eq!(status(gone), NFS4ERR_STALE);
        assert_eq!(ids_of(&mut files, "inner"), (root.0, inner.2, inner.2), "what it has covered");
    });
}

#[test]
fn a_file_system_below_an_export_is_hidden_unless_it_is_to_be_shown() {
    // RFC 8881 section 7.7
    in_own_mounts(|| {
        let folder = empty_folder();
        let (export, disk) = export(folder.path());
        fs::write(disk.path().join("file"), b"inside").expect("it is ours");
        let server = serve(folder.path(), &export, "hide");
        let mut files = mount(&server);
        assert!(!files.exists("inner").expect("the server answers"));
        assert_eq!(status(files.stat("inner/file")), NFS4ERR_NOENT);
        assert_eq!(files.list("").expect("it is a directory"), Vec::<String>::new());
    });
}
