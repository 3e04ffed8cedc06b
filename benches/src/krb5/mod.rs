//! Tokens on one core: the `krb5` crate beside MIT's library, one message at a time, a multi-buffer
//! library, and the limits of the core's units.

mod limit;
mod ours;
mod program;
mod row;
mod table;

use super::cores::Cores;
use super::output::BenchOutput;
use super::stopped;
use anyhow::{Context, ensure};
use krb5::{Cpu, Enctype};
use limit::LaneCalibration;
use ours::Ours;
use program::{ColumnProgram, ColumnSource, WorkDone};
use row::TokenRow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use table::{COLUMNS, RowRates};

/// Turns of every column, one after the other: A B C, A B C.
const ROUNDS: usize = 5;

/// Processor time of a turn.
const TURN: Duration = Duration::from_millis(12);

/// The rows to measure, and the file for the figures.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Work with these instructions: avx512, avx2, aesni or portable.
    #[arg(long, value_name = "NAME", env = krb5::CPU_VARIABLE)]
    cpu: Option<Cpu>,
    /// Only the rows of which a part of the name is one of these, as in "etype18 wrap".
    #[arg(long, value_delimiter = ',', value_name = "TEXT,…")]
    only: Vec<String>,
    #[command(flatten)]
    pub output: super::Arguments,
}

impl Arguments {
    /// Whether a row is asked for.
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part))
    }
}

const MIT: ColumnSource = ColumnSource {
    file: "mit.c",
    name: "mit",
    flags: &["-lkrb5", "-lk5crypto"],
    header: "krb5.h",
    package: "libkrb5-dev",
};
const OPENSSL: ColumnSource = ColumnSource {
    file: "openssl.c",
    name: "openssl",
    flags: &["-lcrypto"],
    header: "openssl/evp.h",
    package: "libssl-dev",
};
const IPSEC_MB: ColumnSource = ColumnSource {
    file: "ipsec_mb.c",
    name: "ipsec-mb",
    flags: &["-lIPSec_MB"],
    header: "intel-ipsec-mb.h",
    package: "libipsec-mb-dev",
};

/// The other columns in their order, and the variable in the environment of each.
fn columns(cpu: Cpu) -> [(&'static ColumnSource, Option<(&'static str, &'static str)>); COLUMNS] {
    [
        (&MIT, None),
        (&OPENSSL, None),
        (&OPENSSL, Some(("ORTHRUS_STITCHED", "1"))),
        (&IPSEC_MB, Some((krb5::CPU_VARIABLE, cpu.name()))),
    ]
}

/// The programs by source; those of missing packages are absent.
type ColumnPaths = BTreeMap<&'static str, PathBuf>;

/// Runs the benchmark.
///
/// # Errors
/// When a path was asked for that this processor does not have, and when a program does not work.
pub(crate) fn run(arguments: &Arguments, output: &mut BenchOutput, stop: &AtomicBool) -> anyhow::Result<()> {
    let cpu = arguments.cpu.unwrap_or_else(Cpu::best);
    ensure!(cpu.is_available(), "this processor cannot do {cpu}");
    let cores = Cores::choose()?;
    cores.on_server(|| {
        let others = others(output)?;
        let mut calibration = LaneCalibration::start()?;
        describe(output);
        let rows: Vec<_> = TokenRow::all().into_iter().filter(|row| arguments.wants(&row.name())).collect();
        table(output, stop, cpu, &rows, &others, &mut calibration)?;
        // Machines without wide vectors have floors of their own.
        let second = arguments.cpu.is_none() && cpu != Cpu::AesNi && Cpu::AesNi.is_available();
        if !second || stopped(stop) {
            return Ok(());
        }
        let rows: Vec<_> = rows.into_iter().filter(|row| row.floor(Cpu::AesNi).is_some()).collect();
        table(output, stop, Cpu::AesNi, &rows, &others, &mut calibration)
    })
}

fn others(output: &mut BenchOutput) -> anyhow::Result<ColumnPaths> {
    let mut others = ColumnPaths::new();
    for (source, what) in [(&MIT, "MIT's library"), (&OPENSSL, "one at a time"), (&IPSEC_MB, "many at once")]
    {
        match source.build()? {
            Some(program) => drop(others.insert(source.name, program)),
            None => output.note(&format!("{what}: not here; apt-get install {} gives it", source.package)),
        }
    }
    if let Some(mit) = others.get(MIT.name) {
        check_mit(mit)?;
        output.note(&format!(
            "MIT: libk5crypto of {} by krb5_k_encrypt_iov, krb5_k_decrypt_iov, krb5_k_make_checksum_iov and krb5_k_verify_checksum_iov",
            said_by("krb5-config", &["--version"])
        ));
    }
    if others.contains_key(OPENSSL.name) {
        output.note(&format!(
            "one at a time: {}, AES-CBC and HMAC by EVP in two passes; (s): its stitched AES-CBC with SHA-1 where that seals faster",
            said_by("openssl", &["version"])
        ));
    }
    if others.contains_key(IPSEC_MB.name) {
        output.note("many at once: Intel's libIPSec_MB, a job of AES-CBC and HMAC for each message; its 64 KiB are 64 bytes less, the most that a job takes");
    }
    Ok(others)
}

/// The first line that a program prints.
fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    said.lines().next().unwrap_or("an unknown version").to_owned()
}

/// Checks that MIT's column makes interoperable tokens: opens them with our library.
fn check_mit(program: &Path) -> anyhow::Result<()> {
    let output = Command::new(program).arg("token").output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut tokens = text.lines().map(unhex);
    for enctype in Enctype::ALL {
        let mut next = || tokens.next().flatten().context("MIT's column makes no tokens");
        let (mut wrap, mic) = (next()?, next()?);
        ours::check_tokens_of_mit(enctype, &mut wrap, &mic)
            .with_context(|| format!("tokens of MIT's column, {enctype}"))?;
    }
    Ok(())
}

fn unhex(line: &str) -> Option<Vec<u8>> {
    (0..line.len()).step_by(2).map(|at| u8::from_str_radix(line.get(at..at + 2)?, 16).ok()).collect()
}

fn describe(output: &mut BenchOutput) {
    output.note(&format!(
        "all on one core in turn: {ROUNDS} rounds of {} ms of processor time each; median [interval]",
        TURN.as_millis()
    ));
    output.note("limit: AES and the hash on registers alone with full lanes, and for few messages the chain that one of them is; loads, byte order and lanes being filled are not in it");
}

/// Measures with one set of instructions; the limits follow when all rounds of them are run.
fn table(
    output: &mut BenchOutput,
    stop: &AtomicBool,
    cpu: Cpu,
    rows: &[TokenRow],
    others: &ColumnPaths,
    calibration: &mut LaneCalibration,
) -> anyhow::Result<()> {
    let start = |(source, variable): (&ColumnSource, Option<_>)| {
        others.get(source.name).map(|path| ColumnProgram::start(path, variable)).transpose()
    };
    let mut programs: Vec<_> = columns(cpu).into_iter().map(start).collect::<anyhow::Result<_>>()?;
    let mut measured = Vec::new();
    for &row in rows {
        if stopped(stop) {
            break;
        }
        let (mut ours, mut rates) = (Ours::new(row, cpu)?, RowRates::default());
        for _ in 0..ROUNDS {
            rates.ours.push(ours.turn(TURN)?.gb_per_s());
            for (program, rates) in programs.iter_mut().zip(&mut rates.others) {
                let Some(program) = program else { continue };
                rates.extend(program.turn(&row.request(), TURN)?.ok().map(WorkDone::gb_per_s));
            }
        }
        calibration.round(row.enctype)?;
        measured.push((row, rates));
    }
    table::print(output, cpu, &measured, calibration);
    Ok(())
}
