//! Units of time of the table `usage`, in seconds. Days and half hours are those of UTC.

/// Seconds of a day.
pub(crate) const DAY_S: u32 = 86_400;
/// Seconds of a half hour.
pub(crate) const HALF_HOUR_S: u32 = 1_800;

/// The day of a second since the Unix epoch: its first second.
pub(crate) fn day_of(second: u32) -> u32 {
    second - second % DAY_S
}
