//! The configuration as given: a file and variables, and the sections read from it.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::nearest::did_you_mean;
use crate::{ConfigError, ConfigFault, ConfigFaults, Section, valid_keys};

/// The sections a configuration file may have.
pub const SECTIONS: &[&str] = &[
    "gateway",
    "verifier",
    "writer",
    "publisher",
    "auth",
    "analytics",
    "log",
    "verdicts",
    "kafka",
    "warehouse",
    "accounts",
    "policy",
    "telemetry",
    "limits",
    "quotas",
    "redis",
    "outbound",
    "smtp",
    "data",
];

/// Variables that start with `RECEIPTS_` and are no section's key.
pub const RESERVED_VARIABLES: &[&str] = &[
    "RECEIPTS_CONFIG",
    "RECEIPTS_URL",
    "RECEIPTS_KEY",
    "RECEIPTS_API_KEY",
    "RECEIPTS_ORGANIZATION",
];

/// Beginnings of variables that belong to clients, builds, tests, benches and the demo, and that no
/// process reads as configuration.
pub const RESERVED_PREFIXES: &[&str] = &[
    "RECEIPTS_CLIENT_",
    "RECEIPTS_BUILD_",
    "RECEIPTS_TEST_",
    "RECEIPTS_BENCH_",
    "RECEIPTS_DEMO_",
    "RECEIPTS_LOAD_",
];

/// A value as given, with where it came from.
struct GivenValue {
    /// Possible values, likeliest first: a variable's text is TOML when it parses, and
    /// plain text otherwise.
    readings: Vec<Value>,
    /// `gateway.listen in receipts.toml`, or a variable's name.
    location: String,
}

/// The configuration as given, not yet turned into sections.
pub struct Source {
    sections: BTreeMap<String, BTreeMap<String, GivenValue>>,
    /// Places of the keys in sections that were read.
    locations: HashMap<String, String>,
    faults: Vec<ConfigFault>,
    /// Whether each value given so far has its type: else a default is used.
    is_typed: bool,
}

impl Source {
    /// Reads `file`, or the file that `RECEIPTS_CONFIG` names, or none, and this process's
    /// environment.
    ///
    /// # Errors
    /// The file can't be read or isn't TOML. Unknown names are reported by [`Source::finish`].
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        let named = std::env::var_os("RECEIPTS_CONFIG").filter(|value| !value.is_empty());
        let path = file.map(Path::to_path_buf).or_else(|| named.map(Into::into));
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            // A value that isn't UTF-8 stays visible as a wrong value instead of being passed over.
            name.starts_with("RECEIPTS_")
                .then(|| (name, value.to_string_lossy().into_owned()))
        });
        let Some(path) = path else {
            return Self::build("", "configuration", variables);
        };
        let shown = path.display().to_string();
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::build(&text, &shown, variables),
            Err(error) => Err(ConfigError::of(ConfigFault {
                location: shown,
                what: format!("can't be read: {error}"),
            })),
        }
    }

    /// Makes a source from a file's text and a list of variables.
    ///
    /// # Errors
    /// The text isn't TOML.
    pub fn from_parts<N, V>(toml_text: &str, variables: impl IntoIterator<Item = (N, V)>) -> Result<Self, ConfigError>
    where
        N: Into<String>,
        V: Into<String>,
    {
        Self::build(
            toml_text,
            "configuration",
            variables.into_iter().map(|(n, v)| (n.into(), v.into())),
        )
    }

    fn build(text: &str, file: &str, variables: impl Iterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let mut source = Self {
            sections: BTreeMap::new(),
            locations: HashMap::new(),
            faults: Vec::new(),
            is_typed: true,
        };
        source.take_file(text, file)?;
        // In order of name, so that the faults' order doesn't depend on the environment's.
        let variables: BTreeMap<String, String> = variables.collect();
        for (name, value) in variables {
            source.take_variable(&name, &value);
        }
        Ok(source)
    }

    fn take_file(&mut self, text: &str, file: &str) -> Result<(), ConfigError> {
        let table: Table = toml::from_str(text).map_err(|error: toml::de::Error| {
            // Only the location and the message: the line itself may hold a password.
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let what = format!("line {line}: not TOML: {}", error.message());
            ConfigError::of(ConfigFault {
                location: file.to_owned(),
                what,
            })
        })?;
        for (section, value) in table {
            let location = format!("{section} in {file}");
            if !SECTIONS.contains(&section.as_str()) {
                let hint = did_you_mean(&section, SECTIONS);
                self.faults.push(ConfigFault {
                    location,
                    what: format!("no such section{hint}"),
                });
                continue;
            }
            let Value::Table(keys) = value else {
                let what = format!("must be a section: write [{section}] and its keys below it");
                self.faults.push(ConfigFault { location, what });
                continue;
            };
            let given = self.sections.entry(section.clone()).or_default();
            for (key, value) in keys {
                let location = format!("{section}.{key} in {file}");
                given.insert(
                    key,
                    GivenValue {
                        readings: vec![value],
                        location,
                    },
                );
            }
        }
        Ok(())
    }

    fn take_variable(&mut self, name: &str, text: &str) {
        let Some(rest) = name.strip_prefix("RECEIPTS_") else {
            return;
        };
        let reserved = RESERVED_VARIABLES.contains(&name) || RESERVED_PREFIXES.iter().any(|p| name.starts_with(p));
        if reserved || is_kubernetes_link(name, text) {
            return;
        }
        let lower = rest.to_ascii_lowercase();
        let (section, key) = lower.split_once('_').unwrap_or((&lower, ""));
        if !SECTIONS.contains(&section) {
            let hint = match did_you_mean(section, SECTIONS) {
                hint if hint.is_empty() => did_you_mean(name, RESERVED_VARIABLES),
                hint => hint,
            };
            let what = format!("no section `{section}`{hint}; variables are RECEIPTS_<SECTION>_<KEY>");
            self.faults.push(ConfigFault {
                location: name.to_owned(),
                what,
            });
        } else if key.is_empty() {
            let what = "names a section without a key; variables are RECEIPTS_<SECTION>_<KEY>".to_owned();
            self.faults.push(ConfigFault {
                location: name.to_owned(),
                what,
            });
        } else {
            let mut readings: Vec<Value> = text.parse::<Value>().into_iter().collect();
            readings.push(Value::String(text.to_owned()));
            let given = self.sections.entry(section.to_owned()).or_default();
            given.insert(
                key.to_owned(),
                GivenValue {
                    readings,
                    location: name.to_owned(),
                },
            );
        }
    }

    /// The section `name` as a `T`, checked. A key with a fault has its default, so that the others
    /// can be checked too.
    pub fn section<T: Section>(&mut self, name: &str) -> T {
        debug_assert!(SECTIONS.contains(&name), "{name} is missing in SECTIONS");
        let given = self.sections.remove(name).unwrap_or_default();
        let valid = valid_keys::<T>();
        let mut faults = ConfigFaults::new(name);
        // A default may be another than that of the key's own type.
        let mut table = Table::try_from(T::default()).unwrap_or_default();
        for (key, GivenValue { readings, location }) in given {
            self.locations.insert(format!("{name}.{key}"), location.clone());
            faults.locate(&key, location);
            if !valid.is_empty() && !valid.contains(&key.as_str()) {
                faults.push(&key, format!("no such key in [{name}]{}", did_you_mean(&key, valid)));
                continue;
            }
            match first_that_fits::<T>(&key, readings) {
                Ok(value) => drop(table.insert(key, value)),
                Err(message) => faults.push(&key, message),
            }
        }
        let value = T::deserialize(Value::Table(table)).unwrap_or_else(|error| {
            faults.push("", error.message().trim().to_owned());
            T::default()
        });
        // Only on a section whose keys all fit: else the defaults standing in for wrong values
        // would be judged.
        if faults.is_empty() {
            value.check(&mut faults);
        } else {
            self.is_typed = false;
        }
        self.faults.extend(faults.into_vec());
        value
    }

    /// Ends reading, after `check` has compared sections. Where a value is wrong, a default is in
    /// its location, and `check` isn't called. Its faults name whole keys, such as
    /// `gateway.listen`.
    ///
    /// # Errors
    /// Every fault found, in the file's sections and the variables: unknown names, wrong types,
    /// values out of range, and what `check` found.
    pub fn finish_with(mut self, check: impl FnOnce(&mut ConfigFaults)) -> Result<(), ConfigError> {
        if self.is_typed {
            let mut faults = ConfigFaults::of_sections(self.locations);
            check(&mut faults);
            self.faults.extend(faults.into_vec());
        }
        ConfigError::unless_empty(self.faults)
    }

    /// Ends reading.
    ///
    /// # Errors
    /// As of [`Source::finish_with`].
    pub fn finish(self) -> Result<(), ConfigError> {
        self.finish_with(|_| ())
    }
}

/// The first reading that `T` takes for `key`, or why it takes none.
fn first_that_fits<T: DeserializeOwned>(key: &str, readings: Vec<Value>) -> Result<Value, String> {
    let mut first_error = None;
    for value in readings {
        let alone = Table::from_iter([(key.to_owned(), value.clone())]);
        match T::deserialize(Value::Table(alone)) {
            Ok(_) => return Ok(value),
            Err(error) => drop(first_error.get_or_insert_with(|| remedy(error.message().trim()))),
        }
    }
    Err(first_error.unwrap_or_default())
}

/// The message of a type about a wrong value, with the form of an address, which its message lacks.
fn remedy(message: &str) -> String {
    match message {
        "invalid socket address syntax" => {
            "must be an IP address and a port, as in 0.0.0.0:8080 or [::1]:8080".to_owned()
        }
        other => other.to_owned(),
    }
}

/// Kubernetes puts variables such as `RECEIPTS_GATEWAY_PORT=tcp://10.0.0.7:80` into every pod
/// beside a service named `receipts-gateway`. They are no one's configuration and must not stop the
/// process.
fn is_kubernetes_link(name: &str, text: &str) -> bool {
    let host = name.ends_with("_SERVICE_HOST") && text.parse::<std::net::IpAddr>().is_ok();
    let port = name.ends_with("_SERVICE_PORT") || name.contains("_SERVICE_PORT_");
    let docker = name.contains("_PORT_")
        && ["_PROTO", "_PORT", "_ADDR", "_TCP", "_UDP"]
            .iter()
            .any(|e| name.ends_with(e));
    host || port || docker || (name.ends_with("_PORT") && (text.starts_with("tcp://") || text.starts_with("udp://")))
}
