//! Rollups that stay exact: hours of publishers, counted ahead.

mod hours;
pub(crate) mod tables;
mod view;

pub use hours::Hours;
pub use view::RollupView;
