//! Accounts, verified domains and API keys in SQL.
//!
//! | module | noun |
//! |---|---|
//! | [`Accounts`] | the store: SQLite in the data directory, or PostgreSQL, by the same SQL |
//! | [`AccountsConfig`] | the section `[accounts]` |
//! | [`Domain`], [`Tier`], [`Scope`], [`Lifetime`] | the words of the interface, checked |
//! | [`AccountInfo`] | an account as whoever runs the deployment sees it |
//! | [`ApiKey`] | the text of a key; only its hash is stored |
//! | [`Principal`] | whom an API key or a session speaks for |
//! | [`User`] | a person, as an identity provider names them |
//! | [`Member`], [`AccountMembership`], [`AccountRole`] | a person in an account, and rights |
//! | [`Invitation`] | how other people get into an account |
//! | [`ReportSubscription`], [`MailedReport`] | mails about numbers: who wants them, contents |
//! | [`UserSession`], [`LoginLink`] | a person in a browser; a sign-in without a provider |
//! | [`Entry`] | the content that a publisher lists |
//! | [`Page`], [`Cursor`] | lists in parts |
//! | [`ClientKey`] | a key that signs as a client |
//! | [`Operator`] | an account with a proven domain, its keys and client IDs |
//! | [`Policy`], [`PolicyConfig`] | conditions on receipts; the section `[policy]` |
//! | [`RegistryCache`] | client keys and entries as a policy looks them up, cached |
//! | [`ShardMap`] | which shard of the warehouse stores a receipt |
//!
//! No other crate knows SQL, and nothing here is seen in a function's type: errors carry text.
#![forbid(unsafe_code)]

mod account;
mod account_quota;
mod api_key;
mod authentication;
mod challenge;
mod checked_key;
mod circuit;
mod client;
mod config;
mod contest;
mod coverage;
mod deletion;
mod domain;
mod domain_rows;
mod engine;
mod entry;
mod erasure;
mod error;
mod expiry;
mod export;
mod invitation;
mod job;
mod key;
mod keyed_rows;
mod lifetime;
mod limits;
mod login_link;
mod mail;
mod member;
mod operator;
mod ownership;
mod page;
mod policy;
mod preparation;
mod principal;
mod proof;
mod publisher_key;
mod registry;
mod report;
mod role;
mod rotation;
mod row;
mod schema;
mod scope;
mod secret_token;
mod session;
mod shard_map;
mod store;
mod tier;
mod trail;
mod trusted_operators;
mod user;
mod verification;

pub use self::config::AccountsConfig;
pub use account::{ACCOUNTS_LISTED_MAX, AccountInfo};
pub use account_quota::AccountQuota;
pub use api_key::ApiKey;
pub use authentication::AuthError;
pub use challenge::{
    CHALLENGE_MS, CHALLENGES_PER_DOMAIN_MAX, Challenge, ChallengeRequest, IssuedChallenge, TOKEN_PREFIX,
    VerificationMethod, VerificationMethodError,
};
pub use client::{
    CLIENTS_LISTED_MAX, ClientInfo, ClientKey, ClientKeyState, Fingerprint, FingerprintError, NewClientKey, Revoked,
};
pub use coverage::{Inherited, KeyDomains};
pub use deletion::{Cancellation, Deletion};
pub use domain::{Domain, DomainError};
pub use entry::{
    Created, ENTRY_AUTHOR_CHARS_MAX, ENTRY_AUTHORS_MAX, ENTRY_LABELS_MAX, ENTRY_PAGE_MAX, ENTRY_TITLE_CHARS_MAX,
    ENTRY_URL_BYTES_MAX, Entry, EntryAuthors, EntryContent, EntryFault, EntryFilter, EntryLabel, EntryTitle, EntryUrl,
    Erased, ListedEntry, NewEntry, PublicEntry, Rectification, Rectified, Revision,
};
pub use erasure::{
    CancelledErasure, Coverage, ERASURE_ENTRIES_MAX, ERASURES_OPEN_MAX, ErasedEntries, Erasure, ErasureState,
    NewErasure, Person, PersonKind, RequestedErasure,
};
pub use error::AccountsError;
pub use expiry::{Expiries, WARNING_MS};
pub use export::{COLLECTIONS, Collection, Column, ExportValue, ExportedRow};
pub use invitation::{INVITATION_MAILS_PER_DAY_MAX, INVITATION_MS, INVITATIONS_OPEN_MAX, Invitation};
pub use key::{IssuedKey, KEYS_LISTED_MAX, KeyInfo, KeyRequest, Revocation};
pub use lifetime::{Lifetime, LifetimeError, Overlap, OverlapError, URGENT_MS};
pub use limits::{CHALLENGES_MAX, DOMAINS_MAX, KEY_DOMAINS_MAX, KEYS_PER_CLIENT_MAX};
pub use login_link::{LOGIN_LINK_MS, LoginLink};
pub use mail::{ClaimedMail, MailKind, MailSubject, Outbox};
pub use member::{ACCOUNTS_PER_USER_MAX, AccountMembership, MEMBERS_MAX, Member, MemberError, OfferedMembership};
pub use operator::{
    DirectoryState, DueDirectory, KeySource, NewOperatorKey, OPERATOR_CLIENTS_MAX, OPERATOR_KEYS_MAX, OPERATORS_MAX,
    Operator, OperatorError, OperatorKey,
};
pub use ownership::{DOMAINS_LISTED_MAX, OwnedDomain, TransferError};
pub use page::{Cursor, CursorError, Page};
pub use policy::{ClientPolicy, EntryPolicy, Policy, PolicyConfig, RegistryFindings};
pub use principal::{Principal, TrailActor};
pub use proof::{Proof, SUSPENDED_AFTER};
pub use publisher_key::{NewKey, PublisherKey};
pub use registry::{
    ClientClaim, KeyStatus, OperatorPeriod, RegistryCache, RegistryConfig, RegistryUnavailable, RegistryVersions,
};
pub use report::subscription::{ReportChoice, ReportSubscription, SILENT_HOURS, SubscribedAccount, UNPROVEN_PERCENT};
pub use report::{MailedReport, PeriodReport, ReportedUse};
pub use role::{AccountRole, RoleError};
pub use rotation::{EndedKey, Rotation};
pub use scope::{Scope, ScopeError, parse_scopes};
pub use secret_token::SecretToken;
pub use session::{SESSIONS_LISTED_MAX, SESSIONS_PER_USER_MAX, SessionInfo, SignInMethod, UserSession};
pub use shard_map::{
    NewShardMapEntry, RegisteredShardMapEntry, SHARDS_MAX, SPLITS_MAX, ShardMap, ShardMapCache, ShardMapEntry,
    ShardMapError, ShardMapUnavailable,
};
pub use store::Accounts;
pub use tier::{Tier, TierError};
pub use trail::TrailEntry;
pub use trusted_operators::TRUSTED_OPERATORS_MAX;
pub use user::{Email, EmailError, PersonName, PersonNameError, Subject, User, UserChange};
pub use verification::{VERIFICATION_MS, Verification, VerifyError};
