//! Tests of every database, one file a noun.

use crate::Fixture;

/// The cases of one file, by name.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        /// Runs a case by its name.
        pub(crate) async fn run(case: &str, fixture: crate::Fixture) {
            match case {
                $(stringify!($case) => $case(fixture).await,)*
                _ => panic!("no case {case}"),
            }
        }

        /// Every case.
        pub(crate) const CASES: &[&str] = &[$(stringify!($case)),*];
    };
}

/// The files of the suite; no two of them have a case of one name.
macro_rules! nouns {
    ($($noun:ident),* $(,)?) => {
        /// Runs a case by its name.
        pub(crate) async fn run(case: &str, fixture: Fixture) {
            $(if $noun::CASES.contains(&case) {
                return $noun::run(case, fixture).await;
            })*
            panic!("no case {case}");
        }

        /// Every case.
        pub(crate) fn cases() -> Vec<&'static str> {
            [$($noun::CASES),*].concat()
        }
    };
}

mod clients;
mod domains;
mod entries;
mod erasures;
mod exports;
mod invitations;
mod jobs;
mod keys;
mod lookup;
mod mails;
mod members;
mod operators;
mod own_keys;
mod registry;
mod reports;
mod sessions;
mod shard_map;
mod users;
mod verifications;

nouns! {
    clients,
    domains,
    entries,
    erasures,
    exports,
    invitations,
    jobs,
    keys,
    lookup,
    mails,
    members,
    operators,
    own_keys,
    registry,
    reports,
    sessions,
    shard_map,
    users,
    verifications,
}
