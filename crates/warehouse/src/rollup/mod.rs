//! Rollups that stay exact: hours of publishers, counted ahead.

mod hours;
mod mark;
pub(crate) mod tables;
mod view;

pub use hours::Hours;
pub use mark::{MarkRow, Touched};
pub use view::RollupView;
