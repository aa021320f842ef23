//! Damage that statements have met: remembered until its part is gone, so that readiness reports
//! it between them.

use std::time::{Duration, Instant};

use super::part::{DataPart, part_in};
use crate::{SqlStatement, Warehouse, WarehouseError};

/// Interval at which a damaged part that still exists is read as a whole
/// again.
const CHECK_EVERY: Duration = Duration::from_secs(60);

/// Age of the last statement's success that replaces a ping.
const ANSWER_AGE_MAX: Duration = Duration::from_secs(1);

impl Warehouse {
    /// Whether the warehouse answers, and whether damage that a statement of this client met is
    /// gone since.
    ///
    /// # Errors
    /// [`WarehouseError`]; `Damaged` until the part has been detached or is found sound.
    pub async fn sound(&self) -> Result<(), WarehouseError> {
        if !self.answered_within(ANSWER_AGE_MAX) {
            self.one::<u8>("ping", SqlStatement::new("SELECT 1")).await?;
        }
        let Some(met) = self.damage().clone() else {
            return Ok(());
        };
        let part = part_in(&met.message);
        let is_due = met.checked.elapsed() > CHECK_EVERY;
        let mut sound = true;
        for shard in self.shards() {
            let parts = shard.parts().await?;
            let Some(part) = &part else { break };
            let is_it = |one: &DataPart| one.table == part.table && one.name == part.name;
            let is_there = parts.iter().any(is_it);
            sound &= !is_there || (is_due && shard.check_part(part).await?.is_none());
        }
        let mut damage = self.damage();
        if sound {
            *damage = None;
            return Ok(());
        }
        if let Some(met) = damage.as_mut().filter(|_| is_due) {
            met.checked = Instant::now();
        }
        Err(WarehouseError::Damaged(met.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_damaged_part_is_found_in_the_engines_words() {
        let message = "Code: 40. DB::Exception: Checksum doesn't match: (while reading column url): (while reading from part \
             /d/warehouse/store/4a9/4a91e448-0fb2-4b22-8954-0e9d0a324b96/202611_41_41_0/ in table receipts.receipts \
             (4a91e448-0fb2-4b22-8954-0e9d0a324b96) located on disk default of type local, from mark 0)";
        let part = part_in(message);
        assert_eq!(
            part.map(|part| (part.table, part.name)),
            Some(("receipts", "202611_41_41_0".to_owned()))
        );
        assert_eq!(part_in("Code: 40. DB::Exception: Checksum doesn't match"), None);
    }
}
