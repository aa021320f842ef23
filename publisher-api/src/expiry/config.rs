//! The section `[smtp]`: the server that takes our mails.

use config::{ConfigFaults, Secret, Section};
use lettre::message::Mailbox;
use serde::{Deserialize, Serialize};

/// The server that takes mails, and how to talk to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SmtpConfig {
    /// The server's name or address; not given or empty: mails wait in the outbox.
    pub host: Option<String>,
    /// Port of the server: 587 for `starttls`, 465 for `implicit`, as a rule.
    pub port: u16,
    /// `starttls`, `implicit` (RFC 8314, 3), or `none`, which is for a server on this machine or
    /// without a password.
    pub tls: Tls,
    /// User for the server; not given or empty: it needs none.
    pub user: Option<String>,
    /// And the password.
    pub password: Option<Secret>,
    /// Whether the password may go to another machine without TLS.
    pub allow_plaintext: bool,
    /// The sender: `name@example.com`, or `Name <name@example.com>`.
    pub from: Option<String>,
    /// Page on which publishers renew, for the mails' text; not given: the address of the API is
    /// left to them.
    pub renew_url: Option<String>,
    /// Time for connecting, logging in and the envelope, in milliseconds.
    pub wait_ms_max: u64,
    /// Time for the server to answer to a mail's text, in milliseconds: 10 minutes (RFC 5321,
    /// 4.5.3.2.6), because who gives up earlier may have it taken twice.
    pub answer_ms_max: u64,
}

/// Protection of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tls {
    /// Begun in the clear and encrypted before anything is said; a server that can't is refused.
    Starttls,
    /// Encrypted from the first byte.
    Implicit,
    /// In the clear.
    None,
}

impl Default for SmtpConfig {
    fn default() -> Self {
        Self {
            host: None,
            port: 587,
            tls: Tls::Starttls,
            user: None,
            password: None,
            allow_plaintext: false,
            from: None,
            renew_url: None,
            wait_ms_max: 30_000,
            answer_ms_max: 600_000,
        }
    }
}

impl SmtpConfig {
    /// The server's name, if there is one.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref().filter(|host| !host.is_empty())
    }

    pub(crate) fn user(&self) -> Option<&str> {
        self.user.as_deref().filter(|user| !user.is_empty())
    }

    pub(crate) fn sender(&self) -> Option<Mailbox> {
        self.from.as_deref().and_then(|from| from.parse().ok())
    }
}

impl Section for SmtpConfig {
    fn check(&self, faults: &mut ConfigFaults) {
        faults.range("wait_ms_max", self.wait_ms_max, 100..=600_000);
        faults.range("answer_ms_max", self.answer_ms_max, 100..=3_600_000);
        faults.require("port", self.port != 0, "can't be 0");
        let Some(host) = self.host() else {
            return;
        };
        faults.require(
            "from",
            self.sender().is_some(),
            "must be a sender, as in receipts@example.com, where a host is given",
        );
        faults.require(
            "password",
            self.user().is_none() || self.password.is_some(),
            "is missing for the user",
        );
        let here = matches!(host, "localhost" | "127.0.0.1" | "::1");
        let safe = self.tls != Tls::None || self.user().is_none() || here || self.allow_plaintext;
        faults.require(
            "tls",
            safe,
            "must be starttls or implicit where a password goes to another machine; allow_plaintext = true allows it without TLS",
        );
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use config::Source;

    use super::*;

    fn read(toml: &str) -> Result<SmtpConfig, String> {
        let mut source = Source::from_parts(toml, [("", "")]).unwrap();
        let config = source.section("smtp");
        source.finish().map_err(|error| error.to_string())?;
        Ok(config)
    }

    #[test]
    fn a_server_needs_a_sender_and_a_password_needs_tls() {
        assert_eq!(read("").unwrap().host(), None);
        let good = "[smtp]\nhost = 'mail.example'\nfrom = 'Receipts <r@example.com>'";
        assert_eq!(read(good).unwrap().sender().unwrap().email.to_string(), "r@example.com");
        for (wrong, what) in [
            ("[smtp]\nhost = 'mail.example'".to_owned(), "smtp.from"),
            ("[smtp]\nhost = 'mail.example'\nfrom = 'nobody'".to_owned(), "smtp.from"),
            (format!("{good}\nuser = 'u'"), "smtp.password"),
            (
                format!("{good}\nuser = 'u'\npassword = 'geheim'\ntls = 'none'"),
                "smtp.tls",
            ),
            (format!("{good}\nwait_ms_max = 1"), "smtp.wait_ms_max"),
        ] {
            let reported = read(&wrong).unwrap_err();
            assert!(reported.contains(what) && !reported.contains("geheim"), "{reported}");
        }
        let here = "[smtp]\nhost = 'localhost'\nfrom = 'r@example.com'\nuser = 'u'\npassword = 'geheim'\ntls = 'none'";
        assert!(!format!("{:?}", read(here).unwrap()).contains("geheim"));
    }
}
