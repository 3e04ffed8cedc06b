//! The only bridge to MIT Kerberos: accepts and initiates contexts and hands their keys to the krb5 crate.
