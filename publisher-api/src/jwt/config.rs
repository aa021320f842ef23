//! The section `[auth]`.

use std::path::Path;

use config::{ConfigFaults, Secret, Section};
use serde::{Deserialize, Serialize};

use super::key_ring::read_file;
use super::key_set::KeySet;

/// The shortest secret for HS256, in bytes: as long as its hash (RFC 7518, 3.2).
const SECRET_BYTES_MIN: usize = 32;

/// Issuer of trusted tokens. Without any of the first five, the one of `receipts dev-token` in the
/// same data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    /// The `iss` that a token must have.
    pub issuer: String,
    /// The `aud` that a token must have, alone or among others.
    pub audience: String,
    /// The issuer's public keys: a JWKS in a file, read again when a token names a key that isn't
    /// in it.
    pub jwks_file: String,
    /// URL of the JWKS, by HTTPS.
    pub jwks_url: String,
    /// A secret shared with the issuer, for HS256; empty: no such token is trusted.
    pub hs256_secret: Secret,
    /// Client ID of this deployment at the issuer, with which people sign in there by OpenID
    /// Connect; empty: nobody does.
    pub client_id: String,
    /// File with the client's secret; empty: it has none.
    pub client_secret_file: String,
    /// Largest difference between the issuer's clock and ours, in seconds.
    pub leeway_s_max: u32,
    /// The longest token, in bytes.
    pub token_bytes_max: usize,
    /// Age of the keys at which they are fetched again, in seconds.
    pub jwks_refresh_s: u32,
    /// The least time between two fetches for keys that tokens name and nobody knows, in seconds.
    pub jwks_refetch_s_min: u32,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            issuer: String::new(),
            audience: String::new(),
            jwks_file: String::new(),
            jwks_url: String::new(),
            hs256_secret: Secret::default(),
            client_id: String::new(),
            client_secret_file: String::new(),
            leeway_s_max: 30,
            token_bytes_max: 8 << 10,
            jwks_refresh_s: 300,
            jwks_refetch_s_min: 10,
        }
    }
}

impl AuthConfig {
    /// Whether an issuer is configured; otherwise the one of `receipts dev-token` is trusted.
    #[must_use]
    pub fn is_given(&self) -> bool {
        let texts = [
            &self.issuer,
            &self.audience,
            &self.jwks_file,
            &self.jwks_url,
            &self.client_id,
            &self.client_secret_file,
        ];
        texts.iter().any(|text| !text.is_empty()) || !self.hs256_secret.is_empty()
    }

    /// The client's secret, if it has one.
    ///
    /// # Errors
    /// Why its file can't be used.
    pub(crate) fn client_secret(&self) -> Result<Option<String>, String> {
        if self.client_secret_file.is_empty() {
            return Ok(None);
        }
        let bytes = read_file(Path::new(&self.client_secret_file))?;
        let text = String::from_utf8(bytes).map_err(|_| "isn't a text".to_owned())?;
        let text = text.trim();
        match text.is_empty() {
            true => Err("is empty".to_owned()),
            false => Ok(Some(text.to_owned())),
        }
    }

    fn validate_client(&self, faults: &mut ConfigFaults) {
        if let Err(why) = self.client_secret() {
            faults.push("client_secret_file", why);
        }
        if self.client_id.is_empty() {
            let is_alone = self.client_secret_file.is_empty();
            faults.require("client_secret_file", is_alone, "needs client_id");
            return;
        }
        let has_keys = !self.jwks_file.is_empty() || !self.jwks_url.is_empty();
        faults.require(
            "client_id",
            has_keys,
            "needs jwks_url or jwks_file, whose keys sign ID tokens",
        );
        let is_url = self.issuer.starts_with("https://");
        faults.require(
            "issuer",
            is_url,
            "must start with https:// where people sign in (client_id)",
        );
    }

    fn validate_issuer(&self, faults: &mut ConfigFaults) {
        for (key, value) in [("issuer", &self.issuer), ("audience", &self.audience)] {
            if value.is_empty() {
                faults.push(
                    key,
                    "is needed once any of [auth] is set: tokens of everybody else would be taken",
                );
            }
        }
        match (self.jwks_file.is_empty(), self.jwks_url.is_empty()) {
            (true, true) if self.hs256_secret.is_empty() => {
                faults.push(
                    "jwks_url",
                    "is needed, or jwks_file or hs256_secret: nothing tells a true token from a false one",
                );
            }
            (false, false) => faults.push(
                "jwks_url",
                "can't be given beside jwks_file: the issuer's keys have one source",
            ),
            (false, true) => {
                let read = read_file(Path::new(&self.jwks_file)).and_then(|bytes| KeySet::parse(&bytes));
                match read {
                    Ok(keys) if keys.is_empty() => faults.push("jwks_file", "has no key that can be used"),
                    Ok(_) => {}
                    Err(why) => faults.push("jwks_file", why),
                }
            }
            _ => {}
        }
        if !self.jwks_url.is_empty() && !self.jwks_url.starts_with("https://") {
            faults.push("jwks_url", "must start with https://");
        }
        if !self.hs256_secret.is_empty() && self.hs256_secret.reveal().len() < SECRET_BYTES_MIN {
            // Without the value, and without its length.
            faults.push("hs256_secret", format!("must have at least {SECRET_BYTES_MIN} bytes"));
        }
    }
}

impl Section for AuthConfig {
    fn check(&self, faults: &mut ConfigFaults) {
        if self.is_given() {
            self.validate_issuer(faults);
            self.validate_client(faults);
        }
        faults.range("leeway_s_max", self.leeway_s_max, 0..=300);
        faults.range("token_bytes_max", self.token_bytes_max, 256..=64 << 10);
        faults.range("jwks_refresh_s", self.jwks_refresh_s, 1..=86_400);
        faults.range("jwks_refetch_s_min", self.jwks_refetch_s_min, 1..=3_600);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use config::Source;

    use super::*;

    fn faults(toml: &str) -> String {
        let mut source = Source::from_parts(toml, [("", "")]).unwrap();
        let _: AuthConfig = source.section("auth");
        source
            .finish()
            .err()
            .map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn nothing_or_all_that_is_needed_is_given() {
        assert_eq!(faults(""), "");
        assert!(!AuthConfig::default().is_given());
        let whole = "[auth]\nissuer = 'i'\naudience = 'a'\n";
        assert_eq!(faults(&format!("{whole}jwks_url = 'https://id.example/keys'")), "");
        for (toml, named) in [
            (
                "[auth]\nissuer = 'i'".to_owned(),
                vec!["auth.audience", "auth.jwks_url"],
            ),
            (
                "[auth]\njwks_url = 'https://id.example/keys'".to_owned(),
                vec!["auth.issuer", "auth.audience"],
            ),
            (whole.to_owned(), vec!["auth.jwks_url"]),
            (format!("{whole}jwks_url = 'http://id.example/keys'"), vec!["https://"]),
            (
                format!("{whole}jwks_file = '/nowhere/jwks.json'"),
                vec!["auth.jwks_file", "can't be read"],
            ),
            (
                format!("{whole}jwks_file = 'x'\njwks_url = 'https://x'"),
                vec!["beside jwks_file"],
            ),
            (format!("{whole}hs256_secret = 's3cret'"), vec!["32 bytes"]),
            (
                "[auth]\nleeway_s_max = 301\ntoken_bytes_max = 1".to_owned(),
                vec!["leeway_s_max", "token_bytes_max"],
            ),
        ] {
            let text = faults(&toml);
            assert!(named.iter().all(|name| text.contains(name)), "{toml}: {text}");
            assert!(!text.contains("s3cret"), "{text}");
        }
        let secret = AuthConfig {
            hs256_secret: "s3cret".repeat(6).into(),
            ..AuthConfig::default()
        };
        assert!(!format!("{secret:?}").contains("s3cret"));
    }

    #[test]
    fn people_sign_in_with_a_client_that_fits() {
        let whole = "[auth]\nissuer = 'https://i'\naudience = 'a'\njwks_url = 'https://i/keys'\n";
        assert_eq!(faults(&format!("{whole}client_id = 'c'")), "");
        let dir = tempfile::tempdir().unwrap();
        let (secret, empty) = (dir.path().join("secret"), dir.path().join("empty"));
        std::fs::write(&secret, "s3cret\n").unwrap();
        std::fs::write(&empty, "\n").unwrap();
        let with_file = |file: &Path| format!("{whole}client_id = 'c'\nclient_secret_file = '{}'", file.display());
        assert_eq!(faults(&with_file(&secret)), "");
        for (toml, named) in [
            ("[auth]\nclient_id = 'c'".to_owned(), "auth.issuer"),
            (
                whole.replace("'https://i'", "'i'") + "client_id = 'c'",
                "must start with https://",
            ),
            (
                "[auth]\nissuer = 'https://i'\naudience = 'a'\nclient_id = 'c'\nhs256_secret = '".to_owned()
                    + &"x".repeat(32)
                    + "'",
                "needs jwks_url",
            ),
            (
                format!("{whole}client_secret_file = '{}'", secret.display()),
                "needs client_id",
            ),
            (with_file(&empty), "is empty"),
            (with_file(&dir.path().join("nowhere")), "can't be read"),
        ] {
            let text = faults(&toml);
            assert!(text.contains(named) && !text.contains("s3cret"), "{toml}: {text}");
        }
    }

    #[test]
    fn a_file_is_read_before_anything_starts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("jwks.json");
        for (text, named) in [
            ("", "isn't JSON"),
            ("{}", "keys"),
            (r#"{"keys":[]}"#, "no key that can be used"),
            (r#"{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}"#, "no key that can be used"),
        ] {
            std::fs::write(&file, text).unwrap();
            let toml = format!("[auth]\nissuer = 'i'\naudience = 'a'\njwks_file = '{}'", file.display());
            let reported = faults(&toml);
            assert!(
                reported.contains("auth.jwks_file") && reported.contains(named),
                "{text}: {reported}"
            );
        }
    }
}
