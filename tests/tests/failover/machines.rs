//! Machines of a site: network namespaces on one switch, in a network of this process' own.

use nix::sched::{CloneFlags, setns, unshare};
use std::fs::{self, File};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The address of the machine with the KDC, the Ceph cluster and the clients.
pub(crate) const SITE: &str = "10.79.0.1";
/// The bridge that all machines are on.
const SWITCH: &str = "orthrus-sw";
/// The link address of the bridge.
const SWITCH_ADDRESS: &str = "02:00:0a:4f:00:01";
/// The difference between an address and the one that is asked for to announce it, which no machine
/// has.
const NOBODY: u8 = 100;
/// The interface of a machine.
const INTERFACE: &str = "eth0";
/// How long a new namespace may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs `ip`; the words of `arguments` are separated by spaces.
fn ip(arguments: &str) {
    run(&mut Command::new("ip"), arguments);
}

fn run(command: &mut Command, arguments: &str) {
    let output = command.args(arguments.split(' ')).output().expect("it is installed");
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Gives this thread, and all that it starts, a network of its own with a switch. It has no effect
/// in such a network.
///
/// # Errors
/// The reason why the kernel does not allow it.
pub(crate) fn enter_site() -> Result<(), String> {
    let interfaces = fs::read_to_string("/proc/thread-self/net/dev").map_err(|error| error.to_string())?;
    if interfaces.contains(SWITCH) {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("no network namespace: {error}"))?;
    ip("link set lo up");
    // Without an address of its own it has that of a machine, which goes with the machine.
    ip(&format!("link add {SWITCH} address {SWITCH_ADDRESS} type bridge"));
    ip(&format!("addr add {SITE}/24 dev {SWITCH}"));
    ip(&format!("link set {SWITCH} up"));
    Ok(())
}

/// Adds a tap device to the switch, for the network card of a guest.
pub(crate) fn add_tap(name: &str) {
    ip(&format!("tuntap add dev {name} mode tap"));
    ip(&format!("link set {name} up"));
    plug(name);
}

/// Puts the plug of a tap device into the switch.
pub(crate) fn plug(name: &str) {
    ip(&format!("link set {name} master {SWITCH}"));
}

/// Pulls the plug of a tap device. The card of a user-mode kernel does not survive that its device
/// is down.
pub(crate) fn unplug(name: &str) {
    ip(&format!("link set {name} nomaster"));
}

/// A machine. Its namespace ends with the value and with the last process in it.
pub(crate) struct SiteMachine {
    name: &'static str,
    holder: Child,
}

impl SiteMachine {
    /// Adds a machine with an address of its own to the switch.
    pub(crate) fn new(name: &'static str, address: &str) -> Self {
        // It ends when its input is closed, however this process ends.
        let mut holder = Command::new("unshare");
        let holder = holder.args(["--net", "cat"]).stdin(Stdio::piped()).spawn().expect("it is installed");
        let machine = Self { name, holder };
        let own = fs::read_link("/proc/thread-self/ns/net").expect("proc is mounted");
        let end = Instant::now() + PATIENCE;
        while fs::read_link(machine.namespace()).is_ok_and(|namespace| namespace == own) {
            assert!(Instant::now() < end, "no namespace");
            std::thread::sleep(Duration::from_millis(2));
        }
        ip(&format!("link add {name} type veth peer name {INTERFACE} netns {}", machine.pid()));
        ip(&format!("link set {name} master {SWITCH} up"));
        machine.ip("link set lo up");
        machine.ip(&format!("addr add {address}/24 dev {INTERFACE}"));
        machine.ip(&format!("link set {INTERFACE} up"));
        machine
    }

    fn pid(&self) -> u32 {
        self.holder.id()
    }

    fn namespace(&self) -> String {
        format!("/proc/{}/ns/net", self.pid())
    }

    /// Returns the words before a command that runs it on this machine.
    pub(crate) fn prefix(&self) -> [String; 2] {
        ["nsenter".to_owned(), format!("--net={}", self.namespace())]
    }

    fn ip(&self, arguments: &str) {
        let [program, namespace] = self.prefix();
        run(Command::new(program).arg(namespace).arg("ip"), arguments);
    }

    /// Moves this thread to the machine.
    pub(crate) fn enter(&self) {
        let namespace = File::open(self.namespace()).expect("it is there");
        setns(namespace, CloneFlags::CLONE_NEWNET).expect("root may");
    }

    /// Takes an address in addition, and shows the switch where it is now, as keepalived does.
    pub(crate) fn take_address(&self, address: &str) {
        self.ip(&format!("addr add {address}/24 dev {INTERFACE}"));
        // The request for a link address comes from the new address, and all machines hear it.
        // While a machine waits for an answer it asks again from the address of its first request,
        // so each announcement asks for another one.
        let announce = || {
            self.enter();
            let [a, b, c, d] = address.parse::<Ipv4Addr>().expect("it is one").octets();
            let socket = UdpSocket::bind((address, 0)).expect("it is ours");
            socket.send_to(&[0], (Ipv4Addr::new(a, b, c, d + NOBODY), 9)).expect("it has a network");
        };
        std::thread::scope(|scope| scope.spawn(announce).join()).expect("it ends");
    }

    /// Gives an address up, as keepalived does when the gateway is gone: two machines with it would
    /// both answer for it.
    pub(crate) fn give_address(&self, address: &str) {
        self.ip(&format!("addr del {address}/24 dev {INTERFACE}"));
    }

    /// Pulls the plug of the network.
    pub(crate) fn cut(&self) {
        ip(&format!("link set {} down", self.name));
    }

    /// Puts the plug back.
    pub(crate) fn heal(&self) {
        ip(&format!("link set {} up", self.name));
    }
}

impl Drop for SiteMachine {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
        let _ = Command::new("ip").args(["link", "del", self.name]).stderr(Stdio::null()).status();
    }
}
