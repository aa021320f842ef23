//! An account's own quota.

use std::fmt;

use sqlx::any::AnyRow;

use crate::AccountsError;
use crate::row::RowValues;

/// Requests that an account may make, instead of its tier's quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountQuota {
    /// Requests a minute.
    pub per_minute: u32,
    /// Requests a day (UTC); `None`: no limit.
    pub per_day: Option<u32>,
}

impl AccountQuota {
    /// From the columns `requests_per_minute` and `requests_per_day`; `None` if the account has
    /// its tier's quota.
    pub(crate) fn read(row: &AnyRow) -> Result<Option<Self>, AccountsError> {
        let number = |column: &str| -> Result<Option<u32>, AccountsError> {
            let stored: Option<i64> = row.value(column)?;
            let number = stored.map(u32::try_from).transpose();
            number.map_err(|error| AccountsError::Store(format!("`{column}`: {error}")))
        };
        let (per_minute, per_day) = (number("requests_per_minute")?, number("requests_per_day")?);
        Ok(per_minute.map(|per_minute| Self { per_minute, per_day }))
    }
}

impl fmt::Display for AccountQuota {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} requests a minute", self.per_minute)?;
        match self.per_day {
            Some(per_day) => write!(out, ", {per_day} a day"),
            None => Ok(()),
        }
    }
}
