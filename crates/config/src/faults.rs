//! Faults in a configuration, and their locations.

use std::collections::HashMap;
use std::fmt;
use std::ops::RangeInclusive;

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFault {
    /// Key of a file, or variable.
    pub location: String,
    /// The fault, and what is allowed.
    pub what: String,
}

/// The faults of one section, as its [`crate::Section`] finds them, or of several together.
#[derive(Debug)]
pub struct ConfigFaults {
    section: String,
    locations: HashMap<String, String>,
    list: Vec<ConfigFault>,
}

impl ConfigFaults {
    /// Starts an empty list for `section`.
    #[must_use]
    pub fn new(section: &str) -> Self {
        Self {
            section: section.to_owned(),
            locations: HashMap::new(),
            list: Vec::new(),
        }
    }

    /// Starts an empty list for several sections, whose names the keys begin with. `locations` says
    /// where keys were given.
    pub(crate) fn of_sections(locations: HashMap<String, String>) -> Self {
        Self {
            section: String::new(),
            locations,
            list: Vec::new(),
        }
    }

    /// Sets where `key` was given.
    pub(crate) fn locate(&mut self, key: &str, location: String) {
        self.locations.insert(key.to_owned(), location);
    }

    /// `key`'s value can't work; `what` says why and what is allowed. An empty `key` means the
    /// whole section.
    pub fn push(&mut self, key: &str, what: impl Into<String>) {
        let location = match self.locations.get(key) {
            Some(location) => location.clone(),
            None if key.is_empty() => self.section.clone(),
            None if self.section.is_empty() => key.to_owned(),
            None => format!("{}.{key}", self.section),
        };
        self.list.push(ConfigFault {
            location,
            what: what.into(),
        });
    }

    /// A fault unless `value` is within `allowed`.
    pub fn range<T: PartialOrd + fmt::Display>(&mut self, key: &str, value: T, allowed: RangeInclusive<T>) {
        if !allowed.contains(&value) {
            self.push(
                key,
                format!("is {value}, must be {} to {}", allowed.start(), allowed.end()),
            );
        }
    }

    /// A fault unless `value` is at least `min`. `reason` says where `min` comes from, unless that
    /// is evident.
    pub fn at_least<T: PartialOrd + fmt::Display>(&mut self, key: &str, value: T, min: T, reason: &str) {
        if value < min {
            let colon = if reason.is_empty() { "" } else { ": " };
            self.push(key, format!("is {value}, must be at least {min}{colon}{reason}"));
        }
    }

    /// A fault unless `holds`.
    pub fn require(&mut self, key: &str, holds: bool, what: &str) {
        if !holds {
            self.push(key, what);
        }
    }

    /// Whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Faults that were found.
    #[must_use]
    pub fn into_vec(self) -> Vec<ConfigFault> {
        self.list
    }
}

/// A configuration that can't be used: every fault, one a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// Every fault found, never empty.
    pub faults: Vec<ConfigFault>,
}

impl ConfigError {
    pub(crate) fn of(fault: ConfigFault) -> Self {
        Self { faults: vec![fault] }
    }

    pub(crate) fn unless_empty(faults: Vec<ConfigFault>) -> Result<(), Self> {
        if faults.is_empty() {
            Ok(())
        } else {
            Err(Self { faults })
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.faults.len();
        write!(
            out,
            "the configuration has {count} fault{}",
            if count == 1 { "" } else { "s" }
        )?;
        for fault in &self.faults {
            write!(out, "\n  {}: {}", fault.location, fault.what)?;
        }
        Ok(())
    }
}
