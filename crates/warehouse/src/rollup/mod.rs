//! Rollups that stay exact: hours of publishers, counted ahead.
//!
//! - `view`: which hours of whom may be read from rolled rows; `look`: what it is made of; `buckets`: which rows these are; `kept`, `joined`,
//!   `sums`: what was read of them; `recent`: the rest's receipts; `tails`: their sums; `turns`: who reads
//! - `mark`: what a block touches, written with it; `erasure`: what an erasure touches
//! - `plan`, `pieces`, `roll`: hours made from `receipts FINAL`; `state`: what makes them count
//! - `tidy`, `reset`: what doesn't count any more; `check`: rolled rows held against the receipts
//! - `tables`: the tables; `hours`: sets of hours
//!
//! **Days.** Projections sum the rolled rows up by slot and by day. A day of a publisher is read as such where one roll made all its hours,
//! which nobody has to write down: the buckets say it, and a roll that makes one of them anew ends it. So backfills take whole days, and
//! when there is nothing else to do, a roll makes a day anew that several made, two days after its end, when few receipts still come.
//!
//! **Kept sums.** Rows of a roll that counts are all there and never change, until nobody's view means them any more. So what was read of an
//! hour or a day of one roll holds for every view that means it, in any process; the sums are kept by (publisher, time, roll), and a view says
//! which of them are meant. Nothing has to be dropped: what is made anew has another number.
//!
//! **Why no number is wrong.** A state says: of the hours in its window, those that aren't dirty are told right for all below
//! its commits. A view adds as dirty what the marks beyond those commits touch, and is taken only if marks stand without a
//! gap up to the commits that were read before; everything else is read from `receipts FINAL`. A mark stands before its
//! block is committed, and a roll reads the commits first, then the marks, then the receipts: what it makes holds all below
//! its commits, and what it doesn't make stays dirty if anything below them touched it.
//!
//! **Where receipts end.** Each roll looks for the first and the last receipt, after it has read commits and marks; beyond its commits, marks
//! tell of others. So a view knows between which hours all that is committed lies, and a range without ends is that.
//!
//! - *A crash anywhere in a roll*: rows and buckets of a version without a state don't count, as a state passes over all versions
//!   between the one that it builds on and its own. A number is never used twice.
//! - *Two rolls at once, one of them stalled for any time*: each state builds on one earlier state and skips what it doesn't build on,
//!   whatever stands in the tables by then; the greatest version decides, and a state is only inserted behind the one it builds on.
//!   Superseded rows are deleted after a day, when no roll that builds on an older state is under way any more.
//! - *A block written twice, by another verifier, cut otherwise*: its marks unite. *A verifier of before, without marks*; *lost
//!   marks*; *another life of the log*: a gap, so nothing is believed, and the roller begins anew, with a state before whose version
//!   nothing counts. The same where no state was written for two days: marks are kept for three.
//! - *Erasures* change receipts without a record, and mark their publishers before and after; see `erasure`. Rows are deleted once nobody
//!   asks with a view of before the mark any more.
//! - *Retention* lets go of receipts a whole part at a time: hours that old are never in a view's window.
//! - *`receipts repair`, lost tables, parts set aside*: the states are forgotten first, by one above all others that can't be read: rows stay
//!   for who is asking still, and a roll under way doesn't count. A part of `receipts` itself that is lost differs from
//!   what was rolled until the repair; answers say `incomplete` as ever.

mod buckets;
mod check;
mod erasure;
mod hours;
mod joined;
mod kept;
mod look;
mod mark;
mod pieces;
mod plan;
mod recent;
mod reset;
mod roll;
mod state;
mod sums;
pub(crate) mod tables;
mod tails;
mod tidy;
mod turns;
mod view;

pub(crate) use buckets::{KnownBuckets, Meant, OfScope};
pub use check::OffBucket;
pub use hours::Hours;
pub(crate) use kept::{KnownSums, Sums, Unit};
pub(crate) use look::Known;
pub(crate) use mark::hour_of;
pub use mark::{MarkRow, Touched};
pub use plan::{CleanFrom, RollBounds, RollPlan};
pub(crate) use recent::{KnownRecent, Recent};
pub use roll::{RollStep, Rolled, RollupStanding};
pub(crate) use sums::{ClientSum, EntrySum, ModelSum, SlotSum, Sum, TailSum};
pub use view::RollupView;
