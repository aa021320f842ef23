//! Makes writes that fail inside libchdb fail its inserts and merges.
//!
//! libchdb isn't ClickHouse in one point: where a `write` fails, for a full disk or a broken one,
//! ClickHouse throws and libchdb 26.7 continues as if it had succeeded
//! (`WriteBufferFromFileDescriptor::nextImpl`). It would acknowledge inserts whose rows are
//! nowhere, and replace good parts by a merged one of empty files. What it does check is the sync
//! at the end of each file, which all our tables require. So its calls of `write`, `fdatasync` and
//! `close` go through here, and a file with a failed write can't be synced.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Descriptors that are distinguished; larger ones share a slot, which costs one insert too many
/// at worst.
const SLOTS: usize = 65_536;
/// Bits of descriptors with a failed write since they were opened.
static FAILED: [AtomicU64; SLOTS / 64] = [const { AtomicU64::new(0) }; SLOTS / 64];
/// `errno` of the last write that failed.
static REASON: AtomicI32 = AtomicI32::new(EIO);

const EINTR: c_int = 4;
const EIO: c_int = 5;
const EAGAIN: c_int = 11;

unsafe extern "C" {
    fn write(descriptor: c_int, bytes: *const c_void, count: usize) -> isize;
    fn fdatasync(descriptor: c_int) -> c_int;
    fn close(descriptor: c_int) -> c_int;
    fn __errno_location() -> *mut c_int;
}

/// The word and the bit of a descriptor.
fn slot(descriptor: c_int) -> (&'static AtomicU64, u64) {
    let slot = usize::try_from(descriptor).unwrap_or_default() % SLOTS;
    (&FAILED[slot / 64], 1 << (slot % 64))
}

unsafe extern "C" fn checked_write(descriptor: c_int, bytes: *const c_void, count: usize) -> isize {
    // SAFETY: the caller's arguments, as they are.
    let written = unsafe { write(descriptor, bytes, count) };
    if written < 0 {
        // SAFETY: the C library's own slot for this thread.
        let reason = unsafe { *__errno_location() };
        if !matches!(reason, EINTR | EAGAIN) {
            REASON.store(reason, Ordering::Relaxed);
            let (word, bit) = slot(descriptor);
            word.fetch_or(bit, Ordering::Release);
        }
    }
    written
}

unsafe extern "C" fn checked_fdatasync(descriptor: c_int) -> c_int {
    let (word, bit) = slot(descriptor);
    if word.load(Ordering::Acquire) & bit != 0 {
        // SAFETY: as above.
        unsafe { *__errno_location() = REASON.load(Ordering::Relaxed) };
        return -1;
    }
    // SAFETY: the caller's argument, as it is.
    unsafe { fdatasync(descriptor) }
}

unsafe extern "C" fn checked_close(descriptor: c_int) -> c_int {
    let (word, bit) = slot(descriptor);
    if word.load(Ordering::Relaxed) & bit != 0 {
        // Before it is closed: the number may be another file's right after.
        word.fetch_and(!bit, Ordering::Release);
    }
    // SAFETY: the caller's argument, as it is.
    unsafe { close(descriptor) }
}

/// The functions of libchdb's that go through here.
pub(super) fn redirected() -> [(&'static CStr, *mut c_void); 3] {
    [
        (c"write", checked_write as *mut c_void),
        (c"fdatasync", checked_fdatasync as *mut c_void),
        (c"close", checked_close as *mut c_void),
    ]
}
