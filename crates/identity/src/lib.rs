//! Principals to uids and gids, and owners to names and back.
