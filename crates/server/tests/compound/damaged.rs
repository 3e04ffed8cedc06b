//! Damaged COMPOUNDs and forged filehandles against folders of this machine, from a fixed seed.
//! Nothing outside of the export and nothing of other users changes, and other clients are served.

use crate::helper::*;
use crate::local::{Folder, folder};
use crate::small_disk::SmallDisk;
use nfs4::Nfsstat4::*;
use nfs4::*;
use nix::unistd::chown;
use rng::SplitMix64;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use vfs_local::become_server;
use xdr::{Encode, Encoder};

/// The content of files that the attacker must not read.
const SECRET: &[u8] = b"for nobody but bob";

const COMPOUNDS: usize = 6000;
/// The size of the disk in bytes, which the corpus may fill.
const DISK: u64 = 4 << 20;

/// Draws of arguments that may be damaged.
trait DrawArguments {
    fn of<T: Clone>(&mut self, values: &[T]) -> T;
    /// Returns an edge case or any number.
    fn number(&mut self) -> u64;
    fn word(&mut self) -> u32;
}

impl DrawArguments for SplitMix64 {
    fn of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.index(values.len())].clone()
    }

    fn number(&mut self) -> u64 {
        let anywhere = self.draw();
        let small = anywhere % 9000;
        self.of(&[0, 1, 4096, 1 << 62, i64::MAX as u64, 1 << 63, u64::MAX - 4, u64::MAX, small, anywhere])
    }

    fn word(&mut self) -> u32 {
        let anywhere = self.draw() as u32;
        self.of(&[0, 1, 2, 1 << 31, u32::MAX, anywhere % 64, anywhere])
    }
}

/// Filehandles and a stateid for the operations of a corpus.
struct AttackState {
    directory: Vec<u8>,
    file: Vec<u8>,
    fifo: Vec<u8>,
    open: Stateid4,
    theirs: Theirs,
}

/// Filehandles of another user's directory and file: a filehandle alone is no permission.
#[derive(Clone)]
struct Theirs {
    directory: Vec<u8>,
    file: Vec<u8>,
}

/// Opens a new file, since damaged COMPOUNDs may have closed, locked or renamed the last one.
fn hold(client: &mut Client<'_>, theirs: &Theirs, random: &mut SplitMix64) -> AttackState {
    let reply = client.at("export", vec![getfh(), open_create(&format!("f{:x}", random.draw()), 3), getfh()]);
    let reply = reply.ok();
    let (directory, file, open) = (reply.fh(0), reply.fh(1), reply.opened().stateid);
    client.at("export", vec![create_fifo("fifo")]);
    let fifo = client.at("export", vec![lookup("fifo"), getfh()]);
    let fifo = if fifo.status == NFS4_OK { fifo.fh(0) } else { directory.clone() };
    AttackState { directory, file, fifo, open, theirs: theirs.clone() }
}

fn create_fifo(name: &str) -> Op {
    create(Createtype4::NF4FIFO, name, mode(0o666))
}

const NAMES: [&str; 14] = [
    "a",
    "b",
    "c",
    "e",
    "fifo",
    "link",
    "d",
    "bobs",
    "..",
    ".",
    "",
    "a/b",
    "../outside/secret",
    "link/secret",
];

fn name(random: &mut SplitMix64) -> &'static str {
    random.of(&NAMES)
}

fn attributes_of(random: &mut SplitMix64) -> Fattr4<'static> {
    let mut values = AttributeValues::default();
    match random.index(5) {
        0 => values.size = Some(random.number()),
        1 => values.mode = Some(random.word() & 0o7777),
        2 => {
            values.owner = Some(bytes(random.of(&[&b"1001"[..], b"0", b"x@y", b"", b"4294967295", b"\xff"])))
        }
        3 => {
            let who = |random: &mut SplitMix64| {
                bytes(random.of(&[&b"OWNER@"[..], b"EVERYONE@", b"GROUP@", b"root@x", b"5", b""]))
            };
            let ace = |random: &mut SplitMix64| Nfsace4 {
                r#type: random.word() % 5,
                flag: random.word() & 0xff,
                access_mask: random.word(),
                who: who(random),
            };
            values.acl = Some((0..random.index(5)).map(|_| ace(random)).collect());
        }
        _ => {}
    }
    fattr(values)
}

fn opening(random: &mut SplitMix64, held: &AttackState) -> Op {
    let attributes = attributes_of(random);
    let verifier = random.draw().to_be_bytes();
    let exclusive = Creatverfattr { cva_verf: verifier, cva_attrs: attributes.clone() };
    let how = random.of(&[
        NOCREATE,
        Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(attributes.clone())),
        Openflag4::OPEN4_CREATE(Createhow4::GUARDED4(attributes)),
        Openflag4::OPEN4_CREATE(Createhow4::EXCLUSIVE4(verifier)),
        Openflag4::OPEN4_CREATE(Createhow4::EXCLUSIVE4_1(exclusive)),
    ]);
    let (named, anything) = (name(random), random.word());
    let claim = random.of(&[
        by_name(named),
        by_name(named),
        OpenClaim4::CLAIM_FH,
        OpenClaim4::CLAIM_PREVIOUS(OpenDelegationType4::OPEN_DELEGATE_WRITE),
        OpenClaim4::CLAIM_DELEG_CUR_FH(held.open),
    ]);
    let access = random.of(&[1, 2, 3, 3, anything]);
    open_how(how, claim, access, random.of(&[0, 0, 1, 3, anything]), b"owner")
}

/// Returns any operation, mostly with valid arguments.
fn operation(random: &mut SplitMix64, held: &AttackState) -> Op {
    let stateid = random.of(&[held.open, Stateid4::ANONYMOUS, Stateid4::READ_BYPASS, Stateid4::CURRENT]);
    let both = (stateid, held.open);
    let content = random.of(&[DataContent4::NFS4_CONTENT_DATA, DataContent4::NFS4_CONTENT_HOLE]);
    let (at, count) = (random.number(), random.number());
    match random.index(36) {
        0..=2 => opening(random, held),
        3 => read(stateid, at, random.word()),
        4 => {
            let length = random.index(300);
            write(stateid, at, &random.bytes(length))
        }
        5 => setattr(stateid, attributes_of(random)),
        6 => {
            lock_new(random.of(&[NfsLockType4::READ_LT, NfsLockType4::WRITEW_LT]), at, count, held.open, b"l")
        }
        7 => lockt(NfsLockType4::WRITE_LT, at, count, b"other"),
        8 => locku(held.open, at, count),
        9 => {
            let (dircount, maxcount) = (random.word(), random.word() % 70_000);
            let cookieverf = *b"orthrus1";
            let bits: Vec<u32> = (0..80).step_by(1 + random.index(9)).collect();
            let attr_request = Bitmap4::of(&bits);
            NfsArgop4::OP_READDIR(Readdir4Args { cookie: at, cookieverf, dircount, maxcount, attr_request })
        }
        10 => rename(name(random), name(random)),
        11 => remove(random.of(&["a", "b", "d", "link", "bobs"])),
        12 => create(Createtype4::NF4DIR, name(random), attributes_of(random)),
        13 => {
            let target = random.of(&["../outside", "/etc", "a", ""]);
            create(Createtype4::NF4LNK(bytes(target.as_bytes())), "link", attributes_of(random))
        }
        14 => {
            let device = Specdata4 { specdata1: 1, specdata2: 1 };
            let kind = random.of(&[Createtype4::NF4CHR(device), Createtype4::NF4FIFO, Createtype4::NF4SOCK]);
            create(kind, name(random), attributes_of(random))
        }
        15 => link(name(random)),
        16 => allocate(stateid, at, count),
        17 => deallocate(stateid, at, count),
        18 => seek(stateid, at, content),
        19 => read_plus(stateid, at, random.word()),
        20 => copy(both, at, random.number(), count % (1 << 20)),
        21 => clone(both, at, random.number(), count),
        22 => {
            let length = random.index(99);
            set_xattr(SetxattrOption4::SETXATTR4_EITHER, name(random).as_bytes(), &random.bytes(length))
        }
        23 => list_xattrs(at, random.word()),
        24 => get_xattr(name(random).as_bytes()),
        25 => remove_xattr(name(random).as_bytes()),
        26 => NfsArgop4::OP_COMMIT(Commit4Args { offset: at, count: random.word() }),
        27 => {
            // time_access_set and time_modify_set cannot be read.
            let readable = (0..83).filter(|bit| ![48, 54].contains(bit));
            let bits: Vec<u32> = readable.step_by(1 + random.index(3)).collect();
            getattr(&bits)
        }
        28 => NfsArgop4::OP_LOOKUPP,
        29 => lookup(name(random)),
        30 => NfsArgop4::OP_READLINK,
        31 => NfsArgop4::OP_SECINFO(Secinfo4Args { name: bytes(name(random).as_bytes()) }),
        32 => close(random.of(&[held.open, Stateid4 { seqid: count as u32, ..held.open }])),
        33 => NfsArgop4::OP_RESTOREFH,
        34 => savefh(),
        _ => NfsArgop4::OP_FREE_STATEID(FreeStateid4Args { fsa_stateid: held.open }),
    }
}

/// Returns whether an operation takes a name in the current directory, or lists it.
fn is_of_directories(op: &Op) -> bool {
    use NfsArgop4::*;
    match op {
        OP_OPEN(args) => matches!(args.claim, OpenClaim4::CLAIM_NULL(_)),
        OP_CREATE(_) | OP_LOOKUP(_) | OP_LOOKUPP | OP_REMOVE(_) | OP_RENAME(_) | OP_LINK(_) => true,
        OP_READDIR(_) | OP_SECINFO(_) => true,
        _ => false,
    }
}

/// Returns operations that set the saved and the current filehandle, and one to three further ones.
fn corpus(random: &mut SplitMix64, held: &AttackState) -> (Vec<Op>, Vec<Op>) {
    let count = 1 + random.index(3);
    let ops: Vec<Op> = (0..count).map(|_| operation(random, held)).collect();
    let any =
        random.of(&[&held.directory, &held.file, &held.fifo, &held.theirs.directory, &held.theirs.file]);
    let (fitting, theirs) = match is_of_directories(&ops[0]) {
        true => (&held.directory, &held.theirs.directory),
        false => (&held.file, &held.theirs.file),
    };
    let saved = if matches!(ops[0], NfsArgop4::OP_RENAME(_)) { &held.directory } else { &held.file };
    let current = random.of(&[fitting, fitting, fitting, fitting, theirs, any]);
    (vec![put(saved), savefh(), put(current)], ops)
}

/// Damages encoded operations: flips bits, and changes, removes, inserts or exchanges words.
fn damage(random: &mut SplitMix64, body: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..=random.index(3) {
        let at = random.index(body.len() / 4) * 4;
        let words = 4 * (1 + random.index(4));
        match random.index(7) {
            0 => {
                let byte = random.index(body.len());
                body[byte] ^= 1 << random.index(8);
            }
            1 => body[at..at + 4].copy_from_slice(&random.word().to_be_bytes()),
            2 => drop(body.drain(at..(at + words).min(body.len()))),
            3 => drop(body.splice(at..at, random.bytes(words))),
            // A length or a number next to its edge.
            4 => {
                let word = u32::from_be_bytes(body[at..at + 4].try_into().unwrap());
                body[at..at + 4].copy_from_slice(&word.wrapping_add(random.of(&[1, u32::MAX])).to_be_bytes());
            }
            5 => body.truncate(at),
            _ => {
                let from = random.index(other.len() / 4) * 4;
                body.truncate(at);
                body.extend_from_slice(&other[from..]);
            }
        }
        if body.len() < 4 {
            body.resize(4, 0);
        }
    }
}

fn encoded(ops: &[Op]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    ops.iter().for_each(|op| op.encode(&mut encoder));
    encoder.into_vec()
}

/// Encodes COMPOUND4args with operations that are encoded already.
fn compound(minor: u32, count: usize, sequence: Option<&Op>, body: &[u8]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.opaque(b"tag").u32(minor).u32(u32::try_from(count).unwrap());
    sequence.inspect(|op| op.encode(&mut encoder));
    encoder.raw(body);
    encoder.into_vec()
}

/// Describes a folder outside of the export, and a file of another user inside.
fn untouchable(place: &Path) -> impl PartialEq + std::fmt::Debug + use<> {
    become_server();
    let look = |name: &str| {
        let found = fs::metadata(place.join(name)).unwrap();
        (found.ino(), found.mode(), found.uid(), found.gid(), found.mtime_nsec(), found.size())
    };
    let names: Vec<_> =
        fs::read_dir(place.join("outside")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let of = ["outside", "outside/secret", "export/private", "export/private/bobs"].map(look);
    (
        names,
        of,
        fs::read(place.join("outside/secret")).unwrap(),
        fs::read(place.join("export/private/bobs")).unwrap(),
    )
}

/// Makes a file outside of the export, and a directory with a file that only Bob may use.
fn make_bobs_files(place: &Path) {
    fs::create_dir(place.join("export").join("private")).unwrap();
    for file in ["outside/secret", "export/private/bobs"] {
        fs::write(place.join(file), SECRET).unwrap();
        fs::set_permissions(place.join(file), Permissions::from_mode(0o600)).unwrap();
        chown(&place.join(file), Some(BOB.into()), Some(BOB.into())).unwrap();
    }
    chown(&place.join("export").join("private"), Some(BOB.into()), Some(BOB.into())).unwrap();
    // Sticky: only Bob may remove or rename his entry.
    fs::set_permissions(place.join("export"), Permissions::from_mode(0o1777)).unwrap();
}

#[test]
fn thousands_of_damaged_compounds_change_nothing_that_is_not_the_callers() // RFC 8881 section 15.2
{
    let Some(disk) = SmallDisk::mount(DISK) else { return };
    let (export, own) = (disk.path().join("export"), Folder::new());
    make_bobs_files(disk.path());
    let before = untouchable(disk.path());
    let server = Setup::with_exports(vec![folder("/export", &export), folder("/own", own.path())]).start();
    let mut random = SplitMix64(0x636f_6d70_6f75_6e64);
    let mut honest = Client::with(&server, b"honest", sys(BOB), FORE);
    let directory = honest.fh_of("export/private");
    let theirs = Theirs { directory, file: honest.fh_of("export/private/bobs") };
    let (mut sent, mut succeeded) = (0, 0);
    let mut names = 0..;
    'clients: loop {
        let name = format!("attacker {}", names.next().unwrap());
        let mut client = Client::with(&server, name.as_bytes(), sys(ALICE), FORE);
        // Operations of 4.2 are illegal in 4.1.
        client.minor = random.of(&[1, 2, 2, 2, 2]);
        let mut held = hold(&mut client, &theirs, &mut random);
        for _ in 0..300 {
            let (way, ops) = corpus(&mut random, &held);
            // Undamaged, with damaged operations, or with damaged filehandles as well.
            let (mut body, mut rest) = (encoded(&way), encoded(&ops));
            let mut count = way.len() + ops.len();
            let how = random.index(8);
            if how >= 3 {
                let other = encoded(&corpus(&mut random, &held).1);
                if how == 7 {
                    rest = [std::mem::take(&mut body), rest].concat();
                }
                damage(&mut random, &mut rest, &other);
                let any = random.index(200);
                count = random.of(&[count, count, count, count, count, count + 1, any]);
            }
            body.extend(rest);
            let reply = if random.index(8) == 0 {
                server.call_bytes(&client.security, 1, client.now, &compound(0, count, None, &body))
            } else {
                let sequence = client.next_sequence();
                let args = compound(client.minor, count + 1, Some(&sequence), &body);
                let reply = server.call_bytes(&client.security, 1, client.now, &args);
                let first = reply.results.first();
                if !matches!(first, Some(NfsResop4::OP_SEQUENCE(Sequence4Res::NFS4_OK(_)))) {
                    client.sequence -= 1;
                }
                reply
            };
            assert!(!reply.bytes.windows(SECRET.len()).any(|part| part == SECRET), "{:?}", reply.results);
            // Neither is a substitute for a status missing in a list.
            assert!(!matches!(reply.status, NFS4ERR_SERVERFAULT | NFS4ERR_IO), "{:?}", reply.results);
            sent += 1;
            // The operations behind SEQUENCE, PUTFH, SAVEFH and PUTFH.
            let failed = usize::from(reply.status != NFS4_OK);
            succeeded += reply.results.len().saturating_sub(4 + failed);
            if sent == COMPOUNDS {
                break 'clients;
            }
            // Its open is gone, or the file is.
            if matches!(reply.status, NFS4ERR_BAD_STATEID | NFS4ERR_STALE) && random.index(4) == 0 {
                held = hold(&mut client, &theirs, &mut random);
            }
        }
        assert!(untouchable(disk.path()) == before, "{before:?} became {:?}", untouchable(disk.path()));
        honest.make_file("own", &name, b"honest");
        let session = NfsArgop4::OP_DESTROY_SESSION(DestroySession4Args { dsa_sessionid: client.session });
        server.call(&client.security, 1, client.now, 1, &[session]).ok();
    }
    assert!(untouchable(disk.path()) == before, "{before:?} became {:?}", untouchable(disk.path()));
    assert!(succeeded > COMPOUNDS / 10, "{succeeded} operations of {sent} COMPOUNDs did something");
}

#[test]
fn forged_filehandles_lead_nowhere() // RFC 8881 section 4.2.2
{
    let place = Folder::new();
    let (one, two) = (place.make("one"), place.make("two"));
    let server = Setup::with_exports(vec![folder("/one", &one), folder("/two", &two)]).start();
    let mut client = Client::new(&server);
    let paths = ["", "one", "one/f", "two", "two/f"];
    client.make_file("one", "f", b"one");
    client.make_file("two", "f", b"two");
    let genuine = paths.map(|path| client.fh_of(path));
    let mut forged: Vec<Vec<u8>> = Vec::new();
    for fh in &genuine {
        for bit in 0..fh.len() * 8 {
            let mut near = fh.clone();
            near[bit / 8] ^= 1 << (bit % 8);
            forged.push(near);
        }
        // Every prefix of it, and the whole with trailing bytes.
        for length in 0..fh.len() {
            forged.push(fh[..length].to_vec());
            forged.push(fh[fh.len() - length..].to_vec());
        }
        for more in 1..=(NFS4_FHSIZE as usize).saturating_sub(fh.len()) {
            forged.push([&fh[..], &vec![0; more]].concat());
        }
        // The beginning of one and the end of another, cut at every offset: export, object, check.
        for other in &genuine {
            for at in 0..=fh.len().min(other.len()) {
                forged.push([&fh[..at], &other[at..]].concat());
                forged.push([&other[..at], &fh[at..]].concat());
            }
        }
    }
    let mut random = SplitMix64(0x6669_6c65_6861_6e64);
    forged.extend((0..2000).map(|index| random.bytes(index % (NFS4_FHSIZE as usize + 1))));
    // Random bytes behind the genuine beginning, which need not be guessed.
    for index in 0..500 {
        let (fh, at) = (&genuine[index % genuine.len()], 1 + index % 16);
        let at = at.min(fh.len());
        forged.push([&fh[..at], &random.bytes(fh.len() - at)].concat());
    }
    forged.retain(|forged| !genuine.contains(forged));
    assert!(forged.len() > 4000, "{} forgeries", forged.len());
    for fh in &forged {
        client.run(vec![put(fh), getattr(&[FATTR4_FILEID])]).expect(NFS4ERR_BADHANDLE);
    }
    for (fh, path) in genuine.iter().zip(paths) {
        assert_eq!(client.run(vec![put(fh), getfh()]).ok().fh(0), *fh, "{path}");
    }
}

/// Makes a node of device 1:1 (`/dev/mem`, a memory disk) as the server's administrator can.
fn make_device(path: &Path, kind: &str) -> bool {
    use nix::sys::stat::{Mode, SFlag, makedev, mknod};
    become_server();
    let flag = if kind == "chr" { SFlag::S_IFCHR } else { SFlag::S_IFBLK };
    let made = mknod(path, flag, Mode::from_bits_truncate(0o666), makedev(1, 1));
    if let Err(error) = made {
        eprintln!("skipped: device nodes: {error}");
        return false;
    }
    fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap();
    true
}

#[test]
fn special_files_are_neither_opened_nor_waited_for() // RFC 8881 section 18.16.3: NFS4ERR_WRONG_TYPE
{
    let place = Folder::new();
    let server = Setup::with_exports(vec![folder("/export", place.path())]).start();
    let mut client = Client::new(&server);
    client.minor = 2;
    let regular = client.make_file("export", "f", b"data");
    let mut kinds = vec![("fifo", Createtype4::NF4FIFO), ("socket", Createtype4::NF4SOCK)];
    for (name, kind) in kinds.clone() {
        client.at("export", vec![create(kind, name, mode(0o666))]).ok();
    }
    let device = || Specdata4 { specdata1: 1, specdata2: 1 };
    for (name, kind) in [("chr", Createtype4::NF4CHR(device())), ("blk", Createtype4::NF4BLK(device()))] {
        // Users cannot make one (mknod(2): CAP_MKNOD), and one made by root is of no use to them.
        client.at("export", vec![create(kind.clone(), name, mode(0o666))]).expect(NFS4ERR_PERM);
        if make_device(&place.join(name), name) {
            kinds.push((name, kind));
        }
    }
    let size = || fattr(AttributeValues { size: Some(0), ..Default::default() });
    let anonymous = Stateid4::ANONYMOUS;
    for (name, _) in kinds {
        let fh = client.fh_of(&format!("export/{name}"));
        for access in 1..=3 {
            client.at("export", vec![open(name, access)]).expect(NFS4ERR_WRONG_TYPE);
            let by_handle = open_how(NOCREATE, OpenClaim4::CLAIM_FH, access, 0, b"owner");
            client.run(vec![put(&fh), by_handle]).expect(NFS4ERR_WRONG_TYPE);
            client.at("export", vec![open_create(name, access)]).expect(NFS4ERR_WRONG_TYPE);
        }
        let seek_data = seek(anonymous, 0, DataContent4::NFS4_CONTENT_DATA);
        for op in [
            read(anonymous, 0, 16),
            write(anonymous, 0, b"x"),
            setattr(anonymous, size()),
            allocate(anonymous, 0, 1),
            deallocate(anonymous, 0, 1),
            read_plus(anonymous, 0, 16),
            seek_data,
            NfsArgop4::OP_COMMIT(Commit4Args { offset: 0, count: 0 }),
            NfsArgop4::OP_READLINK,
            lookup("x"),
            set_xattr(SetxattrOption4::SETXATTR4_EITHER, b"x", b"y"),
        ] {
            let what = format!("{op:?} of {name}");
            let reply = client.run(vec![put(&fh), op]);
            assert_ne!(reply.status, NFS4_OK, "{what}");
        }
        // As either side of COPY and CLONE.
        for (from, to) in [(&fh, &regular), (&regular, &fh)] {
            for op in [copy((anonymous, anonymous), 0, 0, 4), clone((anonymous, anonymous), 0, 0, 0)] {
                let reply = client.run(vec![put(from), savefh(), put(to), op]);
                assert_ne!(reply.status, NFS4_OK, "from or to {name}");
            }
        }
        client.run(vec![put(&fh), getattr(&[FATTR4_TYPE])]).ok();
    }
    let reply = client.run(vec![put(&regular), read(anonymous, 0, 16)]).ok();
    assert_eq!(data(reply.last()), (b"data".to_vec(), true));
}
