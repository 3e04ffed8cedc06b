//! The order in which connections are closed, tested without sockets.

use super::*;
use crate::stillness::ShardPhase;

struct LedgerWorld {
    ledger: Ledger,
    accounts: Vec<Arc<ConnectionAccount>>,
}

impl LedgerWorld {
    fn new(limits: Limits) -> Self {
        let ledger = Ledger::new(Arc::new(limits), Arc::new(Stats::default()));
        Self { ledger, accounts: Vec::new() }
    }

    /// Opens a connection from an address, and returns whether the table had room.
    fn open(&mut self, ip: &str) -> bool {
        let peer = SocketAddr::new(ip.parse().expect("an address"), 700);
        let order = self.accounts.len() as u64;
        let mailbox = Arc::new(Mailbox::new(ShardPhase::Serve).expect("a descriptor"));
        let account = self.ledger.open(ConnectionId(order), order, peer, mailbox);
        self.accounts.extend(account.clone());
        account.is_some()
    }

    fn trust(&self, index: usize) {
        self.ledger.trust(&self.accounts[index]);
    }

    fn holds(&self, index: usize, bytes: usize) {
        self.ledger.note(&self.accounts[index], Budget::Input, bytes, false);
    }

    /// Returns the condemned connections.
    fn gone(&self) -> Vec<usize> {
        let gone = |account: &ConnectionAccount| {
            assert_eq!(account.is_condemned(), !account.mailbox.take_evicted().is_empty());
            account.is_condemned()
        };
        (0..self.accounts.len()).filter(|index| gone(&self.accounts[*index])).collect()
    }

    fn input_bytes(&self) -> usize {
        self.ledger.stats.input_bytes.load(Relaxed)
    }
}

fn with_places(connections_max: usize) -> LedgerWorld {
    LedgerWorld::new(Limits { connections_max, ..Limits::default() })
}

fn with_input(input_bytes_max: usize) -> LedgerWorld {
    LedgerWorld::new(Limits { input_bytes_max, ..Limits::default() })
}

#[test]
fn a_full_table_makes_room_by_the_oldest_untrusted_connection_of_the_address_with_most() {
    let mut world = with_places(6);
    for ip in ["192.0.2.9", "192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.9"] {
        assert!(world.open(ip));
    }
    world.trust(1);
    assert!(world.open("198.51.100.7"));
    assert_eq!(world.gone(), [2], "1 is trusted, 0 is older but its address has fewer");
}

#[test]
fn newcomers_never_take_the_place_of_a_trusted_connection() {
    let mut world = with_places(2);
    assert!(world.open("192.0.2.1") && world.open("192.0.2.1"));
    world.trust(0);
    world.trust(1);
    assert!(!world.open("192.0.2.2"));
    world.ledger.close(&world.accounts[0]);
    assert!(world.open("192.0.2.2"));
    assert!(world.open("192.0.2.3"));
    assert_eq!(world.gone(), [2]);
}

#[test]
fn a_lack_of_descriptors_costs_strangers_alone() {
    let mut world = with_places(10);
    assert!(world.open("192.0.2.1") && world.open("192.0.2.1") && world.open("192.0.2.2"));
    world.trust(0);
    world.ledger.evict_stranger("for the test");
    world.ledger.evict_stranger("for the test");
    world.ledger.evict_stranger("for the test");
    assert_eq!(world.accounts.iter().filter(|account| !account.is_condemned()).count(), 1);
    assert!(!world.accounts[0].is_condemned());
}

#[test]
fn the_addresses_of_one_ipv6_network_share_one_part() {
    let mut world = with_places(4);
    for ip in ["2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:2::2", "2001:db8:0:2:ffff::3"] {
        assert!(world.open(ip));
    }
    assert!(world.open("192.0.2.1"));
    assert_eq!(world.gone(), [1]);
    assert_eq!(
        address("::ffff:192.0.2.1".parse().expect("mapped")),
        address("192.0.2.1".parse().expect("v4"))
    );
}

#[test]
fn the_largest_untrusted_holder_of_the_heaviest_address_goes_first() {
    let mut world = with_input(1000);
    // The attacker has two addresses; a newcomer holds more than either of its single connections.
    for ip in ["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.9", "198.51.100.7"] {
        assert!(world.open(ip));
    }
    world.trust(4);
    world.holds(4, 300);
    world.holds(3, 80);
    world.holds(0, 50);
    world.holds(1, 70);
    assert!(world.gone().is_empty(), "strangers may hold 250 of 1000");
    world.holds(2, 51);
    assert_eq!(world.gone(), [1], "the largest of the address with most, which is room enough");
}

#[test]
fn strangers_alone_never_make_memory_short_for_trusted_connections() {
    let mut world = with_input(1600);
    assert!(world.open("192.0.2.1"));
    world.trust(0);
    world.holds(0, 700);
    for index in 1..100 {
        assert!(world.open("198.51.100.7"));
        world.holds(index, 90);
        assert!(!world.ledger.is_short(Budget::Input), "after {index} strangers");
    }
    assert!(!world.gone().contains(&0));
    assert!(world.ledger.held_untrusted(Budget::Input) <= 400);
}

#[test]
fn a_budget_that_is_used_up_costs_strangers_before_trusted_connections() {
    let mut world = with_input(1000);
    for ip in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
        assert!(world.open(ip));
    }
    world.trust(0);
    world.holds(1, 100);
    world.holds(2, 140);
    world.holds(0, 760);
    assert!(world.gone().is_empty(), "all of 1000 are used, and none more");
    world.holds(0, 800);
    assert_eq!(world.gone(), [1, 2]);
}

#[test]
fn a_record_that_was_left_unfinished_goes_before_one_in_transit_of_the_same_address() {
    let mut world = with_input(1000);
    (0..3).for_each(|_| assert!(world.open("127.0.0.1")));
    world.holds(0, 100);
    while world.ledger.milliseconds() < 30 {
        std::thread::yield_now();
    }
    world.holds(1, 110);
    world.holds(2, 60);
    assert_eq!(world.gone(), [0]);
}

#[test]
fn trusted_connections_go_only_when_all_of_the_budget_is_used() {
    let mut world = with_input(1000);
    for ip in ["192.0.2.1", "192.0.2.1", "192.0.2.2"] {
        assert!(world.open(ip));
    }
    (0..3).for_each(|index| world.trust(index));
    world.holds(2, 400);
    world.holds(0, 300);
    world.holds(1, 300);
    assert!(world.gone().is_empty(), "all of 1000 are used, and none more");
    assert!(world.ledger.is_short(Budget::Input));
    world.holds(0, 301);
    let gone = world.gone();
    assert!(gone == [0] || gone == [1], "{gone:?}: the address that holds most");
}

#[test]
fn all_that_was_counted_is_given_back_in_every_order() {
    let mut world = with_input(1000);
    (0..4).for_each(|_| assert!(world.open("192.0.2.1")));
    world.holds(0, 200);
    world.trust(0);
    world.holds(1, 130);
    world.holds(2, 130);
    let gone = world.gone();
    assert_eq!(gone.len(), 1);
    // A record may still grow before its shard closes it.
    world.holds(gone[0], 500);
    world.trust(gone[0]);
    world.ledger.note(&world.accounts[3], Budget::Output, 70, true);
    world.accounts.iter().for_each(|account| world.ledger.close(account));
    assert_eq!((world.input_bytes(), world.ledger.stats.output_bytes.load(Relaxed)), (0, 0));
    let sums = &world.ledger.sums;
    assert!(sums.iter().all(|sums| sums.untrusted.load(Relaxed) == 0 && sums.yielded.load(Relaxed) == 0));
    let table = world.ledger.lock();
    assert!(table.accounts.is_empty() && table.untrusted.is_empty() && table.ranks.is_empty());
}
