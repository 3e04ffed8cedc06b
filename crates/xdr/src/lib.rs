//! External Data Representation (RFC 4506): bytes to values and back, with limits.
