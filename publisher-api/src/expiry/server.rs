//! A mail to the server, step by step (RFC 5321, 3.3): a sender, login or setting that is refused
//! must not end the mail, as a recipient or text that is refused does.

use std::time::Duration;

use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use tokio::time::timeout;

use super::config::{SmtpConfig, Tls};
use super::letter::Letter;

/// Time for a goodbye that nothing depends on.
const GOODBYE: Duration = Duration::from_secs(2);

/// Why the server has not taken a mail.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotTaken {
    /// The server never will accept this mail, or this recipient.
    #[error("{0}")]
    Never(String),
    /// Not now, or not us.
    #[error("{0}")]
    NotNow(String),
}

/// Sends a mail; `Ok` once the server has taken it.
pub(super) async fn send(config: &SmtpConfig, letter: &Letter, hello: &str) -> Result<(), NotTaken> {
    let wait = Duration::from_millis(config.wait_ms_max);
    let connection = timeout(wait, envelope(config, letter, hello, wait)).await;
    let mut connection =
        connection.map_err(|_| NotTaken::NotNow(format!("no answer within {} ms", config.wait_ms_max)))??;
    let answer_wait = Duration::from_millis(config.answer_ms_max);
    let answered = timeout(answer_wait, connection.message(&letter.bytes)).await;
    let answered = answered.map_err(|_| NotTaken::NotNow("no answer to the text".to_owned()))?;
    answered.map_err(|error| not_taken(&error))?;
    // It is taken: how the connection ends changes nothing.
    let _ = timeout(GOODBYE, connection.quit()).await;
    Ok(())
}

async fn envelope(
    config: &SmtpConfig,
    letter: &Letter,
    hello: &str,
    wait: Duration,
) -> Result<AsyncSmtpConnection, NotTaken> {
    let not_now = |error: lettre::transport::smtp::Error| NotTaken::NotNow(describe(&error));
    let host = config.host().unwrap_or_default();
    let hello = ClientId::Domain(hello.to_owned());
    let tls = || TlsParameters::new(host.to_owned()).map_err(not_now);
    let implicit = if config.tls == Tls::Implicit {
        Some(tls()?)
    } else {
        None
    };
    let connected = AsyncSmtpConnection::connect_tokio1((host, config.port), Some(wait), &hello, implicit, None).await;
    let mut connection = connected.map_err(not_now)?;
    if config.tls == Tls::Starttls {
        connection.starttls(tls()?, &hello).await.map_err(not_now)?;
    }
    if let Some(user) = config.user() {
        let password = config.password.clone().unwrap_or_default();
        let credentials = Credentials::new(user.to_owned(), password.reveal().to_owned());
        let mechanisms = [Mechanism::Plain, Mechanism::Login];
        connection.auth(&mechanisms, &credentials).await.map_err(not_now)?;
    }
    // A sender that is refused is refused for every mail: a setting of ours.
    let from = letter.envelope.from().cloned();
    connection.command(Mail::new(from, Vec::new())).await.map_err(not_now)?;
    for to in letter.envelope.to() {
        connection
            .command(Rcpt::new(to.clone(), Vec::new()))
            .await
            .map_err(|error| not_taken(&error))?;
    }
    connection.command(Data).await.map_err(|error| not_taken(&error))?;
    Ok(connection)
}

fn not_taken(error: &lettre::transport::smtp::Error) -> NotTaken {
    if error.is_permanent() {
        return NotTaken::Never(describe(error));
    }
    NotTaken::NotNow(describe(error))
}

/// With its causes: the first line alone says little.
fn describe(error: &lettre::transport::smtp::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        let more = next.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = next.source();
    }
    text
}
