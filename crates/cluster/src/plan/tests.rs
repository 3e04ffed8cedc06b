//! The plan, without a machine.

use super::*;
use crate::options::tests::options;
use std::collections::HashSet;

/// All that is run or started, as lines.
fn commands(options: &LabOptions) -> Vec<String> {
    let line = |action: &LabAction| match action {
        LabAction::Run(command, _) | LabAction::Start { command, .. } => Some(command.join(" ")),
        _ => None,
    };
    plan(options).iter().flat_map(|step| &step.actions).filter_map(line).collect()
}

fn batches(options: &LabOptions) -> String {
    let text = |action: &LabAction| match action {
        LabAction::Run(_, input) => Some(input.clone()),
        _ => None,
    };
    plan(options).iter().flat_map(|step| &step.actions).filter_map(text).collect()
}

#[test]
fn the_same_options_give_the_same_plan() {
    assert_eq!(plan(&options()), plan(&options()));
}

#[test]
fn the_view_is_private_before_anything_is_laid_over_it() {
    let first = commands(&options()).into_iter().next();
    assert_eq!(first.as_deref(), Some("mount --make-rprivate /"));
}

#[test]
fn nothing_is_written_outside_the_lab_s_folder() {
    let options = options();
    for action in plan(&options).iter().flat_map(|step| &step.actions) {
        let written = match action {
            LabAction::Folder(path) | LabAction::Pipe(path) | LabAction::Write(path, _) => path,
            LabAction::Extend { copy, .. } => copy,
            LabAction::Start { input: Some(input), .. } => input,
            LabAction::Wait { file, .. } => file,
            LabAction::Run(..) | LabAction::Start { .. } => continue,
        };
        assert!(written.starts_with(&options.dir), "{}", written.display());
    }
}

#[test]
fn forwarding_is_switched_on_in_the_head_s_namespace_alone() {
    let forwards: Vec<String> =
        commands(&options()).into_iter().filter(|line| line.contains("ip_forward")).collect();
    assert_eq!(forwards.len(), 1);
    assert!(forwards[0].starts_with("nsenter --net=/var/lib/orthrus-lab/net/head "), "{forwards:?}");
    assert!(commands(&options()).iter().all(|line| !line.contains("sysctl")));
}

#[test]
fn the_realm_has_a_principal_for_each_node_and_the_image_one_keytab() {
    let all = commands(&options());
    let realm = all.iter().find(|line| line.contains("realm up")).unwrap();
    for node in 1..=3 {
        assert!(realm.contains(&format!("--client node{node}.orthrus.test")), "{realm}");
    }
    assert_eq!(all.iter().filter(|line| line.contains("client.keytab")).count(), 1);
}

#[test]
fn each_node_has_a_port_a_kernel_and_is_waited_for() {
    for nodes in [1, 3, 32] {
        let options = LabOptions { nodes, ..options() };
        let steps = plan(&options);
        let actions: Vec<&LabAction> = steps.iter().flat_map(|step| &step.actions).collect();
        let batches = batches(&options);
        for name in (1..=nodes).map(node_name) {
            assert!(batches.contains(&format!("tuntap add dev {name} mode tap\n")));
            let started =
                |action: &&&LabAction| matches!(action, LabAction::Start { name: n, .. } if *n == name);
            let waited =
                |action: &&&LabAction| matches!(action, LabAction::Wait { name: n, .. } if *n == name);
            assert_eq!(actions.iter().filter(started).count(), 1, "{name}");
            assert_eq!(actions.iter().filter(waited).count(), 1, "{name}");
        }
    }
}

#[test]
fn device_names_are_short_enough_for_the_kernel() {
    // IFNAMSIZ: 15 bytes and a zero.
    let batches = batches(&LabOptions { nodes: 32, ..options() });
    let added = batches.lines().filter_map(|line| line.strip_prefix("link add name "));
    let names: HashSet<&str> =
        added.flat_map(|rest| [rest.split(' ').next(), rest.split(' ').nth(5)]).flatten().collect();
    assert!(names.len() >= 5, "{names:?}");
    assert!(names.iter().all(|name| name.len() <= 15), "{names:?}");
}

#[test]
fn exports_in_memory_are_mounted_before_they_are_filled() {
    let options = LabOptions { storage: LabStorage::Tmpfs, ..options() };
    let all = commands(&options);
    let at = |text: &str| all.iter().position(|line| line.contains(text)).unwrap();
    assert!(
        at("tmpfs tmpfs /var/lib/orthrus-lab/export")
            < at("install -d -m 755 -o 5001 -g 5001 /var/lib/orthrus-lab/export")
    );
}

#[test]
fn the_summary_names_what_people_look_for() {
    let text = summary(&options());
    for word in ["10.77.1.1", "server.orthrus.test 10.77.1.3", "3 nodes", "nftables"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn every_cable_has_the_stated_rate_at_both_ends() {
    assert!(!batches(&options()).contains("tbf"));
    let link = Some("1gbit".parse().unwrap());
    let batches = batches(&LabOptions { link, ..options() });
    let shaped: Vec<&str> = batches
        .lines()
        .filter(|line| line.contains(" tbf "))
        .filter_map(|line| line.split(' ').nth(3))
        .collect();
    for port in ["e-kdc", "e-server", "e-names", "e-head", "c-head", "node1", "node2", "node3", "cluster"] {
        assert_eq!(shaped.iter().filter(|name| **name == port).count(), 1, "{port}");
    }
    assert_eq!(shaped.iter().filter(|name| **name == "enterprise").count(), 4, "one in each machine");
}
