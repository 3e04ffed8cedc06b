//! A throw-away MIT Kerberos realm in a folder.
