//! Columns of a row by their names, as values of this crate.

use std::fmt::Display;
use std::str::FromStr;

use sqlx::any::AnyRow;
use sqlx::{Any, Decode, Row, Type};

use crate::AccountsError;

/// Values of a row.
pub(crate) trait RowValues {
    /// The value of a column.
    ///
    /// # Errors
    /// [`AccountsError::Store`]: there is no such column, or its value is of another type.
    fn value<'r, T: Decode<'r, Any> + Type<Any>>(&'r self, column: &str) -> Result<T, AccountsError>;

    /// A text as what it says.
    ///
    /// # Errors
    /// [`AccountsError::Store`] also names the column and the row's first one.
    fn parsed<T: FromStr<Err: Display>>(&self, column: &str) -> Result<T, AccountsError>;

    /// A flag, which is stored as 0 or 1.
    ///
    /// # Errors
    /// As [`RowValues::value`].
    fn flag(&self, column: &str) -> Result<bool, AccountsError> {
        Ok(self.value::<i64>(column)? != 0)
    }
}

impl RowValues for AnyRow {
    fn value<'r, T: Decode<'r, Any> + Type<Any>>(&'r self, column: &str) -> Result<T, AccountsError> {
        Ok(self.try_get(column)?)
    }

    fn parsed<T: FromStr<Err: Display>>(&self, column: &str) -> Result<T, AccountsError> {
        let text: &str = self.try_get(column)?;
        text.parse().map_err(|error: T::Err| {
            let first: &str = self.try_get(0).unwrap_or_default();
            AccountsError::Store(format!("`{column}` of {first}: {error}"))
        })
    }
}
