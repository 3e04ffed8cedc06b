//! Kerberos per-message tokens (RFC 4121) over the AES enctypes of RFC 3962 and RFC 8009.
