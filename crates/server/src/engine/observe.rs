//! Observation of single operations, for the audit log and for traces. While nobody observes, a
//! COMPOUND pays for the look at one flag; while all observers want other callers, for one question
//! more.

use super::refusals::OWNER_BYTES_MAX;
use super::{Call, Compound, Fh, Nfs};
use nfs4::attributes::{KNOWN, Purpose, decode_fattr4, name};
use nfs4::{
    Createhow4, FATTR4_MODE, FATTR4_MODE_UMASK, FATTR4_OWNER, FATTR4_OWNER_GROUP, FATTR4_SIZE, Fattr4,
    NfsArgop4, NfsOpnum4, Nfsstat4, OpenClaim4, Openflag4, Stateid4,
};
use state::StateidKind;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use xdr::{Decode, Decoder, Encoder};

/// An operation that has run.
#[derive(Debug)]
pub struct ObservedOperation<'a> {
    /// The address and port of the client.
    pub peer: SocketAddr,
    /// The caller: `alice@REALM` or `sys:1000`.
    pub principal: &'a str,
    /// The name of the flavor: `krb5p`.
    pub flavor: &'static str,
    /// The operation's name: `READ`.
    pub operation: &'static str,
    /// The status's name: `NFS4_OK`.
    pub status: &'static str,
    /// The pseudo path of the current filehandle's export, before the operation.
    pub export: Option<&'a str>,
    /// The backend's handle of the current filehandle, before the operation.
    pub handle: Option<&'a [u8]>,
    /// The backend's handle of the current filehandle, after the operation.
    pub after: Option<&'a [u8]>,
    /// The backend's handle of the saved filehandle, if the operation takes something from there:
    /// the folder of RENAME, the object of LINK, the file of COPY and CLONE.
    pub from: Option<&'a [u8]>,
    /// The pseudo path of the export that `from` is in.
    pub from_export: Option<&'a str>,
    /// The names in the arguments.
    pub names: Vec<&'a [u8]>,
    /// Numbers in the arguments, such as offset and length, and the attributes that are set; never
    /// data.
    pub detail: String,
    /// Its kind, unless it only looks or uses an open.
    pub deed: Option<Deed>,
    /// Whether it fails for want of permission or security.
    pub is_denied: bool,
    /// Whether it succeeds, or has changed something before it failed.
    pub has_effect: bool,
    /// The observer's time before the operation, or after it if the observer wants no reads.
    pub began: Duration,
}

/// A kind of operation that gets access or uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// An open of a file, by its name or by its filehandle.
    Open,
    /// A change of a file or a name other than by writing data.
    Change,
    /// A read or write of data by a special stateid, without an open (RFC 8881 section 8.2.3).
    Access,
}

/// A caller that was refused before or beside an operation.
#[derive(Debug)]
pub struct ObservedRefusal<'a> {
    /// The address and port of the client.
    pub peer: SocketAddr,
    /// The caller, if it is known.
    pub principal: Option<&'a str>,
    /// The flavor's name, if the call has one.
    pub flavor: Option<&'static str>,
    /// The pseudo path of the export, or `any`.
    pub export: Option<&'a str>,
    /// The rule of the export, or the auth_stat or the fault of a token.
    pub reason: &'a str,
}

/// The operations of a COMPOUND that an observer wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedOperations {
    /// Operations with a [`Deed`], and those that fail for want of permission.
    DeedsAndDenials,
    /// All operations, reads and writes included.
    All,
}

/// Sees operations and refusals while it is switched on.
pub trait Observer: Send + Sync {
    /// Returns the current time by its own clock.
    fn now(&self) -> Duration;

    /// Returns the operations that it wants to see of a caller's COMPOUND, if any; the arguments
    /// are as in [`ObservedOperation`].
    fn wants(&self, peer: SocketAddr, principal: &str) -> Option<WantedOperations>;

    /// Sees an operation that has run. It must not wait.
    fn operation(&self, observed: &ObservedOperation<'_>);

    /// Sees a refusal. It must not wait.
    fn refusal(&self, observed: &ObservedRefusal<'_>);
}

/// The observer of a server, and whether it is switched on.
#[derive(Default)]
pub(crate) struct Observation {
    is_on: AtomicBool,
    observer: OnceLock<Box<dyn Observer>>,
}

impl Observation {
    /// Returns the observer while it is switched on.
    pub(crate) fn get(&self) -> Option<&dyn Observer> {
        if self.is_on.load(Relaxed) { self.observer.get().map(|observer| &**observer) } else { None }
    }
}

impl Nfs {
    /// Sets the observer, once. It is switched off at first.
    pub fn connect_observer(&self, observer: Box<dyn Observer>) {
        let _ = self.observation.observer.set(observer);
    }

    /// Switches the observer on or off, for COMPOUNDs that begin from now on.
    pub fn set_observed(&self, is_on: bool) {
        self.observation.is_on.store(is_on, Relaxed);
    }

    /// Reports a refusal to the observer, if it is switched on.
    pub(crate) fn observe_refusal(&self, refusal: &ObservedRefusal<'_>) {
        if let Some(observer) = self.observation.get() {
            observer.refusal(refusal);
        }
    }
}

/// Returns the pseudo path of the export that an object is in.
fn export_of(fh: &Fh) -> &str {
    match fh {
        Fh::Object(object) => object.export.pseudo_path.as_str(),
        Fh::Pseudo(_) => "/",
    }
}

/// The handle of an object of an export.
fn handle_of(fh: Option<&Fh>) -> Option<&[u8]> {
    match fh {
        Some(Fh::Object(object)) => Some(object.handle.as_bytes()),
        Some(Fh::Pseudo(_)) | None => None,
    }
}

/// Returns the caller without the mark of its flavor.
pub(crate) fn principal_of(sender: &state::Principal) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(sender.0.strip_prefix(b"gss:").unwrap_or(&sender.0))
}

/// The observer of a COMPOUND.
#[derive(Clone, Copy)]
pub(crate) struct CompoundObserver<'o> {
    observer: &'o dyn Observer,
    wanted: WantedOperations,
}

/// An operation that an observer may see.
pub(crate) struct SeenOperation<'a> {
    /// Begins with the operation.
    args: Decoder<'a>,
    /// Absent if the observer wants to see it only when it is denied.
    start: Option<Box<OperationStart>>,
}

/// The conditions before an operation.
struct OperationStart {
    began: Duration,
    current: Option<Fh>,
}

impl<'c> Compound<'c> {
    /// Returns the observer of the COMPOUND, if one is switched on and wants any of it.
    pub(crate) fn observer(&self) -> Option<CompoundObserver<'c>> {
        self.nfs.observation.get().and_then(|observer| self.wanted_by(observer))
    }

    #[cold]
    fn wanted_by(&self, observer: &'c dyn Observer) -> Option<CompoundObserver<'c>> {
        let wanted = observer.wants(self.call.peer, &principal_of(&self.call.security.sender))?;
        Some(CompoundObserver { observer, wanted })
    }

    /// Notes the next operation for an observer. `args` begins with it.
    #[cold]
    pub(crate) fn observe_start<'a>(
        &self,
        observer: CompoundObserver<'_>,
        args: &Decoder<'a>,
    ) -> SeenOperation<'a> {
        let CompoundObserver { observer, wanted } = observer;
        let is_wanted = wanted == WantedOperations::All || deed(*args).is_some();
        let start = || OperationStart { began: observer.now(), current: self.progress.current.clone() };
        SeenOperation { args: *args, start: is_wanted.then(|| Box::new(start())) }
    }

    /// Reports an operation that has run to an observer, if that one wants it.
    #[cold]
    pub(crate) fn report(
        &self,
        observer: CompoundObserver<'_>,
        seen: SeenOperation<'_>,
        status: Nfsstat4,
        reply: &Encoder,
    ) {
        use Nfsstat4::{NFS4ERR_ACCESS, NFS4ERR_PERM, NFS4ERR_WRONGSEC};
        let SeenOperation { mut args, start } = seen;
        let deed = deed(args);
        let is_denied = matches!(status, NFS4ERR_ACCESS | NFS4ERR_PERM | NFS4ERR_WRONGSEC);
        if start.is_none() && !is_denied {
            return;
        }
        let observer = observer.observer;
        let result = reply.as_slice().get(self.progress.result_at..).unwrap_or_default();
        let number = Decoder::new(result).u32();
        let opnum = number.ok().and_then(NfsOpnum4::from_u32).unwrap_or(NfsOpnum4::OP_ILLEGAL);
        let after = self.progress.current.as_ref();
        // An operation that is denied has left the filehandle as it was.
        let (began, current) = match &start {
            Some(start) => (start.began, start.current.as_ref()),
            None => (observer.now(), after),
        };
        // These operations leave the saved filehandle as it was.
        let from = self.progress.saved.as_ref().filter(|_| has_source(opnum));
        let arguments = NfsArgop4::decode(&mut args).ok();
        let Call { peer, security, .. } = self.call;
        let principal = principal_of(&security.sender);
        observer.operation(&ObservedOperation {
            peer: *peer,
            principal: &principal,
            flavor: security.flavor.name(),
            operation: opnum.name().strip_prefix("OP_").unwrap_or(opnum.name()),
            status: status.name(),
            export: current.map(export_of),
            handle: handle_of(current),
            after: handle_of(after),
            from: handle_of(from),
            from_export: from.map(export_of),
            names: arguments.as_ref().map(names).unwrap_or_default(),
            detail: arguments.as_ref().map(detail).unwrap_or_default(),
            deed,
            is_denied,
            has_effect: status == Nfsstat4::NFS4_OK || has_set_some(opnum, result),
            began,
        });
    }
}

/// Returns the kind of the operation that the arguments begin with.
fn deed(mut args: Decoder<'_>) -> Option<Deed> {
    use NfsOpnum4::*;
    match args.u32().ok().and_then(NfsOpnum4::from_u32)? {
        OP_OPEN => Some(Deed::Open),
        OP_CREATE | OP_REMOVE | OP_RENAME | OP_LINK | OP_SETATTR | OP_SETXATTR | OP_REMOVEXATTR | OP_COPY
        | OP_CLONE | OP_ALLOCATE | OP_DEALLOCATE => Some(Deed::Change),
        OP_READ | OP_READ_PLUS | OP_WRITE => {
            let kind = StateidKind::of(&Stateid4::decode(&mut args).ok()?);
            matches!(kind, StateidKind::Anonymous | StateidKind::Bypass).then_some(Deed::Access)
        }
        _ => None,
    }
}

/// Returns whether a SETATTR that fails has set attributes: its result names them in that case, too
/// (RFC 8881 section 18.30.3).
fn has_set_some(opnum: NfsOpnum4, result: &[u8]) -> bool {
    let mut result = Decoder::new(result);
    let mut word = || result.u32().ok();
    let (_opnum, _status) = (word(), word());
    opnum == NfsOpnum4::OP_SETATTR && word().is_some_and(|words| words > 0)
}

/// Returns whether an operation takes something from the saved filehandle.
fn has_source(opnum: NfsOpnum4) -> bool {
    use NfsOpnum4::{OP_CLONE, OP_COPY, OP_LINK, OP_RENAME};
    matches!(opnum, OP_RENAME | OP_LINK | OP_COPY | OP_CLONE)
}

/// Returns the names in the arguments of an operation.
fn names<'a>(arguments: &'a NfsArgop4<'_>) -> Vec<&'a [u8]> {
    use NfsArgop4::*;
    match arguments {
        OP_LOOKUP(args) => vec![&args.objname],
        OP_REMOVE(args) => vec![&args.target],
        OP_RENAME(args) => vec![&args.oldname, &args.newname],
        OP_LINK(args) => vec![&args.newname],
        OP_CREATE(args) => vec![&args.objname],
        OP_SECINFO(args) => vec![&args.name],
        OP_SETXATTR(args) => vec![&args.sxa_key],
        OP_GETXATTR(args) => vec![&args.gxa_name],
        OP_REMOVEXATTR(args) => vec![&args.rxa_name],
        OP_OPEN(args) => match &args.claim {
            OpenClaim4::CLAIM_NULL(name) | OpenClaim4::CLAIM_DELEGATE_PREV(name) => vec![name],
            OpenClaim4::CLAIM_DELEGATE_CUR(claim) => vec![&claim.file],
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Returns numbers and owners in the arguments of an operation, without data.
fn detail(arguments: &NfsArgop4<'_>) -> String {
    use NfsArgop4::*;
    let range = |offset: u64, length: u64| format!("offset {offset}, {length} bytes");
    match arguments {
        OP_READ(args) => range(args.offset, args.count.into()),
        OP_READ_PLUS(args) => range(args.rpa_offset, args.rpa_count.into()),
        OP_WRITE(args) => range(args.offset, args.data.len() as u64),
        OP_COMMIT(args) => range(args.offset, args.count.into()),
        OP_LOCK(args) => format!("{:?}, {}", args.locktype, range(args.offset, args.length)),
        OP_LOCKU(args) => range(args.offset, args.length),
        OP_LOCKT(args) => format!("{:?}, {}", args.locktype, range(args.offset, args.length)),
        OP_COPY(args) => range(args.ca_src_offset, args.ca_count),
        OP_CLONE(args) => range(args.cl_src_offset, args.cl_count),
        OP_ALLOCATE(args) => range(args.aa_offset, args.aa_length),
        OP_DEALLOCATE(args) => range(args.da_offset, args.da_length),
        OP_SEEK(args) => format!("offset {}", args.sa_offset),
        OP_OPEN(args) => {
            let (access, deny) = (args.share_access & 3, args.share_deny & 3);
            format!("access {access}, deny {deny}{}", created(&args.openhow))
        }
        OP_CREATE(args) => attributes(&args.createattrs),
        OP_SETATTR(args) => attributes(&args.obj_attributes),
        OP_ACCESS(args) => format!("access {:#x}", args.access),
        OP_READDIR(args) => format!("cookie {}, {} bytes", args.cookie, args.maxcount),
        OP_SEQUENCE(args) => format!("slot {}, sequence {}", args.sa_slotid, args.sa_sequenceid),
        OP_SETXATTR(args) => format!("{} bytes", args.sxa_value.len()),
        _ => String::new(),
    }
}

/// Returns how an OPEN creates its file; nothing if it does not.
fn created(how: &Openflag4<'_>) -> String {
    let attributes = match how {
        Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(set) | Createhow4::GUARDED4(set)) => attributes(set),
        Openflag4::OPEN4_CREATE(Createhow4::EXCLUSIVE4_1(both)) => attributes(&both.cva_attrs),
        Openflag4::OPEN4_CREATE(Createhow4::EXCLUSIVE4(_)) => String::new(),
        Openflag4::Default(_) => return String::new(),
    };
    let separator = if attributes.is_empty() { "" } else { " " };
    format!(", create{separator}{attributes}")
}

/// Returns the attributes that are to be set, with size, mode and owners. Owners are quoted: a
/// client chooses them.
fn attributes(set: &Fattr4<'_>) -> String {
    let Ok(values) = decode_fattr4(set, Purpose::Set, &KNOWN) else { return String::new() };
    let owner = |kind: &str, owner: &[u8]| {
        let shown = &owner[..owner.len().min(OWNER_BYTES_MAX)];
        format!("{kind} {:?}", String::from_utf8_lossy(shown))
    };
    let known = |attribute| match attribute {
        FATTR4_SIZE => values.size.map(|size| format!("size {size}")),
        FATTR4_MODE => values.mode.map(|mode| format!("mode {mode:04o}")),
        FATTR4_MODE_UMASK => values.mode_umask.as_ref().map(|both| format!("mode {:04o}", both.mu_mode)),
        FATTR4_OWNER => values.owner.as_ref().map(|name| owner("owner", name)),
        FATTR4_OWNER_GROUP => values.owner_group.as_ref().map(|name| owner("group", name)),
        _ => None,
    };
    let named = |attribute| {
        let name = name(attribute);
        name.strip_prefix("FATTR4_").unwrap_or(name).to_lowercase()
    };
    let texts = set.attrmask.iter().map(|attribute| known(attribute).unwrap_or_else(|| named(attribute)));
    texts.collect::<Vec<_>>().join(", ")
}
