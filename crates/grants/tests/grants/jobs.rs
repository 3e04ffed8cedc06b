//! Tickets of jobs, from their submission to their end.

use crate::site::{
    ALICE, GrantSite, LIFE, PATIENCE, assign, end, is_ready, now, options, soon, submission, tickets, used,
};
use gss::Credential;
use orthrus_grants::{GrantCallError, GrantReply, GrantRequest, GrantSubmission, RunStatus, TicketSource};
use realm::{RealmOptions, in_realm};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

#[test]
fn tickets_are_renewed_for_as_long_as_the_grant_lasts_and_vanish_with_it() {
    in_realm(
        "jobs::tickets_are_renewed_for_as_long_as_the_grant_lasts_and_vanish_with_it",
        &options(),
        |realm| {
            let site = GrantSite::start(realm);
            site.submit("alice", "7", &["n1"]);
            let agent = site.agent("n1");
            let status = agent.attach("7", "7");
            let RunStatus::Ready { file, ends } = status else { panic!("{status:?}") };
            assert_eq!(file, agent.file());
            assert!(ends <= now() + LIFE, "a short ticket");
            assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
            // Three lifetimes; no moment is without a valid ticket.
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(3 * LIFE) {
                assert_eq!(used(realm, &file, "nfs@localhost").as_deref(), Ok(ALICE));
                std::thread::sleep(Duration::from_millis(100));
            }
            assert!(used(realm, &file, "grants@localhost").is_err(), "tickets for the granted services only");
            let copy = realm.dir().with_file_name("copy");
            fs::copy(&file, &copy).unwrap();
            let ended = Instant::now();
            site.call(&site.user("alice"), end("7")).unwrap();
            soon("the end of the grant", || (!file.exists()).then_some(()));
            assert!(ended.elapsed() < Duration::from_secs(LIFE + 1), "{:?}", ended.elapsed());
            // A thief's copy ends with its tickets.
            std::thread::sleep(Duration::from_secs(LIFE + 1).saturating_sub(ended.elapsed()));
            assert!(used(realm, &copy, "nfs@localhost").is_err());
        },
    );
}

#[test]
fn jobs_keep_their_tickets_and_new_ones_get_some_when_the_first_kdc_is_killed() {
    // MS-SFU section 3.2.5: any KDC of the realm delegates.
    let options = RealmOptions { replicas: 1, ..options() };
    let test = "jobs::jobs_keep_their_tickets_and_new_ones_get_some_when_the_first_kdc_is_killed";
    in_realm(test, &options, |realm| {
        let mut site = GrantSite::start(realm);
        site.submit("alice", "7", &["n1"]);
        let agent = site.agent("n1");
        assert!(is_ready(&agent.attach("7", "7")));
        assert!(realm.kill_kdc(0).unwrap(), "it ran");
        // Two lifetimes: tickets of the first KDC are of no use at the end.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(2 * LIFE + 1) {
            assert_eq!(used(realm, &agent.file(), "nfs@localhost").as_deref(), Ok(ALICE));
            std::thread::sleep(Duration::from_millis(100));
        }
        // A login, a submission and a service that starts need no more than the other KDC.
        site.restart();
        site.submit("bob", "8", &["n1"]);
        assert!(matches!(
            site.call(&site.host("n1"), tickets("bob@ORTHRUS.TEST", "8")),
            Ok(GrantReply::Tickets(_))
        ));
        // Without any KDC the service says so, and the grant stays.
        assert!(realm.kill_kdc(1).unwrap(), "it ran");
        let none = site.call(&site.user("bob"), submission("9", &[]));
        assert!(none.is_err(), "{none:?}");
    });
}

#[test]
fn a_run_that_ends_takes_its_tickets_along_but_not_those_of_another_run() {
    in_realm(
        "jobs::a_run_that_ends_takes_its_tickets_along_but_not_those_of_another_run",
        &options(),
        |realm| {
            let site = GrantSite::start(realm);
            site.submit("alice", "7", &[]);
            let mut agent = site.agent("n1");
            assert!(
                !is_ready(&agent.attach_within("7_1", "7", Duration::from_millis(500))),
                "not announced yet"
            );
            for run in ["7_1", "7_2"] {
                site.call(&site.host("ctl"), assign("7", run, &["n1"])).unwrap();
                assert!(is_ready(&agent.attach(run, "7")));
            }
            agent.detach("7_1");
            assert_eq!(used(realm, &agent.file(), "nfs@localhost").as_deref(), Ok(ALICE));
            // A run that ends while no agent runs is cleaned up as well.
            agent.stop();
            assert!(agent.file().exists());
            agent.detach("7_2");
            assert!(!agent.file().exists());
        },
    );
}

#[test]
fn users_see_and_end_their_own_grants_and_administrators_all() {
    in_realm("jobs::users_see_and_end_their_own_grants_and_administrators_all", &options(), |realm| {
        let site = GrantSite::start(realm);
        for job in ["1", "2", "3"] {
            site.submit("alice", job, &["n1"]);
        }
        assert!(site.refused(&site.user("alice"), submission("4", &[])).contains("you have 3 grants"));
        site.submit("bob", "1", &["n1"]);
        let count = |user: &str| match site.call(&site.user(user), GrantRequest::List) {
            Ok(GrantReply::Grants { grants, more: false }) => grants.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!((count("alice"), count("bob")), (3, 4));
        let of = |user: &str, job: &str| GrantRequest::End {
            principal: Some(format!("{user}@ORTHRUS.TEST")),
            job: job.into(),
        };
        site.refused(&site.user("alice"), of("bob", "1"));
        site.call(&site.user("bob"), of("alice", "1")).unwrap();
        site.call(&site.host("ctl"), of("alice", "2")).unwrap();
        assert_eq!((count("alice"), count("bob")), (1, 2));
        let other = GrantSubmission {
            job: "5".into(),
            services: vec!["nfs/127.0.0.1".into()],
            nodes: vec![],
            deadline: now() + 60,
            forwarded: false,
        };
        assert!(site.refused(&site.user("alice"), GrantRequest::Submit(other)).contains("not offered"));
    });
}

#[test]
fn a_submission_without_a_live_ticket_is_refused_with_the_remedy() {
    in_realm("jobs::a_submission_without_a_live_ticket_is_refused_with_the_remedy", &options(), |realm| {
        let site = GrantSite::start(realm);
        let short = realm.dir().with_file_name("short");
        realm.kinit_with("alice", &short, &realm.users_keytab(), &["-l", "1s"]).unwrap();
        std::thread::sleep(Duration::from_millis(2500));
        for cache in [&short, &realm.dir().with_file_name("none")] {
            let credential = Credential::Ccache(format!("FILE:{}", cache.display()));
            let error = site.call(&credential, submission("7", &["n1"])).unwrap_err();
            assert!(matches!(error, GrantCallError::NoTicket(_)), "{error}");
            assert!(error.to_string().contains("kinit"), "{error}");
        }
    });
}

#[test]
fn a_disabled_account_has_no_tickets_after_one_lifetime() {
    in_realm("jobs::a_disabled_account_has_no_tickets_after_one_lifetime", &options(), |realm| {
        let site = GrantSite::start(realm);
        site.submit("alice", "7", &["n1"]);
        let agent = site.agent("n1");
        assert!(is_ready(&agent.attach("7", "7")));
        realm.kadmin("modprinc -allow_tix alice").unwrap();
        let disabled = Instant::now();
        soon("the end of the tickets", || (!agent.file().exists()).then_some(()));
        assert!(disabled.elapsed() < Duration::from_secs(LIFE + 1), "{:?}", disabled.elapsed());
        let text = site.refused(&site.host("n1"), tickets(ALICE, "7"));
        assert!(text.contains("revoked"), "{text}");
        assert!(site.refused(&site.user("alice"), submission("8", &["n1"])).contains("revoked"));
        realm.kadmin("modprinc +allow_tix alice").unwrap();
        soon("tickets after the account is back", || agent.file().exists().then_some(()));
    });
}

#[test]
fn an_agent_rides_out_an_outage_and_grants_outlive_the_service() {
    in_realm("jobs::an_agent_rides_out_an_outage_and_grants_outlive_the_service", &options(), |realm| {
        let mut site = GrantSite::start(realm);
        site.submit("alice", "7", &["n1"]);
        let mut agent = site.agent("n1");
        assert!(is_ready(&agent.attach("7", "7")));
        site.service = None;
        let begin = Instant::now();
        // At least half a lifetime is left.
        while begin.elapsed() < Duration::from_millis(LIFE * 500 - 600) {
            assert_eq!(used(realm, &agent.file(), "nfs@localhost").as_deref(), Ok(ALICE));
            std::thread::sleep(Duration::from_millis(50));
        }
        // An agent that starts meanwhile keeps them.
        agent.stop();
        agent = site.agent("n1");
        soon("the end of the tickets", || (!agent.file().exists()).then_some(()));
        assert!(
            begin.elapsed() < Duration::from_secs(LIFE + 1),
            "expired tickets stay: {:?}",
            begin.elapsed()
        );
        // A damaged record and a torn one are no grants, and cost none.
        fs::write(site.settings.folder.join("grant-damaged"), "orthrus-grant-1 0\n{}\n").unwrap();
        fs::write(site.settings.folder.join(".new-grant-torn"), "orth").unwrap();
        site.restart();
        let ready = || used(realm, &agent.file(), "nfs@localhost").ok();
        assert_eq!(soon("tickets after the outage", ready), ALICE);
    });
}

#[test]
fn tickets_come_again_after_the_key_of_the_service_is_replaced() {
    in_realm("jobs::tickets_come_again_after_the_key_of_the_service_is_replaced", &options(), |realm| {
        let mut site = GrantSite::start(realm);
        site.settings.keytab = realm.dir().with_file_name("grants.keytab");
        fs::copy(realm.grants_keytab(), &site.settings.keytab).unwrap();
        site.restart();
        site.submit("alice", "7", &["n1"]);
        let agent = site.agent("n1");
        assert!(is_ready(&agent.attach("7", "7")));
        // As after a theft: the new file has no earlier key.
        let fresh = realm.dir().with_file_name("fresh.keytab");
        realm.kadmin(&format!("ktadd -k \"{}\" grants/localhost\n", fresh.display())).unwrap();
        fs::rename(&fresh, &site.settings.keytab).unwrap();
        let error = site.call(&site.user("alice"), GrantRequest::List).unwrap_err();
        assert!(matches!(error, GrantCallError::NotAccepted(_)), "{error}");
        assert!(error.to_string().contains("kdestroy"), "{error}");
        // The agent has a ticket for the earlier key as well.
        assert!(is_ready(&agent.attach("8", "7")));
    });
}

#[test]
fn announcements_of_many_jobs_at_the_same_moment_all_arrive() {
    in_realm("jobs::announcements_of_many_jobs_at_the_same_moment_all_arrive", &options(), |realm| {
        let site = GrantSite::start(realm);
        let (server, controller) = (site.server(), site.host("ctl"));
        let announce = |number: usize| {
            let (job, run) = (format!("{number}"), format!("run-{number}"));
            server.call_patiently(&controller, &assign(&job, &run, &["n1"]), PATIENCE)
        };
        std::thread::scope(|scope| {
            let calls: Vec<_> = (0..48).map(|number| scope.spawn(move || announce(number))).collect();
            for call in calls {
                assert!(matches!(call.join().unwrap(), Ok(GrantReply::Done)));
            }
        });
    });
}

#[test]
fn without_delegation_a_renewable_ticket_serves_until_its_limit() {
    // RFC 4120 section 2.3 (renewable tickets)
    in_realm("jobs::without_delegation_a_renewable_ticket_serves_until_its_limit", &options(), |realm| {
        let site = GrantSite::start(realm);
        realm.kadmin("modprinc -ok_to_auth_as_delegate grants/localhost").unwrap();
        let short = realm.dir().with_file_name("short");
        let kinit = |options: &[&str]| {
            realm.kinit_with("alice", &short, &realm.users_keytab(), options).unwrap();
        };
        let credential = Credential::Ccache(format!("FILE:{}", short.display()));
        let GrantRequest::Submit(submission) = submission("7", &["n1"]) else { panic!() };
        let submit = |forwarded| {
            site.call(&credential, GrantRequest::Submit(GrantSubmission { forwarded, ..submission.clone() }))
        };
        // A ticket that is not forwardable leaves nothing.
        kinit(&["-F", "-l", "5s", "-r", "1h"]);
        let refused = submit(false).unwrap();
        assert!(matches!(refused, GrantReply::NoDelegation(_)), "{refused:?}");
        let refused = submit(true).unwrap_err().to_string();
        assert!(refused.contains("kinit -f"), "{refused}");
        assert_eq!(fs::read_dir(site.settings.folder.join("tickets")).unwrap().count(), 0);
        kinit(&["-f", "-l", "5s", "-r", "1h"]);
        let GrantReply::Submitted(grant) = submit(true).unwrap() else { panic!() };
        let kept =
            fs::read_dir(site.settings.folder.join("tickets")).unwrap().next().unwrap().unwrap().path();
        let klist = std::process::Command::new("klist").arg("-f").arg("-c").arg(kept).output().unwrap();
        let klist = String::from_utf8_lossy(&klist.stdout).into_owned();
        assert!(klist.lines().any(|line| line.contains("Flags: Ff")), "it is forwarded: {klist}");
        let TicketSource::Renewal(until) = grant.source else { panic!("{grant:?}") };
        assert!((3500..=3600).contains(&(until - now())), "{until}");
        fs::remove_file(&short).unwrap();
        let agent = site.agent("n1");
        assert!(is_ready(&agent.attach("7", "7")));
        // Two lifetimes of the ticket-granting ticket, which is not on the node.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(10) {
            assert_eq!(used(realm, &agent.file(), "nfs@localhost").as_deref(), Ok(ALICE));
            assert!(used(realm, &agent.file(), "grants@localhost").is_err());
            std::thread::sleep(Duration::from_millis(100));
        }
        let tickets = || fs::read_dir(site.settings.folder.join("tickets")).unwrap().count();
        assert_eq!(tickets(), 1);
        site.call(&site.user("alice"), end("7")).unwrap();
        assert_eq!(tickets(), 0, "the service forgets the ticket with the grant");
        soon("the end of the tickets", || (!agent.file().exists()).then_some(()));
    });
}
