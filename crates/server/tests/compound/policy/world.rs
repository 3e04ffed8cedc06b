//! A server with an export that is closed to some, and two callers: one admitted and one excluded.

use crate::helper::*;
use nfs4::*;
use std::net::SocketAddr;
use std::ops::{ControlFlow, Index};
use std::sync::Arc;
use vfs::{
    Backend, Caller, Export, ExportTable, MemoryBackend, ObjectHandle, OpenAccess, SecFlavor, Timestamp,
};
use xdr::{Encode, Encoder};

/// Data that no reply to an excluded caller may hold, besides the size of the file.
const SECRETS: [&[u8]; 5] =
    [b"SECRET-CONTENT", b"secret-name", b"secret-target", b"secret-key", b"secret-value"];
/// The size of the file in bytes. No other number in a reply resembles it.
pub(super) const SIZE: u64 = 84_523;

/// The rule that excludes the weak caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The export accepts all flavors but this.
    Flavor(SecFlavor),
    /// The export is for another network.
    Address,
    /// The export requires a privileged port.
    Port,
}

/// An object of each export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File,
    Victim,
    Link,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Directory, Self::File, Self::Victim, Self::Link];
}

/// A filehandle of each kind.
#[derive(Clone)]
pub(super) struct Handles([Vec<u8>; 4]);

impl Index<Kind> for Handles {
    type Output = Vec<u8>;

    fn index(&self, kind: Kind) -> &Vec<u8> {
        &self.0[kind as usize]
    }
}

/// The server and its exports.
pub(super) struct PolicySite {
    server: Server,
    backend: Arc<MemoryBackend>,
    read_only: bool,
}

enum PolicySession<'s> {
    Later(Box<Client<'s>>),
    Old(Box<Client40<'s>>),
}

impl PolicySession<'_> {
    fn run(&mut self, ops: &[Op], raw: Option<&[u8]>, behind: &[Op]) -> Reply {
        let mut all = ops.to_vec();
        let (server, security, connection, now, minor) = match self {
            Self::Later(client) => {
                all.insert(0, client.next_sequence());
                (client.server, &client.security, client.connection, client.now, client.minor)
            }
            Self::Old(client) => (client.server, &client.security, client.connection, client.now.get(), 0),
        };
        let count = all.len() + usize::from(raw.is_some()) + behind.len();
        let mut args = Encoder::new();
        args.opaque(b"tag").u32(minor).u32(count as u32);
        all.iter().for_each(|op| op.encode(&mut args));
        let mut args = args.into_vec();
        args.extend_from_slice(raw.unwrap_or_default());
        let mut rest = Encoder::new();
        behind.iter().for_each(|op| op.encode(&mut rest));
        args.extend(rest.into_vec());
        server.call_bytes(security, connection, now, &args)
    }
}

/// The two callers of a server, and the filehandles that they use.
pub(super) struct World<'s> {
    pub rule: Rule,
    pub minor: u32,
    /// The number of results before the test's operations: SEQUENCE's.
    pub offset: usize,
    pub closed: Handles,
    pub open: Handles,
    /// The strong caller's open of the file of the closed export.
    pub open_stateid: Stateid4,
    pub lock_stateid: Stateid4,
    site: &'s PolicySite,
    strong: PolicySession<'s>,
    weak: PolicySession<'s>,
}

const INSIDE: ([u8; 4], u16) = ([198, 51, 100, 7], 700);
const OUTSIDE: ([u8; 4], u16) = ([192, 0, 2, 1], 700);
const HIGH: ([u8; 4], u16) = ([198, 51, 100, 7], 1024);

impl<'s> World<'s> {
    /// Starts a server with the exports /closed and /open.
    pub(super) fn server(rule: Rule) -> PolicySite {
        let backend = filled(b"SECRET-CONTENT", "secret");
        let closed = all_flavors(Export::new("/closed", backend.clone()).unwrap());
        let closed = match rule {
            Rule::Flavor(flavor) => {
                let others = SecFlavor::ALL.into_iter().filter(|other| *other != flavor);
                let flavors: Vec<_> = others.collect();
                for_flavors(closed, &flavors)
            }
            Rule::Address => for_network(closed, "198.51.100.0/24"),
            Rule::Port => for_flavors(closed, &[SecFlavor::Sys]),
        };
        Self::start(closed, backend, false)
    }

    /// Starts such a server whose export is read-only and admits every caller.
    pub(super) fn read_only_server() -> PolicySite {
        let backend = filled(b"SECRET-CONTENT", "secret");
        let closed = all_flavors(Export::new("/closed", backend.clone()).unwrap());
        Self::start(on_terms(closed, |rule| rule.read_only = true), backend, true)
    }

    fn start(closed: Export, backend: Arc<MemoryBackend>, read_only: bool) -> PolicySite {
        let open = export("/open", &filled(b"plain", "plain"));
        PolicySite { server: Setup::with_exports(vec![closed, open]).start(), backend, read_only }
    }

    pub(super) fn new(site: &'s PolicySite, rule: Rule, minor: u32) -> Self {
        let at = |(address, port): ([u8; 4], u16)| {
            *site.server.peer.lock().unwrap() = SocketAddr::from((address, port));
        };
        at(INSIDE);
        let (strong, weak) = match rule {
            Rule::Flavor(SecFlavor::Krb5p) => (SecFlavor::Krb5i, SecFlavor::Krb5p),
            Rule::Flavor(flavor) => (SecFlavor::Krb5p, flavor),
            Rule::Address => (SecFlavor::Krb5p, SecFlavor::Krb5p),
            Rule::Port => (SecFlavor::Sys, SecFlavor::Sys),
        };
        let security = |flavor| match flavor {
            SecFlavor::Sys => sys(ALICE),
            flavor => krb5(flavor, "alice", ALICE),
        };
        let session = |name: &[u8], flavor| match minor {
            0 => PolicySession::Old(Box::new(Client40::with(&site.server, name, security(flavor), [1; 8]))),
            _ => {
                let mut client = Client::with(&site.server, name, security(flavor), FORE);
                client.minor = minor;
                PolicySession::Later(Box::new(client))
            }
        };
        let mut strong = session(b"strong", strong);
        let closed = handles(&mut strong, "closed", "secret");
        let open = handles(&mut strong, "open", "plain");
        let (open_stateid, lock_stateid) = opened(&mut strong, &closed, site.read_only);
        at(if rule == Rule::Address { OUTSIDE } else { INSIDE });
        let weak = session(b"weak", weak);
        let offset = usize::from(minor > 0);
        Self { rule, minor, offset, closed, open, open_stateid, lock_stateid, site, strong, weak }
    }

    /// Returns the admitted client of NFSv4.0.
    pub(super) fn old(&self) -> &Client40<'s> {
        match &self.strong {
            PolicySession::Old(client) => client,
            PolicySession::Later(_) => panic!("only NFSv4.0 has such"),
        }
    }

    /// Replaces the closed export by a referral.
    pub(super) fn move_closed(&self) {
        let locations = vec!["elsewhere.example.org:/closed".parse().unwrap()];
        let closed = all_flavors(Export::referral("/closed", locations).unwrap());
        let exports = vec![closed, export("/open", &filled(b"plain", "plain"))];
        self.site.server.exports.replace(ExportTable::new(exports, Timestamp::default()).unwrap());
    }

    pub(super) fn run_strong(&mut self, before: &[Op], op: &[u8]) -> Reply {
        *self.site.server.peer.lock().unwrap() = INSIDE.into();
        self.strong.run(before, Some(op), &[])
    }

    pub(super) fn run_weak(&mut self, before: &[Op], op: Option<&[u8]>, behind: &[Op]) -> Reply {
        let peer = match self.rule {
            Rule::Flavor(_) => INSIDE,
            Rule::Address => OUTSIDE,
            Rule::Port => HIGH,
        };
        *self.site.server.peer.lock().unwrap() = peer.into();
        self.weak.run(before, op, behind)
    }

    #[track_caller]
    pub(super) fn check_leak(&self, reply: &Reply, what: &str) {
        let holds = |secret: &[u8]| reply.bytes.windows(secret.len()).any(|window| window == secret);
        let told = SECRETS.into_iter().find(|secret| holds(secret)).map(String::from_utf8_lossy);
        assert!(told.is_none(), "{what} tells {told:?}: {:?}", reply.results);
        assert!(!holds(&SIZE.to_be_bytes()), "{what} tells the size: {:?}", reply.results);
    }

    /// Describes all state of the closed export that a modification would change, read directly
    /// from the backend.
    pub(super) fn snapshot(&self) -> Vec<String> {
        let (backend, root) = (&self.site.backend, Caller::root());
        let mut all = Vec::new();
        let mut waiting = vec![(String::new(), backend.root())];
        while let Some((path, object)) = waiting.pop() {
            let mut attributes = backend.getattr(&object).unwrap();
            attributes.atime = Timestamp::default();
            let names = backend.list_xattrs(&root, &object);
            all.push(format!("{path}: {attributes:?} {names:?}"));
            let mut entries = Vec::new();
            let listed = backend.readdir(&root, &object, 0, &mut |entry| {
                entries.push(entry.name.to_vec());
                ControlFlow::Continue(())
            });
            for name in entries.iter().filter(|_| listed.is_ok()) {
                let child = backend.lookup(&root, &object, name).unwrap();
                waiting.push((format!("{path}/{}", String::from_utf8_lossy(name)), child));
            }
        }
        all.sort();
        all
    }
}

/// Makes a directory with a file, a file to be changed and a symbolic link, all of Alice's.
fn filled(content: &[u8], name: &str) -> Arc<MemoryBackend> {
    let backend = memory();
    let alice = Caller { uid: ALICE, gid: ALICE, groups: [].into() };
    let writable = |mode| vfs::SetAttributes { mode: Some(mode), ..Default::default() };
    let directory =
        backend.create(&alice, &backend.root(), b"d", vfs::NewObject::Directory, &writable(0o777)).unwrap();
    let make = |file: String| -> ObjectHandle {
        let access = OpenAccess { read: true, write: true };
        let made = backend.create_file(&alice, &directory, file.as_bytes(), access, &writable(0o666));
        let (handle, file) = made.unwrap();
        file.write_at(content, 0).unwrap();
        handle
    };
    let file = make(format!("{name}-name"));
    make(format!("{name}-victim"));
    let size = vfs::SetAttributes { size: Some(SIZE), ..Default::default() };
    if name == "secret" {
        backend.setattr(&alice, &file, &size).unwrap();
    }
    let (key, value) = (format!("{name}-key"), format!("{name}-value"));
    backend.set_xattr(&alice, &file, key.as_bytes(), value.as_bytes(), vfs::XattrHow::Either).unwrap();
    let target = format!("{name}-target");
    let link = vfs::NewObject::Symlink(target.as_bytes());
    backend.create(&alice, &directory, format!("{name}-link").as_bytes(), link, &writable(0o777)).unwrap();
    backend
}

/// Returns the filehandles of an export's objects.
fn handles(session: &mut PolicySession<'_>, export: &str, name: &str) -> Handles {
    let mut fh = |path: &[&str]| {
        let mut ops = vec![put_root(), lookup(export), lookup("d")];
        ops.extend(path.iter().map(|name| lookup(name)));
        ops.push(getfh());
        session.run(&ops, None, &[]).ok().fh(0)
    };
    let named = |what: &str| format!("{name}-{what}");
    Handles([fh(&[]), fh(&[&named("name")]), fh(&[&named("victim")]), fh(&[&named("link")])])
}

/// Opens the file of the closed export, and locks its first byte.
fn opened(session: &mut PolicySession<'_>, closed: &Handles, read_only: bool) -> (Stateid4, Stateid4) {
    let access = if read_only { OPEN4_SHARE_ACCESS_READ } else { OPEN4_SHARE_ACCESS_BOTH };
    let claim = || by_name("secret-name");
    let op = match session {
        PolicySession::Old(client) => client.open_op(NOCREATE, claim(), access, 0),
        PolicySession::Later(_) => open_how(NOCREATE, claim(), access, 0, b"owner"),
    };
    let reply = session.run(&[put(&closed[Kind::Directory]), op], None, &[]).ok();
    let mut open = reply.opened().stateid;
    if reply.opened().rflags & OPEN4_RESULT_CONFIRM != 0 {
        let PolicySession::Old(client) = session else { panic!("only NFSv4.0 confirms") };
        let confirm = client.confirm_op(open);
        open = session.run(&[put(&closed[Kind::File]), confirm], None, &[]).ok().stateid();
    }
    if read_only {
        return (open, Stateid4::ANONYMOUS);
    }
    let lock = match session {
        PolicySession::Old(client) => client.first_lock_op(open, 0, 1),
        PolicySession::Later(_) => lock_new(NfsLockType4::WRITE_LT, 0, 1, open, b"locker"),
    };
    let reply = session.run(&[put(&closed[Kind::File]), lock], None, &[]).ok();
    (open, locked(&reply))
}
