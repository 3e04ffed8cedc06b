//! The shares of tenants in the time of a shard, by connection: the round's work, the choice of the
//! connections that it serves, and the charge for them.

use super::Sockets;
use crate::shares::TenantIndex;
use crate::traffic::Lane;
use std::time::{Duration, Instant};

impl Sockets {
    /// Begins a round of the tenants at `now`.
    pub(crate) fn begin_round(&mut self, now: Instant) {
        self.shares.begin_round(now);
        if let Some(asked) = self.asked {
            self.shares.extend_round(asked);
        }
        for id in &self.releasable {
            if let Some(tenant) = self.connections.get_mut(id).and_then(|connection| *connection.tenant()) {
                self.shares.present(tenant);
            }
        }
    }

    /// Ends the round: its overhead is charged if tenants compete.
    pub(crate) fn end_round(&mut self) {
        if self.shares.is_contended() {
            self.shares.end_round(Instant::now());
        }
    }

    /// Records that a connection has work in this round, and returns its lane.
    pub(crate) fn present(&mut self, id: u64) -> Lane {
        let Some(connection) = self.connections.get_mut(&id) else { return Lane::Interactive };
        if !self.shares.is_contended() {
            connection.traffic().take_work();
        }
        if let Some(tenant) = *connection.tenant() {
            self.shares.present(tenant);
        }
        connection.traffic().lane()
    }

    /// Returns whether this round serves a connection.
    pub(crate) fn admits(&mut self, id: u64) -> bool {
        self.tenant(id).is_none_or(|tenant| self.shares.admits(tenant))
    }

    /// Records that work for a connection begins.
    pub(crate) fn begin_work(&mut self, id: Option<u64>) {
        if self.shares.is_contended() {
            let tenant = id.and_then(|id| self.tenant(id));
            self.shares.begin_work(tenant, Instant::now());
        }
    }

    fn tenant(&mut self, id: u64) -> Option<TenantIndex> {
        *self.connections.get_mut(&id)?.tenant()
    }

    /// Returns the place of a connection's work in a queue, by its tenant; the least is the first.
    pub(crate) fn turn(&mut self, id: u64) -> Duration {
        self.tenant(id).map_or(Duration::ZERO, |tenant| self.shares.turn(tenant))
    }

    /// Works for a connection, and charges the time to its tenant while tenants compete.
    pub(crate) fn charged<T>(&mut self, id: u64, work: impl FnOnce(&mut Self) -> T) -> T {
        let start = self.shares.is_contended().then(Instant::now);
        let result = work(self);
        if let Some(start) = start {
            self.charge(id, start.elapsed());
        }
        result
    }

    /// Charges time to the tenant of a connection.
    pub(crate) fn charge(&mut self, id: u64, time: Duration) {
        if let Some(tenant) = self.tenant(id) {
            self.shares.charge(tenant, time);
        }
    }

    /// Charges the time of a batch to the tenants of its connections, in proportion to their work.
    pub(crate) fn charge_batch(&mut self, served: &[u64], time: Duration) {
        let Self { connections, shares, .. } = self;
        let mut work = |id: &u64| connections.get_mut(id).map_or(0, |connection| connection.traffic().work());
        let all: usize = served.iter().map(&mut work).sum();
        for id in served {
            let Some(connection) = connections.get_mut(id) else { continue };
            let (work, tenant) = (connection.traffic().take_work(), *connection.tenant());
            let part = time.as_nanos() * work as u128 / all.max(1) as u128;
            let part = Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX));
            if let Some(tenant) = tenant {
                shares.charge(tenant, part);
            }
        }
    }

    /// Returns the lane of a connection.
    pub(crate) fn lane(&mut self, id: u64) -> Lane {
        let connection = self.connections.get_mut(&id);
        connection.map_or(Lane::Interactive, |connection| connection.traffic().lane())
    }

    /// Returns whether a connection may be served during other work: its lane is at most `last`, it
    /// has no other request in progress, and its tenant is behind that of the work.
    pub(crate) fn may_pass(&mut self, id: u64, last: Lane, now: Instant) -> bool {
        let Self { connections, shares, .. } = self;
        connections.get_mut(&id).is_some_and(|connection| {
            let is_behind = connection.tenant().is_none_or(|tenant| shares.may_pass(tenant, now));
            let traffic = connection.traffic();
            is_behind && traffic.is_idle() && traffic.lane() <= last
        })
    }
}
