//! Directories of very many names that change while they are listed, and files of several TiB.

use client::{Client, FilePosition, OpenHow, Options, Security};
use e2e::{Disk, Serve, Server, empty_folder, in_own_mounts, is_root, status};
use nfs4::Nfsstat4::*;
use nfs4::{
    AttributeValues, Bitmap4, DataContent4, FATTR4_FILEHANDLE, FATTR4_FILEID, FATTR4_SIZE, FATTR4_TYPE,
    ReadPlusContent, Readdir4Args, StableHow4, Stateid4,
};
use nix::unistd::{Gid, Uid, chown};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A user without rights of its own.
const USER: u32 = 12345;
/// Names of one file: ext4 takes 65,000.
const LINKS: usize = 50_000;
/// Memory that a server may keep after a listing, in KiB: descriptors of files and buffers.
const RSS_GROWTH_MAX: u64 = 64 << 10;

/// Names in the directory; `cargo xtask big-directory` asks for a million.
fn entries() -> usize {
    std::env::var("ORTHRUS_ENTRIES").ok().and_then(|count| count.parse().ok()).unwrap_or(100_000)
}

fn serve(folder: &Path, export: &Path) -> (Server, Client) {
    let server = Serve::new(folder.join("state")).args(["--sec", "sys"]).arg(export).start();
    let user = if is_root() {
        (USER, USER)
    } else {
        (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw())
    };
    let mut options = Options::new("127.0.0.1", Security::sys_as(user.0, user.1)).port(server.port());
    options.minor_version = 2;
    let client = Client::connect(options).expect("the server speaks 4.2");
    (server, client)
}

/// Gives a folder to the user.
fn give(path: &Path) {
    if is_root() {
        chown(path, Some(Uid::from_raw(USER)), Some(Gid::from_raw(USER))).expect("root may");
    }
}

/// Makes many names of a few files: faster than files, and equivalent for a listing.
fn fill(folder: &Path, prefix: &str, count: usize) {
    let mut source = folder.to_owned();
    for number in 0..count {
        let name = folder.join(format!("{prefix}-{number}"));
        if number % LINKS == 0 {
            fs::write(&name, b"").expect("there is room");
            source = name;
        } else {
            fs::hard_link(&source, &name).expect("there is room");
        }
    }
}

/// Lists the folder in pieces while a local process and the client itself add and remove names.
/// Each name that stays must come once, with a cookie of its own.
fn list_while_it_changes(client: &mut Client, folder: &Path, count: usize, wanted: Bitmap4, turn: &str) {
    let (handle, _) = client.lookup_path("/export/many").expect("it is there");
    let stop = AtomicBool::new(false);
    let (mut seen, mut cookies) = (vec![false; count], HashSet::with_capacity(count));
    let mut arguments = Readdir4Args {
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 16 << 10,
        maxcount: 64 << 10,
        attr_request: wanted,
    };
    let begin = Instant::now();
    let pieces = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                let _ = fs::remove_file(folder.join(format!("go-{turn}-{number}")));
                fs::write(folder.join(format!("come-{turn}-{number}")), b"").expect("there is room");
                number += 1;
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        });
        let mut pieces = 0;
        loop {
            let (entries, verifier, end) =
                client.readdir_piece(&handle, arguments).expect("it can be listed");
            for entry in &entries {
                assert!(entry.cookie > 2, "RFC 8881 section 18.23.3: 0, 1 and 2 are reserved");
                assert!(cookies.insert(entry.cookie), "a cookie came twice");
                let name = std::str::from_utf8(&entry.name).expect("text");
                let Some(number) = name.strip_prefix("stay-") else { continue };
                let number: usize = number.parse().expect("a number");
                assert!(!std::mem::replace(&mut seen[number], true), "{name} came twice");
            }
            if end {
                break;
            }
            let last = entries.last().expect("a piece has an entry or is the last");
            if pieces > 0 {
                assert_eq!(verifier, arguments.cookieverf, "the verifier stays, or no listing would end");
            }
            arguments = Readdir4Args { cookie: last.cookie, cookieverf: verifier, ..arguments };
            pieces += 1;
            // The client changes the folder as well: its own changes must not disturb its own
            // listing.
            let name = format!("own-{turn}-{pieces}");
            let made =
                client.open(&handle, name.as_bytes(), &OpenHow::create_new(0o600)).expect("a new name");
            client.close_file(&made).expect("it is open");
            if pieces % 2 == 0 {
                client.remove(&handle, name.as_bytes()).expect("it is there");
            }
        }
        stop.store(true, Ordering::Relaxed);
        pieces
    });
    let missing = seen.iter().position(|seen| !seen);
    assert_eq!(missing, None, "it stayed and was not listed");
    println!(
        "{count} names that stay, {} listed in {pieces} pieces, {turn}: {:.1?}",
        cookies.len(),
        begin.elapsed()
    );
}

fn listed_once(export: &Path, folder: &Path) {
    let (count, many) = (entries(), export.join("many"));
    fs::create_dir(&many).expect("a new name");
    give(&many);
    let begin = Instant::now();
    fill(&many, "stay", count);
    let turns = [
        ("names", Bitmap4::of(&[FATTR4_FILEID])),
        ("attributes", Bitmap4::of(&[FATTR4_TYPE, FATTR4_SIZE, FATTR4_FILEHANDLE, FATTR4_FILEID])),
    ];
    for (turn, _) in &turns {
        fill(&many, &format!("go-{turn}"), count / 10);
    }
    println!("made in {:.1?}", begin.elapsed());
    let (server, mut client) = serve(folder, export);
    let before = server.rss_kib();
    for (turn, wanted) in turns {
        list_while_it_changes(&mut client, &many, count, wanted, turn);
    }
    let growth = server.rss_kib().saturating_sub(before);
    println!("the server has grown by {growth} KiB");
    assert!(growth < RSS_GROWTH_MAX, "{growth} KiB");
}

#[test]
fn entries_that_stay_in_a_changing_large_directory_are_listed_once() {
    // RFC 8881 section 18.23.3
    let folder = empty_folder();
    let export = folder.path().join("export");
    fs::create_dir(&export).expect("the folder is ours");
    listed_once(&export, folder.path());
}

#[test]
fn entries_that_stay_in_a_changing_large_directory_of_tmpfs_are_listed_once() {
    // RFC 8881 section 18.23.3; the cookies of tmpfs are counted up, and the cookies of ext4 are
    // hashes of the names.
    in_own_mounts(|| {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut numbers = release.split('.').map(|part| part.parse().unwrap_or(0_u32));
        if (numbers.next(), numbers.next()) < (Some(6), Some(6)) {
            return println!("skipped: before Linux 6.6 the cookies of tmpfs move when entries go");
        }
        let folder = empty_folder();
        let disk = Disk::tmpfs(folder.path(), "export", 2 << 30);
        listed_once(disk.path(), folder.path());
    });
}

const TEBI: u64 = 1 << 40;

/// Writes at several places of a sparse file, of which the last is its end, and finds them all
/// again.
fn sparse(client: &mut Client, path: &Path, places: &[u64]) {
    let root = client.lookup_path("/export").expect("it is exported").0;
    let file = client.open(&root, b"sparse", &OpenHow::create_new(0o600)).expect("a new name");
    let at = |offset| FilePosition { handle: &file.handle, stateid: file.stateid, offset };
    let size = |client: &mut Client| {
        let attributes = client.getattr(&file.handle, Bitmap4::of(&[FATTR4_SIZE])).expect("it is there");
        attributes.values().expect("a size").size
    };
    for place in places {
        let data = place.to_be_bytes();
        let written = client.write(&file.handle, file.stateid, *place, StableHow4::FILE_SYNC4, &data);
        assert_eq!(written.expect("there is room").count, 8, "at {place}");
        assert_eq!(size(client), Some(place + 8));
    }
    let end = places.last().expect("there are some") + 8;
    for place in places {
        let (data, eof) = client.read(&file.handle, file.stateid, *place, 8).expect("it is there");
        assert_eq!((data, eof), (place.to_be_bytes().to_vec(), place + 8 == end));
        // From the hole before it, if there is one, to the data; the file system says where its
        // block begins.
        let found =
            client.seek(at(place.saturating_sub(1 << 30)), DataContent4::NFS4_CONTENT_DATA).expect("data");
        assert!(
            !found.sr_eof && found.sr_offset <= *place && found.sr_offset + (2 << 20) > *place,
            "{found:?}"
        );
        let read = client.read_plus(at(*place), 8).expect("data");
        let [ReadPlusContent::NFS4_CONTENT_DATA(data)] = &read.rpr_contents[..] else { panic!("{read:?}") };
        assert_eq!((data.d_offset, &data.d_data[..]), (*place, &place.to_be_bytes()[..]));
    }
    assert_eq!(client.read(&file.handle, file.stateid, end, 8).expect("the end"), (Vec::new(), true));
    assert_eq!(status(client.seek(at(end), DataContent4::NFS4_CONTENT_DATA)), NFS4ERR_NXIO);
    let hole = client.seek(at(places[1] + (1 << 30)), DataContent4::NFS4_CONTENT_HOLE).expect("a hole");
    assert_eq!(hole.sr_offset, places[1] + (1 << 30));
    let read = client.read_plus(at(places[1] + (1 << 30)), 1 << 16).expect("a hole");
    assert!(matches!(&read.rpr_contents[0], ReadPlusContent::NFS4_CONTENT_HOLE(_)), "{read:?}");
    let disk = fs::metadata(path.join("sparse")).expect("it is there");
    assert_eq!(disk.len(), end);
    assert!(disk.blocks() * 512 < 16 << 20, "{} blocks", disk.blocks());
    let cut = AttributeValues { size: Some(places[1] + 4), ..AttributeValues::default() };
    client.setattr(&file.handle, file.stateid, &cut).expect("it is open for writing");
    assert_eq!(size(client), Some(places[1] + 4));
    client.close_file(&file).expect("it is open");
    client.remove(&root, b"sparse").expect("it is there");
}

/// Places that no file has: nothing is written there, and reading finds the end.
fn nowhere(client: &mut Client) {
    let root = client.lookup_path("/export").expect("it is exported").0;
    let file = client.open(&root, b"small", &OpenHow::create_new(0o600)).expect("a new name");
    for offset in [i64::MAX as u64, 1 << 63, u64::MAX - 8, u64::MAX] {
        let written = client.write(&file.handle, file.stateid, offset, StableHow4::UNSTABLE4, b"12345678");
        let refused = status(written);
        assert!(matches!(refused, NFS4ERR_FBIG | NFS4ERR_INVAL), "{refused:?} at {offset}");
        assert_eq!(client.read(&file.handle, file.stateid, offset, 8).expect("the end"), (Vec::new(), true));
    }
    let long = AttributeValues { size: Some(1 << 63), ..AttributeValues::default() };
    assert_eq!(status(client.setattr(&file.handle, Stateid4::ANONYMOUS, &long)), NFS4ERR_FBIG);
    let attributes = client.getattr(&file.handle, Bitmap4::of(&[FATTR4_SIZE])).expect("it is there");
    assert_eq!(attributes.values().expect("a size").size, Some(0));
    client.close_file(&file).expect("it is open");
}

#[test]
fn files_of_several_tebibytes_are_what_was_written_at_their_ends() {
    // RFC 8881 sections 18.22.3 and 18.32.3, RFC 7862 sections 15.10 and 15.11: offsets of 64 bits
    let folder = empty_folder();
    let export = folder.path().join("export");
    fs::create_dir(&export).expect("the folder is ours");
    give(&export);
    let (_server, mut client) = serve(folder.path(), &export);
    sparse(&mut client, &export, &[0, (1 << 32) - 3, 3 * TEBI, 7 * TEBI + 5]);
    nowhere(&mut client);
}

#[test]
fn files_reach_to_the_last_offset_that_linux_has() {
    in_own_mounts(|| {
        let folder = empty_folder();
        // tmpfs has no limit of its own.
        let disk = Disk::tmpfs(folder.path(), "export", 64 << 20);
        let (_server, mut client) = serve(folder.path(), disk.path());
        // Linux 6.18 does not find data in the very last page of a file as long as can be, so the
        // last of these lies before it.
        sparse(&mut client, disk.path(), &[0, (1 << 32) - 3, 1 << 62, i64::MAX as u64 - (8 << 10)]);
        let root = client.lookup_path("/export").expect("it is exported").0;
        let file = client.open(&root, b"last", &OpenHow::create_new(0o600)).expect("a new name");
        let last = i64::MAX as u64 - 8;
        client
            .write(&file.handle, file.stateid, last, StableHow4::FILE_SYNC4, b"the last")
            .expect("there is room");
        let read = client.read(&file.handle, file.stateid, last, 16).expect("it is there");
        assert_eq!(read, (b"the last".to_vec(), true));
        client.close_file(&file).expect("it is open");
        client.remove(&root, b"last").expect("it is there");
        nowhere(&mut client);
    });
}
