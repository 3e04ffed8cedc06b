//! A script that runs on nodes, at the same time on all.

use crate::processes;
use crate::status::pid_of;
use crate::{LabFolder, LabRecord};
use anyhow::{Context, bail};
use std::fs;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How often it is looked for output and ends.
const LOOK: Duration = Duration::from_millis(10);
/// How often it is looked whether the nodes still run.
const LOOK_NODES: Duration = Duration::from_secs(1);
/// The exit status of a node that ended with its job.
const GONE: i32 = 255;

/// Sets variables for scripts that source /lab/lib.sh, and removes those of the last run.
///
/// # Errors
/// When they cannot be written.
pub fn set(folder: &LabFolder, settings: &[(String, String)]) -> anyhow::Result<()> {
    let mut text = crate::files::SETTINGS.to_owned();
    for (name, value) in settings {
        text.push_str(&format!("{name}='{}'\n", value.replace('\'', r"'\''")));
    }
    let file = folder.share().join("settings");
    fs::write(&file, text).with_context(|| file.display().to_string())
}

/// The end of a script on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnd {
    /// Name of the node.
    pub node: String,
    /// Its exit status; 255 when the node ended.
    pub code: i32,
    /// All that it printed.
    pub output: String,
}

/// A script under way.
#[derive(Debug)]
pub struct NodeScript<'a> {
    folder: &'a LabFolder,
    record: &'a LabRecord,
    nodes: Vec<String>,
    id: String,
    dir: PathBuf,
}

impl<'a> NodeScript<'a> {
    /// Starts a script, as root, on some nodes.
    ///
    /// # Errors
    /// When a node does not take requests.
    pub fn start(
        folder: &'a LabFolder,
        record: &'a LabRecord,
        nodes: &[String],
        script: &str,
    ) -> anyhow::Result<Self> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        let dir = folder.share().join("run").join(&id);
        fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
        let job = Self { folder, record, nodes: nodes.to_vec(), id, dir };
        fs::write(job.dir.join("script"), script)?;
        job.ask("run")?;
        Ok(job)
    }

    /// Returns the job's folder, which the nodes see as /lab/run/ID; it goes with the job.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn ask(&self, verb: &str) -> anyhow::Result<()> {
        for node in &self.nodes {
            // Do not block: without a reader the node has ended.
            let pipe = fs::File::options()
                .write(true)
                .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
                .open(self.folder.ask(node));
            let asked = pipe.and_then(|mut pipe| pipe.write_all(format!("{verb} {}\n", self.id).as_bytes()));
            asked.with_context(|| format!("{node} takes no requests"))?;
        }
        Ok(())
    }

    /// Waits until it has ended on all nodes; `each` is given every line as it comes, with the
    /// node's name.
    ///
    /// # Errors
    /// When `stop` becomes true, after the script has been ended; when its output cannot be read.
    pub fn wait(&self, stop: &AtomicBool, each: &mut dyn FnMut(&str, &str)) -> anyhow::Result<Vec<JobEnd>> {
        let mut under_way: Vec<NodeOutput> =
            self.nodes.iter().map(|node| NodeOutput::new(node, &self.dir)).collect();
        let mut ended = Vec::new();
        let mut look_nodes = Instant::now() + LOOK_NODES;
        while !under_way.is_empty() {
            if stop.load(Ordering::Relaxed) {
                self.ask("stop")?;
                bail!("interrupted");
            }
            let gone = if Instant::now() > look_nodes { self.gone() } else { Vec::new() };
            if Instant::now() > look_nodes {
                look_nodes = Instant::now() + LOOK_NODES;
            }
            let mut left = Vec::new();
            for mut output in under_way {
                // Check this before the output is read, so that the output is complete.
                let code = output.code().or_else(|| gone.contains(&output.node).then_some(GONE));
                output.read(each)?;
                match code {
                    Some(code) => ended.push(output.end(code, each)),
                    None => left.push(output),
                }
            }
            under_way = left;
            std::thread::sleep(LOOK);
        }
        ended.sort_by_key(|one| self.nodes.iter().position(|node| *node == one.node));
        Ok(ended)
    }

    fn gone(&self) -> Vec<String> {
        let all = self.record.supervisor.map(processes::all).unwrap_or_default();
        self.nodes.iter().filter(|node| pid_of(&all, node).is_none()).cloned().collect()
    }
}

impl Drop for NodeScript<'_> {
    fn drop(&mut self) {
        // A stopped node may still write its exit status; the lab's end removes the rest.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The output of a node so far.
struct NodeOutput {
    node: String,
    dir: PathBuf,
    text: Vec<u8>,
    /// How much of it `each` has seen.
    told: usize,
}

impl NodeOutput {
    fn new(node: &str, dir: &Path) -> Self {
        Self { node: node.to_owned(), dir: dir.to_owned(), text: Vec::new(), told: 0 }
    }

    fn code(&self) -> Option<i32> {
        fs::read_to_string(self.dir.join(format!("{}.code", self.node))).ok()?.trim().parse().ok()
    }

    fn read(&mut self, each: &mut dyn FnMut(&str, &str)) -> anyhow::Result<()> {
        let path = self.dir.join(format!("{}.out", self.node));
        let mut file = match fs::File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            opened => opened.with_context(|| path.display().to_string())?,
        };
        file.seek(SeekFrom::Start(self.text.len() as u64))?;
        file.read_to_end(&mut self.text)?;
        while let Some(rest) = self.text.get(self.told..)
            && let Some(length) = rest.iter().position(|byte| *byte == b'\n')
        {
            each(&self.node, &String::from_utf8_lossy(rest.get(..length).unwrap_or_default()));
            self.told += length + 1;
        }
        Ok(())
    }

    fn end(self, code: i32, each: &mut dyn FnMut(&str, &str)) -> JobEnd {
        // A last line without its end.
        if let Some(rest) = self.text.get(self.told..).filter(|rest| !rest.is_empty()) {
            each(&self.node, &String::from_utf8_lossy(rest));
        }
        JobEnd { node: self.node, code, output: String::from_utf8_lossy(&self.text).into_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_passed_on_line_by_line_and_the_last_one_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut output = NodeOutput::new("node1", dir.path());
        let mut lines = Vec::new();
        let file = dir.path().join("node1.out");
        output.read(&mut |_, line| lines.push(line.to_owned())).unwrap();
        fs::write(&file, "one\ntw").unwrap();
        output.read(&mut |_, line| lines.push(line.to_owned())).unwrap();
        fs::write(&file, "one\ntwo\nthree").unwrap();
        output.read(&mut |_, line| lines.push(line.to_owned())).unwrap();
        assert_eq!(output.code(), None);
        fs::write(dir.path().join("node1.code"), "3\n").unwrap();
        assert_eq!(output.code(), Some(3));
        let ended = output.end(3, &mut |_, line| lines.push(line.to_owned()));
        assert_eq!(lines, ["one", "two", "three"]);
        assert_eq!(ended.output, "one\ntwo\nthree");
    }
}
