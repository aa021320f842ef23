//! Tables of the keys that are used most.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use quick_cache::sync::Cache;

/// A bounded number of tables, by the bytes of their keys.
pub(crate) struct TableStore<T> {
    tables: Cache<Box<[u8]>, Arc<T>>,
    uses_before_table: u32,
}

/// A key's uses since it had no table.
#[derive(Debug, Default)]
pub(crate) struct Uses(AtomicU32);

#[cfg(test)]
impl Uses {
    /// So many uses that the next one earns a table.
    pub(crate) fn many() -> Self {
        Self(AtomicU32::new(u32::MAX))
    }
}

impl<T> TableStore<T> {
    /// A store of up to `tables_max` tables, each made after `uses_before_table` uses of its key
    /// without one. So making tables never dominates, even if keys take turns in pushing each
    /// other's out.
    pub(crate) fn new(tables_max: usize, uses_before_table: u32) -> Self {
        Self {
            tables: Cache::new(tables_max),
            uses_before_table,
        }
    }

    /// The key's table, if it has or has just earned one.
    pub(crate) fn get(&self, key: &[u8], uses: &Uses, make: impl FnOnce() -> T) -> Option<Arc<T>> {
        if let Some(table) = self.tables.get(key) {
            return Some(table);
        }
        if uses.0.fetch_add(1, Ordering::Relaxed) < self.uses_before_table {
            return None;
        }
        uses.0.store(0, Ordering::Relaxed);
        let table = Arc::new(make());
        self.tables.insert(key.into(), Arc::clone(&table));
        Some(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_earn_tables() {
        let store = TableStore::new(2, 3);
        let uses = Uses::default();
        for _ in 0..3 {
            assert_eq!(store.get(b"a", &uses, || unreachable!()), None);
        }
        assert_eq!(store.get(b"a", &uses, || 1), Some(Arc::new(1)));
        assert_eq!(store.get(b"a", &uses, || unreachable!()), Some(Arc::new(1)));
        assert_eq!(store.get(b"b", &Uses::default(), || unreachable!()), None);
    }

    #[test]
    fn tables_are_bounded_and_earned_again() {
        let store = TableStore::new(8, 2);
        let keys: Vec<(u8, Uses)> = (0..100).map(|key| (key, Uses::default())).collect();
        let mut made = 0;
        for _ in 0..30 {
            for (key, uses) in &keys {
                let table = store.get(&[*key], uses, || {
                    made += 1;
                    *key
                });
                assert!(table.is_none_or(|table| *table == *key));
            }
            assert!(store.tables.len() <= 8);
        }
        // Two uses of three are without a table.
        assert!((100..=1_000).contains(&made), "{made}");
    }
}
