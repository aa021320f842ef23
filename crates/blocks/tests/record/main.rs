//! Records: round trips, rules, damage, and readers and writers that aren't ours.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod damage;
mod python;
mod round_trip;
mod rules;
mod samples;
