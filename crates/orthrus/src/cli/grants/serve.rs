//! `orthrus grants serve`: the grant service.

use super::time::parse_duration;
use crate::cli::stop;
use crate::output::outln;
use crate::service_manager::ServiceManager;
use ::grants::{GrantLimits, GrantService, ServiceSettings};
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// Store the grants of users, and release tickets to the nodes of their jobs.
///
/// Run it on a machine that users cannot log in to: its key gets tickets in their names. The KDC
/// limits this to the services of krbAllowedToDelegateTo.
#[derive(clap::Args)]
pub(in crate::cli) struct ServeGrants {
    /// Keytab with the key of grants/HOST.
    #[arg(long, value_name = "FILE")]
    keytab: PathBuf,
    /// Folder of the grants; it is created if it is missing.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/orthrus-grants")]
    store: PathBuf,
    /// Address and port to listen on.
    #[arg(long, default_value = "[::]:7049")]
    listen: SocketAddr,
    /// An NFS service that grants may name, such as nfs/server.example.org; may be repeated.
    #[arg(long = "service", value_name = "nfs/HOST", required = true)]
    services: Vec<String>,
    /// A principal that sees and ends all grants; may be repeated.
    #[arg(long = "admin", value_name = "PRINCIPAL")]
    admins: Vec<String>,
    /// The principal of a scheduler's controller, which assigns runs to nodes; may be repeated.
    #[arg(long = "scheduler", value_name = "PRINCIPAL")]
    schedulers: Vec<String>,
    /// Lifetime of the tickets. Revocation takes effect within it.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration)]
    ticket_life: u64,
    /// Longest time from a submission to the deadline of its grant.
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = parse_duration)]
    grant_life: u64,
    /// Most grants of one user. At the limit, the grant of the job that ended first is removed.
    #[arg(long, value_name = "COUNT", default_value_t = GrantLimits::default().per_user)]
    per_user: usize,
    /// Most grants of all users, and most runs that schedulers announce.
    #[arg(long, value_name = "COUNT", default_value_t = GrantLimits::default().total)]
    total: usize,
    /// Stop at the end of standard input, for tests.
    #[arg(long, hide = true)]
    end_with_input: bool,
}

impl ServeGrants {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let stop = stop::stop_flag()?;
        let limits = GrantLimits { per_user: self.per_user, total: self.total, life: self.grant_life };
        let service = GrantService::start(ServiceSettings {
            keytab: self.keytab,
            folder: self.store,
            listen: self.listen,
            services: self.services,
            admins: self.admins,
            schedulers: self.schedulers,
            ticket_life: self.ticket_life,
            limits,
        })?;
        outln!("orthrus serves grants {}", service.address());
        let manager = ServiceManager::from_environment();
        manager.ready(&format!("at {}", service.address()));
        if self.end_with_input {
            let stop = stop.clone();
            std::thread::spawn(move || {
                let _ = std::io::stdin().read_to_end(&mut Vec::new());
                stop.store(true, Ordering::Relaxed);
            });
        }
        stop::wait_for(&stop);
        manager.stopping();
        drop(service);
        Ok(())
    }
}
