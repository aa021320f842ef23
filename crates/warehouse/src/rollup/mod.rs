//! Rollups that stay exact: hours of publishers, counted ahead.

mod check;
mod erasure;
mod hours;
mod look;
mod mark;
mod pieces;
mod plan;
mod reset;
mod roll;
mod state;
pub(crate) mod tables;
mod tidy;
mod view;

pub use check::OffBucket;
pub use hours::Hours;
pub(crate) use look::Known;
pub use mark::{MarkRow, Touched};
pub use plan::{RollBounds, RollPlan};
pub use roll::{RollStep, Rolled, RollupStanding};
pub use view::RollupView;
