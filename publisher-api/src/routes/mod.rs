//! The addresses, one file a noun.

pub(crate) mod data;
pub(crate) mod entries;
pub(crate) mod erasures;
pub(crate) mod index;
pub(crate) mod invitations;
pub(crate) mod join;
mod key_domains;
pub(crate) mod keys;
mod link_secret;
pub(crate) mod login_link;
pub(crate) mod lookup;
pub(crate) mod members;
pub(crate) mod operators;
mod paging;
pub(crate) mod reports;
pub(crate) mod sessions;
pub(crate) mod sign_in;
mod sign_in_page;
mod times;
pub(crate) mod trusted;
pub(crate) mod user;
pub(crate) mod verification;
