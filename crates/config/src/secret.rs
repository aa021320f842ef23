//! Values that neither logs, errors nor `receipts config print` show.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// Text that is shown instead of a secret.
const MASK: &str = "***";

/// A secret text: a password, or a key that is shared.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

/// A URL whose passwords are secret: the one before the host, and those among its parameters.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct SecretUrl(String);

impl Secret {
    /// The text, for the one who sends or compares it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether no secret is given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn masked(&self) -> &'static str {
        if self.is_empty() { "" } else { MASK }
    }
}

impl SecretUrl {
    /// The URL without space around it, for the one who connects to it. `None`: it is empty.
    #[must_use]
    pub fn reveal(&self) -> Option<&str> {
        Some(self.0.trim()).filter(|url| !url.is_empty())
    }

    /// A password may hold an `@` that isn't escaped, so the last one is taken.
    fn masked(&self) -> String {
        let url = self.reveal().unwrap_or_default();
        let (scheme, rest) = url.split_at(url.find("://").map_or(0, |at| at + "://".len()));
        let (user, rest) = rest
            .rsplit_once('@')
            .map_or((None, rest), |(user, rest)| (Some(user), rest));
        let user = user.map(|user| match user.split_once(':') {
            Some((name, _)) => format!("{name}:{MASK}@"),
            None => format!("{user}@"),
        });
        let (address, query) = rest
            .split_once('?')
            .map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let parameter = |parameter: &str| match parameter.split_once('=') {
            Some((name, _)) if name.to_ascii_lowercase().contains("password") => format!("{name}={MASK}"),
            _ => parameter.to_owned(),
        };
        let query = query.map(|query| query.split('&').map(parameter).collect::<Vec<_>>().join("&"));
        let query = query.map_or_else(String::new, |query| format!("?{query}"));
        format!("{scheme}{}{address}{query}", user.unwrap_or_default())
    }
}

impl<T: Into<String>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl<T: Into<String>> From<T> for SecretUrl {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.masked(), out)
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.masked(), out)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.masked())
    }
}

impl Serialize for SecretUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.masked())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret = Secret::from("hunter2");
        assert_eq!(secret.reveal(), "hunter2");
        let shown = format!("{secret:?} {:?}", toml::Value::try_from(&secret));
        assert!(shown.contains(MASK) && !shown.contains("hunter2"), "{shown}");
        assert_eq!(format!("{:?}", Secret::default()), "\"\"");
    }

    #[test]
    fn no_password_of_a_url_is_shown() {
        for (url, shown) in [
            ("", ""),
            ("postgres://host/db", "postgres://host/db"),
            ("postgres://user@host:5432/db", "postgres://user@host:5432/db"),
            ("postgres://user:pass@host/db", "postgres://user:***@host/db"),
            ("postgres://user:p@ss/w?rd@host/db", "postgres://user:***@host/db"),
            (
                "postgres://host/db?user=u&password=pass&sslmode=require",
                "postgres://host/db?user=u&password=***&sslmode=require",
            ),
            (
                "postgres://u:pass@h/db?sslPassword=pass",
                "postgres://u:***@h/db?sslPassword=***",
            ),
            ("rediss://:pass@h/1", "rediss://:***@h/1"),
        ] {
            let secret = SecretUrl::from(url);
            assert_eq!(format!("{secret:?}"), format!("{shown:?}"));
            assert_eq!(toml::Value::try_from(&secret).ok(), Some(toml::Value::from(shown)));
        }
    }
}
