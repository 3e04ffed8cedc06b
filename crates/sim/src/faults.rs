//! Faults, drawn from the seed until a time when they stop.

use crate::machine::CrashKind;
use crate::network::LinkDirection;
use crate::world::{Event, Inner, note};
use std::time::Duration;

impl Inner {
    /// Injects a fault, or starts the server again.
    pub(crate) fn faults(&mut self, event: Event) {
        match event {
            Event::Start => self.start(),
            Event::QuickRestart(left) => self.quick_restart(left),
            _ if self.now >= self.plan.faults_until => self.end_faults(),
            _ => {
                self.fault();
                let mean = self.plan.fault_every;
                let at = self.now + self.rng.time(Duration::from_millis(1), mean * 2);
                self.schedule(at, Event::Fault);
            }
        }
    }

    /// Ends the faults, so that the clients can finish.
    fn end_faults(&mut self) {
        note!(self, "the faults end");
        self.machine.fuse.set(0);
    }

    fn fault(&mut self) {
        let host = self.rng.below(self.plan.clients);
        let now = self.now;
        match self.rng.below(100) {
            0..4 => {
                let restarts = self.rng.between(2, 9);
                self.quick_restart(restarts);
            }
            4..10 => self.send_copies(),
            10..40 => {
                let all = self.network.all();
                if !all.is_empty() {
                    let connection = all[self.rng.below(all.len())];
                    self.cut(connection);
                }
            }
            40..55 => {
                // Some partitions are longer than a lease.
                let long = self.rng.one_in(3);
                let until = now + self.rng.millis(500, if long { 70_000 } else { 15_000 });
                note!(self, "client {host} is cut off until {:.3}", until.as_secs_f64());
                self.network.block(host, until);
            }
            55..62 => self.crash(),
            62..75 => {
                let steps = 1 + self.rng.below(12) as i64;
                self.machine.fuse.set(steps);
            }
            75..82 => self.crash_again(),
            82..88 => {
                self.frozen_until = now + self.rng.millis(100, 30_000);
                note!(self, "the server's machine is suspended until {:.3}", self.frozen_until.as_secs_f64());
            }
            88..93 => {
                let jump = self.rng.millis(100, 40_000);
                note!(self, "the server's clock jumps by {:.3}", jump.as_secs_f64());
                self.jumped += jump;
                self.history.jumps.push((now, jump));
            }
            93..97 => {
                let hours = self.rng.next() % (48 * 3600 * 1_000_000_000);
                self.wall_off = i64::try_from(hours).unwrap_or(0) - 24 * 3600 * 1_000_000_000;
                note!(self, "the wall clock is off by {} ns", self.wall_off);
            }
            _ => {
                note!(self, "client {host} restarts");
                self.restarts.push(host);
            }
        }
    }

    /// Restarts the process before its clients have reclaimed everything, and sometimes the machine
    /// of a client as well.
    fn quick_restart(&mut self, left: usize) {
        if self.machine.is_up() {
            let down = self.rng.millis(10, 1000);
            self.go_down(CrashKind::Process, down);
        }
        if self.rng.one_in(4) {
            let host = self.rng.below(self.plan.clients);
            note!(self, "client {host} restarts");
            self.restarts.push(host);
        }
        if let Some(left) = left.checked_sub(1) {
            let at = self.now + self.rng.millis(1000, 6000);
            self.schedule(at, Event::QuickRestart(left));
        }
    }

    /// Sends copies of calls that the server has executed, each on a connection of its own.
    fn send_copies(&mut self) {
        if !self.machine.is_up() {
            return;
        }
        for _ in 0..self.rng.between(1, 5) {
            let Some(copy) = self.onlooker.copy(&mut self.rng) else { return };
            let connection = self.network.open(copy.host);
            note!(self, "an onlooker copies a call of client {} on {connection}", copy.host);
            self.onlooker.own(connection);
            self.send(connection, LinkDirection::ToServer, copy.record);
            let at = self.now + self.rng.millis(1000, 40_000);
            self.schedule(at, Event::Gone(connection, LinkDirection::ToServer));
            self.schedule(at, Event::Gone(connection, LinkDirection::ToClient));
        }
    }

    fn cut(&mut self, connection: u64) {
        let now = self.now;
        if let Some((client, server)) = self.network.cut(connection, now) {
            note!(self, "{connection} is cut");
            self.schedule(client, Event::Gone(connection, LinkDirection::ToClient));
            self.schedule(server, Event::Gone(connection, LinkDirection::ToServer));
        }
    }

    /// Crashes the server if it is in its grace period.
    fn crash_again(&mut self) {
        if self.server_clock() < crate::plan::GRACE {
            self.crash();
        }
    }
}
