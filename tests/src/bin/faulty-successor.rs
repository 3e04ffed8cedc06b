//! Plays the next process of a server and fails: the name that it was started by says when and how,
//! as `orthrus-restored-hang` or `orthrus-go-die`.
//!
//! Up to then the real program does the work, as a process of its own between which and the old one
//! this one passes the messages on. So its half-done work is there when it fails.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use handover::{HandoverChannel, Hello, Order, SuccessorAnswer};
use minicbor::{Decode, Encode};
use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio, exit};
use std::time::{Duration, Instant};

/// The name of the real program in the folder of this one.
const REAL: &str = "orthrus";
/// The name of the image that `take-save` leaves in the folder.
const IMAGE: &str = "image";

/// A message that means nothing.
#[derive(Encode, Decode)]
struct Garbage {
    #[n(0)]
    text: String,
}

struct FaultySuccessor {
    /// The channel to the old process.
    old: HandoverChannel,
    /// The channel to the real program.
    new: HandoverChannel,
    real: Child,
    step: String,
    kind: String,
    folder: PathBuf,
}

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let own = PathBuf::from(arguments.first().expect("a name"));
    let name = own.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    let folder = own.parent().expect("a folder").to_owned();
    let fault = name.strip_prefix("orthrus-").and_then(|fault| fault.split_once('-'));
    let (step, kind) = fault.expect("orthrus-STEP-KIND");
    let input = std::io::stdin().as_fd().try_clone_to_owned().expect("standard input");
    let (new, other) = HandoverChannel::pair().expect("a pair of sockets");
    let mut real = Command::new(own.with_file_name(REAL));
    real.arg0(own.with_file_name(REAL)).args(&arguments[1..]).stdin(Stdio::from(other));
    let real = real.spawn().expect("the real program");
    let fault =
        FaultySuccessor { old: input.into(), new, real, step: step.into(), kind: kind.into(), folder };
    fault.run();
}

impl FaultySuccessor {
    /// Passes each message on, and fails at one of them.
    fn run(mut self) {
        let (hello, fds) = receive::<Hello>(&self.old);
        self.fail_at("hello");
        let hello = match self.kind.as_str() {
            "major" => Hello { major: hello.major + 1, ..hello },
            _ => hello,
        };
        send(&self.new, &hello, &fds);
        drop(fds);
        self.answer("prepared");
        let (order, image) = receive::<Order>(&self.old);
        let Order::Take(taken) = order else { panic!("the image is missing") };
        if self.kind == "save" {
            self.save(&image);
        }
        self.fail_at("take");
        send(&self.new, &order, &image);
        let mut missing = (taken.sockets + taken.objects) as usize;
        while missing > 0 {
            let (order, fds) = receive::<Order>(&self.old);
            self.fail_at("descriptors");
            missing = missing.saturating_sub(fds.len());
            send(&self.new, &order, &fds);
        }
        self.answer("restored");
        let (order, _) = receive::<Order>(&self.old);
        assert_eq!(order, Order::Go);
        self.fail_at("go");
        panic!("there is nothing left to fail at: {}", self.step);
    }

    /// Saves the image beside this program, for tests of compatibility.
    fn save(&self, image: &[OwnedFd]) {
        let image = image.first().expect("the image is missing");
        let bytes = std::fs::read(format!("/proc/self/fd/{}", image.as_raw_fd())).expect("it can be read");
        std::fs::write(self.folder.join(IMAGE), bytes).expect("the folder is the test's");
    }

    /// Passes an answer of the real program on.
    fn answer(&mut self, step: &str) {
        let (answer, fds) = receive::<SuccessorAnswer>(&self.new);
        if !matches!(answer, SuccessorAnswer::Refused(_)) {
            self.fail_at(step);
        }
        send(&self.old, &answer, &fds);
        if matches!(answer, SuccessorAnswer::Refused(_)) {
            let _ = self.real.wait();
            exit(1);
        }
    }

    fn fail_at(&mut self, step: &str) {
        if step != self.step || self.kind == "major" {
            return;
        }
        let say = |answer| send(&self.old, &answer, &[]);
        match self.kind.as_str() {
            "die" | "save" => {}
            // The real program learns that the conversation has ended, and ends by itself.
            "close" => {
                self.new.close();
                let _ = self.real.wait();
                exit(0);
            }
            "hang" => std::thread::sleep(Duration::from_secs(120)),
            "garbage" => {
                let text = "this is no answer".to_owned();
                send(&self.old, &Garbage { text }, &[]);
                std::thread::sleep(Duration::from_secs(120));
            }
            "early" => {
                say(if step == "go" { SuccessorAnswer::Restored } else { SuccessorAnswer::Serving });
                std::thread::sleep(Duration::from_secs(120));
            }
            "refuse" => say(SuccessorAnswer::Refused("a reason to refuse".to_owned())),
            kind => panic!("an unknown fault: {kind}"),
        }
        let _ = self.real.kill();
        let _ = self.real.wait();
        exit(7);
    }
}

fn receive<T: for<'b> Decode<'b, ()>>(channel: &HandoverChannel) -> (T, Vec<OwnedFd>) {
    match channel.receive(Instant::now() + Duration::from_secs(60)) {
        Ok(message) => message,
        // The other end has given up.
        Err(error) => {
            eprintln!("faulty-successor: {error}");
            exit(8)
        }
    }
}

fn send(channel: &HandoverChannel, message: &impl Encode<()>, fds: &[OwnedFd]) {
    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    let _ = channel.send(message, &fds, Instant::now() + Duration::from_secs(60));
}
