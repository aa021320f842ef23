//! The identity of a counted receipt.

/// Identity of a counted receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CountedKey {
    /// The timestamp's second since the Unix epoch.
    pub second: u32,
    /// The first 16 bytes of the payload's hash.
    pub hash: [u8; 16],
}

/// A receipt that isn't counted yet: its row in one of the batches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewReceipt {
    pub(crate) key: CountedKey,
    pub(crate) batch: usize,
    pub(crate) row: usize,
}
