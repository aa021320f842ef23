//! A request's body: read into one buffer, bounded in size, time and pace, within the budget of
//! bytes in flight.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::EXPECT;
use http::{HeaderMap, Version};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use service::problem::{Kind, Problem};
use tokio::time::{Instant, timeout_at};

use crate::budget::{BudgetFull, FairBudget, Reservation};
use crate::buffer::SMALL_BYTES_MAX;
use crate::refusal::Refusal;

/// Bytes that are reserved at least once a part of a body has arrived, unless it is shorter.
const FIRST_BYTES: usize = 1_024;

/// A body in memory, with the share of the budget that represents it.
#[derive(Debug)]
pub(crate) struct Held {
    bytes: Vec<u8>,
    reservation: Reservation,
}

impl Held {
    /// Makes an empty body, with room for all that was reserved.
    pub(crate) fn empty(reservation: Reservation) -> Self {
        Self {
            bytes: reservation.budget().buffers().take(reservation.bytes()),
            reservation,
        }
    }

    /// The budget that it is reserved in.
    pub(crate) fn budget(&self) -> &Arc<FairBudget> {
        self.reservation.budget()
    }

    /// Filled by a reader that stops at [`Held::room`].
    pub(crate) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Number of further bytes that the reservation covers.
    pub(crate) fn room(&self) -> usize {
        self.reservation.bytes().saturating_sub(self.bytes.len())
    }

    /// Makes the reservation, and with it the buffer, `bytes` long if that is possible at once.
    pub(crate) fn try_grow(&mut self, bytes: usize) -> bool {
        let grown = self.reservation.try_grow(bytes);
        if grown {
            self.fit_buffer();
        }
        grown
    }

    async fn grow(&mut self, bytes: usize) -> Result<(), BudgetFull> {
        self.reservation.grow(bytes).await?;
        self.fit_buffer();
        Ok(())
    }

    /// Gives back what the body, which is whole, turned out not to need.
    pub(crate) fn settle(&mut self) {
        // A buffer that is mostly empty goes with it; below that, pages never touched cost nothing.
        if self.bytes.capacity() / 2 > self.bytes.len() {
            self.bytes.shrink_to_fit();
        }
        self.reservation.settle(self.bytes.len());
    }

    /// The bytes, and the share of the budget that represents them.
    pub(crate) fn into_parts(self) -> (Bytes, Reservation) {
        let bytes = if self.bytes.capacity() > SMALL_BYTES_MAX {
            Bytes::from_owner(self.reservation.budget().buffers().lend(self.bytes))
        } else {
            Bytes::from(self.bytes)
        };
        (bytes, self.reservation)
    }

    fn fit_buffer(&mut self) {
        let wanted = self.reservation.bytes();
        if wanted > SMALL_BYTES_MAX && self.bytes.capacity() <= SMALL_BYTES_MAX {
            let mut larger = self.reservation.budget().buffers().take(wanted);
            larger.extend_from_slice(&self.bytes);
            self.bytes = larger;
        } else {
            self.bytes.reserve_exact(wanted.saturating_sub(self.bytes.len()));
        }
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Limits of a body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// The most bytes, as received.
    pub(crate) bytes_max: usize,
    /// The whole time for it.
    pub(crate) wait_max: Duration,
    /// The least rate at which it must come after a while.
    pub(crate) bytes_per_s_min: u32,
}

/// A body on its way in.
pub(crate) struct Upload {
    incoming: Incoming,
    whole: bool,
    is_http2: bool,
    /// HTTP/1 has to get rid of an unread body to continue; a client that waits for "100 Continue"
    /// hasn't sent it.
    drains: bool,
}

impl Upload {
    pub(crate) fn new(incoming: Incoming, version: Version, headers: &HeaderMap) -> Self {
        let whole = incoming.is_end_stream();
        let is_http2 = version == Version::HTTP_2;
        let drains = !is_http2 && !headers.contains_key(EXPECT);
        Self {
            incoming,
            whole,
            is_http2,
            drains,
        }
    }

    /// Reads it whole, within the budget and the share that the sender's address may hold.
    pub(crate) async fn read(
        &mut self,
        bounds: Bounds,
        budget: &Arc<FairBudget>,
        address: u128,
    ) -> Result<Held, Refusal> {
        let declared = self.incoming.size_hint().exact();
        let length_max = declared.map_or(bounds.bytes_max, |length| usize::try_from(length).unwrap_or(usize::MAX));
        if length_max > bounds.bytes_max {
            return Err(too_large(bounds.bytes_max));
        }
        let mut growing = Growing {
            held: Held::empty(budget.begin(length_max)),
            declared: declared.is_some(),
            length_max,
            waited: Duration::ZERO,
        };
        if self.whole {
            return Ok(growing.held);
        }
        // Most bodies come with their head: no clock, no timer and no account of their sender for
        // them.
        let mut ready = poll_fn(|context| Poll::Ready(Pin::new(&mut self.incoming).poll_frame(context))).await;
        let mut pace: Option<Pace> = None;
        loop {
            let frame = match ready {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    growing.charge(address).await?;
                    let pace = pace.get_or_insert_with(|| Pace::new(bounds));
                    match timeout_at(pace.next_look + growing.waited, self.incoming.frame()).await {
                        Ok(frame) => frame,
                        Err(_) => {
                            self.keep_pace(pace.look(&growing))?;
                            continue;
                        }
                    }
                }
            };
            ready = Poll::Pending;
            let frame = match frame {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Err(broken(error)),
                // Hyper takes RST_STREAM with NO_ERROR for an end.
                None if self.is_http2 && !self.incoming.is_end_stream() => return Err(broken("the stream was reset")),
                None => break,
            };
            let ended = self.incoming.is_end_stream();
            growing.take(frame, ended).await?;
            if ended {
                break;
            }
            if let Some(pace) = &mut pace {
                self.keep_pace(pace.look(&growing))?;
            }
        }
        self.whole = true;
        let mut held = growing.held;
        held.settle();
        Ok(held)
    }

    /// A body that was too slow isn't waited for again: the connection ends with the answer.
    fn keep_pace(&mut self, pace: Result<(), Refusal>) -> Result<(), Refusal> {
        self.drains &= pace.is_ok();
        pace
    }

    /// Lets go of it. What is still to come of an HTTP/1 body is read and thrown away, within
    /// bounds, beside the answer: a connection closed with bytes unread is reset, and the client
    /// would never see why it was refused.
    pub(crate) fn discard(self, bounds: Bounds) {
        if self.whole || !self.drains {
            return;
        }
        let mut incoming = self.incoming;
        tokio::spawn(async move {
            let drain = async {
                let mut left = bounds.bytes_max;
                while let Some(Ok(frame)) = incoming.frame().await {
                    let length = frame.data_ref().map_or(0, Bytes::len);
                    match left.checked_sub(length) {
                        Some(rest) => left = rest,
                        None => break,
                    }
                }
            };
            let _ = tokio::time::timeout(bounds.wait_max, drain).await;
        });
    }
}

/// A body that grows, and with it what is reserved for it.
struct Growing {
    held: Held,
    /// Whether `length_max` is its length.
    declared: bool,
    length_max: usize,
    /// Time that it was waiting for the budget, which isn't its sender's doing.
    waited: Duration,
}

impl Growing {
    /// Charges its sender's address, now that it turned out not to have come with its head.
    async fn charge(&mut self, address: u128) -> Result<(), Refusal> {
        let reservation = &mut self.held.reservation;
        if !reservation.is_charged() {
            reservation.charge(address)?;
            self.reserve(self.held.reservation.bytes()).await?;
        }
        Ok(())
    }

    /// Adds what came, which was all if `ended`.
    async fn take(&mut self, frame: Frame<Bytes>, ended: bool) -> Result<(), Refusal> {
        // Trailers say nothing here; hyper bounds them like a head.
        let Ok(data) = frame.into_data() else { return Ok(()) };
        let length = self.held.bytes.len() + data.len();
        if length > self.length_max {
            return Err(too_large(self.length_max));
        }
        if data.len() > self.held.room() {
            self.reserve(if ended { length } else { self.worth(length) }).await?;
        }
        self.held.bytes.extend_from_slice(&data);
        Ok(())
    }

    /// Bytes to reserve when `length` bytes have arrived.
    fn worth(&self, length: usize) -> usize {
        if length <= SMALL_BYTES_MAX {
            length
                .saturating_mul(2)
                .max(FIRST_BYTES)
                .min(self.length_max.min(SMALL_BYTES_MAX))
        } else if self.declared {
            self.length_max
        } else {
            length.saturating_mul(2).min(self.length_max)
        }
    }

    async fn reserve(&mut self, bytes: usize) -> Result<(), Refusal> {
        if !self.held.try_grow(bytes) {
            let begun = Instant::now();
            self.held.grow(bytes).await?;
            self.waited += begun.elapsed();
        }
        Ok(())
    }
}

/// The time of a body. From a sixth of it on, a body must have come at the least rate; and one that
/// holds much of the budget must, after a twelfth, come at the pace that ends in time. Otherwise a
/// few clients that begin bodies and don't continue would keep everyone else's out for the whole
/// wait.
struct Pace {
    begun: Instant,
    bounds: Bounds,
    next_look: Instant,
}

impl Pace {
    fn new(bounds: Bounds) -> Self {
        let begun = Instant::now();
        Self {
            begun,
            bounds,
            next_look: begun + bounds.wait_max / 12,
        }
    }

    fn look(&mut self, growing: &Growing) -> Result<(), Refusal> {
        let now = Instant::now();
        if now < self.next_look + growing.waited {
            return Ok(());
        }
        let Bounds {
            wait_max,
            bytes_per_s_min,
            ..
        } = self.bounds;
        let spent = now.saturating_duration_since(self.begun + growing.waited);
        let held = &growing.held;
        let (arrived, reserved) = (held.bytes.len() as f64, held.reservation.bytes());
        let trickles = spent >= wait_max / 6 && arrived < spent.as_secs_f64() * f64::from(bytes_per_s_min);
        let grace = wait_max / 12;
        let share = spent.saturating_sub(grace).as_secs_f64() / (wait_max - grace).as_secs_f64();
        let late = reserved > SMALL_BYTES_MAX && arrived < reserved as f64 * share;
        if spent >= wait_max || trickles || late {
            let allowed = wait_max.as_millis();
            let detail = format!(
                "a body must be whole within {allowed} ms, come at {bytes_per_s_min} bytes/s or more, and evenly if it is large"
            );
            return Err(Problem::new(Kind::RequestTimeout, detail).into());
        }
        self.next_look = self.begun + (spent + wait_max / 12).min(wait_max);
        Ok(())
    }
}

fn too_large(bytes_max: usize) -> Refusal {
    Problem::new(
        Kind::BodyTooLarge,
        format!("at most {bytes_max} bytes are allowed here"),
    )
    .into()
}

fn broken(error: impl std::fmt::Display) -> Refusal {
    Problem::new(
        Kind::BadRequest,
        format!("the body ended early or is wrongly framed: {error}"),
    )
    .into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::convert::Infallible;

    use http::{Request, Response};
    use http_body_util::Empty;
    use hyper::server::conn::http2;
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::io::AsyncWriteExt;
    use tokio::sync::mpsc;

    use super::*;
    use crate::config::GatewayConfig;

    /// A frame of stream 1.
    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, 1], payload].concat()
    }

    /// Reads the body that these frames make: its length, or the code of the refusal.
    async fn read(frames: &[Vec<u8>]) -> Result<usize, &'static str> {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        // Literal fields: :method POST, :scheme http, :path / from the static table (RFC 7541, A).
        let head = frame(1, 0x4, &[0x83, 0x86, 0x84]);
        client
            .write_all(&[preface, &head[..], &frames.concat()].concat())
            .await
            .unwrap();
        let (done, mut outcome) = mpsc::unbounded_channel();
        let service = service_fn(move |request: Request<Incoming>| {
            let done = done.clone();
            async move {
                let (parts, incoming) = request.into_parts();
                let mut upload = Upload::new(incoming, parts.version, &parts.headers);
                let bounds = Bounds {
                    bytes_max: 100,
                    wait_max: Duration::from_secs(60),
                    bytes_per_s_min: 0,
                };
                let budget = Arc::new(FairBudget::new(&GatewayConfig::default()));
                let held = upload.read(bounds, &budget, 1).await;
                let outcome = held.map(|held| held.as_ref().len());
                done.send(outcome.map_err(|refusal| refusal.kind().code())).unwrap();
                Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
            }
        });
        let connection = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(server), service);
        let serving = tokio::spawn(connection);
        let outcome = outcome.recv().await.unwrap();
        serving.abort();
        outcome
    }

    #[tokio::test]
    async fn a_stream_that_is_reset_without_an_error_has_no_whole_body() {
        let (data, last) = (frame(0, 0, b"{}"), frame(0, 0x1, b"{}"));
        let reset = frame(3, 0, &[0; 4]);
        assert_eq!(read(&[data.clone(), last.clone()]).await, Ok(4));
        assert_eq!(read(&[data.clone(), reset.clone()]).await, Err("bad_request"));
        assert_eq!(read(&[data, last, reset]).await, Ok(4), "it had ended before");
    }
}
