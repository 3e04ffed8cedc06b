//! Clients, sessions, slots, opens, locks and leases as a pure state machine that takes the time as an argument.
