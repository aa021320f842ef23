//! What was read of receipts under one view: questions that come together, as a page's, read the same rows once.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::sums::{EntrySum, UseSum};
use crate::WarehouseError;

/// Selections that are shared at a time; further ones are read by each for itself.
const SHARED_MAX: usize = 16;

/// Sums of the receipts that a view doesn't vouch for. They go with the view.
#[derive(Debug, Default)]
pub(crate) struct Tails {
    pub(super) uses: Shared<UseSum>,
    pub(super) entries: Shared<EntrySum>,
    /// Whether what has come in was read for it; otherwise the warehouse is asked.
    pub(super) came: OnceCell<bool>,
}

/// `None`: too many rows.
type Read<T> = Arc<OnceCell<Option<Arc<[T]>>>>;

/// By selection.
#[derive(Debug)]
pub(crate) struct Shared<T>(Mutex<Vec<(String, Read<T>)>>);

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Shared<T> {
    /// What `read` gives for a selection, read by the first who asks. A failure is told to that one only; the next reads again.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) async fn read<R>(&self, selection: String, read: R) -> Result<Option<Arc<[T]>>, WarehouseError>
    where
        R: Future<Output = Result<Option<Arc<[T]>>, WarehouseError>>,
    {
        let cell = {
            let mut all = self.0.lock();
            match all.iter().find(|(known, _)| *known == selection) {
                Some((_, cell)) => Some(Arc::clone(cell)),
                None if all.len() < SHARED_MAX => {
                    let cell = Read::default();
                    all.push((selection, Arc::clone(&cell)));
                    Some(cell)
                }
                None => None,
            }
        };
        match cell {
            Some(cell) => cell.get_or_try_init(|| read).await.cloned(),
            None => read.await,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::cell::Cell;

    use super::{Arc, SHARED_MAX, Shared};
    use crate::WarehouseError;

    #[tokio::test]
    async fn each_selection_is_read_once_and_a_failure_is_not_kept() {
        let shared = Shared::<u64>::default();
        let reads = Cell::new(0);
        let read = |value: u64| {
            reads.set(reads.get() + 1);
            async move { Ok(Some(Arc::from([value]))) }
        };
        let failing = async { Err(WarehouseError::Unavailable("away".to_owned())) };
        assert!(shared.read("a".to_owned(), failing).await.is_err());
        let (one, other) = tokio::join!(
            shared.read("a".to_owned(), async {
                tokio::task::yield_now().await;
                read(1).await
            }),
            shared.read("a".to_owned(), async { read(2).await })
        );
        let (one, other) = (one.unwrap().unwrap(), other.unwrap().unwrap());
        assert_eq!((&*one, &*other, reads.get()), (&[1][..], &[1][..], 1));
        for number in 0..2 * SHARED_MAX as u64 {
            let found = shared
                .read(number.to_string(), async { read(number).await })
                .await
                .unwrap();
            assert_eq!(&*found.unwrap(), &[number]);
        }
        assert_eq!(shared.0.lock().len(), SHARED_MAX);
    }
}
