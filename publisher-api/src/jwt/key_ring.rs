//! An issuer's keys as they were fetched last. They are fetched again after a while, and when a
//! token names a key that isn't among them, which is how an issuer's new key shows. While they
//! can't be had, those that were had stay.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use jsonwebtoken::Algorithm;
use metrics::counter;
use outbound::OutboundClient;
use parking_lot::RwLock;
use tokio::io::AsyncReadExt;
use tokio::sync::Mutex;

use super::key_set::{KeySet, Match};

/// The longest JWKS, in bytes.
const BYTES_MAX: usize = 256 << 10;
/// Bytes that are read of a file: one byte more shows that it is longer.
const LIMIT: u64 = (256 << 10) + 1;

/// Source of a JWKS.
pub(crate) trait KeySetSource: Send + Sync {
    /// Fetches it, or says why it can't be had.
    fn fetch(&self) -> Pin<Box<dyn Future<Output = Result<Vec<u8>, String>> + Send + '_>>;
}

/// A file.
pub(crate) struct FileSource {
    pub(crate) path: PathBuf,
    /// Whether a file that isn't there is a set without keys: it may come later.
    pub(crate) may_be_absent: bool,
}

/// A URL.
pub(crate) struct UrlSource {
    pub(crate) client: OutboundClient,
    pub(crate) url: String,
}

/// The keys, and when they were fetched.
pub(crate) struct KeyRing {
    source: Box<dyn KeySetSource>,
    /// `None` until the keys were read once.
    keys: RwLock<Option<Arc<KeySet>>>,
    /// When a fetch was begun last, in milliseconds since the Unix epoch. Held while one is under
    /// way, so that there is never a second.
    fetched_at_ms: Mutex<Option<i64>>,
    refetch_ms_min: i64,
}

impl KeyRing {
    /// A ring without keys yet.
    pub(crate) fn new(source: Box<dyn KeySetSource>, refetch_ms_min: i64) -> Self {
        Self {
            source,
            keys: RwLock::new(None),
            fetched_at_ms: Mutex::new(None),
            refetch_ms_min,
        }
    }

    /// The key for a token of this header, fetched if it isn't known and the last fetch is long
    /// enough ago. `None` if no keys could be had so far.
    pub(crate) async fn find(&self, algorithm: Algorithm, kid: Option<&str>, now_ms: i64) -> Option<Match> {
        let existing = self.look(algorithm, kid);
        if existing.as_ref().is_some_and(|found| !matches!(found, Match::Unknown)) {
            return existing;
        }
        let mut fetched_at_ms = self.fetched_at_ms.lock().await;
        // Whoever was before us may have brought it.
        let existing = self.look(algorithm, kid);
        let unknown = existing.as_ref().is_none_or(|found| matches!(found, Match::Unknown));
        let long_ago = |at_ms: i64| !(0..self.refetch_ms_min).contains(&now_ms.saturating_sub(at_ms));
        if unknown && fetched_at_ms.is_none_or(long_ago) {
            *fetched_at_ms = Some(now_ms);
            // What can't be had is logged; the keys that are here stay.
            let _ = self.fetch().await;
        }
        self.look(algorithm, kid)
    }

    /// Fetches the keys, whatever is known.
    ///
    /// # Errors
    /// Why they can't be had.
    pub(crate) async fn refresh(&self, now_ms: i64) -> Result<(), String> {
        let mut fetched_at_ms = self.fetched_at_ms.lock().await;
        *fetched_at_ms = Some(now_ms);
        self.fetch().await
    }

    fn look(&self, algorithm: Algorithm, kid: Option<&str>) -> Option<Match> {
        let keys = self.keys.read().clone();
        keys.map(|keys| keys.find(algorithm, kid))
    }

    async fn fetch(&self) -> Result<(), String> {
        let fetched = self.source.fetch().await.and_then(|bytes| KeySet::parse(&bytes));
        let outcome = if fetched.is_ok() { "ok" } else { "failed" };
        counter!("receipts_publisher_jwks_fetches_total", "outcome" => outcome).increment(1);
        match fetched {
            Ok(keys) => {
                if keys.is_empty() {
                    // The issuer's word all the same: it may have taken all of them back.
                    tracing::warn!("the issuer's JWKS has no key that can be used: no token is good now");
                }
                tracing::debug!(keys = keys.len(), "fetched the issuer's keys");
                *self.keys.write() = Some(Arc::new(keys));
                Ok(())
            }
            Err(why) => {
                tracing::warn!(why, "the issuer's keys can't be had; those that were had stay");
                Err(why)
            }
        }
    }
}

impl KeySetSource for FileSource {
    fn fetch(&self) -> Pin<Box<dyn Future<Output = Result<Vec<u8>, String>> + Send + '_>> {
        Box::pin(async move {
            let mut bytes = Vec::new();
            let read = async {
                let file = tokio::fs::File::open(&self.path).await?;
                file.take(LIMIT).read_to_end(&mut bytes).await
            };
            match read.await {
                Ok(_) => bounded(bytes),
                Err(error) if self.may_be_absent && error.kind() == ErrorKind::NotFound => {
                    Ok(br#"{"keys":[]}"#.to_vec())
                }
                Err(error) => Err(unreadable(&error)),
            }
        })
    }
}

impl KeySetSource for UrlSource {
    fn fetch(&self) -> Pin<Box<dyn Future<Output = Result<Vec<u8>, String>> + Send + '_>> {
        Box::pin(async move {
            let fetched = self
                .client
                .get(&self.url, BYTES_MAX)
                .await
                .map_err(|error| error.to_string())?;
            if !fetched.status.is_success() {
                return Err(format!("the issuer answered {}", fetched.status));
            }
            Ok(fetched.body.to_vec())
        })
    }
}

/// A file's bytes, if there aren't too many, before anything runs.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(LIMIT).read_to_end(&mut bytes));
    read.map_err(|error| unreadable(&error))?;
    bounded(bytes)
}

fn bounded(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    if bytes.len() > BYTES_MAX {
        return Err(format!("is longer than {BYTES_MAX} bytes"));
    }
    Ok(bytes)
}

fn unreadable(error: &std::io::Error) -> String {
    format!("can't be read: {error}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::json;

    use super::*;

    /// Answers what the test says, and counts.
    #[derive(Clone, Default)]
    struct FakeSource {
        answer: Arc<parking_lot::Mutex<Option<Vec<u8>>>>,
        fetches: Arc<AtomicUsize>,
    }

    impl FakeSource {
        fn say(&self, kids: &[&str]) {
            let x = URL_SAFE_NO_PAD.encode([7; 32]);
            let key = |kid: &&str| json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x});
            let set = json!({"keys": kids.iter().map(key).collect::<Vec<_>>()});
            *self.answer.lock() = Some(set.to_string().into_bytes());
        }

        fn fetches(&self) -> usize {
            self.fetches.load(Ordering::SeqCst)
        }
    }

    impl KeySetSource for FakeSource {
        fn fetch(&self) -> Pin<Box<dyn Future<Output = Result<Vec<u8>, String>> + Send + '_>> {
            self.fetches.fetch_add(1, Ordering::SeqCst);
            let answer = self.answer.lock().clone();
            Box::pin(async move {
                tokio::task::yield_now().await;
                answer.ok_or_else(|| "away".to_owned())
            })
        }
    }

    fn ring() -> (FakeSource, Arc<KeyRing>) {
        let source = FakeSource::default();
        (source.clone(), Arc::new(KeyRing::new(Box::new(source), 10_000)))
    }

    async fn has(ring: &KeyRing, kid: &str, now_ms: i64) -> Option<bool> {
        let found = ring.find(Algorithm::EdDSA, Some(kid), now_ms).await;
        found.map(|found| matches!(found, Match::Found(_)))
    }

    #[tokio::test]
    async fn a_new_key_is_fetched_when_a_token_names_it() {
        let (source, ring) = ring();
        source.say(&["a"]);
        assert_eq!(has(&ring, "a", 0).await, Some(true));
        assert_eq!(has(&ring, "a", 99_999).await, Some(true));
        assert_eq!(source.fetches(), 1);
        source.say(&["a", "b"]);
        assert_eq!(
            has(&ring, "b", 9_999).await,
            Some(false),
            "too soon after the last fetch"
        );
        assert_eq!(has(&ring, "b", 10_000).await, Some(true));
        assert_eq!(source.fetches(), 2);
        source.say(&["b"]);
        assert_eq!(
            has(&ring, "a", 30_000).await,
            Some(true),
            "no token named an unknown one"
        );
        ring.refresh(30_000).await.unwrap();
        assert_eq!(has(&ring, "a", 30_001).await, Some(false), "taken back by the issuer");
    }

    #[tokio::test]
    async fn a_flood_of_unknown_names_is_one_fetch() {
        let (source, ring) = ring();
        source.say(&["a"]);
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..100 {
            let ring = Arc::clone(&ring);
            tasks.spawn(async move { has(&ring, &format!("evil-{number}"), number).await });
        }
        assert!(tasks.join_all().await.iter().all(|found| *found == Some(false)));
        assert_eq!(source.fetches(), 1);
        // A clock that was set back doesn't keep new keys out.
        assert_eq!(has(&ring, "evil", -1).await, Some(false));
        assert_eq!(source.fetches(), 2);
    }

    #[tokio::test]
    async fn what_was_had_stays_while_nothing_can_be_had() {
        let (source, ring) = ring();
        assert_eq!(has(&ring, "a", 0).await, None, "nobody can tell");
        assert_eq!(has(&ring, "a", 1).await, None);
        assert_eq!(source.fetches(), 1);
        source.say(&["a"]);
        assert_eq!(has(&ring, "a", 10_000).await, Some(true));
        for bad in [None, Some(b"not json".to_vec()), Some(b"{}".to_vec())] {
            *source.answer.lock() = bad;
            assert!(ring.refresh(20_000).await.is_err());
            assert_eq!(has(&ring, "a", 20_000).await, Some(true));
        }
        source.say(&[]);
        ring.refresh(20_000).await.unwrap();
        assert_eq!(
            has(&ring, "a", 20_000).await,
            Some(false),
            "a set without keys is the issuer's word"
        );
    }

    #[tokio::test]
    async fn a_file_is_a_source() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("jwks.json");
        let source = |may_be_absent| FileSource {
            path: file.clone(),
            may_be_absent,
        };
        assert!(KeySet::parse(&source(true).fetch().await.unwrap()).unwrap().is_empty());
        let source = source(false);
        assert!(source.fetch().await.unwrap_err().contains("can't be read"));
        std::fs::write(&file, "{}").unwrap();
        assert_eq!(source.fetch().await.unwrap(), b"{}");
        std::fs::write(&file, vec![b' '; BYTES_MAX + 1]).unwrap();
        assert!(source.fetch().await.unwrap_err().contains("longer"));
    }
}
