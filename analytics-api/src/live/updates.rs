//! The latest updates of one scope, for listeners that are at different points of them. Bounded: who is further behind is told the newest
//! one, and how many receipts it has missed.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{BufMut as _, Bytes};
use parking_lot::Mutex;
use tokio::sync::watch;
use warehouse::LogPlace;

use super::event;

/// Updates kept.
const UPDATES_MAX: usize = 64;
/// Bytes of their events and receipts together; the newest is kept whatever it has.
const BYTES_MAX: usize = 256 << 10;

/// What listeners are told at one time.
#[derive(Debug)]
pub(super) struct Update {
    /// The position in the log up to which everything has been sent with it.
    pub(super) to: Arc<LogPlace>,
    /// The same as an event's id.
    pub(super) id: String,
    /// The events that are sent to who has all that came before.
    pub(super) frame: Bytes,
    /// The last of them.
    pub(super) totals: Bytes,
    /// A JSON array of the newest receipts.
    pub(super) receipts: Bytes,
    /// How many are in it.
    pub(super) count: u64,
    /// How many came with this update.
    pub(super) new: u64,
    /// Whether it isn't known what else came or changed.
    pub(super) reload: bool,
}

impl Update {
    fn bytes(&self) -> usize {
        self.frame.len() + self.receipts.len()
    }
}

/// How far a listener has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cursor {
    next: u64,
    receipts: u64,
    reloads: u64,
}

#[derive(Debug)]
struct Kept {
    update: Arc<Update>,
    /// Where a listener is that has it.
    behind: Cursor,
}

/// The updates of a hub.
#[derive(Debug)]
pub(super) struct Updates {
    kept: Mutex<VecDeque<Kept>>,
    /// How many there were.
    count: watch::Sender<u64>,
}

impl Updates {
    pub(super) fn new() -> Self {
        Self {
            kept: Mutex::default(),
            count: watch::Sender::new(0),
        }
    }

    /// Wakes whoever waits for a further update.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }

    pub(super) fn push(&self, update: Update) {
        let mut kept = self.kept.lock();
        let before = kept.back().map_or(
            Cursor {
                next: 0,
                receipts: 0,
                reloads: 0,
            },
            |kept| kept.behind,
        );
        let behind = Cursor {
            next: before.next + 1,
            receipts: before.receipts + update.new,
            reloads: before.reloads + u64::from(update.reload),
        };
        let update = Arc::new(update);
        kept.push_back(Kept { update, behind });
        let bytes: usize = kept.iter().map(|kept| kept.update.bytes()).sum();
        let mut over = bytes.saturating_sub(BYTES_MAX);
        while kept.len() > UPDATES_MAX || over > 0 && kept.len() > 1 {
            let gone = kept.pop_front().map_or(0, |gone| gone.update.bytes());
            over = over.saturating_sub(gone);
        }
        drop(kept);
        self.count.send_replace(behind.next);
    }

    /// The newest, and the cursor behind it.
    pub(super) fn newest(&self) -> Option<(Arc<Update>, Cursor)> {
        let kept = self.kept.lock();
        kept.back().map(|kept| (Arc::clone(&kept.update), kept.behind))
    }

    /// The newest kept update that told up to exactly this place, and whether it is the newest of all.
    pub(super) fn that_told(&self, place: &LogPlace) -> Option<(Cursor, bool)> {
        let kept = self.kept.lock();
        let at = kept.iter().rposition(|kept| *kept.update.to == *place)?;
        Some((kept[at].behind, at + 1 == kept.len()))
    }

    /// Whether everything behind `cursor` is kept.
    pub(super) fn reaches_back_to(&self, cursor: Cursor) -> bool {
        let kept = self.kept.lock();
        kept.front().is_some_and(|kept| kept.behind.next <= cursor.next + 1)
    }

    /// What a listener at `cursor` is sent next, if there is anything.
    pub(super) fn next(&self, cursor: &mut Cursor) -> Option<Bytes> {
        let kept = self.kept.lock();
        let (first, last) = (kept.front()?, kept.back()?);
        if last.behind.next <= cursor.next {
            return None;
        }
        if first.behind.next <= cursor.next + 1 {
            let at = usize::try_from(cursor.next + 1 - first.behind.next).ok()?;
            let kept = kept.get(at)?;
            *cursor = kept.behind;
            return Some(kept.update.frame.clone());
        }
        // It is too far behind.
        let (update, missed) = (&last.update, *cursor);
        *cursor = last.behind;
        let left_out = last.behind.receipts - missed.receipts - update.count;
        metrics::counter!("receipts_live_left_out_total").increment(left_out);
        if last.behind.reloads > missed.reloads {
            let mut frame = event::reload(&update.id).to_vec();
            frame.extend_from_slice(&update.totals);
            return Some(frame.into());
        }
        let mut frame = event::receipts(&update.id, &update.receipts, left_out);
        frame.put_slice(&update.totals);
        Some(frame.freeze())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn update(number: u64, count: u64, new: u64, reload: bool) -> Update {
        Update {
            to: Arc::new(LogPlace {
                epoch: 1,
                next: vec![number],
            }),
            id: number.to_string(),
            frame: Bytes::from(format!("frame {number}")),
            totals: Bytes::from_static(b"totals"),
            receipts: Bytes::from_static(b"[]"),
            count,
            new,
            reload,
        }
    }

    fn text(frame: Option<Bytes>) -> String {
        String::from_utf8(frame.unwrap().to_vec()).unwrap()
    }

    #[test]
    fn who_keeps_up_gets_every_frame_once() {
        let updates = Updates::new();
        updates.push(update(1, 2, 2, false));
        let (_, mut cursor) = updates.newest().unwrap();
        assert_eq!(updates.next(&mut cursor), None);
        for number in 2..20 {
            updates.push(update(number, 1, 1, false));
        }
        for number in 2..20 {
            assert_eq!(text(updates.next(&mut cursor)), format!("frame {number}"));
        }
        assert_eq!(updates.next(&mut cursor), None);
        let place = |number| LogPlace {
            epoch: 1,
            next: vec![number],
        };
        assert_eq!(updates.that_told(&place(19)), Some((cursor, true)));
        let (mut behind, newest) = updates.that_told(&place(17)).unwrap();
        assert!(!newest);
        assert_eq!(text(updates.next(&mut behind)), "frame 18");
        assert_eq!(updates.that_told(&place(99)), None);
    }

    #[test]
    fn who_is_too_slow_is_told_how_many_it_missed_and_memory_is_bounded() {
        let updates = Updates::new();
        updates.push(update(1, 0, 0, false));
        let (_, mut cursor) = updates.newest().unwrap();
        let slow = cursor;
        for number in 2..=200 {
            updates.push(update(number, 3, 5, false));
        }
        assert_eq!(updates.kept.lock().len(), UPDATES_MAX);
        assert!(!updates.reaches_back_to(slow));
        let frame = text(updates.next(&mut cursor));
        // 199 updates of 5, and 3 are in the event.
        assert!(
            frame.starts_with("event: receipts\nid: 200\ndata: {\"leftOut\":992,"),
            "{frame}"
        );
        assert!(frame.ends_with("totals"), "{frame}");
        assert_eq!(updates.next(&mut cursor), None);
        let mut cursor = slow;
        updates.push(update(201, 0, 0, true));
        let frame = text(updates.next(&mut cursor));
        assert!(frame.starts_with("event: reload\nid: 201\n"), "{frame}");
        let large = Update {
            frame: Bytes::from(vec![b'x'; BYTES_MAX / 2]),
            receipts: Bytes::from(vec![b'x'; BYTES_MAX / 2]),
            ..update(202, 0, 0, false)
        };
        updates.push(large);
        updates.push(update(203, 0, 0, false));
        assert_eq!(updates.kept.lock().len(), 1, "a large one makes the older ones go");
    }
}
