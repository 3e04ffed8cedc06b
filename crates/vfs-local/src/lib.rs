//! A Linux file system as a backend, the caller's identity enforced by the kernel.
