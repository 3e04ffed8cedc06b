//! `orthrus trace`: the operations of a running server, live.

use super::asked_server::AskedServer;
use crate::api::{TraceLine, TracedOperation};
use crate::output::{errln, is_reader_gone, outln};
use std::ops::ControlFlow;
use terminal::escape_json;

/// Show the operations of a running server as they run.
///
/// Each line has the time, the client, the principal, the flavor, the operation with its arguments
/// in short, the status, and how long it ran. Names appear as their lengths, data never. Ctrl-C
/// ends the trace.
#[derive(clap::Args)]
pub(super) struct TraceArguments {
    /// Only operations of clients at this address.
    #[arg(long, value_name = "ADDRESS")]
    client: Option<String>,
    /// Only operations of this principal, such as alice@EXAMPLE.ORG or sys:1000.
    #[arg(long)]
    principal: Option<String>,
    /// Only operations on the file or folder with this path, as clients mount it.
    #[arg(long, value_name = "PATH")]
    file: Option<String>,
    /// Show the names of files, not only their lengths.
    #[arg(long)]
    names: bool,
    /// Print each operation as a line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: AskedServer,
}

impl TraceArguments {
    /// Prints operations until the server ends, or the reader of them.
    ///
    /// # Errors
    /// There is no such file; see [`AskedServer::get`].
    pub(super) fn run(self) -> anyhow::Result<()> {
        let Self { client, principal, file, names, json, server } = self;
        let query = [
            ("client", client.as_deref()),
            ("principal", principal.as_deref()),
            ("file", file.as_deref()),
            ("names", names.then_some("true")),
        ];
        let mut dropped = 0;
        server.follow("/v1/trace", &query, |line: TraceLine| {
            match json {
                true => outln!("{}", escape_json(&serde_json::to_string(&line).unwrap_or_default())),
                false => print(line, &mut dropped),
            }
            if is_reader_gone() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if !is_reader_gone() {
            errln!(
                "the trace has ended: the server has, or goes on in another process; see `orthrus status`"
            );
        }
        Ok(())
    }
}

/// Prints a line, and the number of operations that were dropped since `dropped` was noted.
fn print(line: TraceLine, dropped: &mut u64) {
    if line.dropped > *dropped {
        outln!("({} operations were dropped: they came too fast)", line.dropped - *dropped);
        *dropped = line.dropped;
    }
    if let Some(operation) = line.operation {
        outln!("{}", shown(&operation));
    }
}

/// Writes an operation in a line.
fn shown(operation: &TracedOperation) -> String {
    let TracedOperation { time, client, principal, flavor, operation: name, .. } = operation;
    let place = match (&operation.export, &operation.handle) {
        (Some(export), Some(handle)) => format!(" {export}#{handle}"),
        (Some(export), None) => format!(" {export}"),
        _ => String::new(),
    };
    let names: Vec<_> = operation.names.iter().map(|name| name.escape_debug().to_string()).collect();
    let arguments = match (names.is_empty(), operation.detail.is_empty()) {
        (true, true) => String::new(),
        (true, false) => format!(" ({})", operation.detail),
        (false, true) => format!(" ({})", names.join(", ")),
        (false, false) => format!(" ({}; {})", names.join(", "), operation.detail),
    };
    let principal = principal.escape_debug();
    let micros = operation.seconds * 1e6;
    format!(
        "{time} {client} {principal} {flavor} {name}{place}{arguments} {} {micros:.0} µs",
        operation.status
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_control_characters() {
        let operation = TracedOperation {
            time: "T".into(),
            client: "10.0.0.7:900".into(),
            principal: "a\u{1b}[2J".into(),
            flavor: "krb5p".into(),
            operation: "LOOKUP".into(),
            export: Some("/data".into()),
            handle: Some("07".into()),
            names: vec!["a\nb".into()],
            detail: String::new(),
            status: "NFS4_OK".into(),
            seconds: 0.000_012,
        };
        assert_eq!(
            shown(&operation),
            r"T 10.0.0.7:900 a\u{1b}[2J krb5p LOOKUP /data#07 (a\nb) NFS4_OK 12 µs"
        );
    }
}
