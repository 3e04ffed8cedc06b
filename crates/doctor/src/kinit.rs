//! Tickets for the checks: fetched by MIT's programs into private caches.

use std::path::Path;
use std::process::Command;

use crate::ccache::{CacheContent, TicketTimes, file_of};
use crate::facts::{Facts, Tickets};
use crate::tool::{ToolResult, reason, run};

/// Time for a program that may try several KDCs, as a multiple of the limit of a step.
const TRIES: u32 = 3;

/// The reason why there is no ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoTicket {
    /// MIT's programs are not installed.
    NoTools,
    /// No answer within the limit.
    Late,
    /// The client or server of the request is not in the KDC's database.
    Unknown,
    /// The key is not the one that the KDC has.
    WrongKey,
    /// Client, KDC and service share no encryption type.
    Enctype,
    /// No KDC of the realm of the service is known or answers.
    NoKdc(String),
    /// The clocks of KDC and client differ too much.
    Skew,
    /// Another reason, in the words of the program.
    Other(String),
}

impl NoTicket {
    /// Classifies the message of a program.
    fn of(text: &str) -> Self {
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if has(&["not found in Kerberos database"]) {
            Self::Unknown
        } else if has(&["Preauthentication failed", "Password incorrect", "Decrypt integrity"]) {
            Self::WrongKey
        } else if has(&[
            "encryption type",
            "FINDING_SERVER_KEY",
            "no suitable keys",
            "Key table entry not found",
        ]) {
            Self::Enctype
        } else if has(&["Cannot find KDC", "Cannot contact any KDC", "Cannot resolve"]) {
            Self::NoKdc(reason(text))
        } else if has(&["Clock skew"]) {
            Self::Skew
        } else {
            Self::Other(reason(text))
        }
    }
}

/// Gets a ticket-granting ticket with a key of a keytab.
pub(crate) fn with_keytab(facts: &Facts, keytab: &Path, principal: &str) -> Result<Tickets, NoTicket> {
    let cache = format!("FILE:{}", facts.folder.path().join("machine.ccache").display());
    let mut command = Command::new("kinit");
    command.arg("-k").arg("-t").arg(keytab).args(["-c", &cache, principal]);
    match run(&mut command, facts.machine.limit * TRIES) {
        ToolResult::Done(_) => Ok(Tickets { cache, principal: principal.to_owned() }),
        ToolResult::Missing => Err(NoTicket::NoTools),
        ToolResult::Late => Err(NoTicket::Late),
        ToolResult::Failed(text) => Err(NoTicket::of(&text)),
    }
}

/// Gets a ticket for a service into the cache of `tickets`, and returns it. `more` are arguments of
/// kvno, the service last.
pub(crate) fn service(facts: &Facts, tickets: &Tickets, more: &[&str]) -> Result<TicketTimes, NoTicket> {
    let mut command = Command::new("kvno");
    match run(command.args(["-q", "-c", &tickets.cache]).args(more), facts.machine.limit * TRIES) {
        ToolResult::Missing => return Err(NoTicket::NoTools),
        ToolResult::Late => return Err(NoTicket::Late),
        ToolResult::Failed(text) => return Err(NoTicket::of(&text)),
        ToolResult::Done(_) => {}
    }
    let host = more.last().copied().unwrap_or_default();
    let content = file_of(&tickets.cache).and_then(|path| CacheContent::read(&path).ok());
    let tickets = content.map(|content| content.tickets).unwrap_or_default();
    let fits = |ticket: &&TicketTimes| {
        ticket.server.starts_with(host) || ticket.server.contains(&format!("/{host}@"))
    };
    let found = tickets.iter().rfind(fits).or(tickets.last());
    found.cloned().ok_or_else(|| NoTicket::Other("kvno left no ticket in the cache".to_owned()))
}
