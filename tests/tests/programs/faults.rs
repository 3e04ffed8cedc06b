//! File systems that are full, read-only, broken or that hang: the right error, and the rest of the
//! service goes on.

use client::{CallOptions, Filesystem, OpenHow, Options, Security, write_result};
use e2e::{
    Disk, Serve, Server, data_folder, empty_folder, in_own_mounts, is_root, nobody, open_folder, orthrus,
    pattern, run, status,
};
use nfs4::Createtype4;
use nfs4::Nfsstat4::*;
use nfs4::StableHow4::FILE_SYNC4;
use nfs4::attributes::{AttributeValues, SETTABLE, fattr4};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A user without rights of its own.
const USER: u32 = 12345;

/// Serves two folders; the second keeps working.
fn serve(folder: &Path, first: &Disk, second: &Disk) -> Server {
    let serve = Serve::new(folder.join("state")).args(["--sec", "sys"]);
    serve.arg(first.path()).arg(second.path()).start()
}

fn mount(server: &Server, export: &str) -> Filesystem {
    let options = Options::new("127.0.0.1", Security::sys_as(USER, USER)).port(server.port());
    Filesystem::mount(options, export).expect("it is exported")
}

/// Everything that a user does works.
fn goes_on(files: &mut Filesystem) {
    files.mkdir("folder").expect("there is room");
    files.write_file("folder/new", b"new").expect("there is room");
    assert_eq!(files.read_file("folder/new").expect("it is there"), b"new");
    files.rename("folder/new", "moved").expect("it is there");
    files.remove("moved").expect("it is there");
    files.remove("folder").expect("it is empty");
}

#[test]
fn a_full_file_system_returns_nospc_and_keeps_acknowledged_writes() {
    // RFC 8881 section 15.1.4.8: NFS4ERR_NOSPC
    in_own_mounts(|| {
        let folder = empty_folder();
        let full = Disk::tmpfs(folder.path(), "full", 1 << 20);
        let other = Disk::tmpfs(folder.path(), "other", 1 << 20);
        let server = serve(folder.path(), &full, &other);
        let mut files = mount(&server, "/full");
        let file = files.open("file", &OpenHow::create_new(0o644)).expect("a new name");
        let data = pattern(1, 4096);
        let client = files.client();
        let mut offset = 0;
        let refused = loop {
            match client.write(&file.handle, file.stateid, offset, FILE_SYNC4, &data) {
                Ok(written) => offset += u64::from(written.count),
                Err(error) => break Err::<(), _>(error),
            }
            assert!(offset <= 1 << 20, "more than there is room for");
        };
        assert_eq!(status(refused), NFS4ERR_NOSPC);
        server.wait_for_log("free space or inodes");
        assert_eq!(status(files.write_file("another", &data)), NFS4ERR_NOSPC);
        goes_on(&mut mount(&server, "/other"));
        let kept = files.read_all(&file).expect("what was written can be read");
        assert_eq!(kept.len() as u64, offset);
        assert!(kept.chunks(4096).all(|chunk| chunk == data));
        files.remove("another").expect("it was made, and could not be filled");
        files.client().write(&file.handle, file.stateid, 0, FILE_SYNC4, &data).expect("it has its room");
        files.close(&file).expect("it is open");
        files.remove("file").expect("it is there");
        goes_on(&mut files);
    });
}

#[test]
fn a_folder_that_a_server_without_root_cannot_enter_is_named_at_the_start() {
    if !is_root() {
        return println!("skipped: only root can become nobody");
    }
    let folder = open_folder();
    let (state, data) = (folder.path().join("state"), data_folder(&folder));
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
    };
    fs::create_dir(&state).expect("it is ours");
    chown(&state, Some(65534), Some(65534)).expect("root may");
    set_mode(&state, 0o700);
    let check = || {
        let mut command = nobody(["serve", "--check", "--sec", "sys", "--listen", "127.0.0.1:0"]);
        let ended = run(command.arg("--state-dir").arg(&state).arg(&data));
        assert!(ended.status.success(), "{ended:?}");
        ended.stderr.contains("may not list and enter the folder")
    };
    for (mode, closed) in [(0o700, true), (0o744, true), (0o711, true), (0o755, false)] {
        set_mode(&data, mode);
        assert_eq!(check(), closed, "{mode:o}");
    }
}

#[test]
fn an_export_that_cannot_be_written_is_named_at_the_start_unless_it_is_to_be_read_only() {
    if !is_root() {
        return println!("skipped: only root can mount");
    }
    // Removed after the mounts on it have gone.
    let folder = open_folder();
    in_own_mounts(|| {
        for option in [&["--bind"][..], &["-o", "remount,bind,ro"]] {
            let mounted = Command::new("mount").args(option).arg(folder.path()).arg(folder.path()).status();
            assert!(mounted.expect("it is installed").success());
        }
        let state = tempfile::tempdir().expect("a folder");
        let check = |read_only: bool| {
            let mut command = orthrus(["serve", "--check", "--sec", "sys", "--listen", "127.0.0.1:0"]);
            command
                .args(read_only.then_some("--read-only"))
                .arg("--state-dir")
                .arg(state.path().join("state"));
            let ended = run(command.arg(folder.path()));
            assert!(ended.status.success(), "{ended:?}");
            ended.stderr.contains("mounted read-only for this process")
        };
        assert!(check(false) && !check(true));
    });
}

#[test]
fn a_server_starts_again_on_a_full_disk_and_a_check_says_when_it_would_not() {
    in_own_mounts(|| {
        let folder = empty_folder();
        let data = data_folder(&folder);
        let disk = Disk::tmpfs(folder.path(), "var", 1 << 20);
        let state = disk.path().join("state");
        let mut server = Serve::new(&state).arg(&data).start();
        server.kill();
        let fill = |name| {
            let mut filler = fs::File::create(disk.path().join(name)).expect("a file");
            while filler.write_all(&[0; 4096]).is_ok() {}
        };
        let check = || {
            let mut command = orthrus(["serve", "--check", "--sec", "sys", "--listen", "127.0.0.1:0"]);
            run(command.arg("--state-dir").arg(&state).arg(&data))
        };
        fill("filler");
        assert!(check().status.success());
        server.restart();
        server.kill();
        fill("another");
        fs::remove_file(state.join("reserve")).expect("the start has made a new one");
        fill("the-rest");
        let refused = check();
        assert!(!refused.status.success() && refused.stderr.contains("No space left"), "{refused:?}");
    });
}

#[test]
fn a_file_system_that_became_read_only_says_so_and_can_be_read() {
    // RFC 8881 section 15.1.4.10: NFS4ERR_ROFS
    in_own_mounts(|| {
        let folder = empty_folder();
        let frozen = Disk::tmpfs(folder.path(), "readonly", 1 << 20);
        let other = Disk::tmpfs(folder.path(), "other", 1 << 20);
        let server = serve(folder.path(), &frozen, &other);
        let mut files = mount(&server, "/readonly");
        files.write_file("file", b"before").expect("there is room");
        frozen.make_read_only();
        assert_eq!(status(files.write_file("file", b"after")), NFS4ERR_ROFS);
        server.wait_for_log("mount it for writing");
        assert_eq!(status(files.write_file("new", b"new")), NFS4ERR_ROFS);
        assert_eq!(status(files.mkdir("folder")), NFS4ERR_ROFS);
        assert_eq!(status(files.remove("file")), NFS4ERR_ROFS);
        assert_eq!(status(files.rename("file", "moved")), NFS4ERR_ROFS);
        assert_eq!(files.read_file("file").expect("it can be read"), b"before");
        goes_on(&mut mount(&server, "/other"));
    });
}

#[test]
fn a_disk_that_fails_gives_an_error_and_no_wrong_data() {
    // RFC 8881 section 15.1.4.6: NFS4ERR_IO
    in_own_mounts(|| {
        let folder = empty_folder();
        let failing = Disk::ext4(folder.path(), "failing", 16 << 20);
        let other = Disk::ext4(folder.path(), "other", 16 << 20);
        let server = serve(folder.path(), &failing, &other);
        let mut files = mount(&server, "/failing");
        let data = pattern(2, 1 << 20);
        files.write_file("file", &data).expect("there is room");
        let file = files.open("file", &OpenHow::read()).expect("it is there");
        failing.lose("file");
        let client = files.client();
        assert_eq!(status(client.read(&file.handle, file.stateid, 0, 4096)), NFS4ERR_IO);
        goes_on(&mut mount(&server, "/other"));
    });
}

#[test]
fn a_file_system_that_hangs_holds_up_no_other() {
    in_own_mounts(|| {
        let folder = empty_folder();
        let mut hanging = Disk::ext4(folder.path(), "hanging", 32 << 20);
        let other = Disk::ext4(folder.path(), "other", 32 << 20);
        let server = serve(folder.path(), &hanging, &other);
        let mut writers: Vec<_> = (0..3).map(|_| mount(&server, "/hanging")).collect();
        let open = |(number, files): (usize, &mut Filesystem)| {
            files.open(&format!("file{number}"), &OpenHow::create_new(0o644)).expect("a new name")
        };
        let opened: Vec<_> = writers.iter_mut().enumerate().map(open).collect();
        hanging.freeze();
        // More than there are threads: 64 requests of each.
        let data = pattern(3, 4096);
        let mut submitted = 0;
        for (files, file) in writers.iter_mut().zip(&opened) {
            let client = files.client();
            for block in 0..u64::from(client.slots().min(64)) {
                let options = CallOptions { tag: block, ..CallOptions::default() };
                let at = block * data.len() as u64;
                client
                    .submit_write(&file.handle, file.stateid, at, FILE_SYNC4, &data, options)
                    .expect("room");
                submitted += 1;
            }
            client.flush().expect("the server is there");
        }
        assert!(submitted > 128, "{submitted} calls are not enough to prove anything");
        let end = Instant::now() + Duration::from_secs(60);
        while server.counter("deferred") < submitted {
            assert!(Instant::now() < end, "only {} of {submitted} calls wait", server.counter("deferred"));
        }
        assert!(server.counter("disk_waiting") > 0, "all of them have a thread");
        goes_on(&mut mount(&server, "/other"));
        assert_eq!(server.counter("deferred"), submitted, "nothing that hangs was answered");
        hanging.thaw();
        for (files, file) in writers.iter_mut().zip(&opened) {
            let (client, mut done) = (files.client(), Vec::new());
            while client.outstanding() > 0 {
                client.poll(Duration::from_secs(20), &mut done).expect("it goes on");
            }
            for completion in done.drain(..) {
                let reply = completion.result.expect("every call has a reply");
                assert_eq!(write_result(&reply).expect("it was written").count, 4096);
            }
            assert!(files.read_all(file).expect("it is there").chunks(4096).all(|chunk| chunk == data));
        }
    });
}

#[test]
fn changes_of_names_on_a_file_system_that_hangs_hold_up_no_other() {
    in_own_mounts(|| {
        let folder = empty_folder();
        let mut hanging = Disk::ext4(folder.path(), "hanging", 32 << 20);
        let other = Disk::ext4(folder.path(), "other", 32 << 20);
        let server = serve(folder.path(), &hanging, &other);
        let mut clients: Vec<_> = (0..6).map(|_| mount(&server, "/hanging")).collect();
        let mut others: Vec<_> = (0..4).map(|_| mount(&server, "/other")).collect();
        let (directory, _) = clients[0].client().lookup_path("/hanging").expect("it is exported");
        hanging.freeze();
        for (number, files) in clients.iter_mut().enumerate() {
            let mut compound = files.client().compound();
            let mode = AttributeValues { mode: Some(0o755), ..AttributeValues::default() };
            let attributes = fattr4(&SETTABLE, &mode);
            compound.putfh(&directory).create(
                Createtype4::NF4DIR,
                format!("folder{number}").as_bytes(),
                attributes,
            );
            files.client().submit(compound).expect("room");
            files.client().flush().expect("the server is there");
        }
        let end = Instant::now() + Duration::from_secs(60);
        while server.counter("deferred") < clients.len() as u64 {
            assert!(Instant::now() < end, "only {} calls wait", server.counter("deferred"));
        }
        others.iter_mut().for_each(goes_on);
        assert!(server.counter("relieved") > 0, "no change began on a shard");
        assert_eq!(server.counter("deferred"), clients.len() as u64, "nothing that hangs was answered");
        hanging.thaw();
        for files in &mut clients {
            let mut done = Vec::new();
            while files.client().outstanding() > 0 {
                files.client().poll(Duration::from_secs(20), &mut done).expect("it goes on");
            }
            for completion in done.drain(..) {
                completion.result.expect("every call has a reply").check().expect("it was made");
            }
        }
    });
}
