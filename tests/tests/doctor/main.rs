//! `orthrus doctor` against real set-ups with one fault each: the fault is named first, and a
//! healthy set-up raises no alarm.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod clinic;
mod faults;
mod ganesha;
mod slapd;

use clinic::{Clinic, DoctorVerdict, Patient};
use e2e::{World, in_world, in_world_with, is_root};
use faults::{ExpectedFinding, FAULTS};
use realm::RealmOptions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

#[test]
fn a_healthy_client_and_a_healthy_server_raise_no_alarm() {
    in_world(|world| {
        let clinic = Clinic::open(world);
        for patient in [Patient::client(&clinic), Patient::server(&clinic)] {
            let verdict = patient.examine();
            assert_eq!((verdict.status, verdict.findings.len()), (0, 0), "{}", verdict.text);
        }
    });
}

#[test]
fn a_server_without_its_usual_file_is_examined_with_a_warning() {
    in_world(|world| {
        let clinic = Clinic::open(world);
        let patient = Patient::server(&clinic);
        std::fs::remove_file(patient.path("etc/orthrus/orthrus.toml")).unwrap();
        let verdict = patient.examine();
        assert!(verdict.text.contains("a server with defaults is examined"), "{}", verdict.text);
        assert!(verdict.text.contains("orthrus doctor --server --config FILE"), "{}", verdict.text);
    });
}

#[test]
fn exports_for_others_and_another_default_realm_are_no_faults() {
    in_world(|world| {
        let clinic = Clinic::open(world);
        let mut patient = Patient::server(&clinic);
        patient.krb5_conf("default_realm = ORTHRUS.TEST", "default_realm = OTHER.TEST");
        patient.krb5_conf("[realms]", "[realms]\n  OTHER.TEST = {\n    kdc = 127.0.0.1:9\n  }");
        patient.configure(
            "[[export]]\nmemory = 1048576\npseudo = \"/others\"\nclients = [\"192.0.2.0/24\"]\n\
             [[export]]\npseudo = \"/moved\"\nrefer = [\"other.test:/moved\"]\n",
        );
        let verdict = patient.examine();
        assert_eq!((verdict.status, verdict.findings.len()), (0, 0), "{}", verdict.text);
        assert!(verdict.text.contains("/others is for other clients only"), "{}", verdict.text);
        assert!(verdict.text.contains("/moved refers clients to other servers"), "{}", verdict.text);
    });
}

#[test]
fn a_client_and_a_server_without_a_domain_have_the_same_one() {
    in_world(|world| {
        let clinic = Clinic::open(world);
        let server = world.server().arg("--domain").arg("localdomain").start();
        let mut patient = Patient::client(&clinic);
        patient.port = server.port();
        patient.remove("etc/idmapd.conf");
        if let Err(reason) = faults::nameless(&mut patient) {
            return eprintln!("skipped: {reason}");
        }
        let verdict = patient.examine();
        assert!(verdict.findings.iter().all(|found| found.check != "owners"), "{}", verdict.text);
    });
}

#[test]
fn a_user_without_rights_learns_that_all_is_well() {
    if !is_root() {
        return println!("skipped: only root can become another user");
    }
    in_world(|world| {
        let clinic = Clinic::open(world);
        let mut patient = Patient::client(&clinic);
        // Without AUTH_SYS it need not be for this user alone.
        let server =
            world.server().args(["--sec", "krb5p", "--domain", "orthrus.test"]).for_everybody().start();
        patient.port = server.port();
        patient.examined_by("alice");
        let verdict = patient.examine();
        assert_eq!((verdict.status, verdict.findings.len()), (0, 0), "{}", verdict.text);
        assert!(verdict.text.contains("root"), "the checks that need root are named: {}", verdict.text);
    });
}

#[test]
fn a_server_that_offers_only_privacy_is_healthy() {
    in_world(|world| {
        let clinic = Clinic::open(world);
        let mut patient = Patient::client(&clinic);
        patient.export = "/private".into();
        let verdict = patient.examine();
        assert_eq!(verdict.status, 0, "{}", verdict.text);
        // A whole server without AUTH_SYS tells its flavors within a context only.
        let server = world.server().arg("--sec").arg("krb5p").arg("--domain").arg("orthrus.test").start();
        let mut patient = Patient::client(&clinic);
        patient.port = server.port();
        let verdict = patient.examine();
        assert_eq!(verdict.status, 0, "{}", verdict.text);
        patient.export = "/absent".into();
        let verdict = patient.examine();
        assert!(
            verdict.status == 1 && verdict.findings[0].cause.contains("no export /absent"),
            "{}",
            verdict.text
        );
    });
}

#[test]
fn each_fault_is_named_as_the_root_cause() {
    in_world_with(&all_types(), |world| each_fault_is_named(world, 0));
}

#[test]
fn each_fault_of_the_other_half_is_named_as_the_root_cause() {
    in_world_with(&all_types(), |world| each_fault_is_named(world, 1));
}

/// A realm with keys of RFC 3962 and RFC 8009, for the fault of an old kernel.
fn all_types() -> RealmOptions {
    let enctypes = "aes256-cts-hmac-sha1-96,aes128-cts-hmac-sha1-96,aes256-cts-hmac-sha384-192";
    RealmOptions { enctypes: enctypes.parse().expect("three types"), ..RealmOptions::default() }
}

/// Injects every second fault, so that two tests share the time.
fn each_fault_is_named(world: &World, first: usize) {
    let clinic = Clinic::open(world);
    let (mut failures, mut tried) = (Vec::new(), 0);
    for fault in FAULTS.iter().skip(first).step_by(2) {
        let begin = Instant::now();
        let mut patient = if fault.server { Patient::server(&clinic) } else { Patient::client(&clinic) };
        if let Err(why) = (fault.inject)(&mut patient) {
            eprintln!("skipped: {}: {why}", fault.name);
            continue;
        }
        tried += 1;
        let verdict = patient.examine();
        eprintln!("{:>6} ms  {}", begin.elapsed().as_millis(), fault.name);
        if let Some(wrong) = disagreement(&fault.expected, &verdict) {
            failures.push(format!("{}: {wrong}\n{}", fault.name, verdict.text));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(tried >= 25, "only {tried} faults could be injected");
}

/// Returns the difference between an expectation and a verdict.
fn disagreement(expected: &ExpectedFinding, verdict: &DoctorVerdict) -> Option<String> {
    let Some(first) = verdict.findings.first() else { return Some("nothing was found".to_owned()) };
    let (severity, status) = if expected.prevents { ("error", 1) } else { ("warning", 3) };
    if (first.check.as_str(), first.severity.as_str(), verdict.status) != (expected.check, severity, status) {
        return Some(format!("expected {severity} of `{}`", expected.check));
    }
    if !first.cause.contains(expected.words) {
        return Some(format!("expected {:?} in the cause", expected.words));
    }
    if !first.cause.ends_with(['.', ':']) && !first.cause.contains(':') || first.remedy.is_empty() {
        return Some("the cause is no sentence, or has no remedy".to_owned());
    }
    let alike = verdict.findings.iter().filter(|finding| finding.severity == severity).count();
    (alike > 1).then(|| format!("one fault raised {alike} findings"))
}

#[test]
fn the_doctor_works_against_nfs_ganesha() {
    if !is_root() {
        return eprintln!("skipped: NFS-Ganesha needs root and a mount namespace");
    }
    in_world(|world| {
        let clinic = Clinic::open(world);
        let Some(ganesha) = ganesha::GaneshaServer::start(world) else { return };
        let mut patient = Patient::client(&clinic);
        (patient.port, patient.export) = (ganesha.port(), "/data".into());
        let verdict = patient.examine();
        assert_eq!(verdict.status, 0, "{}", verdict.text);
        for (export, flavor, words) in
            [("/absent", None, "no export /absent"), ("/data", Some("sys"), "does not offer sec=sys")]
        {
            patient.export = export.into();
            patient.flavor = flavor;
            let verdict = patient.examine();
            assert!(verdict.status == 1 && verdict.findings[0].cause.contains(words), "{}", verdict.text);
        }
        (patient.export, patient.flavor) = ("/data".into(), None);
        patient.write("etc/idmapd.conf", "[General]\nDomain = elsewhere.test\n");
        let verdict = patient.examine();
        assert!(verdict.findings[0].cause.contains("domain of owners"), "{}", verdict.text);
    });
}

#[test]
fn a_text_report_begins_with_the_root_cause_and_wrong_usage_is_status_2() {
    in_world(|world| {
        let clinic = Clinic::open(world);
        let patient = Patient::client(&clinic);
        patient.remove("etc/krb5.keytab");
        let ended = patient.run(&[]);
        assert!(ended.stdout.starts_with("error    keytab: There is no keytab"), "{}", ended.stdout);
        assert!(ended.stdout.contains("fix kadmin -q"), "{}", ended.stdout);
        assert!(ended.stderr.is_empty(), "{}", ended.stderr);
        let ended = e2e::run(&mut e2e::orthrus(["doctor", "localhost"]));
        assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
        let ended = e2e::run(&mut e2e::orthrus(["doctor"]));
        assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    });
}

#[test]
fn the_own_ticket_of_root_is_no_fault_where_rpc_gssd_uses_the_key_of_the_machine() {
    if !is_root() {
        return println!("skipped: rpc.gssd uses the key of the machine for root only");
    }
    in_world(|world| {
        let clinic = Clinic::open(world);
        let mut patient = Patient::client(&clinic);
        patient.variables.remove("KRB5CCNAME");
        let cache = patient.path("tmp/krb5cc_0");
        let healthy = |patient: &Patient<'_>, state: &str| {
            let verdict = patient.examine();
            assert_eq!((verdict.status, verdict.findings.len()), (0, 0), "{state}: {}", verdict.text);
        };
        healthy(&patient, "valid");
        std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o644)).unwrap();
        healthy(&patient, "readable by all");
        patient.write("tmp/krb5cc_0", b"\x05\x04garbage");
        healthy(&patient, "damaged");
        patient.remove("tmp/krb5cc_0");
        healthy(&patient, "absent");
        faults::kinit(&patient, &cache, "1s").unwrap();
        std::thread::sleep(Duration::from_millis(2100));
        healthy(&patient, "expired");
        patient.write("etc/nfs.conf", "[gssd]\nuse-machine-creds = 0\n");
        let verdict = patient.examine();
        assert!(verdict.findings[0].cause.contains("expired"), "{}", verdict.text);
    });
}

#[test]
fn the_doctor_changes_nothing() {
    in_world(|world| {
        let clinic = Clinic::open(world);
        let patient = Patient::client(&clinic);
        let before = patient.contents();
        assert_eq!(patient.examine().status, 0);
        assert!(before == patient.contents(), "a file of the machine has changed");
        assert_eq!(std::fs::read_dir(world.export()).unwrap().count(), 0);
    });
}

#[test]
fn a_ticket_in_a_cache_that_is_no_file_is_used_in_a_copy() {
    in_world(|world| {
        let clinic = Clinic::open(world);
        let folder = world.path("tickets");
        std::fs::create_dir(&folder).unwrap();
        let cache = format!("DIR:{}", folder.display());
        world.realm.kinit("alice", Path::new(&cache)).expect("the KDC gives a ticket");
        the_cache_stays_as_it_is(&clinic, &cache);
        let cache = format!("KEYRING:session:orthrus-doctor-{}", std::process::id());
        if let Err(error) = world.realm.kinit("alice", Path::new(&cache)) {
            return println!("skipped: the kernel keeps no keys here: {error}");
        }
        the_cache_stays_as_it_is(&clinic, &cache);
        let destroyed = world.realm.command("kdestroy").args(["-q", "-c", &cache]).status();
        assert!(destroyed.unwrap().success());
    });
}

/// Examines a client with this cache, and compares the tickets of the cache before and after.
fn the_cache_stays_as_it_is(clinic: &Clinic<'_>, cache: &str) {
    let realm = &clinic.world.realm;
    let tickets = || realm.command("klist").args(["-c", cache]).output().unwrap().stdout;
    let before = tickets();
    let mut patient = Patient::client(clinic);
    patient.variables.insert("KRB5CCNAME", cache.into());
    let verdict = patient.examine();
    assert_eq!((verdict.status, verdict.findings.len()), (0, 0), "{cache}: {}", verdict.text);
    let context = format!("alice@{} with nfs/", realm.name());
    assert!(verdict.text.contains(&context), "{cache}: {}", verdict.text);
    assert_eq!(String::from_utf8(before), String::from_utf8(tickets()), "the doctor wrote to {cache}");
}
