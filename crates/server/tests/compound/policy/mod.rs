//! Checks that the rules of an export hold for every operation. The cases are derived from the
//! table of operations, so that a new one cannot be forgotten.
//!
//! Each operation is sent to an export whose flavor, address or port rule excludes the caller. The
//! export's filehandle is the current and the saved one, set in each possible way, and followed by
//! operations that read. No reply may hold anything of the export, nothing in it may change, and
//! the operation must not succeed. An admitted caller sends the same and must succeed, which
//! detects samples that prove nothing.

mod samples;
mod world;

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;
use orthrus_server::compound::table;
use samples::{Sample, Samples, samples};
use vfs::SecFlavor;
use world::{Kind, Rule, World};

/// Returns the operations of a minor version.
fn operations(minor: u32) -> impl Iterator<Item = &'static table::Operation> {
    (0..200).filter_map(move |number| table::find(number, minor))
}

/// Returns whether an operation may succeed in an export that is closed to its caller, to lead on
/// or to return the flavors (RFC 8881 section 2.6.3.1). None of these reveals or changes anything
/// of the export.
fn leads_on(opnum: NfsOpnum4) -> bool {
    use NfsOpnum4::*;
    matches!(opnum, OP_SAVEFH | OP_RESTOREFH | OP_PUTFH | OP_SECINFO | OP_SECINFO_NO_NAME)
}

/// Returns whether an operation does not depend on the file system of its filehandle, and has no
/// NFS4ERR_MOVED in its list.
fn without_moved(opnum: NfsOpnum4) -> bool {
    use NfsOpnum4::*;
    matches!(opnum, OP_GETDEVICELIST | OP_OFFLOAD_CANCEL | OP_OFFLOAD_STATUS)
}

/// Returns whether NFSv4.0 refuses the operation to another principal than its client's, on any
/// export.
fn names_owner(opnum: NfsOpnum4) -> bool {
    use NfsOpnum4::*;
    matches!(opnum, OP_OPEN | OP_OPEN_CONFIRM | OP_OPEN_DOWNGRADE | OP_CLOSE | OP_LOCK | OP_LOCKT | OP_LOCKU)
}

/// Operations that read the current filehandle, sent behind one that may have set it.
fn probes() -> Vec<Vec<Op>> {
    let sizes = [FATTR4_SIZE, FATTR4_FILEID];
    vec![
        vec![],
        vec![read(Stateid4::ANONYMOUS, 0, 100)],
        vec![getattr(&sizes)],
        vec![NfsArgop4::OP_READLINK],
        vec![savefh(), put_root(), NfsArgop4::OP_RESTOREFH, read(Stateid4::ANONYMOUS, 0, 100)],
    ]
}

/// Returns all ways to set the current and the saved filehandle.
fn placements(current: &[u8], saved: Option<&[u8]>, other: &[u8]) -> Vec<Vec<Op>> {
    let restore = || NfsArgop4::OP_RESTOREFH;
    match saved {
        None => vec![
            vec![put(current)],
            vec![put(other), put(current)],
            vec![put(current), savefh()],
            vec![put(current), savefh(), savefh()],
            vec![put(other), savefh(), put(current)],
            vec![put(current), savefh(), put(other), restore()],
            vec![put(current), savefh(), put_root(), restore(), savefh()],
        ],
        Some(saved) => vec![
            vec![put(saved), savefh(), put(current)],
            vec![put(saved), savefh(), put(other), put(current)],
            vec![put(other), savefh(), put(saved), savefh(), put(current)],
        ],
    }
}

/// Runs one sample as a caller that the rule excludes.
fn attack(world: &mut World<'_>, opnum: NfsOpnum4, sample: &Sample) {
    let (closed, open) = (world.closed.clone(), world.open.clone());
    let mut cases = Vec::new();
    match sample.saved {
        None => cases.extend(placements(&closed[sample.on], None, &open[sample.on])),
        Some(saved) => {
            for (on, from, other) in [
                (&closed[sample.on], &closed[saved], &open[saved]),
                (&closed[sample.on], &open[saved], &open[saved]),
                (&open[sample.on], &closed[saved], &open[saved]),
            ] {
                cases.extend(placements(on, Some(from), other));
            }
        }
    }
    for before in cases {
        for probe in probes() {
            let what = format!("{:?} {} {opnum} after {before:?}, {probe:?}", world.rule, world.minor);
            let reply = world.run_weak(&before, Some(&sample.bytes), &probe);
            world.check_leak(&reply, &what);
            let ran = reply.results.len() > world.offset + before.len();
            let succeeded =
                ran && (reply.results.len() > world.offset + before.len() + 1 || reply.status == NFS4_OK);
            assert!(!succeeded || leads_on(opnum), "{what}: it succeeded: {:?}", reply.results);
            if sample.saved.is_none() && !leads_on(opnum) && !(world.minor == 0 && names_owner(opnum)) {
                let expected: &[Nfsstat4] = match world.rule {
                    Rule::Flavor(_) | Rule::Port => &[NFS4ERR_WRONGSEC, NFS4ERR_ACCESS],
                    Rule::Address => &[NFS4ERR_STALE],
                };
                assert!(expected.contains(&reply.status), "{what}: {:?}", reply.results);
            }
        }
        // The closed filehandle may also be the saved one of an operation that should use only the
        // current one.
        if sample.saved.is_none() {
            let before = [put(&closed[sample.on]), savefh(), put(&open[sample.on])];
            for probe in probes() {
                let reply = world.run_weak(&before, Some(&sample.bytes), &probe);
                world.check_leak(&reply, &format!("{opnum} with a saved filehandle, {probe:?}"));
            }
        }
    }
}

fn check_rule(rule: Rule) {
    for minor in 0..=2 {
        for operation in operations(minor) {
            let opnum = operation.opnum;
            let server = World::server(rule);
            let mut world = World::new(&server, rule, minor);
            let of = match samples(opnum, minor, &world) {
                Some(Samples::NoFilehandle) => {
                    assert!(!operation.needs_fh, "{opnum}: samples.rs says that it uses no filehandle");
                    continue;
                }
                Some(Samples::Of(of)) => of,
                None => panic!(
                    "{opnum} (minor version {minor}) has no sample arguments: say in `samples` in \
                     crates/server/tests/compound/policy/samples.rs how it is called, or that it uses no filehandle"
                ),
            };
            let unchanged = world.snapshot();
            for sample in &of {
                attack(&mut world, opnum, sample);
            }
            assert_eq!(world.snapshot(), unchanged, "{rule:?} {minor} {opnum} changed the export");
            // A world that the attacks have not touched: NFSv4.0 counts the requests of an owner,
            // refused or not.
            let server = World::server(rule);
            let mut world = World::new(&server, rule, minor);
            let Some(Samples::Of(of)) = samples(opnum, minor, &world) else { panic!("it had samples") };
            // The same by an admitted caller, and then again by the excluded one: NFSv4.0 repeats
            // replies.
            for sample in &of {
                let before = placements(
                    &world.closed[sample.on],
                    sample.saved.map(|saved| &world.closed[saved][..]),
                    &world.open[sample.on],
                )
                .swap_remove(0);
                let reply = world.run_strong(&before, &sample.bytes);
                let what = format!("{rule:?} {minor} {opnum}: {:?}", reply.results);
                assert!(sample.expect.contains(&reply.status), "{what}");
                assert!(reply.results.len() == world.offset + before.len() + 1, "{what}");
                for probe in probes() {
                    let again = world.run_weak(&before, Some(&sample.bytes), &probe);
                    world.check_leak(&again, &format!("the repetition of {what}, {probe:?}"));
                }
            }
        }
    }
}

#[test]
fn no_operation_reaches_an_export_with_a_flavor_that_it_does_not_take() // RFC 8881 section 2.6.3.1
{
    for flavor in SecFlavor::ALL {
        check_rule(Rule::Flavor(flavor));
    }
}

#[test]
fn no_operation_reaches_an_export_of_other_networks() {
    check_rule(Rule::Address);
}

#[test]
fn no_operation_reaches_an_export_by_sys_from_an_unprivileged_port() {
    check_rule(Rule::Port);
}

#[test]
fn no_operation_changes_a_read_only_export() // RFC 8881 section 15.1.5.2: NFS4ERR_ROFS
{
    let mut modified = 0;
    for minor in 0..=2 {
        for operation in operations(minor) {
            let opnum = operation.opnum;
            let server = World::read_only_server();
            // The export admits the strong caller and is read-only for all.
            let mut world = World::new(&server, Rule::Address, minor);
            let Some(Samples::Of(of)) = samples(opnum, minor, &world) else { continue };
            let unchanged = world.snapshot();
            for sample in &of {
                let closed = world.closed.clone();
                let saved = sample.saved.map(|saved| &closed[saved][..]);
                for before in placements(&closed[sample.on], saved, &closed[sample.on]) {
                    let reply = world.run_strong(&before, &sample.bytes);
                    if operation.modifies || sample.modifies {
                        assert_eq!(reply.status, NFS4ERR_ROFS, "{minor} {opnum}: {:?}", reply.results);
                        modified += 1;
                    }
                }
            }
            assert_eq!(world.snapshot(), unchanged, "{minor} {opnum} changed the export");
        }
    }
    assert!(modified > 100, "{modified} attempts to change something");
}

#[test]
fn no_operation_is_performed_in_an_absent_file_system() // RFC 8881 section 11.3
{
    let mut refused = 0;
    for minor in 0..=2 {
        let valid = if minor == 0 { valid_error_40 } else { valid_error };
        for operation in operations(minor).filter(|operation| operation.needs_fh) {
            let opnum = operation.opnum;
            if !valid(opnum, NFS4ERR_MOVED) {
                assert!(without_moved(opnum), "{opnum}: why can it not return NFS4ERR_MOVED?");
                continue;
            }
            let server = World::server(Rule::Address);
            let mut world = World::new(&server, Rule::Address, minor);
            let Some(Samples::Of(of)) = samples(opnum, minor, &world) else { continue };
            // The client has filehandles and state of the time when the file system was present.
            world.move_closed();
            let unchanged = world.snapshot();
            for sample in &of {
                let closed = world.closed.clone();
                let saved = sample.saved.map(|saved| &closed[saved][..]);
                for before in placements(&closed[sample.on], saved, &closed[sample.on]) {
                    let reply = world.run_strong(&before, &sample.bytes);
                    let what = format!("{minor} {opnum} after {before:?}: {:?}", reply.results);
                    assert_eq!(reply.status, NFS4ERR_MOVED, "{what}");
                    world.check_leak(&reply, &what);
                    refused += 1;
                }
            }
            assert_eq!(world.snapshot(), unchanged, "{minor} {opnum} changed the export");
        }
    }
    assert!(refused > 500, "{refused} operations were refused");
}

#[test]
fn each_kind_of_object_is_in_both_exports() {
    let server = World::server(Rule::Port);
    let world = World::new(&server, Rule::Port, 2);
    for kind in Kind::ALL {
        assert_ne!(world.closed[kind], world.open[kind]);
    }
}
