//! fio: the options of a load, and the results in its JSON.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::measuring::{Histogram, Latencies, Sample};
use crate::tools::FIO;

/// A load that fio makes on one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FioJob {
    /// Whether places are drawn at random, or follow each other.
    pub random: bool,
    /// Bytes of a request.
    pub size: u64,
    /// Percentage of the requests that write.
    pub writes: u32,
    /// Requests in flight of each client.
    pub depth: u32,
    /// Clients, each with a file of its own.
    pub clients: u32,
    /// Bytes of a client's file.
    pub file_size: u64,
    /// How long to go on.
    pub length: Duration,
}

impl FioJob {
    fn mode(self) -> &'static str {
        match (self.random, self.writes) {
            (true, 0) => "randread",
            (true, 100) => "randwrite",
            (true, _) => "randrw",
            (false, 0) => "read",
            (false, 100) => "write",
            (false, _) => "rw",
        }
    }

    /// Makes the command; files are made in `folder`. I/O is direct where the file system has it
    /// (`direct`), so that the server is measured and not the client's cache.
    ///
    /// # Errors
    /// When fio is not installed.
    pub fn command(self, folder: &Path, direct: bool) -> Result<Command> {
        let mut command = FIO.command()?;
        // Its own files would lie where the user stands.
        command.current_dir(folder).args([
            "--name=bench",
            "--thread",
            "--output-format=json+",
            "--group_reporting",
        ]);
        command.arg(format!("--directory={}", folder.display()));
        command.arg(format!("--rw={}", self.mode()));
        command.arg(format!("--bs={}", self.size)).arg(format!("--size={}", self.file_size));
        command.arg(format!("--iodepth={}", self.depth)).arg("--ioengine=libaio");
        command
            .arg(format!("--direct={}", u8::from(direct)))
            .arg(format!("--numjobs={}", self.clients.max(1)));
        command.arg(format!("--runtime={}ms", self.length.as_millis().max(1))).arg("--time_based");
        command.args(["--randseed=1869770088", "--allrandrepeat=1", "--norandommap", "--end_fsync=1"]);
        if !matches!(self.writes, 0 | 100) {
            command.arg(format!("--rwmixwrite={}", self.writes));
        }
        Ok(command)
    }
}

/// Returns the file of a client, from 0, as fio names it in the folder.
pub fn file(folder: &Path, client: u32) -> PathBuf {
    folder.join(format!("bench.{client}.0"))
}

#[derive(Deserialize)]
struct FioOutput {
    jobs: Vec<FioGroup>,
}

#[derive(Deserialize)]
struct FioGroup {
    #[serde(default)]
    error: i64,
    /// The run time of all jobs together, in milliseconds.
    #[serde(default)]
    job_runtime: u64,
    /// Their processor time, in percent of that.
    #[serde(default)]
    usr_cpu: f64,
    #[serde(default)]
    sys_cpu: f64,
    read: FioDirection,
    write: FioDirection,
}

#[derive(Deserialize)]
struct FioDirection {
    io_bytes: u64,
    total_ios: u64,
    /// The run time in milliseconds.
    runtime: u64,
    #[serde(default)]
    clat_ns: Latency,
}

#[derive(Default, Deserialize)]
struct Latency {
    #[serde(default)]
    bins: BTreeMap<u64, u64>,
}

/// The results of a run of fio.
#[derive(Debug)]
pub struct Measured {
    /// Reads and writes together, without processor time.
    pub sample: Sample,
    /// Processor time of the threads that read and wrote.
    pub jobs_cpu: Duration,
}

/// Parses the output of fio: reads and writes together. Warnings may precede the JSON.
///
/// # Errors
/// Text that is not output of fio, a failed job, or a job without requests.
pub fn parse(text: &str) -> Result<Measured> {
    let start = text.find('{').context("fio printed no JSON")?;
    let output: FioOutput = serde_json::from_str(text.get(start..).unwrap_or_default())
        .context("fio's output is not understood")?;
    let (mut measured, mut latencies, mut jobs_cpu) = (Sample::default(), Histogram::default(), 0.0);
    for group in output.jobs {
        ensure!(group.error == 0, "fio failed with error {}", group.error);
        jobs_cpu += group.job_runtime as f64 / 1e3 * (group.usr_cpu + group.sys_cpu) / 100.0;
        for direction in [group.read, group.write] {
            measured.operations += direction.total_ios;
            measured.bytes += direction.io_bytes;
            measured.seconds = measured.seconds.max(direction.runtime as f64 / 1e3);
            direction.clat_ns.bins.iter().for_each(|(nanos, count)| latencies.count_many(*nanos, *count));
        }
    }
    ensure!(measured.operations > 0 && measured.seconds > 0.0, "fio completed no request");
    let sample = Sample { latency: Latencies::of(latencies), ..measured };
    Ok(Measured { sample, jobs_cpu: Duration::try_from_secs_f64(jobs_cpu).unwrap_or_default() })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::tools;
    use std::sync::atomic::AtomicBool;

    pub(in crate::mounted) const JOB: FioJob = FioJob {
        random: true,
        size: 4096,
        writes: 25,
        depth: 4,
        clients: 2,
        file_size: 1 << 20,
        length: Duration::from_millis(200),
    };

    #[test]
    fn reads_and_writes_are_added_up() {
        let text = r#"fio: this is a warning
            {"fio version":"fio-3.33","jobs":[{"jobname":"bench","error":0,
            "job_runtime":2000,"usr_cpu":5.0,"sys_cpu":15.0,
            "read":{"io_bytes":40960,"total_ios":10,"runtime":1000,"clat_ns":{"bins":{"1000":4,"3000":6}}},
            "write":{"io_bytes":8192,"total_ios":2,"runtime":998,"clat_ns":{"bins":{"3000":2}}},
            "trim":{"io_bytes":0,"total_ios":0,"runtime":0}}]}"#;
        let Measured { sample: measured, jobs_cpu } = parse(text).unwrap();
        assert_eq!((measured.operations, measured.bytes, measured.seconds), (12, 49152, 1.0));
        assert_eq!(jobs_cpu, Duration::from_millis(400));
        let latency = measured.latency.unwrap();
        let counts: Vec<u64> = latency.histogram.buckets().map(|(_, count)| count).collect();
        assert_eq!((counts, latency.p50_us.round()), (vec![4, 8], 3.0));
    }

    #[test]
    fn foreign_or_failed_output_of_fio_is_refused() {
        for text in ["", "{}", "fio: failed", r#"{"jobs":[]}"#] {
            assert!(parse(text).is_err(), "{text:?}");
        }
        let failed = r#"{"jobs":[{"error":28,"read":{"io_bytes":0,"total_ios":0,
            "runtime":0},"write":{"io_bytes":0,"total_ios":0,"runtime":0}}]}"#;
        assert!(parse(failed).unwrap_err().to_string().contains("error 28"));
    }

    #[test]
    fn the_installed_fio_says_what_is_understood_here() {
        if let Err(missing) = FIO.find() {
            return eprintln!("skipped: {missing}");
        }
        let dir = tempfile::tempdir().unwrap();
        for job in [JOB, FioJob { random: false, writes: 0, ..JOB }] {
            let ran =
                tools::run(&mut job.command(dir.path(), false).unwrap(), &AtomicBool::new(false)).unwrap();
            let ran = ran.unwrap();
            let Measured { sample: measured, jobs_cpu } = parse(&ran.stdout).unwrap();
            assert!(jobs_cpu > Duration::ZERO && jobs_cpu <= ran.cpu, "{jobs_cpu:?} of {ran:?}");
            assert!(measured.operations > 0 && measured.bytes == measured.operations * 4096, "{measured:?}");
            assert_eq!(measured.latency.unwrap().histogram.len(), measured.operations);
            assert!(
                (0..JOB.clients).all(|client| file(dir.path(), client).exists()),
                "fio names its files otherwise"
            );
        }
    }
}
