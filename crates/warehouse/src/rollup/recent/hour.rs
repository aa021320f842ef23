//! An hour of a publisher.

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::part::{Occurred, Part};

/// A receipt and what makes it another than all others of its hour: two with equal keys are one receipt.
pub(super) type Keyed = (u128, Occurred);

#[derive(Debug, Default)]
pub(super) struct Hour {
    seen: HashSet<u128, RandomState>,
    parts: Vec<Arc<Part>>,
}

impl Hour {
    pub(super) fn add(&mut self, all: impl IntoIterator<Item = Keyed>) {
        let new = all.into_iter().filter(|(key, _)| self.seen.insert(*key));
        let new: Vec<Occurred> = new.map(|(_, one)| one).collect();
        if new.is_empty() {
            return;
        }
        self.parts.push(Arc::new(Part::of(new)));
        // Each at least twice the next, so that they are few and each receipt is copied a few times.
        while let [.., before, last] = self.parts.as_slice()
            && before.len() < 2 * last.len()
        {
            let joined = before.joined(last);
            self.parts.truncate(self.parts.len() - 2);
            self.parts.push(Arc::new(joined));
        }
    }

    pub(super) fn parts(&self) -> &[Arc<Part>] {
        &self.parts
    }

    /// How many receipts it has.
    pub(super) fn len(&self) -> usize {
        self.seen.len()
    }

    pub(super) fn bytes(&self) -> usize {
        let parts: usize = self.parts.iter().map(|part| part.bytes()).sum();
        // A set has a byte besides each place.
        256 + parts + self.seen.capacity() * (size_of::<u128>() + 2)
    }
}

#[cfg(test)]
mod tests {
    use super::super::placed::UNKNOWN;
    use super::{Hour, Occurred, Part};

    #[test]
    fn parts_are_few_and_no_receipt_is_there_twice() {
        let mut hour = Hour::default();
        for key in 0..5_000_u128 {
            let one = Occurred {
                at_ms: 0,
                entry: uuid::Uuid::from_u128(key % 7),
                of: 0,
                url: UNKNOWN,
            };
            hour.add([(key, one)]);
            hour.add([(key, one)]);
        }
        let parts = hour.parts();
        assert!(parts.len() < 15, "{}", parts.len());
        assert_eq!(parts.iter().map(|part| Part::len(part)).sum::<usize>(), 5_000);
        assert_eq!(hour.len(), 5_000);
    }
}
