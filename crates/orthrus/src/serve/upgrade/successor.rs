//! The side of the process that takes over.

use super::VARIABLE;
use crate::serve::process::grow_descriptor_table;
use anyhow::{Context, bail};
use handover::{HandoverChannel, HandoverImage, Hello, Order, SuccessorAnswer, read_image};
use rustix::fd::{AsFd, OwnedFd};
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long the old process may take for its first message.
const HELLO_TIME_MAX: Duration = Duration::from_secs(10);
/// How long the old process may take for each further one: it comes to a standstill meanwhile.
const ORDER_TIME_MAX: Duration = Duration::from_secs(60);

/// How long the old process may take to tell the service manager.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(3);

/// The old process, which serves until this one has said that it does.
pub(in crate::serve) struct Predecessor {
    channel: HandoverChannel,
}

/// The things that both processes may use.
pub(in crate::serve) struct Inherited {
    pub(in crate::serve) hello: Hello,
    listener: Option<OwnedFd>,
    metrics: Option<OwnedFd>,
    page: Option<OwnedFd>,
    pub(in crate::serve) lock: OwnedFd,
}

/// The image of the old process, with its descriptors.
pub(in crate::serve) struct Estate {
    pub(in crate::serve) image: HandoverImage,
    pub(in crate::serve) sockets: Vec<OwnedFd>,
    pub(in crate::serve) objects: Vec<OwnedFd>,
}

/// Tells the old process, if this one was started to take over, why it ends before it has begun.
pub(crate) fn tell_predecessor(why: &anyhow::Error) {
    if let Ok(Some(predecessor)) = Predecessor::of_environment() {
        predecessor.refuse(why);
    }
}

impl Predecessor {
    /// Returns the old process, if this one was started to take over.
    ///
    /// # Errors
    /// Standard input is no handover.
    pub(in crate::serve) fn of_environment() -> anyhow::Result<Option<Self>> {
        if std::env::var_os(VARIABLE).is_none() {
            return Ok(None);
        }
        let input = std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
        // The program was started by a number.
        let _ = rustix::thread::set_name(c"orthrus");
        Ok(Some(Self { channel: HandoverChannel::from(input) }))
    }

    /// Receives the first message. Standard input is the original one afterwards.
    ///
    /// # Errors
    /// No message, or one of another major version.
    pub(in crate::serve) fn hello(&self) -> anyhow::Result<Inherited> {
        let (hello, fds) = self
            .channel
            .receive::<Hello>(Instant::now() + HELLO_TIME_MAX)
            .with_context(|| format!("{VARIABLE} is set, and standard input is no handover"))?;
        if hello.major != handover::MAJOR {
            bail!(
                "the state of version {} cannot be read by version {}: restart the server instead",
                hello.version,
                env!("CARGO_PKG_VERSION")
            );
        }
        let mut fds = fds.into_iter();
        let (Some(listener), Some(lock), Some(input)) = (fds.next(), fds.next(), fds.next()) else {
            bail!("descriptors are missing");
        };
        rustix::stdio::dup2_stdin(&input).context("standard input")?;
        // Before the standstill, in which clients would wait for it.
        if let Some(descriptor_table) = hello.descriptor_table {
            grow_descriptor_table(descriptor_table);
        }
        tracing::info!(
            "taking over from version {} (handover {}.{})",
            hello.version,
            hello.major,
            hello.minor
        );
        let metrics = hello.metrics.and_then(|_| fds.next());
        let page = hello.web.and_then(|_| fds.next());
        Ok(Inherited { hello, listener: Some(listener), metrics, page, lock })
    }

    /// Says that everything that can fail is done, and waits for the image.
    ///
    /// # Errors
    /// The old process goes on without this one.
    pub(in crate::serve) fn prepared(&self) -> anyhow::Result<Estate> {
        self.say(&SuccessorAnswer::Prepared(env!("CARGO_PKG_VERSION").to_owned()))?;
        let (Order::Take(taken), image) = self.order()? else { bail!("the image is missing") };
        let count = (taken.sockets as usize).saturating_add(taken.objects as usize);
        let image = image.into_iter().next().context("the image is missing")?;
        // Descriptors arrive while the image is read, which stays on the thread with the memory.
        let (image, mut sockets) = thread::scope(|scope| {
            let receiver = thread::Builder::new().name("descriptors".into());
            let receiver = receiver.spawn_scoped(scope, || self.descriptors(count))?;
            let image = read_image(image);
            let fds = receiver.join().unwrap_or_else(|panic| resume_unwind(panic));
            anyhow::Ok((image?, fds?))
        })?;
        let objects = sockets.split_off((taken.sockets as usize).min(sockets.len()));
        Ok(Estate { image, sockets, objects })
    }

    /// Receives so many descriptors.
    fn descriptors(&self, count: usize) -> anyhow::Result<Vec<OwnedFd>> {
        let mut fds = Vec::new();
        while fds.len() < count {
            let (Order::Descriptors, mut some) = self.order()? else { bail!("descriptors are missing") };
            if some.is_empty() {
                bail!("descriptors are missing");
            }
            fds.append(&mut some);
        }
        Ok(fds)
    }

    /// Says that everything is restored, and waits for the order to serve.
    ///
    /// # Errors
    /// The old process goes on without this one.
    pub(in crate::serve) fn restored(&self) -> anyhow::Result<()> {
        self.say(&SuccessorAnswer::Restored)?;
        match self.order()? {
            (Order::Go, _) => Ok(()),
            _ => bail!("the order to serve is missing"),
        }
    }

    /// Says that this process serves. From then on it does, and before that it never has.
    ///
    /// # Errors
    /// The old process goes on without this one.
    pub(in crate::serve) fn serving(&self) -> anyhow::Result<()> {
        self.say(&SuccessorAnswer::Serving)
    }

    /// Says that administrators reach this process, and calls `left` when the old one has told the
    /// service manager which process follows it.
    pub(in crate::serve) fn listening(self, left: impl FnOnce() + Send + 'static) {
        // It may have ended by now.
        let _ = self.say(&SuccessorAnswer::Listening);
        let wait = move || {
            let _ = self.channel.receive::<Order>(Instant::now() + LEAVE_TIME_MAX);
            left();
        };
        let spawned = thread::Builder::new().name("leave".into()).spawn(wait);
        if let Err(error) = spawned {
            tracing::warn!("the service manager does not learn that this process is ready: {error}");
        }
    }

    /// Says why this process cannot take over.
    pub(in crate::serve) fn refuse(&self, why: &anyhow::Error) {
        let _ = self.say(&SuccessorAnswer::Refused(format!("{why:#}")));
    }

    fn order(&self) -> anyhow::Result<(Order, Vec<OwnedFd>)> {
        self.channel.receive(Instant::now() + ORDER_TIME_MAX).context("the old process")
    }

    fn say(&self, answer: &SuccessorAnswer) -> anyhow::Result<()> {
        self.channel.send(answer, &[], Instant::now() + HELLO_TIME_MAX).context("the old process")
    }
}

impl Inherited {
    /// Returns whether the service manager passed the listening socket.
    pub(in crate::serve) fn is_passed(&self) -> bool {
        self.hello.passed == Some(true)
    }

    /// Returns the bytes of memory that restoring the state will take, about.
    pub(in crate::serve) fn memory(&self) -> usize {
        self.hello.memory.and_then(|memory| memory.try_into().ok()).unwrap_or(0)
    }

    /// Returns the addresses at which the old process listens: NFS, metrics and the web page.
    pub(in crate::serve) fn addresses(&self) -> [Option<SocketAddr>; 3] {
        [Some(self.hello.listen), self.hello.metrics, self.hello.web]
    }

    /// Takes the listening socket, if the configuration still names its address.
    pub(in crate::serve) fn listener(&mut self, listen: SocketAddr) -> Option<OwnedFd> {
        let passed = self.is_passed();
        self.listener.take().filter(|_| passed || self.hello.listen == listen)
    }

    /// Takes the socket of the metrics, if the configuration still names its address.
    pub(in crate::serve) fn metrics(&mut self, address: SocketAddr) -> Option<OwnedFd> {
        self.metrics.take().filter(|_| self.hello.metrics == Some(address))
    }

    /// Takes the socket of the web page, if the configuration still names its address.
    pub(in crate::serve) fn page(&mut self, address: SocketAddr) -> Option<OwnedFd> {
        self.page.take().filter(|_| self.hello.web == Some(address))
    }

    /// Checks that the state folder is the same.
    ///
    /// # Errors
    /// Names both, and the remedy.
    pub(in crate::serve) fn check_folder(&self, folder: &Path) -> anyhow::Result<()> {
        if folder.display().to_string() == self.hello.state_dir {
            return Ok(());
        }
        bail!(
            "the state folder is {} now and was {}: a server takes another one only when it is restarted",
            folder.display(),
            self.hello.state_dir
        )
    }
}
