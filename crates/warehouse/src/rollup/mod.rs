//! Rollups that stay exact: hours of publishers, counted ahead.

mod hours;
mod look;
mod mark;
mod state;
pub(crate) mod tables;
mod view;

pub use hours::Hours;
pub(crate) use look::Known;
pub use mark::{MarkRow, Touched};
pub use view::RollupView;
