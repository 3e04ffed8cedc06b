//! Tests without a socket: time is moved by hand.
