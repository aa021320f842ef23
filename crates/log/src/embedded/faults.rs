//! Faults that tests switch on: what no test machine's disk does on demand.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
};

/// Operations of the writing thread that fail now.
#[derive(Debug, Default)]
pub(super) struct InjectedFaults {
    /// Half of the bytes are written, then EIO.
    pub(super) write: AtomicBool,
    /// Everything is written, the sync fails.
    pub(super) sync: AtomicBool,
    /// No new segment can be made.
    pub(super) roll: AtomicBool,
}

impl InjectedFaults {
    pub(super) fn check(fault: &AtomicBool) -> io::Result<()> {
        if fault.load(Ordering::SeqCst) {
            Err(io::Error::from_raw_os_error(5))
        } else {
            Ok(())
        }
    }
}
