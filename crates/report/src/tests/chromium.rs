//! One headless Chromium for all pages of a test, driven over its debugging pipe: any width, either
//! colour scheme, print.
//!
//! `tests/tests/programs` compiles this file as well.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Arguments that keep the browser off the network.
const FLAGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
];

/// Time after which a browser that does not close is killed.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(20);

/// The settings of the browser for one view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PageLook {
    /// Width of the window in CSS pixels.
    pub(crate) width: u32,
    /// The colour scheme, `light` or `dark`.
    pub(crate) scheme: &'static str,
    /// The CSS medium, `screen` or `print`.
    pub(crate) media: &'static str,
    /// Whether colours are seen.
    pub(crate) colours: bool,
}

impl PageLook {
    /// On a desk, by day.
    pub(crate) const DESK: Self = Self { width: 1280, scheme: "light", media: "screen", colours: true };
    /// The same by night.
    pub(crate) const DARK: Self = Self { scheme: "dark", ..Self::DESK };
    /// The width of a small phone.
    pub(crate) const PHONE: Self = Self { width: 360, ..Self::DESK };
    /// A sheet of A4 with margins of a centimetre.
    pub(crate) const PAPER: Self = Self { width: 718, media: "print", ..Self::DESK };
    /// The desk without colours.
    pub(crate) const GREY: Self = Self { colours: false, ..Self::DESK };
}

/// A browser with one tab.
pub(crate) struct Chromium {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: Option<String>,
    calls: u64,
    /// Events that the browser sent since the last [`Chromium::open`].
    events: Vec<Value>,
    _profile: tempfile::TempDir,
}

impl Chromium {
    /// Starts it; `None`, said to be a skipped test, where it is not installed.
    pub(crate) fn start() -> Option<Self> {
        if Command::new("chromium").arg("--version").output().is_err() {
            println!("skipped: chromium is not installed");
            return None;
        }
        let profile = tempfile::tempdir().unwrap();
        // It reads commands from descriptor 3 and answers on descriptor 4.
        let mut child = Command::new("sh")
            .args(["-c", r#"exec chromium "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#, "sh"])
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .env("TMPDIR", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell starts");
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut new =
            Self { child, to, from, session: None, calls: 0, events: Vec::new(), _profile: profile };
        let tab = new.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached =
            new.call("Target.attachToTarget", json!({"targetId": tab["targetId"], "flatten": true}));
        new.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            new.call(&format!("{domain}.enable"), json!({}));
        }
        Some(new)
    }

    /// Asks for something and waits for the answer.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let answer = self.exchange(method, params);
        assert!(answer.get("error").is_none(), "{method}: {}", answer["error"]);
        answer["result"].clone()
    }

    /// Sends a message and waits for the answer, which may be an error.
    fn exchange(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let id = self.calls;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut text = message.to_string().into_bytes();
        text.push(0);
        self.to.write_all(&text).expect("the browser listens");
        loop {
            let answer = self.receive();
            if answer["id"] == json!(id) {
                return answer;
            }
            self.events.push(answer);
        }
    }

    fn receive(&mut self) -> Value {
        let mut text = Vec::new();
        self.from.read_until(0, &mut text).expect("the browser answers");
        assert_eq!(text.pop(), Some(0), "the browser has ended");
        serde_json::from_slice(&text).expect("the browser speaks JSON")
    }

    /// Opens a page in this look and waits until it is there.
    pub(crate) fn open(&mut self, page: &Path, look: PageLook) {
        self.visit(&format!("file://{}", page.display()), look);
    }

    /// Opens an address in this look and waits until its page is there.
    pub(crate) fn visit(&mut self, address: &str, look: PageLook) {
        self.look(look);
        self.events.clear();
        self.call("Page.navigate", json!({"url": address}));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.receive();
            self.events.push(event);
        }
    }

    /// Looks at the same page otherwise.
    pub(crate) fn look(&mut self, look: PageLook) {
        let metrics =
            json!({"width": look.width, "height": 900, "deviceScaleFactor": 1, "mobile": look.width < 500});
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let features = json!([{"name": "prefers-color-scheme", "value": look.scheme}]);
        let media = if look.media == "print" { "print" } else { "" };
        self.call("Emulation.setEmulatedMedia", json!({"media": media, "features": features}));
        let sight = if look.colours { "none" } else { "achromatopsia" };
        self.call("Emulation.setEmulatedVisionDeficiency", json!({"type": sight}));
    }

    /// Evaluates an expression in the page.
    pub(crate) fn ask(&mut self, expression: &str) -> Value {
        self.ask_unless_gone(expression).expect("the page stays")
    }

    /// Evaluates an expression; `None` if another page has taken the place of this one meanwhile.
    pub(crate) fn ask_unless_gone(&mut self, expression: &str) -> Option<Value> {
        const GONE: &str = "Inspected target navigated or closed";
        let params = json!({"expression": expression, "returnByValue": true});
        let answer = self.exchange("Runtime.evaluate", params);
        if answer["error"]["message"] == GONE {
            return None;
        }
        assert!(answer.get("error").is_none(), "{expression}: {}", answer["error"]);
        let result = &answer["result"];
        assert!(result.get("exceptionDetails").is_none(), "{}", result["exceptionDetails"]);
        Some(result["result"]["value"].clone())
    }

    /// Returns the console's messages and the network requests since the page was opened.
    pub(crate) fn complaints(&self) -> Vec<&Value> {
        self.complaints_beside("file:")
    }

    /// As [`Chromium::complaints`], without requests to addresses that begin with `own`.
    pub(crate) fn complaints_beside(&self, own: &str) -> Vec<&Value> {
        let outside = |event: &Value| {
            let address = event["params"]["request"]["url"].as_str().unwrap_or_default();
            !address.starts_with(own) && !address.starts_with("data:")
        };
        let speaks = |event: &&Value| match event["method"].as_str().unwrap_or_default() {
            "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded" => true,
            "Network.requestWillBeSent" => outside(event),
            _ => false,
        };
        self.events.iter().filter(speaks).collect()
    }

    /// Leaves a picture of all of the page.
    pub(crate) fn picture(&mut self, path: &Path) {
        let layout = self.call("Page.getLayoutMetrics", json!({}));
        let size = &layout["cssContentSize"];
        let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
        let options = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let shot = self.call("Page.captureScreenshot", options);
        std::fs::write(path, decoded(shot["data"].as_str().unwrap())).unwrap();
    }

    /// Prints it on A4.
    pub(crate) fn print(&mut self, path: &Path) {
        let options = json!({"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": true});
        let printed = self.call("Page.printToPDF", options);
        std::fs::write(path, decoded(printed["data"].as_str().unwrap())).unwrap();
    }
}

impl Drop for Chromium {
    /// Closes the browser. Killed at once, it would leave processes that still write its profile.
    fn drop(&mut self) {
        let _ = self.to.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let end = Instant::now() + CLOSE_TIME_MAX;
        while Instant::now() < end && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Decodes the Base64 text of a screenshot.
fn decoded(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let (mut out, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for byte in text.bytes().take_while(|byte| *byte != b'=') {
        (bits, count) = (bits << 6 | u32::from(value(byte)), count + 6);
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}
