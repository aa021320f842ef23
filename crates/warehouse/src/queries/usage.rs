//! [`Usage`]: what publishers ask of their receipts, all of it through one view of the rollups.

use crate::{RollupView, Warehouse};

/// The questions whose answers are sums over receipts. Each answer is the same as over `receipts FINAL` alone: the view only says
/// for which hours that is known already.
#[derive(Debug, Clone, Copy)]
pub struct Usage<'a> {
    pub(super) warehouse: &'a Warehouse,
    pub(super) view: &'a RollupView,
}

impl Warehouse {
    /// The questions about usage, as of `view`; with [`RollupView::none`] everything is read from the receipts themselves.
    #[must_use]
    pub fn usage<'a>(&'a self, view: &'a RollupView) -> Usage<'a> {
        Usage { warehouse: self, view }
    }
}

/// The first of a list that goes by number of receipts, most first, equal ones in text order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranking<T> {
    /// At most as many as were asked for.
    pub items: Vec<T>,
    /// How many there are in all.
    pub total: u64,
}

impl<T> Default for Ranking<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            total: 0,
        }
    }
}
