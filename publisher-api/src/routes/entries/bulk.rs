//! Many entries in one request: lines of JSON, stored in transactions of bounded size as they
//! arrive.

use std::time::Duration;

use accounts::{NewEntry, Principal};
use axum::body::{Body, Bytes};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use service::problem::Kind;
use tokio::time::{Instant, timeout_at};
use web::{Failure, json};

use super::shape::{BulkAnswer, EntryRequest, LineOutcome, Refusal};
use crate::state::PublisherState;

/// Lines of one transaction.
const CHUNK_LINES_MAX: usize = 250;
/// Bytes of them: the lines may be as long as [`json::BYTES_MAX`] each.
const CHUNK_BYTES_MAX: usize = 256 << 10;
/// Time for a whole bulk.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// Creates an entry for each line. What was stored before a failure stays; sending the whole again
/// finds it unchanged.
pub(super) async fn create(
    app: &PublisherState,
    principal: &Principal,
    headers: &HeaderMap,
    body: Body,
) -> Result<BulkAnswer, Failure> {
    let mut lines = BodyLines::new(body, app.config.bulk_lines_max, app.config.bulk_bytes_max);
    let declared = headers.get(header::CONTENT_LENGTH);
    let declared = declared.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|bytes| bytes > lines.bytes_max) {
        return Err(lines.too_long());
    }
    let actor = principal.actor.to_string();
    let mut answer = BulkAnswer::default();
    loop {
        let chunk = TransactionLines::gather(&mut lines, principal).await?;
        if chunk.0.is_empty() {
            return Ok(answer);
        }
        let requests: Vec<NewEntry> = chunk
            .0
            .iter()
            .filter_map(|(_, request)| request.as_ref().ok().cloned())
            .collect();
        let accounts = &app.deps.accounts;
        let outcomes = accounts
            .create_entries(&principal.account_id, &actor, requests, app.config.entries_max)
            .await?;
        let mut outcomes = outcomes.into_iter();
        for (line, request) in chunk.0 {
            match request {
                Err(refusal) => answer.add(refusal.of_line(line, None)),
                Ok(request) => {
                    if let Some(outcome) = outcomes.next() {
                        answer.add(LineOutcome::of(line, request.id, &outcome));
                    }
                }
            }
        }
    }
}

/// Lines of one transaction, by their numbers.
struct TransactionLines(Vec<(usize, Result<NewEntry, Refusal>)>);

impl TransactionLines {
    /// The next lines; none at the end.
    async fn gather(lines: &mut BodyLines, principal: &Principal) -> Result<Self, Failure> {
        let (mut chunk, mut bytes) = (Vec::new(), 0);
        while chunk.len() < CHUNK_LINES_MAX && bytes < CHUNK_BYTES_MAX {
            let Some(line) = lines.next().await? else { break };
            bytes += line.len();
            let request = json::parse::<EntryRequest>(&line)
                .map_err(Refusal::unreadable)
                .and_then(|request| request.checked(principal));
            chunk.push((lines.number, request));
        }
        Ok(Self(chunk))
    }
}

/// A body's lines that aren't empty.
struct BodyLines {
    body: Body,
    /// Arrived, not yet given out.
    rest: Bytes,
    /// The beginning of a line whose end hasn't arrived.
    begun: Vec<u8>,
    ended: bool,
    /// The number of the line given out last.
    number: usize,
    bytes: usize,
    lines_max: usize,
    bytes_max: usize,
    until: Instant,
}

impl BodyLines {
    fn new(body: Body, lines_max: usize, bytes_max: usize) -> Self {
        Self {
            body,
            rest: Bytes::new(),
            begun: Vec::new(),
            ended: false,
            number: 0,
            bytes: 0,
            lines_max,
            bytes_max,
            until: Instant::now() + WAIT_MAX,
        }
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        loop {
            let end = self.rest.iter().position(|byte| *byte == b'\n');
            let upto = end.unwrap_or(self.rest.len());
            if self.begun.len() + upto > json::BYTES_MAX {
                return Err(self.line_too_long());
            }
            self.begun.extend_from_slice(&self.rest[..upto]);
            self.rest = self.rest.slice(end.map_or(upto, |end| end + 1)..);
            if end.is_none() && !self.ended {
                self.receive().await?;
                continue;
            }
            if end.is_none() && self.begun.is_empty() {
                return Ok(None);
            }
            self.number += 1;
            if self.number > self.lines_max {
                return Err(self.too_many());
            }
            let line = std::mem::take(&mut self.begun);
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
    }

    async fn receive(&mut self) -> Result<(), Failure> {
        let frame = timeout_at(self.until, self.body.frame()).await.map_err(|_| {
            let detail = format!(
                "the body didn't arrive within {} s; send it again, in smaller parts",
                WAIT_MAX.as_secs()
            );
            Failure::new(Kind::RequestTimeout, detail)
        })?;
        match frame {
            None => self.ended = true,
            Some(Err(_)) => return Err(Failure::new(Kind::BadRequest, "the body broke off; send it again")),
            Some(Ok(frame)) => {
                self.rest = frame.into_data().unwrap_or_default();
                self.bytes += self.rest.len();
                if self.bytes > self.bytes_max {
                    return Err(self.too_long());
                }
            }
        }
        Ok(())
    }

    fn too_long(&self) -> Failure {
        let detail = format!(
            "the body is over the limit of {} bytes; send it in parts",
            self.bytes_max
        );
        Failure::new(Kind::BodyTooLarge, detail)
    }

    fn too_many(&self) -> Failure {
        let detail = format!("the body has more than {} lines; send it in parts", self.lines_max);
        Failure::new(Kind::BodyTooLarge, detail)
    }

    fn line_too_long(&self) -> Failure {
        let detail = format!(
            "line {} is over the limit of {} bytes",
            self.number + 1,
            json::BYTES_MAX
        );
        Failure::new(Kind::BodyTooLarge, detail)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures_util::stream;

    use super::*;

    async fn read(frames: &[&str], lines_max: usize, bytes_max: usize) -> Result<Vec<(usize, String)>, Failure> {
        let frames: Vec<Result<Bytes, std::io::Error>> =
            frames.iter().map(|text| Ok(Bytes::from((*text).to_owned()))).collect();
        let mut lines = BodyLines::new(Body::from_stream(stream::iter(frames)), lines_max, bytes_max);
        let mut read = Vec::new();
        while let Some(line) = lines.next().await? {
            read.push((lines.number, String::from_utf8(line).unwrap()));
        }
        Ok(read)
    }

    #[tokio::test]
    async fn lines_are_cut_wherever_frames_end() {
        let expected = vec![(1, "{\"a\":1}".to_owned()), (3, "b\r".to_owned()), (5, "c".to_owned())];
        let text = "{\"a\":1}\n\nb\r\n \nc";
        assert_eq!(read(&[text], 10, 100).await.unwrap(), expected);
        for cut in 1..text.len() {
            let (left, right) = text.split_at(cut);
            assert_eq!(
                read(&[left, "", right], 10, 100).await.unwrap(),
                expected,
                "cut at {cut}"
            );
        }
        assert_eq!(read(&[], 10, 100).await.unwrap(), []);
        assert_eq!(read(&["\n\n"], 10, 100).await.unwrap(), []);
    }

    #[tokio::test]
    async fn lines_and_bytes_are_bounded() {
        assert_eq!(read(&["a\nb\n"], 2, 4).await.unwrap().len(), 2);
        let long = "a".repeat(json::BYTES_MAX);
        assert_eq!(read(&[&long], 2, 1 << 20).await.unwrap().len(), 1);
        let longer = format!("{long}a");
        for (frames, lines_max, bytes_max, said) in [
            (vec!["a\nb\nc"], 2, 100, "more than 2 lines"),
            (vec!["a\n", "b\nc"], 9, 4, "limit of 4 bytes"),
            (vec!["a\n", longer.as_str()], 9, 1 << 20, "line 2 is over"),
        ] {
            let Failure(problem) = read(&frames, lines_max, bytes_max).await.unwrap_err();
            assert_eq!(problem.kind, Kind::BodyTooLarge);
            assert!(problem.detail.contains(said), "{}", problem.detail);
        }
    }
}
