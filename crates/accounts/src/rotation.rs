//! Rotating a key: a new one replaces it, and the old one continues for a while.

use crate::key::{self, KeyInfo, KeyRequest, read, select};
use crate::trail::{self, TrailChange};
use crate::{Accounts, AccountsError, IssuedKey, Lifetime, Overlap};

/// Result of rotating a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rotation {
    /// The new key.
    Done {
        /// The new key, with the old one's label, scopes and domains.
        issued: IssuedKey,
        /// When the old one ends, in milliseconds since the Unix epoch.
        old_until_ms: i64,
    },
    /// The account has no such key.
    Unknown,
    /// The key doesn't work any more, or has been replaced before.
    Ended(EndedKey),
}

/// Why there is nothing to rotate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndedKey {
    /// The key was revoked.
    Revoked,
    /// The key has expired.
    Expired,
    /// A key replaced it already: its id.
    Replaced(String),
}

impl Accounts {
    /// Makes a key that replaces `key_id`, which ends after `overlap`, or at its own time
    /// if that is sooner. The new one lives for `lifetime`, or as long as the old one did from its
    /// beginning to its end.
    ///
    /// # Errors
    /// Too many replaced keys of the account work, or the store fails. Nothing has changed then.
    pub async fn rotate_key(
        &self,
        account_id: &str,
        key_id: &str,
        overlap: Overlap,
        lifetime: Option<Lifetime>,
        actor: &str,
    ) -> Result<Rotation, AccountsError> {
        let work = self.rotate(account_id, key_id, overlap, lifetime, actor);
        let rotation = self.timed("rotate_key", work).await;
        // Its end has changed.
        self.cache.remove(key_id);
        rotation
    }

    async fn rotate(
        &self,
        account_id: &str,
        key_id: &str,
        overlap: Overlap,
        lifetime: Option<Lifetime>,
        actor: &str,
    ) -> Result<Rotation, AccountsError> {
        let now_ms = self.now_ms();
        let mut transaction = self.begin().await?;
        // Holds the key's row: of two rotations at one time the second finds it replaced.
        let hold = sqlx::query("UPDATE api_keys SET name = name WHERE account_id = $1 AND id = $2");
        let held = hold.bind(account_id).bind(key_id).execute(&mut *transaction).await?;
        if held.rows_affected() == 0 {
            return Ok(Rotation::Unknown);
        }
        let question = sqlx::query(select!("WHERE id = $1")).bind(key_id);
        let old = read(&question.fetch_one(&mut *transaction).await?)?;
        if let Some(ended) = ended(&old, now_ms) {
            return Ok(Rotation::Ended(ended));
        }
        // A limit stays, also to domains that have ended meanwhile: a new key never speaks for more
        // than the old one.
        let limit = old.domains.map(|domains| domains.join(","));
        let lifetime_ms = lifetime.map_or(old.expires_at_ms - old.created_at_ms, Lifetime::as_ms);
        let request = KeyRequest {
            name: old.name,
            scopes: old.scopes,
            domains: None,
            expires_at_ms: now_ms.saturating_add(lifetime_ms),
        };
        let old_until_ms = old.expires_at_ms.min(now_ms.saturating_add(overlap.as_ms()));
        let replace = sqlx::query("UPDATE api_keys SET expires_at_ms = $1 WHERE id = $2");
        replace
            .bind(old_until_ms)
            .bind(key_id)
            .execute(&mut *transaction)
            .await?;
        if overlap.as_ms() == 0 {
            key::end(&mut transaction, key_id, now_ms).await?;
        } else {
            key::check_room_for_replaced(&mut transaction, account_id, self.keys_max, now_ms).await?;
        }
        let mut issued = key::make(&mut transaction, account_id, request, actor, now_ms).await?;
        let restrict = sqlx::query("UPDATE api_keys SET domains = $1 WHERE id = $2");
        let restrict = restrict.bind(&limit).bind(&issued.key_id);
        restrict.execute(&mut *transaction).await?;
        issued.domains = limit.map(|words| words.split(',').map(str::to_owned).collect());
        let replace = sqlx::query("UPDATE api_keys SET replaced_by = $1 WHERE id = $2");
        replace
            .bind(&issued.key_id)
            .bind(key_id)
            .execute(&mut *transaction)
            .await?;
        let detail = format!("replaced by {}", issued.key_id);
        let change = TrailChange {
            account_id,
            actor,
            action: "key.rotate",
            subject: key_id,
            detail: &detail,
            at_ms: now_ms,
        };
        trail::note(&mut transaction, &change).await?;
        transaction.commit().await?;
        Ok(Rotation::Done { issued, old_until_ms })
    }
}

fn ended(key: &KeyInfo, now_ms: i64) -> Option<EndedKey> {
    if key.revoked_at_ms.is_some() {
        return Some(EndedKey::Revoked);
    }
    if let Some(other) = &key.replaced_by {
        return Some(EndedKey::Replaced(other.clone()));
    }
    (key.expires_at_ms <= now_ms).then_some(EndedKey::Expired)
}
