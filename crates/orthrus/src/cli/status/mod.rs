//! `orthrus status`: what a running server does now.

mod rates;
mod screen;
mod text;

use super::asked_server::AskedServer;
use super::stop::stop_flag;
use crate::api::StatusReport;
use crate::output::{out, outln};
use anyhow::Context;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use rates::StatusRates;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use screen::StatusHistory;
use signal_hook::consts::SIGHUP;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};
use terminal::escape_json;
use text::StatusText;

/// Time between two looks at the server: rates are means of this time.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time without an answer after which the screen says so.
const SILENCE: Duration = Duration::from_secs(3);
/// How long the screen waits for a key before it looks for signals.
const KEY_WAIT: Duration = Duration::from_millis(100);

/// Show what a running server does: rates, flavors, the cost of encryption, clients, and warnings.
///
/// At a terminal it shows the last second, every second, until `q` or Ctrl-C. Elsewhere, and with
/// --once, it prints one second and ends.
///
/// The columns of a flavor are microseconds for each request: `TIME` of the server's threads,
/// `PROTECTION` of it for signing and encryption, and `WAITING` for a thread or a disk.
#[derive(clap::Args)]
pub(super) struct StatusArguments {
    /// Print one second and end.
    #[arg(long)]
    once: bool,
    /// Print the counters since the start as one JSON object and end.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: AskedServer,
}

impl StatusArguments {
    /// Asks the server, and shows its answers.
    ///
    /// # Errors
    /// See [`AskedServer::get`].
    pub(super) fn run(self) -> anyhow::Result<()> {
        let first = self.ask()?;
        if self.json {
            outln!("{}", escape_json(&serde_json::to_string_pretty(&first)?));
            return Ok(());
        }
        if std::io::stdout().is_terminal() && !self.once {
            return self.live(first);
        }
        std::thread::sleep(INTERVAL);
        let now = self.ask()?;
        out!("{}", StatusText(&StatusRates::between(&first, &now)));
        Ok(())
    }

    fn ask(&self) -> anyhow::Result<StatusReport> {
        self.server.get("/v1/status", &[])
    }

    /// Shows every second on the screen, and leaves the terminal as it was.
    fn live(self, first: StatusReport) -> anyhow::Result<()> {
        let stop = stop_flag()?;
        let mut terminal = ratatui::try_init().context("the terminal")?;
        std::thread::spawn(end_with_terminal);
        let shown = show(&mut terminal, first, &self.reports(), &stop);
        ratatui::restore();
        shown
    }

    /// Asks every second on a thread of its own: the answer of a server that hangs does not come,
    /// and keys must work meanwhile.
    fn reports(self) -> Receiver<anyhow::Result<StatusReport>> {
        let (reports, received) = sync_channel(1);
        std::thread::spawn(move || {
            while reports.send(self.ask()).is_ok() {
                std::thread::sleep(INTERVAL);
            }
        });
        received
    }
}

/// Waits for the hangup of the terminal, and ends the program. `crossterm` reads the end of file of
/// such a terminal over and over and does not return, so no flag could end it.
fn end_with_terminal() {
    let output = std::io::stdout();
    // A hangup needs no flag to be reported.
    let mut terminal = [PollFd::new(&output, PollFlags::empty())];
    while !terminal[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
        if poll(&mut terminal, None).is_err_and(|error| error != Errno::INTR) {
            return;
        }
    }
    std::process::exit(128 + SIGHUP);
}

fn show(
    terminal: &mut DefaultTerminal,
    mut before: StatusReport,
    reports: &Receiver<anyhow::Result<StatusReport>>,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let mut history = StatusHistory::default();
    let mut now: Option<StatusReport> = None;
    let (mut fault, mut answered) = (None, Instant::now());
    while !ended(INTERVAL, stop)? {
        let answer = reports.try_recv();
        if answer.is_ok() {
            answered = Instant::now();
        }
        let is_new = matches!(answer, Ok(Ok(_)));
        match answer {
            Ok(Ok(report)) => {
                before = now.replace(report).unwrap_or(before);
                fault = None;
            }
            // It may come back after a restart.
            Ok(Err(error)) => fault = Some(format!("{error:#}")),
            Err(_) if answered.elapsed() >= SILENCE => {
                fault = Some(format!("no answer for {} s", answered.elapsed().as_secs()));
            }
            Err(_) => {}
        }
        let rates = StatusRates::between(&before, now.as_ref().unwrap_or(&before));
        if is_new {
            history.add(&rates);
        }
        terminal.draw(|frame| screen::draw(frame, &rates, &history, fault.as_deref()))?;
    }
    Ok(())
}

/// Waits for so long; returns whether a key or a signal ends the program.
fn ended(time: Duration, stop: &AtomicBool) -> anyhow::Result<bool> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if stop.load(Relaxed) {
            return Ok(true);
        }
        if event::poll(KEY_WAIT)?
            && let Event::Key(key) = event::read()?
            && ends(key)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a key ends the program. The terminal passes Ctrl-C on as a key.
fn ends(key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) || control && key.code == KeyCode::Char('c')
}
