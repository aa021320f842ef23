//! The two logs of the pipeline.

/// A log: `receipts` between gateway and verifier, or `verdicts` between verifier and writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Bodies as received. Appended one by one by gateways.
    Receipts,
    /// Encoded blocks. Appended by verifiers together with their positions in `receipts`.
    Verdicts,
}

impl Topic {
    /// The value of the label `log` of the metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Receipts => "receipts",
            Self::Verdicts => "verdicts",
        }
    }
}
