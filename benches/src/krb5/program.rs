//! The columns that are not ours: C programs, compiled when they are needed, that run one row at a
//! time on request.

use anyhow::{Context, bail, ensure};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A program to compile.
pub(super) struct ColumnSource {
    /// The file in this folder, and its name once it is a program.
    pub file: &'static str,
    pub name: &'static str,
    /// Additional arguments of the compiler.
    pub flags: &'static [&'static str],
    /// A header that is missing where the package is.
    pub header: &'static str,
    /// The name of the Debian package.
    pub package: &'static str,
}

/// A program at work. It ends with its standard input.
pub(super) struct ColumnProgram {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// The work of a program in a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkDone {
    pub bytes: f64,
    pub used: Duration,
}

impl WorkDone {
    pub(super) fn gb_per_s(self) -> f64 {
        self.bytes / self.used.as_nanos().max(1) as f64
    }
}

impl ColumnSource {
    /// Compiles it; `None` where its package is missing.
    ///
    /// # Errors
    /// When there is no compiler, and when it finds an error.
    pub(super) fn build(&self) -> anyhow::Result<Option<PathBuf>> {
        if !header_exists(self.header)? {
            return Ok(None);
        }
        let folder = steps::target().join("bench-krb5");
        std::fs::create_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
        let program = folder.join(self.name);
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/krb5").join(self.file);
        let mut compiler = Command::new("cc");
        compiler
            .args(["-std=gnu11", "-O3", "-Wall", "-Wextra", "-o"])
            .arg(&program)
            .arg(file)
            .args(self.flags);
        steps::run(&mut compiler)?;
        Ok(Some(program))
    }
}

fn header_exists(header: &str) -> anyhow::Result<bool> {
    let mut compiler = Command::new("cc")
        .args(["-E", "-o", "/dev/null", "-x", "c", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("no C compiler; apt-get install build-essential")?;
    let mut input = compiler.stdin.take().context("no standard input")?;
    writeln!(input, "#include <{header}>")?;
    drop(input);
    Ok(compiler.wait()?.success())
}

impl ColumnProgram {
    /// Starts a program, with a variable in its environment.
    pub(super) fn start(path: &Path, variable: Option<(&str, &str)>) -> anyhow::Result<Self> {
        let mut child = Command::new(path)
            .envs(variable)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} did not start", path.display()))?;
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(Self { child, requests, answers })
    }

    /// Asks for a turn; `Err` holds the reason why the program does not do such a row.
    pub(super) fn turn(
        &mut self,
        request: &str,
        length: Duration,
    ) -> anyhow::Result<Result<WorkDone, String>> {
        let requests = self.requests.as_mut().context("the program has ended")?;
        writeln!(requests, "{request} {}", length.as_nanos())?;
        let mut answer = String::new();
        ensure!(self.answers.read_line(&mut answer)? > 0, "no answer to {request:?}");
        if let Some(reason) = answer.strip_prefix("none ") {
            return Ok(Err(reason.trim_end().to_owned()));
        }
        let Some((bytes, nanoseconds)) = answer.trim_end().split_once(' ') else {
            bail!("{answer:?} is no answer to {request:?}")
        };
        Ok(Ok(WorkDone { bytes: bytes.parse()?, used: Duration::from_nanos(nanoseconds.parse()?) }))
    }
}

impl Drop for ColumnProgram {
    fn drop(&mut self) {
        self.requests = None;
        // It ends by itself, also with an error that it has printed.
        let _ = self.child.wait();
    }
}
