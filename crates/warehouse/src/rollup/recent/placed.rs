//! What many receipts have in common, each once: a receipt has its place.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use foldhash::fast::RandomState;

/// No place.
pub(super) const UNKNOWN: u32 = u32::MAX;

/// As questions find it.
#[derive(Debug, Clone)]
pub(super) struct Places<T> {
    /// The place of the first; those before it are known no more.
    first: u32,
    all: Arc<Vec<T>>,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self {
            first: 0,
            all: Arc::default(),
        }
    }
}

impl<T> Places<T> {
    pub(super) fn at(&self, place: u32) -> Option<&T> {
        let place = place.checked_sub(self.first)?;
        self.all.get(usize::try_from(place).ok()?)
    }
}

#[derive(Debug)]
pub(super) struct Placed<T> {
    places: Places<T>,
    known: HashMap<T, u32, RandomState>,
    bytes: usize,
}

impl<T> Default for Placed<T> {
    fn default() -> Self {
        Self {
            places: Places::default(),
            known: HashMap::default(),
            bytes: 0,
        }
    }
}

impl<T: Clone + Eq + Hash> Placed<T> {
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn places(&self) -> Places<T> {
        self.places.clone()
    }

    /// The place of one, if it has one.
    pub(super) fn of<Q: Eq + Hash + ?Sized>(&self, one: &Q) -> Option<u32>
    where
        T: Borrow<Q>,
    {
        self.known.get(one).copied()
    }

    /// A place for a new one, which takes so many bytes; `None` if there were too many in all.
    pub(super) fn put(&mut self, one: T, bytes: usize) -> Option<u32> {
        let many = u32::try_from(self.places.all.len()).ok()?;
        let place = self.places.first.checked_add(many).filter(|place| *place < UNKNOWN)?;
        Arc::make_mut(&mut self.places.all).push(one.clone());
        self.known.insert(one, place);
        self.bytes += bytes;
        Some(place)
    }

    /// Lets go of all; their places aren't given again.
    pub(super) fn clear(&mut self) {
        let many = u32::try_from(self.places.all.len()).unwrap_or(UNKNOWN);
        *self = Self {
            places: Places {
                first: self.places.first.saturating_add(many),
                all: Arc::default(),
            },
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, Placed};

    #[test]
    fn places_are_given_once() {
        let mut placed = Placed::<Arc<str>>::default();
        assert_eq!(
            (placed.put("a".into(), 3), placed.put("b".into(), 4)),
            (Some(0), Some(1))
        );
        assert_eq!((placed.of("b"), placed.of("c")), (Some(1), None));
        assert_eq!((placed.len(), placed.bytes()), (2, 7));
        let before = placed.places();
        placed.clear();
        assert_eq!((placed.of("b"), placed.len(), placed.bytes()), (None, 0, 0));
        assert_eq!(placed.put("c".into(), 1), Some(2));
        let after = placed.places();
        // Who asked before still finds it.
        assert_eq!(before.at(1).map(|one| &**one), Some("b"));
        assert_eq!(before.at(2), None);
        assert_eq!(after.at(1), None);
        assert_eq!(after.at(2).map(|one| &**one), Some("c"));
        assert_eq!(after.at(super::UNKNOWN), None);
    }
}
