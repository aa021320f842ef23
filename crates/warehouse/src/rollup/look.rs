//! What the tables say of the rollups at one moment: the newest state, the erasures, and the marks beyond the state.

use std::collections::BTreeSet;
use std::sync::Arc;

use clickhouse::Row;
use parking_lot::Mutex;
use serde::Deserialize;
use uuid::Uuid;

use super::hours::Hours;
use super::recent::Basis;
use super::state::{Dirty, Erasing, State, soil};
use super::view::{RollupView, Whose};
use crate::client::Call;
use crate::{CommittedOffset, Warehouse, WarehouseError};

/// How long a state is believed without a successor, in seconds: marks are kept longer.
const STATE_S_MAX: u32 = 2 * 86_400;
/// Marks of a partition that a view goes through: of some ten minutes.
const VIEW_MARKS_MAX: u32 = 5_000;
/// Marks of a partition that a roll goes through.
const ROLL_MARKS_MAX: u32 = 20_000;
/// Marks of all partitions that are gone through.
const MARKS_MAX: u32 = 200_000;
/// What a view is away from rows that retention may let go of, in hours: two machines' clocks, and the day in which a view may be used.
const RETENTION_SLACK: u32 = 25;

/// The state that was read last; clones of a [`Warehouse`] share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known(Arc<Mutex<Option<Arc<State>>>>);

/// A run of records and what it touches.
#[derive(Debug)]
pub(super) struct Mark {
    epoch: u32,
    partition: u32,
    first_offset: u64,
    last_offset: u64,
    touched: Vec<(u32, String)>,
    /// The last hour it touches, also where that isn't among these.
    last_hour: u32,
}

/// An erasure's mark.
#[derive(Debug)]
pub(super) struct ErasureMark {
    pub(super) erasing: Erasing,
    pub(super) ended: bool,
}

/// What was found.
#[derive(Debug)]
pub(super) struct Look {
    /// The greatest version's number, also where its text can't be read; 0 without any.
    pub(super) version: u32,
    /// The state, if it can be believed and goes on from there to the commits.
    pub(super) state: Option<Arc<State>>,
    /// By the warehouse's clock, Unix seconds.
    pub(super) now_s: u32,
    /// When the state was written.
    pub(super) written_s: u32,
    pub(super) erasures: Vec<ErasureMark>,
    marks: Vec<Mark>,
    /// Up to where marks stand without a gap, at most to the commits.
    pub(super) covered: Vec<(u32, u32, u64)>,
    /// Whether that is up to the commits.
    whole: bool,
}

#[derive(Debug, Row, Deserialize)]
struct Found {
    kind: u8,
    a: u32,
    b: u32,
    c: u64,
    d: u64,
    text: String,
    pairs: Vec<(u32, String)>,
    names: Vec<String>,
    parents: Vec<String>,
}

const STATE: u8 = 0;
const ERASURE: u8 = 1;

impl Warehouse {
    /// Which hours of which publishers the rolled rows tell right, for all that is below `committed`: read the commits first. One
    /// question, but where a roll has ended since the last one.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn rollup_view(&self, committed: &[CommittedOffset]) -> Result<RollupView, WarehouseError> {
        let look = self.look(committed, VIEW_MARKS_MAX, true).await?;
        let Some(state) = look.state.as_deref().filter(|_| look.whole) else {
            self.tidy_recent(None);
            return Ok(RollupView::none());
        };
        let erasing = look.erasing(state).map(|erasing| erasing.whose.clone()).collect();
        let floor = self.rollup_floor(look.now_s);
        let basis = look.basis(state, committed, floor);
        self.tidy_recent(Some(&basis));
        let view = state.view(look.touched(), look.last_hour(), erasing, floor);
        Ok(RollupView::of(view, basis))
    }

    /// The first hour whose rows retention surely leaves.
    pub(super) fn rollup_floor(&self, now_s: u32) -> u32 {
        let hours = self.receipts_days_max().saturating_mul(24);
        let floor = u64::from(now_s / 3_600 + RETENTION_SLACK).saturating_sub(hours);
        u32::try_from(floor).unwrap_or(u32::MAX).max(1)
    }

    /// What a roll goes on from.
    pub(super) async fn look_to_roll(&self, committed: &[CommittedOffset]) -> Result<Look, WarehouseError> {
        self.look(committed, ROLL_MARKS_MAX, false).await
    }

    async fn look(
        &self,
        committed: &[CommittedOffset],
        marks_max: u32,
        in_window: bool,
    ) -> Result<Look, WarehouseError> {
        let partitions = u32::try_from(committed.len().max(1)).unwrap_or(u32::MAX);
        let marks_max = marks_max.min(MARKS_MAX / partitions).max(1);
        let mut known = self.rollups_known().0.lock().clone();
        loop {
            let call = question(known.as_deref(), committed, marks_max, in_window);
            let found: Vec<Found> = self.rows("rollup_look", call).await?;
            match Answer::of(found, known, committed, marks_max) {
                Answer::Look(look) => return Ok(look),
                Answer::Newer(state) => known = Some(Arc::new(state)),
            }
            self.rollups_known().0.lock().clone_from(&known);
        }
    }
}

/// One question for everything; marks beyond the state that is known.
fn question(known: Option<&State>, committed: &[CommittedOffset], marks_max: u32, in_window: bool) -> Call {
    let mut beyond: Vec<String> = Vec::new();
    if let Some(state) = known {
        for one in committed {
            let Some(from) = state.accounted(one.epoch, one.partition) else {
                continue;
            };
            beyond.push(format!(
                "(epoch = {} AND partition = {} AND last_offset >= {from})",
                one.epoch, one.partition
            ));
        }
    }
    let beyond = if beyond.is_empty() {
        "0".to_owned()
    } else {
        beyond.join(" OR ")
    };
    let below = known.filter(|_| in_window).map_or(u32::MAX, |state| state.window.1);
    let sql = format!(
        "SELECT toUInt8({STATE}) AS kind, tupleElement(newest, 1) AS a, tupleElement(newest, 2) AS b,
            toUInt64(toUnixTimestamp(now())) AS c, toUInt64(0) AS d,
            if(a = {{known:UInt32}}, '', tupleElement(newest, 3)) AS text, CAST([], 'Array(Tuple(UInt32, String))') AS pairs,
            CAST([], 'Array(String)') AS names, CAST([], 'Array(String)') AS parents
         FROM (SELECT max(state) AS newest FROM rollup_states)
         UNION ALL
         SELECT toUInt8({ERASURE}), toUInt32(ended), toUInt32(toUnixTimestamp(written_at)), toUInt64(0), toUInt64(0),
            toString(erasure), CAST([], 'Array(Tuple(UInt32, String))'), publishers, parents
         FROM rollup_erasures
         UNION ALL
         SELECT toUInt8(2), epoch, partition, first_offset, last_offset,
            toString(arrayMax(arrayPushBack(arrayMap(pair -> pair.1, touched), toUInt32(0)))),
            arrayFilter(pair -> pair.1 < {below}, touched), CAST([], 'Array(String)'), CAST([], 'Array(String)')
         FROM (SELECT epoch, partition, first_offset, last_offset, touched FROM rollup_marks WHERE {beyond}
            ORDER BY epoch, partition, last_offset LIMIT {marks_max} BY epoch, partition)"
    );
    Call::new(sql).with("known", known.map_or(0, |state| state.version))
}

enum Answer {
    Look(Look),
    /// Marks were asked for from another state on.
    Newer(State),
}

impl Answer {
    fn of(found: Vec<Found>, known: Option<Arc<State>>, committed: &[CommittedOffset], marks_max: u32) -> Self {
        let mut look = Look {
            version: 0,
            state: None,
            now_s: 0,
            written_s: 0,
            erasures: Vec::new(),
            marks: Vec::new(),
            covered: Vec::new(),
            whole: false,
        };
        let mut text = String::new();
        for row in found {
            match row.kind {
                STATE => {
                    look.version = row.a;
                    look.written_s = row.b;
                    look.now_s = u32::try_from(row.c).unwrap_or(u32::MAX);
                    text = row.text;
                }
                ERASURE => look.erasures.push(ErasureMark {
                    erasing: Erasing {
                        erasure: row.text.parse().unwrap_or_default(),
                        whose: Whose {
                            publishers: row.names,
                            parents: row.parents,
                        },
                        begun_s: row.b,
                    },
                    ended: row.a != 0,
                }),
                _ => look.marks.push(Mark {
                    epoch: row.a,
                    partition: row.b,
                    first_offset: row.c,
                    last_offset: row.d,
                    touched: row.pairs,
                    last_hour: row.text.parse().unwrap_or(u32::MAX),
                }),
            }
        }
        if look.version == 0 {
            return Self::Look(look);
        }
        let Some(known) = known.filter(|known| known.version == look.version) else {
            return match serde_json::from_str::<State>(&text) {
                Ok(newest) if newest.version == look.version => Self::Newer(newest),
                // Of another program: a roll begins anew.
                _ => Self::Look(look),
            };
        };
        if look.now_s.saturating_sub(look.written_s) <= STATE_S_MAX && look.follow(&known, committed, marks_max) {
            look.state = Some(known);
        }
        Self::Look(look)
    }
}

impl Look {
    /// Finds out how far marks stand without a gap. False where one is missing below the commits.
    fn follow(&mut self, state: &State, committed: &[CommittedOffset], marks_max: u32) -> bool {
        self.whole = true;
        self.covered = state.committed.clone();
        for one in committed {
            let Some(from) = state.accounted(one.epoch, one.partition) else {
                return false;
            };
            let marks = self.marks.iter();
            let ours = marks.filter(|mark| (mark.epoch, mark.partition) == (one.epoch, one.partition));
            let mut runs: Vec<(u64, u64)> = ours.map(|mark| (mark.first_offset, mark.last_offset + 1)).collect();
            let all_read = runs.len() < usize::try_from(marks_max).unwrap_or(usize::MAX);
            runs.sort_unstable();
            let mut end = from;
            for (first, next) in runs {
                if first > end {
                    break;
                }
                end = end.max(next);
            }
            if end < one.next_offset {
                if all_read {
                    return false;
                }
                self.whole = false;
            }
            let to = end.min(one.next_offset).max(from);
            match self.covered.iter_mut().find(|known| known.1 == one.partition) {
                Some(known) => known.2 = to,
                None => self.covered.push((one.epoch, one.partition, to)),
            }
        }
        true
    }

    /// What the marks that were read touch.
    pub(super) fn touched(&self) -> Dirty {
        let mut by_publisher: std::collections::BTreeMap<&str, Vec<(u32, u32)>> = std::collections::BTreeMap::new();
        for (hour, publisher) in self.marks.iter().flat_map(|mark| &mark.touched) {
            by_publisher
                .entry(publisher)
                .or_default()
                .push((*hour, hour.saturating_add(1)));
        }
        let mut dirty = Dirty::new();
        for (publisher, hours) in by_publisher {
            soil(&mut dirty, publisher, &Hours::of_all(hours));
        }
        dirty
    }

    /// The last hour that they touch.
    pub(super) fn last_hour(&self) -> u32 {
        self.marks.iter().map(|mark| mark.last_hour).max().unwrap_or(0)
    }

    /// Erasures that a state doesn't account for.
    pub(super) fn erasing<'a>(&'a self, state: &'a State) -> impl Iterator<Item = &'a Erasing> {
        let marked = self.erasures.iter().map(|mark| &mark.erasing);
        let all = marked.chain(&state.erasing);
        all.filter(|erasing| !state.erased.contains(&erasing.erasure))
    }

    /// What a view of it rests on.
    fn basis(&self, state: &State, committed: &[CommittedOffset], floor: u32) -> Basis {
        let marked = self.erasures.iter().map(|mark| mark.erasing.erasure);
        let open = state.erasing.iter().map(|erasing| erasing.erasure);
        let erasures: BTreeSet<Uuid> = marked.chain(open).chain(state.erased.iter().copied()).collect();
        Basis {
            committed: committed.to_vec(),
            since: state.since,
            erasures: erasures.into_iter().collect(),
            floor,
        }
    }

    /// Whether an erasure's end is marked.
    pub(super) fn has_ended(&self, erasure: Uuid) -> bool {
        let mut marks = self.erasures.iter();
        marks.any(|mark| mark.ended && mark.erasing.erasure == erasure)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Answer, Found, STATE};

    fn found(kind: u8, text: &str) -> Found {
        Found {
            kind,
            a: 0,
            b: 0,
            c: 0,
            d: 9,
            text: text.to_owned(),
            pairs: Vec::new(),
            names: Vec::new(),
            parents: Vec::new(),
        }
    }

    #[test]
    fn the_last_hour_is_that_of_marks_whose_hours_are_left_out_too() {
        let last_hour = |texts: &[&str]| {
            let marks = texts.iter().map(|text| found(2, text));
            let all = marks.chain([found(STATE, "")]).collect();
            match Answer::of(all, None, &[], 10) {
                Answer::Look(look) => look.last_hour(),
                Answer::Newer(state) => panic!("{state:?}"),
            }
        };
        assert_eq!(last_hour(&[]), 0);
        assert_eq!(last_hour(&["30", "7"]), 30);
        assert_eq!(last_hour(&["30", "?"]), u32::MAX, "unbounded");
    }
}
