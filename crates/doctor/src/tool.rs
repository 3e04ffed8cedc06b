//! Runs programs with a deadline and a bounded output.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The bytes of output that are kept, per stream.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;

/// The result of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToolResult {
    /// The program is not installed.
    Missing,
    /// It was killed at the deadline.
    Late,
    /// It ended with success; holds its standard output.
    Done(String),
    /// It ended with a failure; holds its standard error, or its output if that is empty.
    Failed(String),
}

/// Runs a program to its end, or kills it at the deadline. Its language is English.
pub(crate) fn run(command: &mut Command, limit: Duration) -> ToolResult {
    command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else { return ToolResult::Missing };
    let output = child.stdout.take().map(reader);
    let error = child.stderr.take().map(reader);
    let end = Instant::now() + limit;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return ToolResult::Late;
            }
        }
    };
    let text = |reader: Option<std::thread::JoinHandle<String>>| {
        reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
    };
    let (output, error) = (text(output), text(error));
    if status.success() {
        return ToolResult::Done(output);
    }
    ToolResult::Failed(if error.trim().is_empty() { output } else { error })
}

fn reader(stream: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // A program that writes more gets SIGPIPE.
        let _ = stream.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Returns the last line of a program's message without its name, for a cause.
pub(crate) fn reason(text: &str) -> String {
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no reason given");
    let line = line.split_once(": ").map_or(line, |(_, rest)| rest);
    line.chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_or_is_absent_does_not_stop_the_doctor() {
        let begin = Instant::now();
        assert_eq!(run(Command::new("sleep").arg("60"), Duration::from_millis(50)), ToolResult::Late);
        assert!(begin.elapsed() < Duration::from_secs(30));
        assert_eq!(run(&mut Command::new("/nonexistent/klist"), Duration::from_secs(1)), ToolResult::Missing);
        let failed =
            run(Command::new("sh").args(["-c", "echo kinit: broken >&2; exit 1"]), Duration::from_secs(9));
        assert_eq!(failed, ToolResult::Failed("kinit: broken\n".into()));
        assert_eq!(reason("x\nkinit: broken\n"), "broken");
    }
}
