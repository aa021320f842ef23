//! Published proofs of domains, checked again every week, or every day where another account has
//! proven the domain too.
//!
//! A single replica does rounds at a time. docs/domains.md has the rules. A network or resolver of
//! ours that fails looks like domains without a proof, and DNS and HTTPS can fail apart. So a
//! missing proof counts only where this round has found another one over the same transport: a due
//! one, or a *witness*, a proof that was found last time and isn't due. Where no domain could be a
//! witness, what a domain answers counts, and silence doesn't.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use accounts::{Accounts, AccountsError, Proof, VerificationMethod};
use futures_util::StreamExt;
use futures_util::stream;
use uuid::Uuid;

use crate::lease::{self, Turn};
use crate::state::PublisherState;
use crate::tasks;
use crate::verification::{Look, Looker, ProofOutcome};

/// The job in the account store.
const JOB: &str = "proofs";
/// Proofs of one batch; a round does batches until nothing is due.
const BATCH_MAX: i64 = 100;
/// Domains checked at one time, beside those that accounts have checked.
const LOOKS_MAX: usize = 16;
/// Proofs that aren't due, of which one must be found where no due one is.
const WITNESSES_MAX: i64 = 3;
/// The actor in the audit trail.
const ACTOR: &str = "service";

/// Results of one round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProofRound {
    /// Proofs that were found.
    pub(crate) found: u64,
    /// Proofs that are missing, which was counted.
    pub(crate) missing: u64,
    /// Proofs that weren't found, which was put down to our own network.
    pub(crate) postponed: u64,
    /// Domains that were suspended.
    pub(crate) suspended: u64,
}

/// Checks proofs. Any number of them may do rounds; one at a time works.
pub(crate) struct Prover<'a> {
    accounts: &'a Accounts,
    looker: &'a Looker,
    holder: String,
}

/// Rounds until the task is aborted.
pub(crate) async fn watch(app: Arc<PublisherState>, pause: Duration) {
    tasks::begin("proofs");
    let prover = Prover::new(&app.deps.accounts, &app.looker);
    loop {
        match prover.round().await {
            Ok(_) => tasks::done("proofs"),
            Err(error) => tracing::warn!(%error, "published proofs couldn't be checked; the next round tries again"),
        }
        tokio::time::sleep(pause).await;
    }
}

impl<'a> Prover<'a> {
    pub(crate) fn new(accounts: &'a Accounts, looker: &'a Looker) -> Self {
        Self {
            accounts,
            looker,
            holder: format!("prover-{}", Uuid::now_v7().simple()),
        }
    }

    /// Does one round, unless another replica is at it.
    ///
    /// # Errors
    /// The store fails. What is done stays, and the rest is for the next round.
    pub(crate) async fn round(&self) -> Result<ProofRound, AccountsError> {
        match lease::alone(self.accounts, JOB, &self.holder, Box::pin(self.work())).await? {
            Turn::Done(round) => round,
            Turn::Elsewhere | Turn::Lost => Ok(ProofRound::default()),
        }
    }

    async fn work(&self) -> Result<ProofRound, AccountsError> {
        let mut round = ProofRound::default();
        // Each proof is due later afterwards, so the next batch has others.
        loop {
            let proofs = self.accounts.due_proofs(BATCH_MAX).await?;
            if proofs.is_empty() {
                break;
            }
            self.check(proofs, &mut round).await?;
        }
        if round != ProofRound::default() {
            tracing::info!(?round, "published proofs were checked");
        }
        Ok(round)
    }

    async fn check(&self, proofs: Vec<Proof>, round: &mut ProofRound) -> Result<(), AccountsError> {
        let (found, absent): (Vec<_>, Vec<_>) = self
            .look_at(proofs)
            .await
            .into_iter()
            .partition(|(_, look)| look.is_none());
        for (proof, _) in &found {
            round.found += u64::from(self.accounts.proof_found(proof, ACTOR).await?);
        }
        let absent: Vec<_> = absent
            .into_iter()
            .filter_map(|(proof, look)| Some((proof, look?)))
            .collect();
        let (dns, https): (Vec<_>, Vec<_>) = absent
            .into_iter()
            .partition(|(proof, _)| ProofTransport::of(proof.method) == ProofTransport::Dns);
        for (transport, absent) in [(ProofTransport::Dns, dns), (ProofTransport::Https, https)] {
            let has_found = found
                .iter()
                .any(|(proof, _)| ProofTransport::of(proof.method) == transport);
            self.judge(transport, absent, has_found, round).await?;
        }
        Ok(())
    }

    /// Counts or postpones absent proofs of one transport, over which this batch has found a proof
    /// or not.
    async fn judge(
        &self,
        transport: ProofTransport,
        absent: Vec<(Proof, Look)>,
        has_found: bool,
        round: &mut ProofRound,
    ) -> Result<(), AccountsError> {
        if absent.is_empty() {
            return Ok(());
        }
        let network = if has_found {
            NetworkState::Works
        } else {
            self.witnessed(transport).await?
        };
        for (proof, look) in absent {
            let counts = match network {
                NetworkState::Works => true,
                NetworkState::Fails => false,
                NetworkState::Unknown => look.outcome != ProofOutcome::Unreachable,
            };
            if !counts {
                self.accounts.proof_postponed(&proof).await?;
                round.postponed += 1;
                continue;
            }
            let problem = format!("{}: {}", proof.method, look.found.first().unwrap_or(&look.advice));
            round.missing += 1;
            if self.accounts.proof_missing(&proof, &problem).await? {
                tracing::info!(domain = %proof.domain, problem, "a domain is suspended: its proof isn't published any more");
                round.suspended += 1;
            }
        }
        if matches!(network, NetworkState::Fails) {
            tracing::warn!(
                %transport,
                "no published proof can be found, not even those found last: our own network or resolver may fail"
            );
        }
        Ok(())
    }

    /// Whether a proof that was found last time over this transport still is.
    async fn witnessed(&self, transport: ProofTransport) -> Result<NetworkState, AccountsError> {
        let witnesses = self.accounts.witness_proofs(transport.methods(), WITNESSES_MAX).await?;
        if witnesses.is_empty() {
            return Ok(NetworkState::Unknown);
        }
        let found = self.look_at(witnesses).await.iter().any(|(_, look)| look.is_none());
        Ok(if found {
            NetworkState::Works
        } else {
            NetworkState::Fails
        })
    }

    /// Each proof with what was there instead of it, if it wasn't.
    async fn look_at(&self, proofs: Vec<Proof>) -> Vec<(Proof, Option<Look>)> {
        let looks = proofs.into_iter().map(|proof| async move {
            let now_ms = self.accounts.now_ms();
            let look = self.looker.look_at(&proof.domain, proof.method, now_ms).await;
            let is_found = look.tokens.iter().any(|token| proof.is_met_by(token));
            (proof, Some(look).filter(|_| !is_found))
        });
        stream::iter(looks).buffer_unordered(LOOKS_MAX).collect().await
    }
}

/// Transport over which a proof is read. Each can fail while the other works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProofTransport {
    Dns,
    Https,
}

impl ProofTransport {
    fn of(method: VerificationMethod) -> Self {
        match method {
            VerificationMethod::Dns => Self::Dns,
            VerificationMethod::Https | VerificationMethod::Meta => Self::Https,
        }
    }

    fn methods(self) -> [VerificationMethod; 2] {
        match self {
            Self::Dns => [VerificationMethod::Dns; 2],
            Self::Https => [VerificationMethod::Https, VerificationMethod::Meta],
        }
    }
}

impl fmt::Display for ProofTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dns => "DNS",
            Self::Https => "HTTPS",
        })
    }
}

/// Whether what isn't found is likely to be missing.
#[derive(Clone, Copy)]
enum NetworkState {
    Works,
    Fails,
    /// No domain can be compared with.
    Unknown,
}
