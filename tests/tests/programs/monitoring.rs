//! The alert rules and the dashboard, with a real Prometheus that scrapes a server.

use client::Flavor;
use e2e::{Server, empty_folder, found, in_world, is_installed};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a busy machine may take for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

fn packaged(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/monitoring").join(file)
}

/// A Prometheus that scrapes one server and evaluates the alert rules.
struct Prometheus {
    child: Child,
    address: SocketAddr,
}

impl Prometheus {
    fn start(folder: &Path, server: &Server) -> Self {
        let config = folder.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: [{}]\n\
             scrape_configs:\n- job_name: orthrus\n  static_configs:\n  - targets: ['{}']\n",
            packaged("orthrus-alerts.yml").display(),
            server.metrics(),
        );
        fs::write(&config, text).expect("the folder is ours");
        let mut child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .args(["--web.listen-address=127.0.0.1:0", "--log.format=json"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it is installed");
        let mut log = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
        let address = log.by_ref().find_map(|line| {
            let line: Value = serde_json::from_str(&line).ok()?;
            (line["msg"] == "Listening on").then(|| line["address"].as_str()?.parse().ok())?
        });
        std::thread::spawn(move || log.for_each(drop));
        Self { child, address: address.expect("it listens") }
    }

    /// Asks the HTTP API, and returns the data of a successful answer.
    fn get(&self, path: &str) -> Result<Value, String> {
        let mut stream = TcpStream::connect(self.address).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        write!(stream, "GET /api/v1/{path} HTTP/1.0\r\nHost: localhost\r\n\r\n")
            .map_err(|error| error.to_string())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
        let (_, body) = answer.split_once("\r\n\r\n").ok_or("no body")?;
        let mut body: Value = serde_json::from_str(body).map_err(|error| format!("{error}: {body}"))?;
        if body["status"] == "success" { Ok(body["data"].take()) } else { Err(body.to_string()) }
    }

    /// Evaluates an expression, and returns its result.
    fn query(&self, expression: &str) -> Result<Vec<Value>, String> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let data = self.get(&format!("query?query={encoded}"))?;
        data["result"].as_array().cloned().ok_or_else(|| data.to_string())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The title and the expression of each target of the dashboard.
fn dashboard_expressions() -> Vec<(String, String)> {
    let text = fs::read_to_string(packaged("orthrus-dashboard.json")).expect("it is packaged");
    let dashboard: Value = serde_json::from_str(&text).expect("it is JSON");
    let panels = dashboard["panels"].as_array().expect("it has panels");
    let targets = |panel: &Value| -> Vec<(String, String)> {
        let title = panel["title"].as_str().expect("a panel has a title").to_owned();
        let targets = panel["targets"].as_array().expect("a panel has targets");
        let expression = |target: &Value| target["expr"].as_str().expect("an expression").to_owned();
        targets.iter().map(|target| (title.clone(), expression(target))).collect()
    };
    panels.iter().flat_map(targets).collect()
}

/// The metrics and the events that an expression names.
fn names(expression: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_metric = |word: &&str| word.starts_with("orthrus_") || word.starts_with("process_");
    let labels = ["event=\"", "event=~\"", "event!~\""];
    let lists = labels.iter().flat_map(|label| expression.split(label).skip(1));
    let events = lists.filter_map(|rest| rest.split('"').next()).flat_map(|list| list.split('|'));
    (words.filter(is_metric).map(str::to_owned).collect(), events.map(str::to_owned).collect())
}

fn alert_expressions() -> Vec<String> {
    let text = fs::read_to_string(packaged("orthrus-alerts.yml")).expect("it is packaged");
    text.lines().filter_map(|line| line.trim().strip_prefix("expr: ").map(str::to_owned)).collect()
}

#[test]
fn every_alert_fires_when_it_should_and_none_while_all_is_well() {
    if !is_installed("promtool", "prometheus") {
        return;
    }
    let folder = empty_folder();
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/alerts.yml");
    for file in [packaged("orthrus-alerts.yml"), cases.clone()] {
        fs::copy(&file, folder.path().join(file.file_name().expect("a file"))).expect("the folder is ours");
    }
    let promtool = |arguments: [&str; 3]| {
        let output = Command::new("promtool").args(arguments).current_dir(folder.path()).output();
        let output = output.expect("it is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    promtool(["check", "rules", "orthrus-alerts.yml"]);
    promtool(["test", "rules", "alerts.yml"]);
    // Each alert has a case for both.
    let text = fs::read_to_string(cases).expect("it is there");
    let rules = fs::read_to_string(packaged("orthrus-alerts.yml")).expect("it is packaged");
    for alert in rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert_eq!(text.matches(&format!("alertname: {alert}\n")).count(), 1, "{alert} fires");
        assert_eq!(text.matches(&format!("alertname: {alert}, ")).count(), 1, "{alert} keeps still");
    }
}

#[test]
fn prometheus_evaluates_every_alert_and_every_panel_with_metrics_that_exist() {
    if !is_installed("prometheus", "prometheus") {
        return;
    }
    in_world(|world| {
        let server = world.server().args(["--metrics", "127.0.0.1:0"]).start();
        let mut files = world.mount(&server, "alice", Flavor::Krb5p);
        files.write_file("file", b"data").expect("it can be written");
        let folder = empty_folder();
        let prometheus = Prometheus::start(folder.path(), &server);
        found("scrape", || {
            prometheus.query("up{job=\"orthrus\"} == 1").ok().filter(|found| !found.is_empty())
        });

        let metadata = found("metadata", || {
            prometheus.get("metadata").ok().filter(|all| all.get("orthrus_grace").is_some())
        });
        let known = prometheus.get("label/event/values").expect("the label exists");
        let known: BTreeSet<&str> =
            known.as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        let panels = dashboard_expressions();
        assert!(panels.len() > 10, "{panels:?}");
        for expression in panels.iter().map(|(_, expression)| expression).chain(&alert_expressions()) {
            let (metrics, events) = names(expression);
            // This server is no member of a cluster.
            for metric in metrics.iter().filter(|name| !name.starts_with("orthrus_cluster_")) {
                // A histogram has three kinds of series.
                let suffixes = ["_bucket", "_sum", "_count"];
                let family = suffixes.iter().find_map(|suffix| metric.strip_suffix(suffix));
                let known =
                    family.into_iter().chain([metric.as_str()]).any(|name| metadata.get(name).is_some());
                assert!(known, "{expression}: there is no {metric}");
            }
            for event in events {
                assert!(known.contains(event.as_str()), "{expression}: there is no {event} in {known:?}");
            }
        }

        // A rate needs requests between two scrapes.
        found("rate", || {
            assert_eq!(files.read_file("file").expect("it can be read"), b"data");
            let rate = prometheus.query("rate(orthrus_requests_total{flavor=\"krb5p\"}[1m]) > 0");
            rate.ok().filter(|found| !found.is_empty())
        });
        for (title, expression) in panels {
            let expression = expression.replace("$__rate_interval", "1m").replace("$instance", ".*");
            let found = prometheus.query(&expression).unwrap_or_else(|error| panic!("{title}: {error}"));
            // Nothing fails here, and this server is no member of a cluster.
            let may_be_empty = title == "Events"
                || ["status!=", "denials", "orthrus_cluster_"].iter().any(|part| expression.contains(part));
            assert!(may_be_empty || !found.is_empty(), "{title} is empty: {expression}");
        }

        let groups = found("evaluation of all rules", || {
            let groups = prometheus.get("rules").ok()?["groups"].clone();
            let rules = groups[0]["rules"].as_array()?.clone();
            (!rules.iter().any(|rule| rule["health"] == "unknown")).then_some(rules)
        });
        assert_eq!(groups.len(), alert_expressions().len());
        for rule in &groups {
            assert_eq!(rule["health"], "ok", "{rule}");
            // The server has just started, and all else is well.
            let expected = if rule["name"] == "OrthrusRestarted" { "firing" } else { "inactive" };
            assert_eq!(rule["state"], expected, "{rule}");
        }
        files.unmount().expect("the session ends");
    });
}
