//! Verifications that end: noted, and reported by mail before and after. The same postman sends the
//! mails about erasures, invitations, and the numbers that the analytics API queues.
//!
//! - `config`: the section `[smtp]`
//! - `postman`: one round of looking and sending, which any number of replicas may do at any time
//! - `letter`: a mail as it goes over the wire, and what one about a verification says
//! - `erasure_letter`: what one about an erasure says
//! - `invitation_letter`: an invitation
//! - `report_letter`: numbers, and alerts about them; `figures`: how numbers are written
//! - `server`: a mail to the server, step by step

mod config;
mod erasure_letter;
mod figures;
mod invitation_letter;
mod letter;
mod postman;
mod report_letter;
mod server;

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::tasks;

pub use config::{SmtpConfig, Tls};
pub use postman::{Postman, Round};

/// Does rounds until `stop`, and finishes the one in progress.
pub(crate) async fn watch(postman: Postman, pause: Duration, stop: CancellationToken) {
    tasks::begin("expiry");
    loop {
        match postman.round(&stop).await {
            Ok(_) => tasks::done("expiry"),
            Err(error) => {
                tracing::warn!(%error, "verifications that end couldn't be checked; the next round tries again");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
    }
}
