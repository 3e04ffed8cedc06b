//! Program against program: the server, the realm and the clients, end to end.
