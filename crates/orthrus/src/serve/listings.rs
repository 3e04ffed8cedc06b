//! Answers `orthrus exports`, `clients`, `contexts`, `opens`, `locks` and `delegations` from the
//! state of the server.

use crate::requests::{
    ClientRow, ContextRow, DelegationRow, ExportRow, ListingKind, ListingReport, ListingRows, LockRow,
    OpenRow,
};
use runtime::NfsService;
use server::engine::ListedFile;
use server::rpcsec::Context;
use state::{ListedClient, ListedDelegation, ListedHolder, ListedLock, ListedOpen, Principal};
use std::time::Duration;
use vfs::{Export, ExportTable, Network, SecFlavor};

/// Most clients, contexts, opens or delegations of a listing. With them a reply has at most 16 MiB.
const LISTED_MAX: usize = 20_000;

/// Lists what the server holds at this moment.
pub(super) fn list(kind: ListingKind, service: &NfsService, table: &ExportTable) -> ListingReport {
    let (engine, now) = (service.server().engine(), service.server().now());
    let (rows, left_out) = match kind {
        ListingKind::Exports => {
            (ListingRows::Exports(table.iter().flat_map(|one| export_rows(one)).collect()), 0)
        }
        ListingKind::Clients => {
            let found = engine.list_clients(now, LISTED_MAX);
            (ListingRows::Clients(found.entries.iter().map(client_row).collect()), found.left_out)
        }
        ListingKind::Contexts => {
            let contexts = service.server().rpcsec().map(|rpcsec| rpcsec.contexts());
            let found = contexts.map(|contexts| contexts.list(LISTED_MAX)).unwrap_or_default();
            let all = contexts.map_or(0, |contexts| contexts.len());
            let rows = found.iter().map(|context| context_row(context, now)).collect();
            (ListingRows::Contexts(rows), all.saturating_sub(found.len()))
        }
        ListingKind::Opens => {
            let found = engine.list_opens(LISTED_MAX);
            let rows = found.entries.iter().map(|open| open_row(open, table)).collect();
            (ListingRows::Opens(rows), found.left_out)
        }
        ListingKind::Locks => {
            let found = engine.list_opens(LISTED_MAX);
            let mut rows: Vec<_> = found.entries.iter().flat_map(|open| lock_rows(open, table)).collect();
            let more = rows.len().saturating_sub(LISTED_MAX);
            rows.truncate(LISTED_MAX);
            (ListingRows::Locks(rows), found.left_out + more)
        }
        ListingKind::Delegations => {
            let found = engine.list_delegations(LISTED_MAX);
            let rows = found.entries.iter().map(|one| delegation_row(one, table)).collect();
            (ListingRows::Delegations(rows), found.left_out)
        }
    };
    ListingReport { rows, left_out }
}

/// Makes one row for each list of flavors: the first network that has a client counts, so they are
/// in that order.
fn export_rows(export: &Export) -> Vec<ExportRow> {
    let row = |networks: &[Network], flavors: &[SecFlavor]| ExportRow {
        export: export.pseudo_path.clone(),
        clients: networks.iter().map(Network::to_string).collect(),
        sec: flavors.iter().map(|flavor| flavor.name().to_owned()).collect(),
        read_only: export.read_only,
        squash: export.squash.name().to_owned(),
        anon_uid: export.anon_uid,
        secure: export.secure,
    };
    let special = export.flavors_from.iter().map(|(network, flavors)| row(&[*network], flavors));
    special.chain([row(&export.networks, &export.flavors)]).collect()
}

fn client_row(client: &ListedClient) -> ClientRow {
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
        opens: client.opens,
        locks: client.locks,
        delegations: client.delegations,
        silent: client.silent.as_secs(),
        state: state.to_owned(),
    }
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
    OpenRow { client, address, user, export, path, access, deny, locks: open.locks.len() }
}

fn lock_rows(open: &ListedOpen<ListedFile>, table: &ExportTable) -> Vec<LockRow> {
    if open.locks.is_empty() {
        return Vec::new();
    }
    let (export, path) = place(&open.file, table);
    let row = |&ListedLock { range, write, .. }: &ListedLock| {
        let (client, address, user) = holder(&open.holder);
        let last = Some(range.last()).filter(|last| *last != u64::MAX);
        let (export, path) = (export.clone(), path.clone());
        LockRow { client, address, user, export, path, kind: kind(write), first: range.offset(), last }
    };
    open.locks.iter().map(row).collect()
}

fn delegation_row(one: &ListedDelegation<ListedFile>, table: &ExportTable) -> DelegationRow {
    let (client, address, principal) = holder(&one.holder);
    let (export, path) = place(&one.file, table);
    let state = one.phase.to_owned();
    DelegationRow { client, address, principal, export, path, kind: kind(one.write), state }
}

fn holder(holder: &ListedHolder) -> (String, String, String) {
    (id(holder.client), holder.address.to_string(), named(&holder.principal))
}

/// Returns the pseudo path of the file's export, and the file's path on this machine.
fn place(file: &ListedFile, table: &ExportTable) -> (String, Option<String>) {
    let export = table.by_id(file.export).map_or_else(|| "-".to_owned(), |export| export.pseudo_path.clone());
    let path = file.open.as_deref().and_then(vfs_local::path_of);
    (export, path.map(|path| path.to_string_lossy().into_owned()))
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
