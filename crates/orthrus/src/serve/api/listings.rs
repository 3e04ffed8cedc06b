//! Listings of the state of the server.

use super::problem::Answer;
use super::{Api, ApiParts};
use crate::api::{
    Backchannel, ClientRow, ContextRow, DelegationRow, ExportRow, ListingQuery, ListingReport, LockRow,
    OpenRow, Problem, SessionRow,
};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::Serialize;
use server::engine::{ListedFile, hex};
use server::rpcsec::Context;
use state::{
    CallbackSecurity, DelegationMode, Listed, ListedBackchannel, ListedClient, ListedDelegation,
    ListedHolder, ListedLock, ListedOpen, ListedSession, LockMode, Principal, Protection,
};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use vfs::{Export, ExportRule, ExportTable, RuleClient, SecFlavor};

/// Most rows of a listing.
const LISTED_MAX: usize = 20_000;

type ListingFilter = Result<Query<ListingQuery>, QueryRejection>;

/// Defines the handler of a listing: its rows come from a function of the same name in `rows`.
macro_rules! listing {
    ($(#[$doc:meta])* $name:ident, $path:literal, $row:ty) => {
        $(#[$doc])*
        #[utoipa::path(
            get,
            path = $path,
            params(ListingQuery),
            responses((status = 200, body = ListingReport<$row>), (status = "default", body = Problem))
        )]
        pub(super) async fn $name(State(api): State<Api>, filter: ListingFilter) -> Answer<ListingReport<$row>> {
            let Query(query) = filter?;
            api.answer(move |parts| Ok(rows::$name(parts, &Filter::new(query)))).await
        }
    };
}

listing!(
    /// The exports as they are in force: a row for each network with flavors of its own.
    exports, "/v1/exports", ExportRow
);
listing!(
    /// The clients that the server knows.
    clients, "/v1/clients", ClientRow
);
listing!(
    /// The sessions of NFSv4.1 and NFSv4.2 clients.
    sessions, "/v1/sessions", SessionRow
);
listing!(
    /// The Kerberos contexts of users and machines.
    contexts, "/v1/contexts", ContextRow
);
listing!(
    /// The files that clients have open.
    opens, "/v1/opens", OpenRow
);
listing!(
    /// The byte ranges that clients have locked.
    locks, "/v1/locks", LockRow
);
listing!(
    /// The delegations that clients have.
    delegations, "/v1/delegations", DelegationRow
);

/// The texts that a row must have.
struct Filter {
    /// A part of any field.
    part: Option<String>,
    /// The whole of one of some fields.
    wholes: Vec<(&'static [&'static str], String)>,
}

/// The fields that name the client of a row.
const OF_CLIENT: &[&str] = &["address", "client", "id"];
/// The fields that name the principal of a row.
const OF_PRINCIPAL: &[&str] = &["principal", "user"];
/// The field that names the export of a row.
const OF_EXPORT: &[&str] = &["export"];

impl Filter {
    fn new(query: ListingQuery) -> Self {
        let ListingQuery { filter, client, principal, export } = query;
        let wholes = [(OF_CLIENT, client), (OF_PRINCIPAL, principal), (OF_EXPORT, export)];
        Self {
            part: filter.filter(|text| !text.is_empty()),
            wholes: wholes.into_iter().filter_map(|(fields, text)| Some((fields, text?))).collect(),
        }
    }

    /// Returns whether every row is wanted.
    fn is_for_all(&self) -> bool {
        self.part.is_none() && self.wholes.is_empty()
    }

    /// Returns the number of entries to look at: with a filter all, since the wanted ones may be
    /// the last.
    fn looked_at_max(&self) -> usize {
        if self.is_for_all() { LISTED_MAX } else { usize::MAX }
    }

    /// Returns whether a row has the texts.
    fn admits(&self, row: &impl Serialize) -> bool {
        if self.is_for_all() {
            return true;
        }
        let Ok(row) = serde_json::to_value(row) else { return false };
        let is = |field: &str, text: &str| row.get(field).is_some_and(|value| value == text);
        self.part.as_ref().is_none_or(|text| has_text(&row, text))
            && self.wholes.iter().all(|(fields, text)| fields.iter().any(|field| is(field, text)))
    }

    /// Makes a listing of rows.
    fn listing<T: Serialize>(&self, rows: impl Iterator<Item = T>, left_out: usize) -> ListingReport<T> {
        let mut listing = ListingReport { rows: Vec::new(), left_out };
        for row in rows.filter(|row| self.admits(row)) {
            match listing.rows.len() < LISTED_MAX {
                true => listing.rows.push(row),
                false => listing.left_out += 1,
            }
        }
        listing
    }

    /// Makes a listing of entries with one row each.
    fn of<L, T: Serialize>(&self, found: &Listed<L>, row: impl Fn(&L) -> T) -> ListingReport<T> {
        self.listing(found.entries.iter().map(row), found.left_out)
    }
}

fn has_text(value: &serde_json::Value, text: &str) -> bool {
    match value {
        serde_json::Value::String(string) => string.contains(text),
        serde_json::Value::Number(number) => number.to_string().contains(text),
        serde_json::Value::Array(values) => values.iter().any(|value| has_text(value, text)),
        serde_json::Value::Object(fields) => fields.values().any(|value| has_text(value, text)),
        serde_json::Value::Null | serde_json::Value::Bool(_) => false,
    }
}

/// The rows of each listing at this moment.
mod rows {
    use super::*;

    pub(super) fn exports(parts: &ApiParts, filter: &Filter) -> ListingReport<ExportRow> {
        let table = parts.exports.snapshot();
        filter.listing(table.iter().flat_map(|export| export_rows(export)), 0)
    }

    pub(super) fn clients(parts: &ApiParts, filter: &Filter) -> ListingReport<ClientRow> {
        let server = parts.service.server();
        filter.of(&server.engine().list_clients(server.now(), filter.looked_at_max()), client_row)
    }

    pub(super) fn sessions(parts: &ApiParts, filter: &Filter) -> ListingReport<SessionRow> {
        filter.of(&parts.service.server().engine().list_sessions(filter.looked_at_max()), session_row)
    }

    pub(super) fn contexts(parts: &ApiParts, filter: &Filter) -> ListingReport<ContextRow> {
        let server = parts.service.server();
        let contexts = server.rpcsec().map(|rpcsec| rpcsec.contexts());
        let found = contexts.map(|contexts| contexts.list(filter.looked_at_max())).unwrap_or_default();
        let left_out = contexts.map_or(0, |contexts| contexts.len()).saturating_sub(found.len());
        let left_out = if filter.is_for_all() { left_out } else { 0 };
        filter.listing(found.iter().map(|context| context_row(context, server.now())), left_out)
    }

    pub(super) fn opens(parts: &ApiParts, filter: &Filter) -> ListingReport<OpenRow> {
        let table = parts.exports.snapshot();
        let found = parts.service.server().engine().list_opens(filter.looked_at_max());
        filter.of(&found, |open| open_row(open, &table))
    }

    pub(super) fn locks(parts: &ApiParts, filter: &Filter) -> ListingReport<LockRow> {
        let table = parts.exports.snapshot();
        // Few opens have locks, so the limit is that of the rows.
        let found = parts.service.server().engine().list_opens(usize::MAX);
        filter.listing(found.entries.iter().flat_map(|open| lock_rows(open, &table)), 0)
    }

    pub(super) fn delegations(parts: &ApiParts, filter: &Filter) -> ListingReport<DelegationRow> {
        let table = parts.exports.snapshot();
        let found = parts.service.server().engine().list_delegations(filter.looked_at_max());
        filter.of(&found, |one| delegation_row(one, &table))
    }
}

/// Makes one row for each rule: the first that names a client counts, so they are in that order.
fn export_rows(export: &Export) -> Vec<ExportRow> {
    let places: Vec<_> = export.locations.iter().map(ToString::to_string).collect();
    let (refer, locations) = if export.absent { (places, Vec::new()) } else { (Vec::new(), places) };
    let row = |rule: &ExportRule| ExportRow {
        export: export.pseudo_path.clone(),
        fsid: export.id,
        clients: match rule.clients[..] {
            [RuleClient::Any] => Vec::new(),
            ref clients => clients.iter().map(ToString::to_string).collect(),
        },
        sec: rule.flavors.iter().map(|flavor| flavor.name().to_owned()).collect(),
        read_only: rule.read_only,
        squash: rule.squash.name().to_owned(),
        anon_uid: rule.anon_uid,
        secure: rule.secure,
        refer: refer.clone(),
        locations: locations.clone(),
    };
    export.rules.iter().map(row).collect()
}

pub(super) fn client_row(client: &ListedClient) -> ClientRow {
    let state = match (client.confirmed, client.expired) {
        (false, _) => "unconfirmed",
        (true, true) => "courtesy",
        (true, false) => "active",
    };
    ClientRow {
        id: id(client.id),
        address: client.address.to_string(),
        principal: named(&client.principal),
        version: if client.is_40 { "4.0" } else { "4.1+" }.to_owned(),
        owner: String::from_utf8_lossy(&client.owner).into_owned(),
        sessions: client.sessions,
        requests: client.requests,
        opens: client.opens,
        locks: client.locks,
        delegations: client.delegations,
        silent: client.silent.as_secs(),
        state: state.to_owned(),
    }
}

fn session_row(session: &ListedSession) -> SessionRow {
    let (client, address, principal) = holder(&session.holder);
    SessionRow {
        session: hex(&session.id),
        client,
        address,
        principal,
        version: format!("4.{}", session.minor_version),
        connections: session.connections,
        slots_running: session.slots_running,
        slots_granted: session.slots_granted,
        flavors: session.callers.iter().map(|caller| flavor(*caller).to_owned()).collect(),
        backchannel: session.backchannel.as_ref().map(backchannel),
    }
}

fn backchannel(channel: &ListedBackchannel) -> Backchannel {
    let flavor = |security: &CallbackSecurity| match security {
        CallbackSecurity::None => "none",
        CallbackSecurity::Sys { .. } => "sys",
        // rpc_gss_service_t of RFC 2203 section 5.
        CallbackSecurity::Gss { service: 2, .. } => "krb5i",
        CallbackSecurity::Gss { service: 3, .. } => "krb5p",
        CallbackSecurity::Gss { .. } => "krb5",
    };
    Backchannel {
        state: if channel.works { "up" } else { "down" }.to_owned(),
        connections: channel.connections,
        flavors: channel.security.iter().map(|security| flavor(security).to_owned()).collect(),
    }
}

/// Returns the flavor of a caller: whether RPCSEC_GSS proved it, and the protection.
fn flavor((is_proved, protection): (bool, Protection)) -> &'static str {
    let flavor = match (is_proved, protection) {
        (false, _) | (true, Protection::None) => SecFlavor::Sys,
        (true, Protection::Authentication) => SecFlavor::Krb5,
        (true, Protection::Integrity) => SecFlavor::Krb5i,
        (true, Protection::Privacy) => SecFlavor::Krb5p,
    };
    flavor.name()
}

fn context_row(context: &Context, now: Duration) -> ContextRow {
    ContextRow {
        principal: context.principal().to_owned(),
        uid: context.uid(),
        enctype: context.keys().enctype().to_string(),
        delegated: context.is_delegated(),
        expires: context.expires().saturating_sub(now).as_secs(),
        silent: context.silent(now).map(|silent| silent.as_secs()),
    }
}

fn open_row(open: &ListedOpen<ListedFile>, table: &ExportTable) -> OpenRow {
    let (client, address, user) = holder(&open.holder);
    let (export, path) = place(&open.file, table);
    let (access, deny) = (bits(open.access), bits(open.deny));
    let stateid = hex(&open.stateid.other);
    OpenRow { stateid, client, address, user, export, path, access, deny, locks: open.locks.len() }
}

fn lock_rows(open: &ListedOpen<ListedFile>, table: &ExportTable) -> Vec<LockRow> {
    if open.locks.is_empty() {
        return Vec::new();
    }
    let (export, path) = place(&open.file, table);
    let row = |&ListedLock { stateid, range, mode }: &ListedLock| {
        let (client, address, user) = holder(&open.holder);
        let last = Some(range.last()).filter(|last| *last != u64::MAX);
        let (export, path) = (export.clone(), path.clone());
        LockRow {
            stateid: hex(&stateid.other),
            client,
            address,
            user,
            export,
            path,
            kind: kind(mode == LockMode::Write),
            first: range.offset(),
            last,
        }
    };
    open.locks.iter().map(row).collect()
}

fn delegation_row(one: &ListedDelegation<ListedFile>, table: &ExportTable) -> DelegationRow {
    let (client, address, user) = holder(&one.holder);
    let (export, path) = place(&one.file, table);
    let (stateid, state) = (hex(&one.stateid.other), one.phase.to_owned());
    DelegationRow {
        stateid,
        client,
        address,
        user,
        export,
        path,
        kind: kind(one.mode == DelegationMode::Write),
        state,
    }
}

fn holder(holder: &ListedHolder) -> (String, String, String) {
    (id(holder.client), holder.address.to_string(), named(&holder.principal))
}

/// Returns the pseudo path of the file's export, and the file's path on this machine.
pub(super) fn place(file: &ListedFile, table: &ExportTable) -> (String, Option<String>) {
    let export = table.by_id(file.export).map_or_else(|| "-".to_owned(), |export| export.pseudo_path.clone());
    let path = file.open.as_deref().and_then(vfs_local::path_of);
    (export, path.map(|path| terminal::text(path.as_os_str().as_bytes())))
}

fn id(client: u64) -> String {
    format!("{client:016x}")
}

/// Returns a principal without the mark of its flavor; `sys:UID` keeps it, since nothing proved the
/// user ID.
fn named(principal: &Principal) -> String {
    let name = String::from_utf8_lossy(&principal.0);
    name.strip_prefix("gss:").unwrap_or(&name).to_owned()
}

fn kind(write: bool) -> String {
    if write { "write" } else { "read" }.to_owned()
}

/// Names share_access or share_deny (RFC 8881 section 18.16.1).
fn bits(share: u32) -> String {
    match share & 3 {
        0 => "none",
        1 => "read",
        2 => "write",
        _ => "both",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_a_principal_and_an_export_match_as_a_whole() {
        let row = |address: &str, id: &str| {
            serde_json::json!({
                "address": address, "client": id, "user": "sys:4", "export": "/data", "locks": 4,
            })
        };
        let rows = [row("10.78.0.2", "04"), row("10.78.0.20", "14")];
        let found = |query: ListingQuery| Filter::new(query).listing(rows.iter(), 0).rows.len();
        let named = |name: &str, text: &str| {
            let query = serde_json::json!({ name: text });
            found(serde_json::from_value(query).expect("it is a query"))
        };
        assert_eq!((named("filter", "10.78.0.2"), named("client", "10.78.0.2")), (2, 1));
        assert_eq!((named("filter", "4"), named("client", "4"), named("client", "14")), (2, 0, 1));
        assert_eq!((named("principal", "sys:4"), named("principal", "sys:")), (2, 0));
        assert_eq!((named("export", "/data"), named("export", "/")), (2, 0));
        let both = ListingQuery {
            filter: Some("sys:4".into()),
            client: Some("10.78.0.20".into()),
            ..ListingQuery::default()
        };
        assert_eq!((found(both), found(ListingQuery::default())), (1, 2));
    }
}
