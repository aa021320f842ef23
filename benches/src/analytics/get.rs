//! Requests of the readers, and quantiles of their times.

use anyhow::Result;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use load_tests::http::HttpClient;

/// Sends a GET. Returns the answer's body.
pub(super) async fn get(http: &HttpClient, address: &str, key: &str) -> Result<bytes::Bytes> {
    let request = Request::get(address)
        .header("authorization", format!("Bearer {key}"))
        .header("accept", "application/json")
        .body(Full::default())?;
    let answer = http.request(request).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    anyhow::ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
    Ok(body)
}

/// The `quantile`th part of the values lies at or below.
pub(super) fn quantile(values: &[f64], quantile: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // Whole, positive and at most the length.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let rank = (sorted.len() as f64 * quantile).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}
