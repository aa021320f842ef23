//! Keys that are limited to some domains of their account: what they are refused, and what to do
//! then.

use accounts::Principal;
use service::problem::{Kind, Problem};
use web::Failure;

/// Domains of a limit that a message names.
const NAMED_MAX: usize = 20;

/// The refusal of a domain that the key isn't for.
pub(super) fn problem(principal: &Principal, domain: &str) -> Problem {
    let own = names(principal);
    let detail = format!(
        "this API key is limited to {own}, and {domain} isn't among them: use a key that is for {domain}, or one without a limit"
    );
    Problem::new(Kind::KeyDomains, detail)
}

/// Checks that the key may act on `domain`.
///
/// # Errors
/// 403, which names the key's domains.
pub(super) fn allow(principal: &Principal, domain: &str) -> Result<(), Failure> {
    if principal.may_act_on(domain) {
        return Ok(());
    }
    Err(problem(principal, domain).into())
}

/// Checks that the key is for the whole account, which `what` is about.
///
/// # Errors
/// 403, which names the key's domains.
pub(super) fn allow_account(principal: &Principal, what: &str) -> Result<(), Failure> {
    if principal.limit.is_none() {
        return Ok(());
    }
    let own = names(principal);
    let detail = format!("this API key is limited to {own}, and {what} the whole account: use a key without a limit");
    Err(Failure::new(Kind::KeyDomains, detail))
}

fn names(principal: &Principal) -> String {
    let domains = principal.limit.as_ref().map_or(&[][..], |limit| &limit.domains);
    let named = domains
        .iter()
        .take(NAMED_MAX)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    match domains.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
