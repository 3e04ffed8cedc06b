//! ONC RPC (RFC 5531) and RPCSEC_GSS (RFC 2203): record marking, headers, credentials, sequence window.
