//! Ends the process without libchdb's destructors.
//!
//! libchdb's threads outlive its connections. At `exit`, the destructors of its C++ statics destroy
//! what those threads still use: a process that had done all its work ended by SIGSEGV now and
//! then. What was acknowledged is synced, so nothing needs the destructors. Those of statics that
//! exist once the library is loaded come after `end_process`. Statics that are made later, by the
//! first insert for example, register theirs through `ignored`.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

unsafe extern "C" {
    /// glibc: like `atexit`, and tells the status.
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    fn _exit(status: c_int) -> !;
}

extern "C" fn end_process(status: c_int, _: *mut c_void) {
    // SAFETY: it takes any status and doesn't return. Rust's own output was flushed before `exit`
    // was called.
    unsafe { _exit(status) }
}

/// Stands for `__cxa_atexit` (Itanium C++ ABI, 3.3.6.3), and registers nothing.
extern "C" fn ignored(_: *mut c_void, _: *mut c_void, _: *mut c_void) -> c_int {
    0
}

/// The function of libchdb's that goes through here.
pub(super) fn redirected() -> (&'static CStr, *mut c_void) {
    (c"__cxa_atexit", ignored as *mut c_void)
}

/// To be called once the library's initialisers have run: `exit` goes through what was registered
/// backwards.
pub(super) fn skip_destructors() {
    // SAFETY: `end_process` lives as long as the program, and its argument isn't used. A refusal
    // (no memory) leaves exit as it was.
    let _ = unsafe { on_exit(end_process, ptr::null_mut()) };
}
