//! A request's body: read into one buffer, bounded in size, time and pace, within the budget of bytes in flight.

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

use crate::admission::{Admission, Reservation, SMALL_BYTES_MAX};
use crate::answer::{Refusal, overloaded};

/// A body in memory, with the share of the budget that stands for it.
#[derive(Debug)]
pub(crate) struct Held {
    bytes: Vec<u8>,
    reservation: Reservation,
}

impl Held {
    /// Nothing yet, with room for all that was reserved.
    pub(crate) fn empty(reservation: Reservation) -> Self {
        Self {
            bytes: reservation.admission().buffers().take(reservation.bytes()),
            reservation,
        }
    }

    pub(crate) fn admission(&self) -> &Arc<Admission> {
        self.reservation.admission()
    }

    /// Filled by a reader that stops at [`Held::room`].
    pub(crate) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// How many more bytes the reservation covers.
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

    /// Gives back what the body turned out not to need.
    pub(crate) fn settle(&mut self) {
        // A buffer that is mostly empty goes with it; below that, pages never touched cost nothing.
        if self.bytes.capacity() / 2 > self.bytes.len() {
            self.bytes.shrink_to_fit();
        }
        self.reservation.shrink(self.bytes.len());
    }

    /// The bytes, and the share of the budget that stands for them.
    pub(crate) fn into_parts(self) -> (Bytes, Reservation) {
        let bytes = if self.bytes.capacity() > SMALL_BYTES_MAX {
            Bytes::from_owner(self.reservation.admission().buffers().lend(self.bytes))
        } else {
            Bytes::from(self.bytes)
        };
        (bytes, self.reservation)
    }

    async fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.reservation.grow(bytes).await.map_err(|_| overloaded())?;
        self.fit_buffer();
        Ok(())
    }

    fn fit_buffer(&mut self) {
        self.bytes
            .reserve_exact(self.reservation.bytes().saturating_sub(self.bytes.len()));
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// How a body may come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// The most bytes, as received.
    pub(crate) bytes_max: usize,
    /// The whole time for it.
    pub(crate) wait_max: Duration,
}

/// A body on its way in.
pub(crate) struct Upload {
    incoming: Incoming,
    whole: bool,
    /// HTTP/1 has to get rid of an unread body to go on; a client that waits for "100 Continue" hasn't sent it.
    drains: bool,
}

impl Upload {
    pub(crate) fn new(incoming: Incoming, version: Version, headers: &HeaderMap) -> Self {
        let whole = incoming.is_end_stream();
        let drains = version < Version::HTTP_2 && !headers.contains_key(EXPECT);
        Self {
            incoming,
            whole,
            drains,
        }
    }

    /// Reads it whole.
    pub(crate) async fn read(&mut self, bounds: Bounds, admission: &Arc<Admission>) -> Result<Held, Refusal> {
        let declared = self.incoming.size_hint().exact();
        let reserve = match declared {
            Some(length) => usize::try_from(length).unwrap_or(usize::MAX),
            None => SMALL_BYTES_MAX.min(bounds.bytes_max),
        };
        if reserve > bounds.bytes_max {
            return Err(too_large(bounds.bytes_max));
        }
        let mut held = Held::empty(admission.reserve(reserve).await.map_err(|_| overloaded())?);
        if self.whole {
            return Ok(held);
        }
        // Most bodies come with their head: no clock and no timer for them.
        let mut ready = poll_fn(|context| Poll::Ready(Pin::new(&mut self.incoming).poll_frame(context))).await;
        let mut pace: Option<Pace> = None;
        loop {
            let frame = match ready {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    let pace = pace.get_or_insert_with(|| Pace::new(bounds.wait_max));
                    match timeout_at(pace.next_look, self.incoming.frame()).await {
                        Ok(frame) => frame,
                        Err(_) => {
                            self.keep_pace(pace.look(&held))?;
                            continue;
                        }
                    }
                }
            };
            ready = Poll::Pending;
            match frame {
                Some(Ok(frame)) => take(&mut held, frame, bounds).await?,
                Some(Err(error)) => return Err(broken(&error)),
                None => break,
            }
            if self.incoming.is_end_stream() {
                break;
            }
            if let Some(pace) = &mut pace {
                self.keep_pace(pace.look(&held))?;
            }
        }
        self.whole = true;
        if declared.is_none() {
            held.settle();
        }
        Ok(held)
    }

    /// One that was too slow isn't waited for again: the connection ends with the answer.
    fn keep_pace(&mut self, kept: Result<(), Refusal>) -> Result<(), Refusal> {
        self.drains &= kept.is_ok();
        kept
    }

    /// Lets go of it. What is still to come of an HTTP/1 body is read and thrown away, within bounds, beside the answer: a
    /// connection closed with bytes unread is reset, and the client would never see why it was refused.
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

async fn take(held: &mut Held, frame: Frame<Bytes>, bounds: Bounds) -> Result<(), Refusal> {
    // Trailers say nothing here; hyper bounds them like a head.
    let Ok(data) = frame.into_data() else { return Ok(()) };
    let length = held.bytes.len() + data.len();
    if length > bounds.bytes_max {
        return Err(too_large(bounds.bytes_max));
    }
    if data.len() > held.room() {
        let doubled = held.reservation.bytes().saturating_mul(2);
        held.grow(doubled.clamp(length, bounds.bytes_max)).await?;
    }
    held.bytes.extend_from_slice(&data);
    Ok(())
}

/// The time of a body. One that holds much of the budget must also come at the pace that ends in time, after a sixth of it:
/// otherwise a few clients that announce batches and send nothing would keep everyone else's out for the whole wait.
struct Pace {
    begun: Instant,
    wait_max: Duration,
    next_look: Instant,
}

impl Pace {
    fn new(wait_max: Duration) -> Self {
        let begun = Instant::now();
        Self {
            begun,
            wait_max,
            next_look: begun + wait_max / 6,
        }
    }

    fn look(&mut self, held: &Held) -> Result<(), Refusal> {
        let now = Instant::now();
        if now < self.next_look {
            return Ok(());
        }
        let spent = now - self.begun;
        let reserved = held.reservation.bytes();
        let grace = self.wait_max / 6;
        let share = (spent - grace).as_secs_f64() / (self.wait_max - grace).as_secs_f64();
        let late = reserved > SMALL_BYTES_MAX && (held.bytes.len() as f64) < reserved as f64 * share;
        if spent >= self.wait_max || late {
            let allowed = self.wait_max.as_millis();
            let detail = format!("a body must be whole within {allowed} ms, and a large one must come evenly");
            return Err(Problem::new(Kind::RequestTimeout, detail).into());
        }
        self.next_look = (now + self.wait_max / 12).min(self.begun + self.wait_max);
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

fn broken(error: &hyper::Error) -> Refusal {
    Problem::new(
        Kind::BadRequest,
        format!("the body ended early or is wrongly framed: {error}"),
    )
    .into()
}
