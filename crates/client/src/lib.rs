//! An NFSv4.1/4.2 client library with sessions, several connections and every security flavor.
