//! The section `[redis]` of the configuration.

use std::path::PathBuf;

use redis::{ConnectionAddr, ConnectionInfo};
use serde::{Deserialize, Serialize};

use config::{ConfigFaults, Secret, SecretUrl, Section};

/// Location of the limiter's shared counts, and limits on queries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedisConfig {
    /// `redis://host:port`, or `rediss://` for TLS, with `/database` if it isn't 0; not given or
    /// empty: each process counts by itself.
    pub url: Option<SecretUrl>,
    /// The user of an access list; none: Redis's default user.
    pub user: Option<String>,
    /// The password.
    pub password: Option<Secret>,
    /// Whether the password may go to another machine without TLS.
    pub allow_plaintext: bool,
    /// PEM certificates of the authorities to trust instead of the system's.
    pub tls_ca_file: Option<PathBuf>,
    /// Prefix of every key.
    pub prefix: String,
    /// Time to connect, log in and ask once, in milliseconds.
    pub connect_ms_max: u64,
    /// Time for one answer, in milliseconds; then this process counts by itself.
    pub command_ms_max: u64,
    /// Questions that may wait for an answer; further ones are counted by this process.
    pub in_flight_max: usize,
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            url: None,
            user: None,
            password: None,
            allow_plaintext: false,
            tls_ca_file: None,
            prefix: "receipts:limit:".to_owned(),
            connect_ms_max: 1_000,
            command_ms_max: 50,
            in_flight_max: 1_024,
        }
    }
}

impl RedisConfig {
    /// The URL, if there is one.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        self.url.as_ref().and_then(SecretUrl::reveal)
    }

    /// Address and login; a sentence without the URL, which may hold a password, if it can't be
    /// read.
    pub(super) fn connection(&self) -> Result<ConnectionInfo, String> {
        let url = self.url().unwrap_or_default();
        let form = "must be redis://host:port or rediss://host:port, with /database if it isn't 0";
        if !["redis://", "rediss://"].iter().any(|scheme| url.starts_with(scheme)) || url.contains('#') {
            return Err(form.to_owned());
        }
        let info: ConnectionInfo = url.parse().map_err(|_| form.to_owned())?;
        let mut login = info.redis_settings().clone();
        let given_twice = (login.username().is_some() && self.user.is_some())
            || (login.password().is_some() && self.password.is_some());
        if given_twice {
            return Err("holds a user or password that is given by a key of its own as well".to_owned());
        }
        if let Some(user) = &self.user {
            login = login.set_username(user);
        }
        if let Some(password) = &self.password {
            login = login.set_password(password.reveal());
        }
        if login.username().is_some() && login.password().is_none() {
            return Err("names a user without a password: set redis.password".to_owned());
        }
        let quick = info.tcp_settings().clone().set_nodelay(true);
        Ok(info.set_redis_settings(login).set_tcp_settings(quick))
    }
}

impl Section for RedisConfig {
    fn check(&self, faults: &mut ConfigFaults) {
        if self.url().is_some() {
            match self.connection() {
                Err(what) => faults.push("url", what),
                Ok(info) if self.tls_ca_file.is_some() && !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) => {
                    faults.push("tls_ca_file", "needs a url that begins with rediss://");
                }
                Ok(info) if !self.allow_plaintext && has_plaintext_password(&info) => faults.push(
                    "url",
                    "must begin with rediss:// where a password goes to another machine; allow_plaintext = true \
                     allows it without TLS",
                ),
                Ok(_) => {}
            }
        }
        let plain =
            !self.prefix.is_empty() && self.prefix.len() <= 64 && self.prefix.bytes().all(|b| b.is_ascii_graphic());
        faults.require("prefix", plain, "must be 1 to 64 visible ASCII characters");
        faults.range("connect_ms_max", self.connect_ms_max, 10..=60_000);
        faults.range("command_ms_max", self.command_ms_max, 1..=10_000);
        faults.range("in_flight_max", self.in_flight_max, 1..=100_000);
    }
}

fn has_plaintext_password(info: &ConnectionInfo) -> bool {
    let ConnectionAddr::Tcp(host, _) = info.addr() else {
        return false;
    };
    let is_here = matches!(host.as_str(), "localhost" | "127.0.0.1" | "::1" | "[::1]");
    !is_here && info.redis_settings().password().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(config: &RedisConfig) -> Vec<String> {
        let faults = config.faults("redis").into_iter();
        faults
            .map(|fault| format!("{}: {}", fault.location, fault.what))
            .collect()
    }

    fn of(url: &str) -> RedisConfig {
        RedisConfig {
            url: Some(url.into()),
            ..RedisConfig::default()
        }
    }

    #[test]
    fn the_forms_of_a_url() {
        assert_eq!(faults(&RedisConfig::default()), [""; 0]);
        for good in [
            " ",
            "redis://h",
            "redis://h:1/2",
            "rediss://u:p@h:1",
            "redis://:p@[::1]:1",
        ] {
            assert_eq!(faults(&of(good)), [""; 0], "{good}");
        }
        for bad in [
            "h:1",
            "http://h",
            "unix:///s",
            "redis://",
            "rediss://h/#insecure",
            "redis://h/x",
            "redis://u@h",
            "redis://h:99999",
        ] {
            assert_eq!(faults(&of(bad)).len(), 1, "{bad}");
        }
        let mut away = of("redis://:secret@h");
        assert!(faults(&away)[0].contains("rediss://"));
        away.allow_plaintext = true;
        assert_eq!(faults(&away), [""; 0]);
    }

    #[test]
    fn what_cannot_go_together_is_named_and_no_password_shown() {
        let wrong = RedisConfig {
            user: Some("u".to_owned()),
            password: Some("secret".into()),
            tls_ca_file: Some("ca.pem".into()),
            prefix: "a b".to_owned(),
            command_ms_max: 0,
            ..of("redis://:secret@h")
        };
        let found = faults(&wrong);
        let keys: Vec<&str> = found.iter().filter_map(|fault| fault.split(':').next()).collect();
        assert_eq!(keys, ["redis.url", "redis.prefix", "redis.command_ms_max"]);
        let without = RedisConfig {
            password: None,
            ..wrong.clone()
        };
        assert!(faults(&without)[0].starts_with("redis.tls_ca_file"));
        assert!(!format!("{found:?} {wrong:?}").contains("secret"));
    }
}
