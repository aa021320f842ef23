//! The registry: client keys, entries, operators and verified domains as the verifier looks them
//! up, and a cache in front of it.
//!
//! Each change of one of these increments a version in its own transaction ([`RegistryVersions`]).
//! The only purpose of the versions is to invalidate
//! what [`RegistryCache`] has read before the change.

mod cache;
mod config;
mod existing_entries;
mod key_status;
mod observation;
mod operators;
mod publishers;
mod versions;

pub use cache::{RegistryCache, RegistryUnavailable};
pub use config::RegistryConfig;
pub use key_status::KeyStatus;
pub(crate) use key_status::padded;
pub use operators::{ClientClaim, OperatorPeriod};
pub use versions::RegistryVersions;
pub(crate) use versions::{RegistrySection, increment};

/// Placeholders `($first), ...` in groups of `width`, for statements of a fixed length, so that
/// the database prepares one such statement.
pub(crate) fn placeholders(groups: usize, width: usize) -> String {
    let group = |group: usize| {
        let first = group * width + 1;
        let numbers: Vec<String> = (first..first + width).map(|number| format!("${number}")).collect();
        numbers.join(", ")
    };
    let groups: Vec<String> = (0..groups).map(group).collect();
    match width {
        1 => groups.join(", "),
        _ => format!("({})", groups.join("), (")),
    }
}

#[cfg(test)]
mod tests {
    use super::placeholders;

    #[test]
    fn placeholders_are_numbered_through() {
        assert_eq!(placeholders(3, 1), "$1, $2, $3");
        assert_eq!(placeholders(2, 2), "($1, $2), ($3, $4)");
    }
}
