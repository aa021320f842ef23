//! Receipts by purpose.

use receipt::Purpose;

use super::source::count;

const PURPOSES: usize = Purpose::ALL.len();

/// Receipts per purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageByPurpose([u64; PURPOSES]);

impl UsageByPurpose {
    /// The purposes with their receipts, in the order of [`Purpose::ALL`].
    pub fn iter(self) -> impl Iterator<Item = (Purpose, u64)> {
        Purpose::ALL.into_iter().zip(self.0)
    }

    /// Sums of [`per_purpose`], in its order. Without any rows, there are no sums.
    pub(super) fn of_sums(sums: &[i64]) -> Self {
        Self(std::array::from_fn(|at| sums.get(at).map_or(0, |sum| count(*sum))))
    }

    /// Difference of the counts and a part of them.
    pub(super) fn without(self, part: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] - part.0[at]))
    }
}

/// Receipts per purpose in one array, `by_purpose`, and the proven ones of them, over rows called
/// `piece`.
pub(super) fn per_purpose() -> String {
    let sums = |condition: &str| {
        let sum = |purpose: Purpose| format!("sumIf(piece.receipts, piece.purpose = '{purpose}'{condition})");
        Purpose::ALL.map(sum).join(", ")
    };
    format!(
        "[{}] AS by_purpose, [{}] AS proven_by_purpose",
        sums(""),
        sums(" AND piece.is_proven")
    )
}
