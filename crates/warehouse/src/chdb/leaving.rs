//! Ends the process without libchdb's destructors.
//!
//! Its threads outlive its connections, and at `exit` the destructors of its C++ statics take away what they still use: now and then
//! a process that had done all its work ended by SIGSEGV. What was acknowledged is synced, so nothing waits for those destructors.

use std::ffi::{c_int, c_void};
use std::ptr;

unsafe extern "C" {
    /// glibc: like `atexit`, and tells the status.
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    fn _exit(status: c_int) -> !;
}

extern "C" fn leave(status: c_int, _: *mut c_void) {
    // SAFETY: it takes any status and doesn't return. Rust's own output was flushed before `exit` was called.
    unsafe { _exit(status) }
}

/// From now on. To be called once the library's initialisers have run: `exit` goes through what was registered backwards, and theirs
/// must be behind.
pub(super) fn skip_destructors() {
    // SAFETY: `leave` lives as long as the program, and its argument isn't used. A refusal (no memory) leaves exit as it was.
    let _ = unsafe { on_exit(leave, ptr::null_mut()) };
}
