//! A compute node: a user-mode Linux kernel, as a command line.

use crate::commands::words;
use crate::network::{self, HEAD_INSIDE, node_address, node_name};
use crate::{LabFolder, LabOptions};

/// Returns the command that boots a node. The nodes' commands differ in name, address and network
/// device only: all else comes from the image.
pub(crate) fn boot(options: &LabOptions, folder: &LabFolder, number: u8) -> Vec<String> {
    let name = node_name(number);
    let share = folder.share();
    let mut command = words(&[&options.kernel.display().to_string()]);
    command.push(format!("mem={}M", options.memory_mib));
    command.extend(words(&["rootfstype=hostfs", "rootflags=/", "rw"]));
    command.push(format!("init={}/init.sh", share.display()));
    command.push(format!("SHARE={}", share.display()));
    command.push(format!("MODULES={}", options.modules.display()));
    command.push(format!("NODE={name}"));
    command.push(format!("ADDRESS={}/{}", node_address(number), network::PREFIX));
    command.push(format!("ROUTER={HEAD_INSIDE}"));
    command
        .push(format!("vec0:transport=tap,ifname={name},depth=128,gro=1,mac={}", hardware_address(number)));
    command.push(format!("umid={name}"));
    command.push(format!("uml_dir={}", folder.uml().display()));
    // The first console only writes; the first serial line only reads the node's requests. A closed
    // input would make the kernel spin, so the others have none.
    command.extend(words(&["con=null", "con0=null,fd:1", "ssl=null", "ssl0=fd:0,null"]));
    command
}

/// A locally administered hardware address.
fn hardware_address(number: u8) -> String {
    format!("02:00:0a:4d:02:{number:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::options;

    #[test]
    fn nodes_differ_in_name_address_and_device_only() {
        let folder = LabFolder::at(&options().dir);
        let (one, two) = (boot(&options(), &folder, 1), boot(&options(), &folder, 2));
        let differ: Vec<_> = one.iter().zip(&two).filter(|(a, b)| a != b).map(|(a, _)| a.as_str()).collect();
        assert_eq!(
            differ,
            [
                "NODE=node1",
                "ADDRESS=10.77.2.11/24",
                "vec0:transport=tap,ifname=node1,depth=128,gro=1,mac=02:00:0a:4d:02:01",
                "umid=node1"
            ]
        );
    }
}
