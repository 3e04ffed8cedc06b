//! Two network namespaces with a shaped pair of devices between them.

use super::LinkSpec;
use crate::tools::{SystemTool, fed};
use anyhow::{Context as _, Result, ensure};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::geteuid;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::path::Path;

const IP: SystemTool = SystemTool { name: "ip", package: "iproute2" };
const TC: SystemTool = SystemTool { name: "tc", package: "iproute2" };

/// The namespace of the thread that asks.
const OWN: &str = "/proc/thread-self/ns/net";

/// The two ends and their addresses. The namespaces hold nothing else, so the addresses cannot
/// collide with others.
const CLIENT: (&str, Ipv4Addr) = ("client", Ipv4Addr::new(10, 77, 3, 1));
const SERVER: (&str, Ipv4Addr) = ("server", Ipv4Addr::new(10, 77, 3, 2));
const PREFIX: u8 = 24;

/// A link between this process and servers at its other end; without anybody in its namespaces it
/// is gone.
#[derive(Debug)]
pub struct Link {
    spec: LinkSpec,
    here: File,
    there: File,
    server: IpAddr,
}

impl Link {
    /// Makes a link. This process, which must not have threads yet, and all that it starts are at
    /// the client's end from now on, and reach nothing else.
    ///
    /// # Errors
    /// Not root; a program or a part of the kernel that is missing, with where it comes from.
    pub fn make(spec: LinkSpec) -> Result<Self> {
        // The namespace that is entered last is the client's: it stays this thread's.
        let there = prepared(spec)?;
        let here = fresh()?;
        let link = Self { spec, here, there, server: IpAddr::V4(SERVER.1) };
        link.lay()?;
        Ok(link)
    }

    /// Takes a link that was made before: this process is at its client's end, the namespace of the
    /// other is a file such as /run/netns/NAME, and the server is there at this address.
    ///
    /// # Errors
    /// When the file is not there.
    pub fn join(spec: LinkSpec, there: &Path, server: IpAddr) -> Result<Self> {
        let there = File::open(there).with_context(|| there.display().to_string())?;
        Ok(Self { spec, here: File::open(OWN)?, there, server })
    }

    /// Configures the devices' addresses, rate and MTU.
    fn lay(&self) -> Result<()> {
        let process = std::process::id();
        let (near, far) = (CLIENT.0, SERVER.0);
        let mtu = LinkSpec::MTU;
        let there = self.there.as_raw_fd();
        let pair = format!(
            "link set lo up\nlink add name {near} mtu {mtu} type veth peer name {far} mtu {mtu} netns /proc/{process}/fd/{there}\n"
        );
        batch(IP, &pair).context("this kernel makes no pairs of devices (veth: modprobe veth)")?;
        let end = |(device, address): (&str, Ipv4Addr)| -> Result<()> {
            batch(IP, &format!("address add {address}/{PREFIX} dev {device}\nlink set {device} up\n"))?;
            batch(TC, &self.spec.shaping(device))
        };
        end(CLIENT)?;
        self.at_server(|| {
            batch(IP, "link set lo up\n")?;
            end(SERVER)
        })
    }

    /// Runs `what` at the server's end: its processes and sockets stay there.
    ///
    /// # Errors
    /// The errors of `what`; when this thread cannot go there, or not come back.
    pub fn at_server<T>(&self, what: impl FnOnce() -> Result<T>) -> Result<T> {
        setns(&self.there, CloneFlags::CLONE_NEWNET).context("the server's network namespace")?;
        let done = what();
        setns(&self.here, CloneFlags::CLONE_NEWNET).context("back to the client's network namespace")?;
        done
    }

    /// Returns the properties of the link.
    pub fn spec(&self) -> LinkSpec {
        self.spec
    }

    /// Returns the address of the server's end.
    pub fn server(&self) -> IpAddr {
        self.server
    }

    /// Returns the file of the server's namespace, as long as this process runs.
    pub fn namespace(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.there.as_raw_fd())
    }
}

/// Where servers of one's own listen, on a port that is free: at the link's other end, or on
/// loopback.
pub fn listen(link: Option<&Link>) -> SocketAddr {
    SocketAddr::new(link.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), Link::server), 0)
}

/// Does something where servers of one's own are.
///
/// # Errors
/// As [`Link::at_server`].
pub fn at_server<T>(link: Option<&Link>, what: impl FnOnce() -> Result<T>) -> Result<T> {
    match link {
        Some(link) => link.at_server(what),
        None => what(),
    }
}

/// Checks the requirements of a link, and moves this thread into the namespace of the server's end.
fn prepared(spec: LinkSpec) -> Result<File> {
    ensure!(
        geteuid().is_root(),
        "--link needs root, for network namespaces (sudo); without it client and server talk over loopback"
    );
    for tool in [IP, TC] {
        tool.find()?;
    }
    let there = fresh().context("no network namespace; --link needs root with CAP_SYS_ADMIN")?;
    check(spec)?;
    Ok(there)
}

/// Puts this thread into a new network namespace.
fn fresh() -> Result<File> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    Ok(File::open(OWN)?)
}

/// Checks the kernel's features on the loopback device of a fresh namespace.
fn check(spec: LinkSpec) -> Result<()> {
    batch(TC, "qdisc add dev lo root handle 1: tbf rate 1gbit burst 128kb limit 1mb\n")
        .context("this kernel limits no rates (tbf: modprobe sch_tbf, CONFIG_NET_SCH_TBF)")?;
    if spec.delay_us > 0 {
        batch(TC, "qdisc add dev lo parent 1:1 handle 10: netem delay 1us\n").context(
            "this kernel delays no packets (netem: modprobe sch_netem, CONFIG_NET_SCH_NETEM); a rate without a delay needs none",
        )?;
    }
    batch(TC, "qdisc del dev lo root\n")
}

/// Runs a list of commands with ip or tc.
fn batch(tool: SystemTool, commands: &str) -> Result<()> {
    fed(tool.command()?.args(["-batch", "-"]), commands).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    /// Runs a test on a thread of its own, which ends with the namespaces that it entered.
    fn apart(test: impl FnOnce() + Send) {
        std::thread::scope(|scope| scope.spawn(test).join().unwrap());
    }

    /// Makes a link, or prints the reason why this machine cannot.
    fn made(text: &str) -> Option<Link> {
        let spec = text.parse().unwrap();
        match prepared(spec) {
            Ok(_) => Some(Link::make(spec).unwrap()),
            Err(missing) => {
                eprintln!("skipped: {missing:#}");
                None
            }
        }
    }

    #[test]
    fn servers_at_the_other_end_are_reached_over_the_link_only() {
        apart(|| {
            let Some(link) = made("1gbit") else { return };
            let listener = link.at_server(|| Ok(TcpListener::bind(listen(Some(&link)))?)).unwrap();
            let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut far, peer) = listener.accept().unwrap();
            assert_eq!(peer.ip(), IpAddr::V4(CLIENT.1));
            far.write_all(b"hello").unwrap();
            let mut said = [0; 5];
            near.read_exact(&mut said).unwrap();
            assert_eq!(&said, b"hello");
            assert!(TcpListener::bind(listen(Some(&link))).is_err(), "its address is not ours");
        });
    }

    #[test]
    fn a_link_can_be_joined_by_the_file_of_its_namespace() {
        apart(|| {
            let Some(link) = made("10gbit") else { return };
            let joined = Link::join(link.spec(), link.namespace().as_ref(), link.server()).unwrap();
            joined.at_server(|| Ok(TcpListener::bind(listen(Some(&link)))?)).unwrap();
        });
    }

    #[test]
    fn a_link_with_a_delay_is_made_where_the_kernel_has_netem() {
        apart(|| {
            let Some(link) = made("1gbit,2ms") else { return };
            let listener = link.at_server(|| Ok(TcpListener::bind(listen(Some(&link)))?)).unwrap();
            let start = std::time::Instant::now();
            let _near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            assert!(start.elapsed() >= std::time::Duration::from_millis(4), "there and back");
        });
    }

    #[test]
    fn a_failure_names_its_program() {
        apart(|| {
            if !geteuid().is_root() {
                return eprintln!("skipped: needs root, for a network namespace");
            }
            if let Err(error) = IP.find().and(TC.find()) {
                return eprintln!("skipped: {error}");
            }
            fresh().unwrap();
            let error = batch(TC, "qdisc add dev lo root nothing-like-this\n").unwrap_err();
            assert!(error.to_string().starts_with("tc: "), "{error}");
        });
    }
}
