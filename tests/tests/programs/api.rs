//! The admin API by plain HTTP: its description against real answers, curl, and peers that misuse
//! it.

use client::{Client, Flavor, OpenHow, Options, Security};

use e2e::{Serve, empty_folder, in_world, is_installed, run};
use nfs4::NfsLockType4;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Sends bytes to the socket of a server, and returns all that it answers.
fn send(state: &Path, bytes: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(state.join("admin.sock")).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    // It may have answered, and closed, before all was sent.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// An answer: its status, its type and its JSON.
struct ApiAnswer {
    status: u16,
    kind: String,
    body: Value,
}

fn ask(state: &Path, method: &str, target: &str, body: Option<&Value>) -> ApiAnswer {
    let body = body.map(Value::to_string).unwrap_or_default();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    parsed(&send(state, format!("{head}{body}").as_bytes()))
}

fn parsed(answer: &[u8]) -> ApiAnswer {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
    let field = |line: &str| line.strip_prefix("content-type: ").map(str::to_owned);
    ApiAnswer {
        status: head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status"),
        kind: head.lines().find_map(field).unwrap_or_default(),
        body: serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}")),
    }
}

/// Checks answers against the description.
struct AnswerChecker {
    description: Value,
    /// The requests that had a good answer.
    seen: BTreeSet<(String, String)>,
}

impl AnswerChecker {
    fn new(state: &Path) -> Self {
        let answer = ask(state, "GET", "/v1/openapi.json", None);
        assert_eq!((answer.status, answer.kind.as_str()), (200, "application/json"));
        Self { description: answer.body, seen: BTreeSet::new() }
    }

    /// Checks the first line of a trace.
    fn check_trace(&mut self, state: &Path) {
        let mut stream = UnixStream::connect(state.join("admin.sock")).expect("it listens");
        stream.write_all(b"GET /v1/trace HTTP/1.0\r\n\r\n").expect("it is read");
        let mut lines = BufReader::new(stream).lines().map(|line| line.expect("it is text"));
        let head: Vec<_> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        assert!(head[0].contains(" 200 ") && head.iter().any(|line| line.ends_with("x-ndjson")), "{head:?}");
        let line = serde_json::from_str(&lines.next().expect("a line")).expect("it is JSON");
        let mut schema = self.description["components"]["schemas"]["TraceLine"].clone();
        schema["components"] = self.description["components"].clone();
        assert!(jsonschema::is_valid(&schema, &line), "{line:#}");
        self.seen.insert(("GET".to_owned(), "/v1/trace".to_owned()));
    }

    fn check(&mut self, method: &str, path: &str, answer: &ApiAnswer) {
        let (operation, good) =
            (&self.description["paths"][path][method.to_lowercase()], answer.status == 200);
        let response = &operation["responses"][if good { "200" } else { "default" }];
        let mut schema = response["content"]["application/json"]["schema"].clone();
        assert!(schema.is_object(), "{method} {path} is not described");
        schema["components"] = self.description["components"].clone();
        let validator = jsonschema::validator_for(&schema).expect("it is a schema");
        if let Err(error) = validator.validate(&answer.body) {
            panic!("{method} {path}: {error} at {}: {:#}", error.instance_path(), answer.body);
        }
        let kind = if good { "application/json" } else { "application/problem+json" };
        assert_eq!(answer.kind, kind, "{method} {path}");
        if good {
            self.seen.insert((method.to_owned(), path.to_owned()));
        } else {
            assert_eq!(answer.body["status"], answer.status, "{method} {path}");
        }
    }

    /// Asks, checks the answer, and returns it.
    fn ask(&mut self, state: &Path, method: &str, target: &str, body: Option<&Value>) -> ApiAnswer {
        let answer = ask(state, method, target, body);
        self.check(method, target.split('?').next().expect("a path"), &answer);
        answer
    }
}

#[test]
fn every_answer_is_as_the_description_says() {
    in_world(|world| {
        let server = world.server().args(["--web", "127.0.0.1:0"]).start();
        let state = world.path("state-1");
        let mut files = world.mount(&server, "alice", Flavor::Krb5i);
        files.write_file("file", b"data").expect("it can be written");
        let mut client = Client::connect(world.options(&server, "alice", Flavor::Krb5p)).expect("a session");
        let file = client.open_path("/export/locked", &OpenHow::create(0o644)).expect("it is a new name");
        client.lock(&file, b"owner", NfsLockType4::WRITE_LT, 10, 5).expect("it is open").expect("it is free");

        let mut checker = AnswerChecker::new(&state);
        let kinds = ["exports", "clients", "sessions", "contexts", "opens", "locks"];
        for kind in kinds {
            let answer = checker.ask(&state, "GET", &format!("/v1/{kind}"), None);
            assert!(
                answer.body["rows"].as_array().is_some_and(|rows| !rows.is_empty()),
                "{kind}: {:#}",
                answer.body
            );
            assert_eq!(checker.ask(&state, "GET", &format!("/v1/{kind}?limit=1"), None).status, 400);
        }
        checker.ask(&state, "GET", "/v1/delegations", None);
        let sessions = checker.ask(&state, "GET", "/v1/sessions?filter=alice", None).body;
        let flavors: BTreeSet<&str> = sessions["rows"]
            .as_array()
            .expect("rows")
            .iter()
            .flat_map(|row| row["flavors"].as_array().expect("flavors"))
            .filter_map(Value::as_str)
            .collect();
        assert!(flavors.contains("krb5p") && flavors.contains("krb5i"), "{sessions:#}");
        assert_eq!(checker.ask(&state, "GET", "/v1/status", None).body["state"], "serving");
        let identity = checker.ask(&state, "GET", "/v1/identity?principal=alice%40NOWHERE", None);
        assert_eq!(identity.body["principal"], "alice@NOWHERE");
        assert_eq!(checker.ask(&state, "GET", "/v1/identity", None).status, 400);

        for (query, status) in [("client=x", 400), ("file=/nothing/x", 404), ("more=1", 400)] {
            let answer = checker.ask(&state, "GET", &format!("/v1/trace?{query}"), None);
            assert_eq!(answer.status, status, "{query}");
        }
        checker.check_trace(&state);

        let stateid = changes(&mut checker, &state);
        for (path, methods) in checker.description["paths"].as_object().expect("paths") {
            for method in methods.as_object().expect("methods").keys() {
                let request = (method.to_uppercase(), path.clone());
                assert!(checker.seen.contains(&request), "{request:?} was not tried");
            }
        }
        let author = format!("revocation by user {}", nix::unistd::geteuid());
        server.wait_for_log(&format!("{author}: the open {stateid}"));
        drop(files);
    });
}

/// Makes every change, and returns the stateid of the open that is revoked.
fn changes(checker: &mut AnswerChecker, state: &Path) -> String {
    let opens = checker.ask(state, "GET", "/v1/opens?filter=locked", None).body;
    let stateid = &opens["rows"][0]["stateid"];
    let id = &opens["rows"][0]["client"];
    for (path, body, status) in [
        ("revoke", json!({"stateid": stateid}), 200),
        ("revoke", json!({"stateid": stateid}), 404),
        ("revoke", json!({"stateid": "00"}), 404),
        ("revoke", json!({"principal": "nobody@R"}), 404),
        ("revoke", json!({"stateid": stateid, "principal": "x"}), 400),
        ("revoke", json!({}), 400),
        ("evict", json!({"client": "ffffffffffffffff"}), 404),
        ("evict", json!({"client": 7}), 422),
        ("evict", json!({"client": id, "more": 1}), 422),
        ("evict", json!({"client": id}), 200),
        ("reload", json!(null), 200),
        ("web", json!(null), 200),
        ("drain", json!({}), 200),
        ("drain", json!({"cancel": true}), 200),
        ("upgrade", json!({"binary": "/bin/true"}), 409),
        ("upgrade", json!({"standstill_ms": -1}), 422),
        ("upgrade", json!({}), 200),
    ] {
        let answer = checker.ask(state, "POST", &format!("/v1/{path}"), Some(&body));
        assert_eq!(answer.status, status, "{path} {body}: {:#}", answer.body);
    }
    stateid.as_str().expect("a stateid").to_owned()
}

#[test]
fn the_commands_of_the_page_run_with_curl() {
    if !is_installed("curl", "curl") {
        return;
    }
    let folder = empty_folder();
    let state = folder.path().join("state");
    let server = Serve::new(&state).args(["--memory", "1", "--sec", "sys", "--secure", "false"]).start();
    // Without clients a drain would end the server.
    let options = Options::new("127.0.0.1", Security::sys()).port(server.port());
    let _client = Client::connect(options).expect("a session");
    let page = include_str!("../../../docs/api.md");
    let commands: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("    curl ")).collect();
    assert!(commands.len() >= 4, "{commands:?}");
    for command in commands {
        let command = command.replace("/var/lib/orthrus", &state.display().to_string());
        let ended =
            run(Command::new("sh").args(["-c", &format!("curl --fail-with-body --silent {command}")]));
        let body: Value =
            serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
        assert!(ended.status.success() && body.is_object(), "{ended:?}");
    }
}

#[test]
fn requests_that_are_none_are_refused_with_their_cause() {
    let folder = empty_folder();
    let state = folder.path().join("state");
    let server = Serve::new(&state).args(["--memory", "1", "--sec", "sys", "--secure", "false"]).start();
    let silent: Vec<_> =
        (0..40).map(|_| UnixStream::connect(state.join("admin.sock")).expect("it listens")).collect();
    let status = |method: &str, target: &str| ask(&state, method, target, None).status;
    assert_eq!(status("GET", "/v1/clients"), 200, "silent peers make room");
    assert_eq!((status("GET", "/v2/clients"), status("GET", "/")), (404, 404));
    assert_eq!((status("DELETE", "/v1/clients"), status("GET", "/v1/evict")), (405, 405));
    let unknown = ask(&state, "GET", "/v1/nothing", None);
    assert!(
        unknown.body["detail"].as_str().is_some_and(|why| why.contains("/v1/openapi.json")),
        "{}",
        unknown.body
    );
    let plain = send(&state, b"POST /v1/evict HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}");
    assert_eq!(parsed(&plain).status, 415);
    let broken = send(
        &state,
        b"POST /v1/evict HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{",
    );
    assert_eq!(parsed(&broken).status, 400);
    let large = json!({"client": "a".repeat(5000)});
    assert_eq!(ask(&state, "POST", "/v1/evict", Some(&large)).status, 413);
    let head = [b"GET /v1/status HTTP/1.1\r\nX: ".as_slice(), &vec![b'x'; 1 << 20]].concat();
    let answer = send(&state, &head);
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 431 "),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    for garbage in [&b"\xff\xff\xff\n\n"[..], b"{\"request\":\"status\"}\n\n"] {
        let answer = send(&state, garbage);
        assert!(answer.starts_with(b"HTTP/1.1 400 "), "{}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(status("GET", "/v1/status"), 200);
    Client::connect(Options::new("127.0.0.1", Security::sys()).port(server.port())).expect("it serves NFS");
    drop(silent);
}
