//! Buffers that are used again from receipt to receipt, so that the hot path allocates next to
//! nothing.

use std::cell::Cell;

use crate::key_kinds::KeyKinds;
use crate::tape::Tape;

/// Reusable buffers for reading receipts. Their size is bounded by the limits they were used with.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The receipt being read.
    pub(crate) tape: Tape,
    /// A batch's own members.
    pub(crate) own: Tape,
    /// The canonical bytes of the receipts that are judged together.
    pub(crate) canonical: Vec<u8>,
    /// The keys met last.
    pub(crate) key_kinds: KeyKinds,
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Lends the thread's scratch. Taken out while in use: a nested call, as rayon's stealing can make,
/// gets a new one.
pub(crate) fn with<R>(work: impl FnOnce(&mut Scratch) -> R) -> R {
    let mut scratch = SCRATCH.take().unwrap_or_default();
    let result = work(&mut scratch);
    SCRATCH.set(Some(scratch));
    result
}
