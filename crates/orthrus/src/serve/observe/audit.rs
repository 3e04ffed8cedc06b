//! The audit log: opens, changes, refusals and what administrators do, one JSON object a line.
//!
//! A thread writes the lines. Requests only queue them: a full disk or a reader that hangs costs
//! lines, which are counted, and no request waits. Requests without effect have a share of the
//! queue and of the file (`refusals`), so they cannot make lines about effects disappear.

use super::named;
use super::refusals::{QueuedRefusals, RefusalShares};
use crate::config::{AuditTarget, Settings};
use crate::journal::{JournalSocket, entry};
use crate::logging::timestamp;
use anyhow::{Context, bail};
use nix::unistd::{AccessFlags, access};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde_json::{Map, Value, json};
use server::engine::{Deed, ObservedOperation, ObservedRefusal, hex};
use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use terminal::escape_json;

/// Number of lines that wait for the audit log's file; further ones are dropped and counted.
const AUDIT_LINES_MAX: usize = 8192;
/// How long the end of the process waits for the lines of the audit log.
const AUDIT_FLUSH_TIME_MAX: Duration = Duration::from_secs(1);
/// How often the log says that the audit log drops lines.
const AUDIT_REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// How often the server looks for dropped lines.
const AUDIT_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The status of an operation that a rule about flavors refuses.
const WRONG_FLAVOR: &str = "NFS4ERR_WRONGSEC";

/// The folder that `LogsDirectory=` of the unit names.
const LOGS_DIRECTORY: &str = "/var/log/orthrus";

/// Lines that were dropped.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Returns the number of lines of the audit log that were dropped.
pub(in crate::serve) fn dropped_lines() -> u64 {
    DROPPED.load(Relaxed)
}

enum AuditMessage {
    Line(AuditLine),
    /// Answers when the lines before it are written.
    Flush(SyncSender<()>),
}

/// A line that waits.
struct AuditLine {
    fields: Map<String, Value>,
    /// The client whose request had no effect: such lines have a share of the log.
    refused: Option<IpAddr>,
}

/// The queue of the audit log, and its file's state.
#[derive(Clone)]
pub(in crate::serve) struct AuditLog {
    queue: SyncSender<AuditMessage>,
    refusals: Arc<QueuedRefusals>,
    /// Whether the file must be opened again before the next line.
    reopen: Arc<AtomicBool>,
}

impl AuditLog {
    /// Opens the log and starts its thread; `None` if the settings want none.
    ///
    /// # Errors
    /// The file cannot be opened, or there is no journal.
    pub(in crate::serve) fn start(settings: &Settings) -> anyhow::Result<Option<Self>> {
        let Some(target) = &settings.audit else { return Ok(None) };
        let sink = AuditSink::open(target, settings.audit_size_max)?;
        let (queue, messages) = sync_channel(AUDIT_LINES_MAX);
        let reopen = Arc::new(AtomicBool::new(false));
        let drops = Arc::new(DropReport::default());
        let refusals = Arc::new(QueuedRefusals::default());
        let mut writer = AuditWriter {
            sink,
            reopen: reopen.clone(),
            reopening_fails: false,
            drops: drops.clone(),
            refusals: refusals.clone(),
            shares: RefusalShares::new(settings.audit_size_max),
            began: Instant::now(),
        };
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        thread("audit").spawn(move || writer.run(&messages))?;
        thread("audit-drops").spawn(move || drops.run())?;
        Ok(Some(Self { queue, refusals, reopen }))
    }

    /// Tries the steps of [`AuditLog::start`], and makes no file. Returns a note if its folder is
    /// the one that systemd makes before a start.
    ///
    /// # Errors
    /// As for the start.
    pub(in crate::serve) fn examine(settings: &Settings) -> anyhow::Result<Option<String>> {
        match &settings.audit {
            Some(AuditTarget::File(path)) if path.symlink_metadata().is_err() => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = folder.unwrap_or(Path::new("."));
                if folder == Path::new(LOGS_DIRECTORY) && !folder.exists() {
                    return Ok(Some(format!(
                        "audit: {LOGS_DIRECTORY} is missing; the unit makes it when it starts the server"
                    )));
                }
                access(folder, AccessFlags::W_OK | AccessFlags::X_OK)
                    .map(|()| None)
                    .with_context(|| unwritable(path))
            }
            Some(target) => AuditSink::open(target, settings.audit_size_max).map(|_| None),
            None => Ok(None),
        }
    }

    /// Opens the file again before the next line: another program may have renamed it.
    pub(in crate::serve) fn reopen(&self) {
        self.reopen.store(true, Relaxed);
    }

    /// Waits until the lines are written, at most [`AUDIT_FLUSH_TIME_MAX`].
    pub(in crate::serve) fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.queue.try_send(AuditMessage::Flush(done)).is_ok() {
            let _ = written.recv_timeout(AUDIT_FLUSH_TIME_MAX);
        }
    }

    /// Logs what an administrator has done.
    pub(in crate::serve) fn admin(&self, author: &str, action: &str, result: &str) {
        let line = json!({"event": "admin", "author": author, "action": action, "result": result});
        self.add(line, None);
    }

    pub(super) fn operation(&self, observed: &ObservedOperation<'_>) {
        // A trace may want more operations.
        let event = match observed.deed {
            Some(Deed::Open) => "open",
            Some(Deed::Change) => "change",
            Some(Deed::Access) => "access",
            // The rule that refused has a line already.
            None if observed.is_denied && observed.status != WRONG_FLAVOR => "refusal",
            None => return,
        };
        let refused = (!observed.has_effect).then(|| observed.peer.ip());
        if refused.is_some() && !self.refusals.enter() {
            return;
        }
        let names: Vec<_> = observed.names.iter().map(|name| named(name)).collect();
        let line = json!({
            "event": event,
            "client": observed.peer.to_string(),
            "principal": observed.principal,
            "flavor": observed.flavor,
            "operation": observed.operation,
            "export": observed.export,
            "handle": observed.handle.map(hex),
            "from": observed.from.map(hex),
            "from_export": observed.from_export.filter(|from| Some(*from) != observed.export),
            "names": names,
            "object": observed.after.filter(|after| Some(*after) != observed.handle).map(hex),
            "detail": observed.detail,
            "result": observed.status,
        });
        self.add(line, refused);
    }

    pub(super) fn refusal(&self, observed: &ObservedRefusal<'_>) {
        if !self.refusals.enter() {
            return;
        }
        let line = json!({
            "event": "refusal",
            "client": observed.peer.to_string(),
            "principal": observed.principal,
            "flavor": observed.flavor,
            "export": observed.export,
            "result": observed.reason,
        });
        self.add(line, Some(observed.peer.ip()));
    }

    /// Queues a line, without the fields that are unknown. A refusal has entered the queue's share
    /// of refusals before.
    fn add(&self, line: Value, refused: Option<IpAddr>) {
        let Value::Object(fields) = line else { return };
        let is_known = |value: &Value| match value {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(values) => !values.is_empty(),
            _ => true,
        };
        let known = fields.into_iter().filter(|(_, value)| is_known(value));
        let fields = [("time".to_owned(), timestamp().into())].into_iter().chain(known).collect();
        if self.queue.try_send(AuditMessage::Line(AuditLine { fields, refused })).is_err() {
            if refused.is_some() {
                self.refusals.leave();
            }
            DROPPED.fetch_add(1, Relaxed);
        }
    }
}

/// The report of dropped lines in the log. A thread of its own makes it, since the thread that
/// writes lines may hang, and later requests that could make it may not come.
#[derive(Default)]
struct DropReport {
    /// Why the last line could not be written, since the last report.
    fault: Mutex<Option<String>>,
}

impl DropReport {
    /// Counts a line that could not be written.
    fn failed(&self, error: &io::Error) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
        DROPPED.fetch_add(1, Relaxed);
    }

    /// Logs dropped lines for ever, at once and then at most every [`AUDIT_REPORT_INTERVAL`].
    fn run(&self) {
        let mut reported = 0;
        loop {
            let lines = dropped_lines() - reported;
            if lines == 0 {
                std::thread::sleep(AUDIT_LOOK_INTERVAL);
                continue;
            }
            reported += lines;
            let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner).take();
            let why = fault.unwrap_or_else(|| "it is written too slowly".to_owned());
            tracing::error!(lines, "lines of the audit log were dropped: {why}");
            std::thread::sleep(AUDIT_REPORT_INTERVAL);
        }
    }
}

/// The thread that writes lines.
struct AuditWriter {
    sink: AuditSink,
    reopen: Arc<AtomicBool>,
    /// Whether the last attempt to open the file again has failed.
    reopening_fails: bool,
    drops: Arc<DropReport>,
    refusals: Arc<QueuedRefusals>,
    shares: RefusalShares,
    began: Instant,
}

impl AuditWriter {
    fn run(&mut self, messages: &Receiver<AuditMessage>) {
        for message in messages {
            match message {
                AuditMessage::Line(line) => self.write(line),
                AuditMessage::Flush(done) => drop(done.try_send(())),
            }
        }
    }

    fn write(&mut self, AuditLine { mut fields, refused }: AuditLine) {
        if let Some(peer) = refused {
            self.refusals.leave();
            let Some(suppressed) = self.shares.admit(peer, self.began.elapsed()) else { return };
            if suppressed > 0 {
                fields.insert("suppressed".to_owned(), suppressed.into());
            }
        }
        // Administrators read the file with grep in a terminal.
        let text = escape_json(&serde_json::to_string(&fields).unwrap_or_default());
        if let Some(peer) = refused {
            self.shares.charge(peer, text.len());
        }
        if self.reopen.swap(false, Relaxed) {
            self.reopen();
        }
        if let Err(error) = self.sink.write(&fields, text) {
            self.drops.failed(&error);
        }
    }

    /// Opens the file again. While that fails, lines go to the former file, and each one tries
    /// again.
    fn reopen(&mut self) {
        let reopened = self.sink.reopen();
        self.reopen.fetch_or(reopened.is_err(), Relaxed);
        let failed_before = std::mem::replace(&mut self.reopening_fails, reopened.is_err());
        match reopened {
            Err(error) if !failed_before => {
                tracing::error!("the audit log stays in its former file, and tries again: {error}");
            }
            Ok(()) if failed_before => tracing::info!("the audit log has its new file"),
            _ => {}
        }
    }
}

/// Where the lines go.
enum AuditSink {
    File(AuditFile),
    Journal(JournalSocket),
}

impl AuditSink {
    fn open(target: &AuditTarget, size_max: u64) -> anyhow::Result<Self> {
        match target {
            AuditTarget::Journal => {
                JournalSocket::open().map(Self::Journal).context("audit: there is no journal")
            }
            AuditTarget::File(path) => {
                AuditFile::open(path, size_max).map(Self::File).with_context(|| unwritable(path))
            }
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.reopen(),
            Self::Journal(_) => Ok(()),
        }
    }

    /// Writes a line; `text` is the JSON of the fields.
    fn write(&mut self, fields: &Map<String, Value>, text: String) -> io::Result<()> {
        match self {
            Self::File(file) => file.write((text + "\n").as_bytes()),
            Self::Journal(journal) => {
                let texts: Vec<_> = fields
                    .iter()
                    .map(|(name, value)| {
                        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                        (format!("ORTHRUS_{}", name.to_uppercase()), text)
                    })
                    .collect();
                let own =
                    [("SYSLOG_IDENTIFIER", "orthrus-audit"), ("PRIORITY", "6"), ("MESSAGE", text.as_str())];
                let fields = texts.iter().map(|(name, text)| (name.as_str(), text.as_str()));
                journal.send(&entry(own.into_iter().chain(fields)))
            }
        }
    }
}

/// The file of lines.
struct AuditFile {
    path: PathBuf,
    file: File,
    /// Whether it has a size, unlike a pipe.
    is_regular: bool,
    size: u64,
    size_max: u64,
    /// Whether the file ends within a line.
    is_torn: bool,
}

impl AuditFile {
    fn open(path: &Path, size_max: u64) -> anyhow::Result<Self> {
        let (file, is_regular, size) = open(path)?;
        Ok(Self { path: path.to_owned(), file, is_regular, size, size_max, is_torn: false })
    }

    fn reopen(&mut self) -> io::Result<()> {
        let (file, is_regular, size) = open(&self.path).map_err(io::Error::other)?;
        (self.file, self.is_regular, self.size, self.is_torn) = (file, is_regular, size, false);
        Ok(())
    }

    /// Appends a line; a file that it would make too large becomes `FILE.1` before.
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.is_regular && self.size > 0 && self.size + line.len() as u64 > self.size_max {
            // Both processes of an upgrade have the file open, and one may have made room already.
            if self.is_at_its_path() {
                let mut older = self.path.clone().into_os_string();
                older.push(".1");
                std::fs::rename(&self.path, older)?;
            }
            self.reopen()?;
        }
        if self.is_torn {
            self.append(b"\n")?;
            self.is_torn = false;
        }
        self.append(line)
    }

    fn is_at_its_path(&self) -> bool {
        let number = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let there = std::fs::symlink_metadata(&self.path).map(number).ok();
        there.is_some() && there == self.file.metadata().map(number).ok()
    }

    fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.size += written as u64;
                    bytes = &bytes[written..];
                    self.is_torn = !bytes.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn unwritable(path: &Path) -> String {
    format!("audit: {} cannot be written", path.display())
}

/// Opens a file to append to it, and returns whether it is a regular one and how large. A new file
/// is private.
fn open(path: &Path) -> anyhow::Result<(File, bool, u64)> {
    // A pipe without a reader fails at once.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = File::options().append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    let kind = metadata.file_type();
    if !(kind.is_file() || kind.is_fifo() || kind.is_char_device()) {
        bail!("it is neither a file nor a pipe");
    }
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok((file, kind.is_file(), metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_would_be_too_large_makes_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        let mut file = AuditFile::open(&path, 10).unwrap();
        for line in ["one\n", "two\n", "three\n", "a line beyond the size\n", "four\n"] {
            file.write(line.as_bytes()).unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!((read("audit.1"), read("audit")), ("a line beyond the size\n".into(), "four\n".into()));
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        file.reopen().unwrap();
        file.write(b"five\n").unwrap();
        assert_eq!((read("moved"), read("audit")), ("four\n".into(), "five\n".into()));
        assert!(AuditFile::open(folder.path(), 10).is_err());
    }

    #[test]
    fn a_file_that_cannot_be_opened_again_is_tried_again_with_every_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let audit = Some(AuditTarget::File(path("audit")));
        let log = AuditLog::start(&Settings { audit, ..Settings::default() }).unwrap().unwrap();
        let write = |action: &str| {
            log.admin("root", action, "");
            log.flush();
        };
        std::fs::rename(path("audit"), path("moved")).unwrap();
        std::fs::create_dir(path("audit")).unwrap();
        log.reopen();
        write("first");
        write("second");
        std::fs::remove_dir(path("audit")).unwrap();
        write("third");
        let read = |name: &str| std::fs::read_to_string(path(name)).unwrap();
        assert!(read("moved").contains("first") && read("moved").contains("second"));
        assert!(read("audit").contains("third") && !read("moved").contains("third"));
    }

    #[test]
    fn two_processes_make_room_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        let [mut former, mut next] = [(); 2].map(|()| AuditFile::open(&path, 10).unwrap());
        next.write(b"one\n").unwrap();
        for line in ["two\n", "three\n", "four\n"] {
            former.write(line.as_bytes()).unwrap();
        }
        next.write(b"a long line\n").unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(
            (read("audit.1"), read("audit")),
            ("one\ntwo\nthree\n".into(), "four\na long line\n".into())
        );
    }

    #[test]
    fn a_torn_line_ends_before_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        let mut file = AuditFile::open(&path, 1 << 20).unwrap();
        file.append(b"torn").unwrap();
        file.is_torn = true;
        file.write(b"whole\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "torn\nwhole\n");
    }
}
