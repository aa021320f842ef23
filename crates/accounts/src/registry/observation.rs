//! The last observed state of the registry: its versions, and whether they could be read.

use std::time::{Duration, Instant};

use super::versions::RegistryVersions;

/// Result of the last reads of the registry's versions.
#[derive(Debug, Default)]
pub(super) struct Observation {
    /// Versions of the successful read that began last, and when it began.
    read: Option<(RegistryVersions, Instant)>,
    /// Error of a failed read that began later than the last successful one.
    failure: Option<String>,
}

/// State that a lookup may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Usable {
    /// Cached answers of these versions.
    Cached(RegistryVersions),
    /// No state before the versions have been read again.
    Nothing,
    /// No state while this error lasts.
    Failed(String),
}

impl Observation {
    /// Records versions of a read that began at `began`. `true` if a version is lower than before,
    /// as after the store was restored from a backup: cached answers are void then, because their
    /// versions will occur again.
    pub(super) fn succeed(&mut self, versions: RegistryVersions, began: Instant) -> bool {
        let before = self.read;
        if before.is_some_and(|(_, last)| last > began) {
            return false;
        }
        self.read = Some((versions, began));
        self.failure = None;
        before.is_some_and(|(before, _)| {
            before.clients > versions.clients
                || before.entries > versions.entries
                || before.operators > versions.operators
        })
    }

    /// Records the error of a read that began at `began`. `true` if it is the first one since the
    /// last successful read.
    pub(super) fn fail(&mut self, error: String, began: Instant) -> bool {
        if self.read.is_some_and(|(_, last)| last > began) {
            return false;
        }
        self.failure.replace(error).is_none()
    }

    /// Returns what a lookup at `now` may use, with cached answers up to the age `stale_max`.
    pub(super) fn usable(&self, now: Instant, stale_max: Duration) -> Usable {
        match (&self.read, &self.failure) {
            (Some((versions, began)), _) if now.saturating_duration_since(*began) <= stale_max => {
                Usable::Cached(*versions)
            }
            (_, Some(failure)) => Usable::Failed(failure.clone()),
            (_, None) => Usable::Nothing,
        }
    }

    /// Returns the error that keeps the versions from being read.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns the age of the last successful read at `now`.
    pub(super) fn age(&self, now: Instant) -> Option<Duration> {
        self.read.map(|(_, began)| now.saturating_duration_since(began))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALE_MAX: Duration = Duration::from_secs(10);

    fn versions(clients: i64, entries: i64) -> RegistryVersions {
        RegistryVersions {
            clients,
            entries,
            operators: 0,
        }
    }

    #[test]
    fn cached_answers_are_used_up_to_their_age_while_reads_fail() {
        let start = Instant::now();
        let after = |s| start + Duration::from_secs(s);
        let mut observation = Observation::default();
        assert_eq!(observation.usable(start, STALE_MAX), Usable::Nothing);
        assert!(observation.fail("away".to_owned(), start));
        assert!(!observation.fail("away".to_owned(), after(1)));
        assert_eq!(
            observation.usable(after(1), STALE_MAX),
            Usable::Failed("away".to_owned())
        );
        assert!(!observation.succeed(versions(1, 2), after(2)));
        assert_eq!(
            (observation.failure(), observation.age(after(5))),
            (None, Some(Duration::from_secs(3)))
        );
        assert!(observation.fail("gone".to_owned(), after(3)));
        assert_eq!(observation.usable(after(12), STALE_MAX), Usable::Cached(versions(1, 2)));
        assert_eq!(
            observation.usable(after(13), STALE_MAX),
            Usable::Failed("gone".to_owned())
        );
        assert!(!observation.succeed(versions(1, 2), after(14)));
        assert_eq!(observation.usable(after(24), STALE_MAX), Usable::Cached(versions(1, 2)));
        // A process that was suspended.
        assert_eq!(observation.usable(after(25), STALE_MAX), Usable::Nothing);
    }

    #[test]
    fn the_read_that_began_last_counts() {
        let start = Instant::now();
        let after = |s| start + Duration::from_secs(s);
        let mut observation = Observation::default();
        assert!(!observation.succeed(versions(7, 7), after(2)));
        assert!(!observation.succeed(versions(6, 6), after(1)));
        assert!(!observation.fail("late".to_owned(), after(1)));
        assert_eq!(observation.failure(), None);
        assert_eq!(observation.usable(after(2), STALE_MAX), Usable::Cached(versions(7, 7)));
        assert!(observation.succeed(versions(7, 6), after(3)), "entries are older");
        assert!(observation.succeed(versions(6, 9), after(4)), "clients are older");
        assert!(!observation.succeed(versions(6, 9), after(5)));
        let operators = |operators| RegistryVersions {
            operators,
            ..versions(6, 9)
        };
        assert!(!observation.succeed(operators(2), after(6)));
        assert!(observation.succeed(operators(1), after(7)), "operators are older");
    }
}
