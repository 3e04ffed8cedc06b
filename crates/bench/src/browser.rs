//! Chromium for tests of pages.

use std::path::Path;
use std::process::{Command, Output};

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
    "--enable-logging=stderr",
];

/// Says whether there is one, and, where there is none, that the test is skipped.
pub(crate) fn is_installed() -> bool {
    let found = Command::new("chromium").arg("--version").output().is_ok();
    if !found {
        println!("skipped: chromium is not installed");
    }
    found
}

fn chromium(folder: &Path, size: &str, arguments: &[&str], page: &Path) -> Output {
    Command::new("chromium")
        .args(FLAGS)
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("--window-size={size}"))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("chromium starts")
}

/// What it makes of a page in a window of this size, and what it logs.
pub(crate) fn dom(folder: &Path, size: &str, page: &Path) -> (String, String) {
    let output = chromium(folder, size, &["--dump-dom"], page);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Leaves pictures of a page: of a desk, of a phone, and in the dark.
pub(crate) fn screenshots(page: &Path, place: &Path, name: &str) {
    let sizes =
        [("1280,2600", "desk", ""), ("500,3600", "phone", ""), ("1280,2600", "dark", "--force-dark-mode")];
    for (size, kind, extra) in sizes {
        let shot = format!("--screenshot={}", place.join(format!("{name}-{kind}.png")).display());
        let folder = tempfile::tempdir().unwrap();
        let arguments = if extra.is_empty() { vec![shot.as_str()] } else { vec![shot.as_str(), extra] };
        assert!(chromium(folder.path(), size, &arguments, page).status.success());
    }
}
