//! Listeners, connections and shards: moves records between sockets and a service.
