//! Redis, from Debian.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::engine::{Engine, run};
use crate::folder::Folder;
use crate::spawner::dying_with_us;
use crate::{Certificates, Login, ports, random_id};

/// A running server. It keeps nothing on disk: after [`Redis::kill`] and [`Redis::restart`] it is
/// empty.
#[derive(Debug)]
pub struct Redis {
    engine: Engine,
    client: Client,
    // After the engine: dropped in this order.
    _folder: Folder,
}

/// Address and settings of a client.
#[derive(Debug, Clone)]
struct Client {
    port: u16,
    security: Option<RedisSecurity>,
}

/// Further settings for a client of [`Redis::start_secure`].
#[derive(Debug, Clone)]
pub struct RedisSecurity {
    /// Whom to trust.
    pub certificates: Certificates,
    /// The only user there is.
    pub login: Login,
}

impl Redis {
    /// A server of one's own, in the clear and without a password.
    ///
    /// # Errors
    ///
    /// redis-server is missing or doesn't start.
    pub fn start() -> anyhow::Result<Self> {
        Self::launch(false)
    }

    /// A server that takes only TLS with a login.
    ///
    /// # Errors
    ///
    /// As [`Redis::start`]; openssl is missing.
    pub fn start_secure() -> anyhow::Result<Self> {
        Self::launch(true)
    }

    fn launch(secure: bool) -> anyhow::Result<Self> {
        let folder = Folder::new("redis")?;
        let [port] = ports::free()?;
        let mut lines = format!(
            "bind 127.0.0.1\ndir {}\nsave \"\"\nappendonly no\n",
            folder.path().display()
        );
        let mut security = None;
        if secure {
            let certificates = Certificates::make(folder.path())?;
            let login = Login {
                user: "receipts".to_owned(),
                password: random_id()?,
            };
            let (ca, certificate, key) = (&certificates.ca, &certificates.certificate, &certificates.key);
            writeln!(lines, "port 0\ntls-port {port}\ntls-auth-clients no")?;
            writeln!(lines, "tls-ca-cert-file {}", ca.display())?;
            writeln!(
                lines,
                "tls-cert-file {}\ntls-key-file {}",
                certificate.display(),
                key.display()
            )?;
            writeln!(
                lines,
                "user default off\nuser {} on >{} ~* &* +@all",
                login.user, login.password
            )?;
            security = Some(RedisSecurity { certificates, login });
        } else {
            writeln!(lines, "port {port}")?;
        }
        let file = folder.path().join("redis.conf");
        std::fs::write(&file, lines)?;
        let client = Client { port, security };
        let probe = client.clone();
        let command = move || {
            let mut command = dying_with_us("redis-server", "KILL");
            command.arg(&file);
            command
        };
        let answers = move |_: &Path| probe.cli(&["PING"]).is_ok_and(|answer| answer.trim() == "PONG");
        let log = folder.path().join("redis.log");
        Ok(Self {
            engine: Engine::start("Redis", log, Signal::KILL, command, answers)?,
            client,
            _folder: folder,
        })
    }

    /// `redis://...`, or `rediss://` with the login in it.
    #[must_use]
    pub fn url(&self) -> String {
        let port = self.client.port;
        match &self.client.security {
            None => format!("redis://127.0.0.1:{port}"),
            Some(RedisSecurity { login, .. }) => format!("rediss://{}:{}@localhost:{port}", login.user, login.password),
        }
    }

    /// Further settings for a client of [`Redis::start_secure`].
    #[must_use]
    pub fn security(&self) -> Option<&RedisSecurity> {
        self.client.security.as_ref()
    }

    /// `redis-cli`, an independent client, with this command: what it wrote.
    ///
    /// # Errors
    ///
    /// `redis-cli` is missing, or failed. An error reply is output, not an error.
    pub fn cli(&self, command: &[&str]) -> anyhow::Result<String> {
        self.client.cli(command)
    }
}

impl Client {
    fn cli(&self, command: &[&str]) -> anyhow::Result<String> {
        let mut cli = Command::new("redis-cli");
        cli.args(["-p", &self.port.to_string()]);
        if let Some(RedisSecurity { certificates, login }) = &self.security {
            cli.args(["-h", "localhost", "--tls", "--cacert"]).arg(&certificates.ca);
            cli.args(["--user", &login.user, "--no-auth-warning"]);
            cli.env("REDISCLI_AUTH", &login.password);
        }
        run(cli.args(command))
    }
}

crate::engine::controls!(Redis);
