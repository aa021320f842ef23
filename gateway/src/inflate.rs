//! Undoing a content encoding, with the decoded size bounded while inflating.

use std::io::{self, Read};

use flate2::bufread::GzDecoder;
use service::cpu::CpuPool;
use service::problem::{Kind, Problem};

use crate::body::Held;
use crate::buffer::SMALL_BYTES_MAX;
use crate::encoding::ContentEncoding;
use crate::refusal::{Refusal, overloaded};

/// A compressed receipt of up to this many bytes, which can't be more than [`SMALL_BYTES_MAX`]
/// decoded, is inflated on the worker: some 10 us for an honest one and 200 us for the worst, where
/// the way to the pool and back costs 10 us and a queue.
const INLINE_BYTES_MAX: usize = 4 * 1024;

/// RFC 9659 lets an HTTP sender use a window of up to 8 MiB; one frame's header could request 2
/// GiB.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Nobody who compresses a body makes more than a few; millions of empty ones would keep a thread
/// busy for a second.
const PIECES_MAX: usize = 1_024;

/// Usual compression ratio of receipts; a wrong guess costs a reallocation, or gives the rest back.
const RATIO_GUESS: usize = 4;

/// Decodes `body` into at most `bytes_max` bytes.
pub(crate) async fn inflate(
    encoding: ContentEncoding,
    body: Held,
    bytes_max: usize,
    cpu: &CpuPool,
) -> Result<Held, Refusal> {
    if encoding == ContentEncoding::Identity {
        return Ok(body);
    }
    let compressed = body.as_ref().len();
    let guess = compressed.saturating_mul(RATIO_GUESS).min(bytes_max).max(1);
    let decoded = Held::empty(body.budget().reserve(guess).await?);
    if compressed <= INLINE_BYTES_MAX && bytes_max <= SMALL_BYTES_MAX {
        return decode(encoding, &body, decoded, bytes_max);
    }
    cpu.run(move || decode(encoding, &body, decoded, bytes_max)).await?
}

fn decode(encoding: ContentEncoding, body: &Held, decoded: Held, bytes_max: usize) -> Result<Held, Refusal> {
    match encoding {
        ContentEncoding::Identity => Ok(decoded),
        ContentEncoding::Gzip | ContentEncoding::Zstd => {
            read_all(MemberDecoders::of(encoding, body.as_ref()), decoded, bytes_max)
        }
    }
}

/// The gzip members (RFC 1952, 2.2) or zstd frames (RFC 8878, 3) of a body, one behind the other.
struct MemberDecoders<'a> {
    encoding: ContentEncoding,
    rest: &'a [u8],
    open: Option<MemberDecoder<'a>>,
    count: usize,
}

/// Decoder of one gzip member or zstd frame.
enum MemberDecoder<'a> {
    Gzip(Box<GzDecoder<&'a [u8]>>),
    Zstd(zstd::stream::read::Decoder<'static, &'a [u8]>),
}

impl<'a> MemberDecoders<'a> {
    fn of(encoding: ContentEncoding, compressed: &'a [u8]) -> Self {
        Self {
            encoding,
            rest: compressed,
            open: None,
            count: 0,
        }
    }
}

impl<'a> MemberDecoder<'a> {
    fn begin(encoding: ContentEncoding, compressed: &'a [u8]) -> io::Result<Self> {
        if encoding == ContentEncoding::Gzip {
            return Ok(Self::Gzip(Box::new(GzDecoder::new(compressed))));
        }
        let mut frame = zstd::stream::read::Decoder::with_buffer(compressed)?.single_frame();
        frame.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
        Ok(Self::Zstd(frame))
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Gzip(member) => member.read(into),
            Self::Zstd(frame) => frame.read(into),
        }
    }

    /// Bytes that follow it.
    fn rest(self) -> &'a [u8] {
        match self {
            Self::Gzip(member) => member.into_inner(),
            Self::Zstd(frame) => frame.finish(),
        }
    }
}

impl Read for MemberDecoders<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            let mut piece = match self.open.take() {
                Some(piece) => piece,
                None if self.rest.is_empty() && self.count > 0 => return Ok(0),
                None if self.count == PIECES_MAX => {
                    return Err(io::Error::other(format!(
                        "it has more than {PIECES_MAX} members or frames"
                    )));
                }
                None => {
                    self.count += 1;
                    MemberDecoder::begin(self.encoding, self.rest)?
                }
            };
            let read = piece.read(into)?;
            if read > 0 {
                self.open = Some(piece);
                return Ok(read);
            }
            self.rest = piece.rest();
        }
    }
}

fn read_all(mut reader: impl Read, mut decoded: Held, bytes_max: usize) -> Result<Held, Refusal> {
    loop {
        let room = decoded.room();
        let read = (&mut reader).take(room as u64).read_to_end(decoded.bytes_mut());
        if read.map_err(|error| corrupt(&error))? < room {
            break;
        }
        let mut next = [0];
        if reader.read(&mut next).map_err(|error| corrupt(&error))? == 0 {
            break;
        }
        let length = decoded.as_ref().len();
        if length >= bytes_max {
            return Err(too_large(bytes_max));
        }
        // No waiting on a thread of the pool: who doesn't fit now tries again later.
        if !decoded.try_grow(length.saturating_mul(2).clamp(length + 1, bytes_max)) {
            return Err(overloaded());
        }
        decoded.bytes_mut().push(next[0]);
    }
    decoded.settle();
    Ok(decoded)
}

fn corrupt(error: &io::Error) -> Refusal {
    Problem::new(
        Kind::InvalidEncoding,
        format!("the body can't be decoded as Content-Encoding says: {error}"),
    )
    .into()
}

fn too_large(bytes_max: usize) -> Refusal {
    Problem::new(
        Kind::DecodedBodyTooLarge,
        format!("at most {bytes_max} bytes are allowed after decoding"),
    )
    .into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::io::Write;
    use std::sync::Arc;

    use super::*;
    use crate::budget::FairBudget;
    use crate::config::GatewayConfig;

    const MIB: usize = 1 << 20;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd_of(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 3).unwrap()
    }

    struct Bench {
        budget: Arc<FairBudget>,
        cpu: CpuPool,
    }

    impl Bench {
        fn new(inflight_bytes_max: usize) -> Self {
            Self {
                budget: Arc::new(FairBudget::new(&GatewayConfig {
                    inflight_bytes_max,
                    inflight_wait_ms_max: 0,
                    ..GatewayConfig::default()
                })),
                cpu: CpuPool::new("inflate-test", 1, 4).unwrap(),
            }
        }

        async fn inflate(&self, encoding: ContentEncoding, bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, Kind> {
            let mut held = Held::empty(self.budget.reserve(bytes.len()).await.unwrap());
            held.bytes_mut().extend_from_slice(bytes);
            let decoded = inflate(encoding, held, bytes_max, &self.cpu).await;
            let answer = decoded.map(|held| {
                assert_eq!(
                    self.budget.bytes(),
                    held.as_ref().len(),
                    "what is held is what is reserved"
                );
                held.as_ref().to_vec()
            });
            answer.map_err(|refusal| refusal.kind())
        }
    }

    #[tokio::test]
    async fn both_encodings_are_undone_inline_and_on_the_pool() {
        let bench = Bench::new(64 * MIB);
        let texts = [
            b"{}".to_vec(),
            b"x".repeat(60_000),
            (0..3_000_000u32).map(|n| n.wrapping_mul(n).to_le_bytes()[1]).collect(),
        ];
        for text in texts {
            let max = if text.len() < SMALL_BYTES_MAX {
                SMALL_BYTES_MAX
            } else {
                8 * MIB
            };
            assert!(bench.inflate(ContentEncoding::Gzip, &gzip(&text), max).await == Ok(text.clone()));
            assert!(bench.inflate(ContentEncoding::Zstd, &zstd_of(&text), max).await == Ok(text.clone()));
        }
        assert_eq!(bench.budget.bytes(), 0);
    }

    #[tokio::test]
    async fn members_and_frames_may_follow_each_other_and_nothing_else() {
        let bench = Bench::new(64 * MIB);
        let (one, two) = (b"one".as_slice(), b"two".as_slice());
        let gzips = [gzip(one), gzip(two)].concat();
        assert_eq!(
            bench.inflate(ContentEncoding::Gzip, &gzips, 100).await.unwrap(),
            b"onetwo"
        );
        let frames = [zstd_of(one), zstd_of(two)].concat();
        assert_eq!(
            bench.inflate(ContentEncoding::Zstd, &frames, 100).await.unwrap(),
            b"onetwo"
        );
        for garbage in [b"x".as_slice(), b"\0\0\0\0", b"some longer garbage after the end"] {
            let gzipped = [gzip(one), garbage.to_vec()].concat();
            assert_eq!(
                bench.inflate(ContentEncoding::Gzip, &gzipped, 100).await,
                Err(Kind::InvalidEncoding),
                "{garbage:?}"
            );
            let framed = [zstd_of(one), garbage.to_vec()].concat();
            assert_eq!(
                bench.inflate(ContentEncoding::Zstd, &framed, 100).await,
                Err(Kind::InvalidEncoding),
                "{garbage:?}"
            );
        }
    }

    #[tokio::test]
    async fn members_and_frames_are_counted() {
        let bench = Bench::new(64 * MIB);
        for (encoding, empty, last) in [
            (ContentEncoding::Gzip, gzip(b""), gzip(b"end")),
            (ContentEncoding::Zstd, zstd_of(b""), zstd_of(b"end")),
        ] {
            let most = [empty.repeat(PIECES_MAX - 1), last.clone()].concat();
            assert_eq!(bench.inflate(encoding, &most, 100).await.unwrap(), b"end");
            let more = [empty.repeat(PIECES_MAX), last].concat();
            assert_eq!(bench.inflate(encoding, &more, 100).await, Err(Kind::InvalidEncoding));
        }
    }

    #[tokio::test]
    async fn damage_is_found() {
        let bench = Bench::new(64 * MIB);
        let text = b"some text that is long enough to be compressed, and long enough to be compressed".as_slice();
        for (encoding, whole) in [
            (ContentEncoding::Gzip, gzip(text)),
            (ContentEncoding::Zstd, zstd_of(text)),
        ] {
            for end in 1..whole.len() {
                let cut = bench.inflate(encoding, &whole[..end], 1_000).await;
                assert_eq!(cut, Err(Kind::InvalidEncoding), "{encoding:?} cut at {end}");
            }
            assert_eq!(
                bench.inflate(encoding, b"{\"no\":1}", 1_000).await,
                Err(Kind::InvalidEncoding)
            );
        }
        let mut wrong_sum = gzip(text);
        let at = wrong_sum.len() - 8;
        wrong_sum[at] ^= 1;
        assert_eq!(
            bench.inflate(ContentEncoding::Gzip, &wrong_sum, 1_000).await,
            Err(Kind::InvalidEncoding)
        );
    }

    #[tokio::test]
    async fn the_decoded_size_is_exact_at_the_edge() {
        let bench = Bench::new(64 * MIB);
        for (length, allowed) in [(99, true), (100, true), (101, false), (1_000_000, false)] {
            let text = b"a".repeat(length);
            for (encoding, body) in [
                (ContentEncoding::Gzip, gzip(&text)),
                (ContentEncoding::Zstd, zstd_of(&text)),
            ] {
                let got = bench.inflate(encoding, &body, 100).await;
                assert_eq!(
                    got.map(|text| text.len()),
                    if allowed {
                        Ok(length)
                    } else {
                        Err(Kind::DecodedBodyTooLarge)
                    }
                );
            }
        }
    }

    #[tokio::test]
    async fn a_bomb_takes_no_more_than_the_limit() {
        let bench = Bench::new(64 * MIB);
        let zeros = vec![0; 64 * MIB];
        for (encoding, body) in [
            (ContentEncoding::Gzip, gzip(&zeros)),
            (ContentEncoding::Zstd, zstd_of(&zeros)),
        ] {
            assert!(body.len() < MIB);
            assert_eq!(
                bench.inflate(encoding, &body, 8 * MIB).await,
                Err(Kind::DecodedBodyTooLarge)
            );
            assert_eq!(bench.budget.bytes(), 0);
        }
    }

    #[tokio::test]
    async fn a_window_over_the_limit_is_refused() {
        let bench = Bench::new(64 * MIB);
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(27).unwrap();
        // Without a known size the frame's header carries the window.
        encoder.write_all(b"{}").unwrap();
        let body = encoder.finish().unwrap();
        assert_eq!(
            bench.inflate(ContentEncoding::Zstd, &body, 1_000).await,
            Err(Kind::InvalidEncoding)
        );
    }

    #[tokio::test]
    async fn a_full_budget_refuses_to_grow() {
        let bench = Bench::new(2 * MIB);
        let zeros = gzip(&vec![0; 4 * MIB]);
        assert_eq!(
            bench.inflate(ContentEncoding::Gzip, &zeros, 8 * MIB).await,
            Err(Kind::Overloaded)
        );
        assert_eq!(bench.budget.bytes(), 0);
    }
}
