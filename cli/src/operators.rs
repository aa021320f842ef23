//! `receipts operators`: AI operators, their keys in periods, and the client IDs that they claim.

mod claiming;
mod keys;
mod listing;
mod reattributing;

use accounts::{Accounts, AccountsError, Domain, Operator, OperatorError, OperatorKey};
use uuid::Uuid;

use crate::account_store::with_store;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::settings::SettingsArgs;

/// The actor in the audit trail: whoever runs the deployment.
const ACTOR: &str = "operator";

/// Register AI operators, whose keys make receipts proven
#[derive(Debug, clap::Args)]
pub struct Operators {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(listing::List),
    Show(listing::Show),
    Create(listing::Create),
    AddKey(keys::AddKey),
    EndKey(keys::EndKey),
    Claim(claiming::Claim),
    Release(claiming::Release),
    Reattribute(reattributing::Reattribute),
}

/// An operator by its ID or its domain.
#[derive(Debug, clap::Args)]
struct OperatorArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// The operator's ID or its domain, as `receipts operators list` shows them
    #[arg(value_name = "OPERATOR")]
    operator: String,
}

impl Operators {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        crate::runtime::with_threads()?.block_on(async {
            match self.command {
                Command::List(command) => command.run().await,
                Command::Show(command) => command.run().await,
                Command::Create(command) => command.run().await,
                Command::AddKey(command) => command.run().await,
                Command::EndKey(command) => command.run().await,
                Command::Claim(command) => command.run().await,
                Command::Release(command) => command.run().await,
                Command::Reattribute(command) => command.run().await,
            }
        })
    }
}

impl OperatorArgs {
    /// Runs `work` on the store and the operator.
    async fn with_operator<T>(
        &self,
        work: impl AsyncFnOnce(&Accounts, &Operator) -> Result<T, CommandFailure>,
    ) -> Result<T, CommandFailure> {
        with_store(&self.settings, async |accounts| {
            work(accounts, &find(accounts, &self.operator).await?).await
        })
        .await
    }
}

/// The operator with this ID or domain. Of several with one domain, the one whose proof holds.
async fn find(accounts: &Accounts, text: &str) -> Result<Operator, CommandFailure> {
    let unknown = || {
        CommandFailure::Input(format!(
            "there is no operator {text}: `receipts operators list` shows all"
        ))
    };
    if let Ok(id) = text.parse::<Uuid>() {
        return accounts
            .operator(id, None)
            .await
            .map_err(store_failure)?
            .ok_or_else(unknown);
    }
    let domain: Domain = text
        .parse()
        .map_err(|error| CommandFailure::Input(format!("{text} is neither an operator's ID nor a domain: {error}")))?;
    let operators = accounts.operators(None).await.map_err(store_failure)?;
    let mut of_domain: Vec<Operator> = operators
        .into_iter()
        .filter(|one| one.domain == domain.as_str())
        .collect();
    if of_domain.len() > 1 {
        of_domain.retain(|one| one.is_domain_proven);
    }
    of_domain.pop().ok_or_else(unknown)
}

/// The newest period of the operator's key with this thumbprint or fingerprint.
async fn find_key(accounts: &Accounts, operator: &Operator, text: &str) -> Result<OperatorKey, CommandFailure> {
    let periods = accounts.operator_keys(operator).await.map_err(store_failure)?;
    let mut found = periods
        .into_iter()
        .filter(|period| period.key.thumbprint == text || period.key.fingerprint.to_string() == text);
    found.next().ok_or_else(|| {
        let domain = &operator.domain;
        CommandFailure::Input(format!(
            "{domain} has never had a key with the thumbprint or fingerprint {text}: `receipts operators show {domain}` \
             lists its keys"
        ))
    })
}

fn store_failure(error: AccountsError) -> CommandFailure {
    CommandFailure::unavailable(error)
}

fn failure(error: OperatorError) -> CommandFailure {
    match error {
        OperatorError::Store(error) => store_failure(error),
        refused => CommandFailure::input(refused),
    }
}
