//! The web page of a server: who may see it, attacks on it, and its looks in a real browser.

#[path = "../../../crates/report/src/tests/chromium.rs"]
#[expect(dead_code, reason = "pages of reports are also printed and pictured")]
mod chromium;

use chromium::{Chromium, PageLook};
use client::{Client, Flavor, OpenHow};
use e2e::{Serve, Server, empty_folder, in_world, is_installed, is_root, orthrus, run};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Returns a fresh link to the page.
fn link(state: &Path) -> String {
    let ended = run(orthrus(["web", "--state-dir"]).arg(state));
    assert!(ended.status.success(), "{ended:?}");
    ended.stdout.trim().to_owned()
}

fn address(link: &str) -> SocketAddr {
    let rest = link.split("://").nth(1).expect("an address");
    rest.split('/').next().expect("a host").parse().expect("an address")
}

/// Sends a request, and returns the head and the body of the answer.
fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {answer}"));
    (head.to_owned(), body.to_owned())
}

fn get(address: SocketAddr, path: &str, more: &str) -> (u16, String, String) {
    let (head, body) = ask(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, head, body)
}

/// Opens a link as a browser does, and returns the cookie.
fn log_in(link: &str) -> String {
    let path = format!("/{}", link.splitn(4, '/').nth(3).expect("a path"));
    let (status, head, _) = get(address(link), &path, "");
    assert_eq!(status, 200, "{head}");
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
    for part in ["HttpOnly", "SameSite=Strict", "Max-Age=43200"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    cookie.split(';').next().expect("a pair").to_owned()
}

fn serve(state: &Path) -> Server {
    Serve::new(state)
        .args(["--memory", "1", "--sec", "sys", "--secure", "false", "--web", "127.0.0.1:0"])
        .start()
}

#[test]
fn only_a_browser_that_has_opened_a_link_sees_the_status() {
    let folder = empty_folder();
    let state = folder.path().join("state");
    let server = serve(&state);
    let first = link(&state);
    let at = address(&first);
    for path in ["/", "/status.json", "/login", "/login?link=", "/login?link=00", "/login?x=1"] {
        let (status, head, body) = get(at, path, "Cookie: orthrus=00\r\n");
        assert_eq!(status, 401, "{path}: {head}");
        assert!(!head.contains("set-cookie") && !body.contains("\"held\""), "{path}: {head}");
    }
    let path = format!("/{}", first.splitn(4, '/').nth(3).expect("a path"));
    let (head, _) = ask(at, &format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert!(!head.contains("set-cookie"), "a preview of a link uses it up: {head}");
    let cookie = log_in(&first);
    assert_eq!(get(at, &path, "").0, 401, "a link is good once");
    let (status, head, body) = get(at, "/status.json", &format!("Cookie: a=b; {cookie}\r\n"));
    assert_eq!(status, 200, "{head}");
    let report: Value = serde_json::from_str(&body).expect("it is JSON");
    assert!(report["held"]["exports"] == 1 && report["warnings"].is_array(), "{report:#}");
    server.wait_for_log("a link to the web page was made for user");
    // A browser has the cookies of both servers, and sends them to both.
    let neighbour = folder.path().join("neighbour");
    let _neighbour = serve(&neighbour);
    let name = |cookie: &str| cookie.split_once('=').map(|(name, _)| name.to_owned());
    assert_ne!(name(&log_in(&link(&neighbour))), name(&cookie));
    let bare = Serve::new(folder.path().join("bare")).args(["--memory", "1", "--sec", "sys"]).start();
    let ended = run(orthrus(["web", "--state-dir"]).arg(folder.path().join("bare")));
    assert!(!ended.status.success() && ended.stderr.contains("has no web page; set `web`"), "{ended:?}");
    drop(bare);
}

#[test]
fn neither_other_sites_nor_other_names_nor_other_methods_reach_anything() {
    let folder = empty_folder();
    let state = folder.path().join("state");
    let _server = serve(&state);
    let first = link(&state);
    let (at, cookie) = (address(&first), log_in(&first));
    // DNS rebinding: a page of another site resolves its own name to this address.
    for host in ["attacker.example", "attacker.example:9048", "127.0.0.1.attacker.example", ""] {
        let request = format!("GET /status.json HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n");
        let (head, body) = ask(at, &request);
        assert!(head.starts_with("HTTP/1.1 421 ") && !body.contains("held"), "{host}: {head}");
    }
    // CSRF: no method that could change something is admitted, whatever the path.
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        for path in ["/", "/login", "/status.json", "/v1/reload"] {
            let request = format!(
                "{method} {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\nContent-Length: 0\r\n\r\n"
            );
            assert!(ask(at, &request).0.starts_with("HTTP/1.1 405 "), "{method} {path}");
        }
    }
    // Clickjacking and reading by other origins, on every kind of answer.
    for path in ["/", "/app.js", "/style.css", "/status.json", "/nothing", "/login"] {
        let (_, head, _) = get(at, path, "");
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self';",
            "frame-ancestors 'none'",
            "x-frame-options: DENY",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-resource-policy: same-origin",
            "cache-control: no-store",
        ] {
            assert!(head.contains(header), "{path}: {header} is missing in {head}");
        }
        assert!(!head.contains("access-control-allow"), "{head}");
    }
}

#[test]
fn an_address_off_loopback_needs_tls_whose_files_can_be_replaced() {
    let folder = empty_folder();
    let state = folder.path().join("state");
    let refused = run(orthrus([
        "serve",
        "--memory",
        "1",
        "--sec",
        "sys",
        "--web",
        "0.0.0.0:0",
        "--listen",
        "127.0.0.1:0",
    ])
    .args(["--end-with-input", "--state-dir"])
    .arg(&state));
    assert!(
        !refused.status.success() && refused.stderr.contains("needs TLS: name web_certificate"),
        "{refused:?}"
    );
    if !is_installed("openssl", "openssl") || !is_installed("curl", "curl") {
        return;
    }
    replace_certificates(&folder, &state);
}

/// Checks that a server with TLS, which is for its own user alone, answers no other.
fn refuses_other_users(state: &Path) {
    if is_root() {
        let mut other = Command::new("setpriv");
        other.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--",
            "curl",
            "--silent",
            "--insecure",
        ]);
        let ended = run(other.arg(link(state)));
        assert!(!ended.status.success() && ended.stdout.is_empty(), "{ended:?}");
    }
}

/// Checks that DNS rebinding fails in a browser that takes any certificate, too. The certificate of
/// the server has the name of the first host.
fn refuses_other_sites(state: &Path) {
    for (host, status) in [("web.example.org", "200 OK"), ("attacker.example", "421 Misdirected Request")] {
        let ended = run(Command::new("curl")
            .args(["--silent", "--include", "--insecure", "--header", &format!("Host: {host}")])
            .arg(link(state)));
        assert!(ended.stdout.contains(status), "{host}: {ended:?}");
    }
}

/// Serves with a certificate, a new one and a broken one in turn.
fn replace_certificates(folder: &tempfile::TempDir, state: &Path) {
    let file = |name: &str| folder.path().join(name);
    let certify = |name: &str, names: &str| {
        let made = run(Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "2",
            ])
            .args(["-subj", &format!("/CN={name}"), "-addext", names, "-keyout"])
            .arg(file("new.key"))
            .arg("-out")
            .arg(file("new.crt")));
        assert!(made.status.success(), "{made:?}");
        for kind in ["key", "crt"] {
            fs::rename(file(&format!("new.{kind}")), file(&format!("web.{kind}")))
                .expect("the folder is ours");
        }
    };
    certify("first", "subjectAltName=IP:127.0.0.1");
    let config = file("orthrus.toml");
    let text = format!(
        "web = \"127.0.0.1:0\"\nweb_certificate = \"{}\"\nweb_key = \"{}\"\n[[export]]\nmemory = 1048576\npseudo = \"/m\"\nsec = [\"sys\"]\n",
        file("web.crt").display(),
        file("web.key").display()
    );
    fs::write(&config, text).expect("the folder is ours");
    let server = Serve::new(state).arg("--config").arg(&config).start();
    let first = link(state);
    assert!(first.starts_with("https://127.0.0.1:"), "{first}");
    let ask = |authority: &str| {
        run(Command::new("curl")
            .args(["--silent", "--include", "--cacert"])
            .arg(file(authority))
            .arg(link(state)))
    };
    let ended = ask("web.crt");
    assert!(ended.stdout.contains("200 OK") && ended.stdout.contains("; Secure"), "{ended:?}");
    refuses_other_users(state);
    certify("second", "subjectAltName=IP:127.0.0.1,DNS:web.example.org");
    let ended = ask("web.crt");
    assert!(ended.stdout.contains("200 OK"), "{ended:?}");
    server.wait_for_log("the certificate of the web page was read again");
    fs::rename(file("web.crt"), file("kept.crt")).expect("the folder is ours");
    let ended = ask("kept.crt");
    assert!(ended.stdout.contains("200 OK"), "the former one stays: {ended:?}");
    server.wait_for_log("No such file or directory");
    fs::write(file("web.crt"), "no certificate").expect("the folder is ours");
    let ended = ask("kept.crt");
    assert!(ended.stdout.contains("200 OK"), "the former one stays: {ended:?}");
    refuses_other_sites(state);
    server.wait_for_log("has no certificate in PEM");
    assert!(server.log().contains("the former certificate of the web page stays"), "{}", server.log());
    // Plain HTTP gets nothing.
    let mut plain = TcpStream::connect(address(&first)).expect("it listens");
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
}

/// Waits until an expression is true in the page.
fn until(browser: &mut Chromium, expression: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    while browser.ask_unless_gone(expression) != Some(Value::Bool(true)) {
        assert!(Instant::now() < end, "{expression}: {}", browser.ask("document.body.innerText"));
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Clicks a link on a page of another site, and waits until the status is there.
fn click_elsewhere(browser: &mut Chromium, link: &str) {
    browser.visit("about:blank", PageLook::DESK);
    browser.ask(&format!("document.body.innerHTML = '<a href=\"{link}\">status</a>'"));
    browser.ask("document.querySelector('a').click()");
    until(browser, "document.querySelector('#flavors') !== null");
}

/// Checks that the page of a server that hangs does not look current.
fn hang(server: &Server, browser: &mut Chromium) {
    server.signal(Signal::SIGSTOP);
    until(browser, "document.querySelector('#state').className === 'stale'");
    server.signal(Signal::SIGCONT);
    until(browser, "document.querySelector('#state').className === ''");
}

#[test]
fn the_page_shows_a_live_server_and_hostile_names_as_text_on_a_desk_a_phone_and_in_the_dark() {
    in_world(|world| {
        let server = world.server().args(["--web", "127.0.0.1:0", "--grace-time", "1"]).start();
        let state = world.path("state-1");
        let Some(mut browser) = Chromium::start() else { return };
        let evil = "<img src=x onerror=alert(1)><script>document.title='owned'<!--\u{202e}gpj.exe\u{7}";
        fs::write(world.export().join(evil), b"x").expect("the folder is ours");
        let mut files = world.mount(&server, "alice", Flavor::Krb5p);
        files.write_file("file", &[7; 100_000]).expect("it can be written");
        let mut client = Client::connect(world.options(&server, "alice", Flavor::Krb5p)).expect("a session");
        let opened = client.open_path(&format!("/export/{evil}"), &OpenHow::new(1)).expect("it is there");
        let (done, ended) = std::sync::mpsc::channel::<()>();
        let reader = std::thread::spawn(move || {
            while ended.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                files.read_file("file").expect("it can be read");
                (0..20).for_each(|_| {
                    drop(client.read(&opened.handle, opened.stateid, 0, 1).expect("it is open"))
                });
            }
        });
        let first = link(&state);
        click_elsewhere(&mut browser, &first);
        until(
            &mut browser,
            "[...document.querySelectorAll('#flavors td')].some(cell => cell.textContent === 'krb5p')",
        );
        until(
            &mut browser,
            "[...document.querySelectorAll('#operations td')].some(cell => cell.textContent === 'READ')",
        );
        until(&mut browser, "document.querySelector('#exports').textContent.includes('/export')");
        until(&mut browser, "document.querySelector('#clients').textContent.includes('127.0.0.1')");
        until(
            &mut browser,
            "document.querySelector('#files').textContent.includes('<img src=x onerror=alert(1)>')",
        );
        assert_eq!(browser.ask("document.title"), "Orthrus", "a name ran as a script");
        assert_eq!(browser.ask("document.images.length + document.scripts.length"), 1);
        let text = browser.ask("document.body.textContent");
        let text = text.as_str().expect("text");
        assert!(text.contains("\\u{202e}gpj.exe\\u{7}") && !text.contains('\u{202e}'), "{text}");
        for look in
            [PageLook::DESK, PageLook::DARK, PageLook::PHONE, PageLook { scheme: "dark", ..PageLook::PHONE }]
        {
            browser.look(look);
            let wide =
                browser.ask("document.documentElement.scrollWidth - document.documentElement.clientWidth");
            assert_eq!(wide, 0, "{look:?} scrolls sideways");
            let faint = browser.ask(CONTRAST);
            assert!(faint.as_array().is_some_and(Vec::is_empty), "{look:?}: too little contrast: {faint:#}");
            let small = browser.ask("Math.min(...[...document.querySelectorAll('td,th,b,span,p,figcaption')].map(e => parseFloat(getComputedStyle(e).fontSize)))");
            assert!(small.as_f64().is_some_and(|size| size >= 12.0), "{look:?}: text of {small} pixels");
        }
        let own = first.split("/login").next().expect("an origin").to_owned();
        let complaints = browser.complaints_beside(&own);
        assert!(complaints.is_empty(), "console and network are not silent: {complaints:#?}");
        hang(&server, &mut browser);
        // A session that has ended shows how to get a link.
        drop(server.restarted());
        done.send(()).expect("it reads");
        let _ = reader.join();
        until(
            &mut browser,
            "document.querySelector('#state')?.className === 'stale' || document.body.textContent.includes('orthrus web')",
        );
    });
}

/// Texts with less contrast to the background of their card than 4.5 to 1 (WCAG 2.2, 1.4.3).
const CONTRAST: &str = r"(() => {
  const channel = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = color => { const [r, g, b] = color.match(/[\d.]+/g).map(Number).map(channel); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!c.endsWith(', 0)')) return c; } return 'rgb(255, 255, 255)'; };
  return [...document.querySelectorAll('h1,h2,p,b,span,th,td,li,figcaption')].filter(e => e.textContent.trim()).map(e => {
    const [one, other] = [light(getComputedStyle(e).color), light(ground(e))].sort((a, b) => b - a);
    return [(one + 0.05) / (other + 0.05), e.tagName + ' ' + e.textContent.slice(0, 30)];
  }).filter(([ratio]) => ratio < 4.5);
})()";
