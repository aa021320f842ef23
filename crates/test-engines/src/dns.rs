//! A DNS server: unbound, from Debian.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use rustix::process::Signal;

use crate::engine::{Engine, run};
use crate::folder::Folder;
use crate::ports;
use crate::spawner::dying_with_us;

/// The records of the server's own, before those of the test.
const APEX: &str = ". 0 IN SOA ns.test. nobody.test. 1 60 60 60 0\n. 0 IN NS ns.test.\nns.test. 0 IN A 127.0.0.1\n";

/// A running resolver that knows the whole DNS by heart: what is in its zone, and that nothing
/// else exists. It follows CNAMEs, and answers over UDP and TCP. Nothing is cached, so a new zone
/// is seen at once.
#[derive(Debug)]
pub struct Dns {
    engine: Engine,
    address: SocketAddr,
    config: PathBuf,
    zone: PathBuf,
    // After the engine: dropped in this order.
    _folder: Folder,
}

impl Dns {
    /// A server with these records, each a line as in a zone file (RFC 1035, 5.1) with whole names:
    /// `a.test. 0 IN TXT "one" "two"`. A name under `broken.` is answered SERVFAIL, one under
    /// `refused.` REFUSED, one under `silent.` not at all.
    ///
    /// # Errors
    ///
    /// unbound is missing, doesn't start, or doesn't take the zone.
    pub fn start(records: &str) -> anyhow::Result<Self> {
        let folder = Folder::new("dns")?;
        let [port] = ports::free()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let (config, zone) = (folder.path().join("unbound.conf"), folder.path().join("zone"));
        let (control, broken) = (folder.path().join("control"), folder.path().join("broken"));
        let lines = format!(
            "server:\n interface: 127.0.0.1@{port}\n port: {port}\n username: \"\"\n chroot: \"\"\n directory: \"{folder}\"\n pidfile: \"\"\n \
             use-syslog: no\n logfile: \"\"\n do-daemonize: no\n do-ip6: no\n num-threads: 1\n module-config: \"iterator\"\n \
             cache-max-ttl: 0\n cache-max-negative-ttl: 0\n minimal-responses: yes\n qname-minimisation: no\n \
             unblock-lan-zones: yes\n insecure-lan-zones: yes\n do-not-query-localhost: no\n \
             local-zone: \"test.\" nodefault\n local-zone: \"silent.\" always_deny\n local-zone: \"refused.\" always_refuse\n\
             remote-control:\n control-enable: yes\n control-interface: \"{control}\"\n control-use-cert: no\n\
             auth-zone:\n name: \".\"\n zonefile: \"{zone}\"\n for-downstream: no\n for-upstream: yes\n fallback-enabled: no\n\
             auth-zone:\n name: \"broken.\"\n zonefile: \"{broken}\"\n for-downstream: no\n for-upstream: yes\n fallback-enabled: no\n",
            folder = folder.path().display(),
            control = control.display(),
            zone = zone.display(),
            broken = broken.display(),
        );
        std::fs::write(&config, lines)?;
        // A zone without records: unbound answers SERVFAIL for it.
        std::fs::write(&broken, "")?;
        std::fs::write(&zone, format!("{APEX}{records}\n"))?;
        // Debian keeps it where a user's PATH may not reach.
        run(Command::new("/usr/sbin/unbound-checkconf").arg(&config))?;
        let file = config.clone();
        let command = move || {
            let mut command = dying_with_us("/usr/sbin/unbound", "KILL");
            command.args(["-d", "-p", "-c"]).arg(&file);
            command
        };
        let probe = config.clone();
        let answers = move |_: &Path| control_of(&probe, &["status"]).is_ok();
        let log = folder.path().join("unbound.log");
        let dns = Self {
            engine: Engine::start("unbound", log, Signal::KILL, command, answers)?,
            address,
            config,
            zone,
            _folder: folder,
        };
        dns.check_zone()?;
        Ok(dns)
    }

    /// Address of the server, UDP and TCP.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes these records instead of all before.
    ///
    /// # Errors
    ///
    /// The server doesn't run, or doesn't take the zone.
    pub fn set(&self, records: &str) -> anyhow::Result<()> {
        std::fs::write(&self.zone, format!("{APEX}{records}\n"))?;
        control_of(&self.config, &["auth_zone_reload", "."])?;
        // A time to live of 0 still lasts to the end of its second.
        control_of(&self.config, &["flush_zone", "."])?;
        self.check_zone()
    }

    /// unbound starts with a zone it can't read, and knows nothing then.
    fn check_zone(&self) -> anyhow::Result<()> {
        let zones = control_of(&self.config, &["list_auth_zones"])?;
        let taken = zones.lines().any(|line| line == ".\tserial 1");
        anyhow::ensure!(taken, "unbound doesn't take the zone: {zones}");
        Ok(())
    }
}

fn control_of(config: &Path, command: &[&str]) -> anyhow::Result<String> {
    let mut control = Command::new("/usr/sbin/unbound-control");
    run(control.arg("-c").arg(config).args(command)).context("unbound-control")
}

crate::engine::controls!(Dns);
