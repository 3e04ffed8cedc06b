//! The steps of a lab's start, as plain data.

use crate::commands::{on, orthrus_on, words};
use crate::network::{CLUSTER, HEAD_INSIDE, HEAD_OUTSIDE, LabMachine, PREFIX, full, node_address, node_name};
use crate::{LabFolder, LabOptions, LabStorage, Nat, files, node};
use std::path::PathBuf;
use std::time::Duration;

/// How long the server may take until it listens.
const SERVER_WAIT: Duration = Duration::from_secs(20);
/// How long a node may take until it has mounted everything: many boot at once, on few processors.
const NODE_WAIT: Duration = Duration::from_secs(180);
/// Memory beside that of the nodes in their file system of memory, in MiB.
const SPARE_MIB: u32 = 16;

/// Several actions that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabStep {
    /// Title of the step, for people.
    pub title: String,
    /// The actions in their order.
    pub actions: Vec<LabAction>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabAction {
    /// Create a folder and its parents.
    Folder(PathBuf),
    /// Make a named pipe.
    Pipe(PathBuf),
    /// Write a file with this content.
    Write(PathBuf, String),
    /// Lay a copy of a file with more lines over it, in the lab's own view of the machine.
    Extend {
        /// Path of the file.
        file: PathBuf,
        /// The lines to add.
        more: String,
        /// Where the copy is put.
        copy: PathBuf,
    },
    /// Run a program to its end, with this text on its standard input; it must succeed.
    Run(Vec<String>, String),
    /// Start a program that runs as long as the lab.
    Start {
        /// Name of the process.
        name: String,
        /// Program and arguments, as one list.
        command: Vec<String>,
        /// The file or pipe of its standard input; none by default.
        input: Option<PathBuf>,
    },
    /// Wait until a program has left a sign; its end before that is a failure, and so is a line
    /// that begins with FAIL.
    Wait {
        /// Name of the program.
        name: String,
        /// The file that appears.
        file: PathBuf,
        /// The text that the file must contain.
        text: String,
        /// How long at most.
        limit: Duration,
    },
}

/// Returns all steps of a lab.
pub fn plan(options: &LabOptions) -> Vec<LabStep> {
    let folder = LabFolder::at(&options.dir);
    let step = |title: &str, actions: Vec<Vec<LabAction>>| LabStep {
        title: title.to_owned(),
        actions: actions.concat(),
    };
    vec![
        step("own view of the machine", vec![own_view(options, &folder)]),
        step("enterprise and cluster network", vec![networks(options, &folder)]),
        step(&format!("head node: NAT to {HEAD_OUTSIDE}"), vec![nat(options, &folder)]),
        step("Kerberos", vec![kerberos(options, &folder)]),
        step("name service", vec![name_service(&folder)]),
        step("NFS server", vec![server(options, &folder)]),
        step("image of the nodes", vec![image(&folder)]),
        step(&format!("{} nodes", options.nodes), vec![nodes(options, &folder)]),
    ]
}

fn run(command: &[&str]) -> LabAction {
    LabAction::Run(words(command), String::new())
}

/// A process table of its own, alice and bob among the users, and room for the nodes' memory.
fn own_view(options: &LabOptions, folder: &LabFolder) -> Vec<LabAction> {
    let extend = |file: &str, more: String| LabAction::Extend {
        file: format!("/etc/{file}").into(),
        more,
        copy: folder.file(file),
    };
    let size = u32::from(options.nodes).saturating_mul(options.memory_mib).saturating_add(SPARE_MIB);
    vec![
        run(&["mount", "--make-rprivate", "/"]),
        run(&["mount", "-t", "proc", "proc", "/proc"]),
        // The nodes' kernels keep their memory in files of /dev/shm, which containers make small.
        run(&["mount", "-t", "tmpfs", "-o", &format!("size={size}M"), "tmpfs", "/dev/shm"]),
        run(&["hostname", "orthrus-lab"]),
        extend("passwd", files::passwd()),
        extend("group", files::group()),
    ]
}

/// Two switches, a cable from each machine, and a port for each node.
fn networks(options: &LabOptions, folder: &LabFolder) -> Vec<LabAction> {
    let mut actions = vec![LabAction::Folder(folder.file("net"))];
    for machine in LabMachine::ALL {
        let net = folder.net(machine);
        actions.push(LabAction::Write(net.clone(), String::new()));
        actions.push(run(&["unshare", &format!("--net={}", net.display()), "true"]));
    }
    let mut switches = String::from(
        "link set lo up\nlink add name enterprise type bridge\nlink add name cluster type bridge\n",
    );
    let mut cable = |port: &str, switch: &str, device: &str, machine: LabMachine| {
        let net = folder.net(machine);
        switches.push_str(&format!(
            "link add name {port} type veth peer name {device} netns {}\nlink set {port} master {switch} up\n",
            net.display()
        ));
    };
    for machine in LabMachine::ALL {
        cable(&format!("e-{}", machine.name()), "enterprise", "enterprise", machine);
    }
    cable("c-head", "cluster", "cluster", LabMachine::Head);
    for name in (1..=options.nodes).map(node_name) {
        switches.push_str(&format!("tuntap add dev {name} mode tap\nlink set {name} master cluster up\n"));
    }
    switches.push_str("link set enterprise up\nlink set cluster up\n");
    actions.push(LabAction::Run(words(&["ip", "-batch", "-"]), switches));
    shape(options, &mut actions);
    for machine in LabMachine::ALL {
        let mut inside = format!(
            "link set lo up\naddress add {}/{PREFIX} dev enterprise\nlink set enterprise up\n",
            machine.address()
        );
        if machine == LabMachine::Head {
            inside
                .push_str(&format!("address add {HEAD_INSIDE}/{PREFIX} dev cluster\nlink set cluster up\n"));
        }
        actions.push(LabAction::Run(on(folder, machine, &["ip", "-batch", "-"]), inside));
        if let Some(link) = options.link {
            let mut rates = link.shaping("enterprise");
            if machine == LabMachine::Head {
                rates.push_str(&link.shaping("cluster"));
            }
            actions.push(LabAction::Run(on(folder, machine, &["tc", "-batch", "-"]), rates));
        }
    }
    actions
}

/// Gives the switches' ports the rate of a cable. Packets of nodes are limited at the head's port,
/// which all nodes share.
fn shape(options: &LabOptions, actions: &mut Vec<LabAction>) {
    let Some(link) = options.link else { return };
    let mut rates = link.shaping("c-head");
    LabMachine::ALL
        .iter()
        .for_each(|machine| rates.push_str(&link.shaping(&format!("e-{}", machine.name()))));
    (1..=options.nodes).map(node_name).for_each(|name| rates.push_str(&link.shaping(&name)));
    actions.push(LabAction::Run(words(&["tc", "-batch", "-"]), rates));
}

/// The head forwards packets of nodes with its own address. The setting applies to its network
/// namespace alone.
fn nat(options: &LabOptions, folder: &LabFolder) -> Vec<LabAction> {
    let command = files::nat_command(options.nat);
    vec![
        LabAction::Run(
            on(folder, LabMachine::Head, &["sh", "-c", "cat >/proc/sys/net/ipv4/ip_forward"]),
            "1\n".into(),
        ),
        LabAction::Run(on(folder, LabMachine::Head, command), files::nat_rules(options.nat)),
    ]
}

/// The realm: one keytab for the server, one with the keys of all nodes.
fn kerberos(options: &LabOptions, folder: &LabFolder) -> Vec<LabAction> {
    let dir = folder.file("realm").display().to_string();
    let (listen, server) = (format!("{}:88", LabMachine::Kdc.address()), full(LabMachine::Server.name()));
    let mut arguments = words(&["realm", "up", &dir, "--listen", &listen, "--enctypes", &options.enctypes]);
    arguments.extend(words(&["--host", &server]));
    for number in 1..=options.nodes {
        arguments.extend(words(&["--client", &full(&node_name(number))]));
    }
    vec![LabAction::Run(orthrus_on(options, folder, LabMachine::Kdc, &arguments), String::new())]
}

/// It ends its first process when it answers.
fn name_service(folder: &LabFolder) -> Vec<LabAction> {
    let file = folder.file("names.conf");
    let argument = format!("--conf-file={}", file.display());
    vec![
        LabAction::Write(file, files::dnsmasq_conf(folder)),
        LabAction::Run(on(folder, LabMachine::Names, &["dnsmasq", &argument]), String::new()),
    ]
}

fn server(options: &LabOptions, folder: &LabFolder) -> Vec<LabAction> {
    let file = folder.file("server.toml");
    let mut actions = Vec::new();
    for export in ["export", "private"] {
        let path = folder.file(export);
        actions.push(LabAction::Folder(path.clone()));
        if options.storage == LabStorage::Tmpfs {
            actions.push(run(&["mount", "-t", "tmpfs", "tmpfs", &path.display().to_string()]));
        }
        actions.push(run(&["chmod", "755", &path.display().to_string()]));
        for (user, id) in files::USERS {
            let own = path.join(user).display().to_string();
            let id = id.to_string();
            actions.push(run(&["install", "-d", "-m", "755", "-o", &id, "-g", &id, &own]));
        }
    }
    let arguments = ["serve", "--config", &file.display().to_string()];
    actions.push(LabAction::Write(file.clone(), files::server_toml(folder)));
    actions.push(LabAction::Start {
        name: LabMachine::Server.name().to_owned(),
        command: orthrus_on(options, folder, LabMachine::Server, &arguments),
        input: None,
    });
    actions.push(LabAction::Wait {
        name: LabMachine::Server.name().to_owned(),
        file: folder.log(LabMachine::Server.name()),
        text: "orthrus serves".to_owned(),
        limit: SERVER_WAIT,
    });
    actions
}

/// The nodes' image: all files except name and address.
fn image(folder: &LabFolder) -> Vec<LabAction> {
    let (share, image) = (folder.share(), folder.share().join("image"));
    let mut actions = vec![
        LabAction::Folder(image.clone()),
        LabAction::Folder(share.join("jobs")),
        LabAction::Folder(share.join("run")),
        LabAction::Folder(share.join("nodes")),
    ];
    let shared = [
        ("init.sh", files::INIT),
        ("setup.sh", files::SETUP),
        ("kerberos.sh", files::KERBEROS),
        ("lib.sh", files::LIBRARY),
        ("jobs/agent.sh", files::AGENT),
        ("settings", files::SETTINGS),
    ];
    actions.extend(shared.map(|(name, text)| LabAction::Write(share.join(name), text.to_owned())));
    let made = [
        ("resolv.conf", files::resolv_conf()),
        ("nsswitch.conf", files::NSSWITCH_CONF.to_owned()),
        ("hosts", files::HOSTS.to_owned()),
        ("idmapd.conf", files::idmapd_conf()),
    ];
    actions.extend(made.map(|(name, text)| LabAction::Write(image.join(name), text)));
    actions.push(run(&["chmod", "755", &share.join("init.sh").display().to_string()]));
    for file in ["krb5.conf", "client.keytab", "users.keytab"] {
        let from = folder.file("realm").join(file).display().to_string();
        actions.push(run(&["cp", &from, &image.join(file).display().to_string()]));
    }
    actions
}

fn nodes(options: &LabOptions, folder: &LabFolder) -> Vec<LabAction> {
    let mut actions = vec![LabAction::Folder(folder.uml())];
    for number in 1..=options.nodes {
        let name = node_name(number);
        let input = folder.ask(&name);
        actions.push(LabAction::Pipe(input.clone()));
        actions.push(LabAction::Start {
            name,
            command: node::boot(options, folder, number),
            input: Some(input),
        });
    }
    for name in (1..=options.nodes).map(node_name) {
        let file = folder.share().join("nodes").join(&name).join("ready");
        actions.push(LabAction::Wait { name, file, text: "ready".to_owned(), limit: NODE_WAIT });
    }
    actions
}

/// Describes a lab in a few lines.
pub(crate) fn summary(options: &LabOptions) -> String {
    let first = node_address(1);
    let last = node_address(options.nodes);
    let nat = match options.nat {
        Nat::Nft => "nftables",
        Nat::Iptables => "iptables",
    };
    let machine = |machine: LabMachine| format!("{} {}", full(machine.name()), machine.address());
    let cables = options.link.map(|link| format!("cables       {link} each, in each direction\n"));
    format!(
        "enterprise   {}\n             {}\n             {}\nhead         {} and {HEAD_INSIDE}: NAT by {nat}\ncluster      {CLUSTER}/{PREFIX}: {} nodes, {first} to {last}, {} MiB each, one image, one keytab\n{}",
        machine(LabMachine::Kdc),
        machine(LabMachine::Server),
        machine(LabMachine::Names),
        machine(LabMachine::Head),
        options.nodes,
        options.memory_mib,
        cables.unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests;
