//! Makes writes that fail inside libchdb fail its inserts and merges.
//!
//! libchdb isn't ClickHouse in one point: where a `write` fails, for a full disk or a broken one, ClickHouse throws and
//! libchdb 26.7 goes on as if it had succeeded (`WriteBufferFromFileDescriptor::nextImpl`). It would acknowledge inserts
//! whose rows are nowhere, and replace good parts by a merged one of empty files. What it does check is the sync at
//! the end of each file, which all our tables ask for. So its calls of `write`, `fdatasync` and `close` go through here,
//! and a file with a failed write can't be synced.
//!
//! They are redirected where the dynamic linker put their addresses into libchdb, so that nothing else of the process
//! is concerned.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};

/// Descriptors that are told apart; larger ones share a place, which costs one insert too many at worst.
const PLACES: usize = 65_536;
/// One bit for each descriptor with a failed write since it was opened.
static FAILED: [AtomicU64; PLACES / 64] = [const { AtomicU64::new(0) }; PLACES / 64];
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
    fn dlinfo(handle: *mut c_void, request: c_int, info: *mut c_void) -> c_int;
    fn mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int;
    fn sysconf(name: c_int) -> isize;
}

/// The word and the bit of a descriptor.
fn place(descriptor: c_int) -> (&'static AtomicU64, u64) {
    let place = usize::try_from(descriptor).unwrap_or_default() % PLACES;
    (&FAILED[place / 64], 1 << (place % 64))
}

unsafe extern "C" fn checked_write(descriptor: c_int, bytes: *const c_void, count: usize) -> isize {
    // SAFETY: the caller's arguments, as they are.
    let written = unsafe { write(descriptor, bytes, count) };
    if written < 0 {
        // SAFETY: the C library's own place for this thread.
        let reason = unsafe { *__errno_location() };
        if !matches!(reason, EINTR | EAGAIN) {
            REASON.store(reason, Ordering::Relaxed);
            let (word, bit) = place(descriptor);
            word.fetch_or(bit, Ordering::Release);
        }
    }
    written
}

unsafe extern "C" fn checked_fdatasync(descriptor: c_int) -> c_int {
    let (word, bit) = place(descriptor);
    if word.load(Ordering::Acquire) & bit != 0 {
        // SAFETY: as above.
        unsafe { *__errno_location() = REASON.load(Ordering::Relaxed) };
        return -1;
    }
    // SAFETY: the caller's argument, as it is.
    unsafe { fdatasync(descriptor) }
}

unsafe extern "C" fn checked_close(descriptor: c_int) -> c_int {
    let (word, bit) = place(descriptor);
    if word.load(Ordering::Relaxed) & bit != 0 {
        // Before it is closed: the number may be another file's right after.
        word.fetch_and(!bit, Ordering::Release);
    }
    // SAFETY: the caller's argument, as it is.
    unsafe { close(descriptor) }
}

/// The head of the dynamic linker's `struct link_map`.
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: *const Dynamic,
}

/// `Elf64_Dyn`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Dynamic {
    tag: i64,
    value: usize,
}

/// `Elf64_Rela`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Relocation {
    offset: usize,
    info: u64,
    addend: i64,
}

/// `Elf64_Sym`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Symbol {
    name: u32,
    kind: u8,
    visibility: u8,
    section: u16,
    value: u64,
    size: u64,
}

const RTLD_DI_LINKMAP: c_int = 2;
const DT_NULL: i64 = 0;
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
/// `R_*_GLOB_DAT` and `R_*_JUMP_SLOT`: a word that holds a function's address.
#[cfg(target_arch = "x86_64")]
const ADDRESSES: [u64; 2] = [6, 7];
#[cfg(target_arch = "aarch64")]
const ADDRESSES: [u64; 2] = [1025, 1026];
const PROT_READ_WRITE: c_int = 3;
const SC_PAGESIZE: c_int = 30;

/// Redirects the library's calls. Fails with the name of a function that isn't called in the way we know: then
/// nothing would be noticed.
///
/// # Safety
/// `handle` is `dlopen`'s, of a library that is never closed and whose functions haven't been called.
pub(super) unsafe fn notice(handle: *mut c_void) -> Result<(), &'static str> {
    let mut map: *const LinkMap = std::ptr::null();
    // SAFETY: this request writes one pointer, to what lives as long as the library.
    let found = unsafe { dlinfo(handle, RTLD_DI_LINKMAP, (&raw mut map).cast()) };
    if found != 0 || map.is_null() {
        return Err("dlinfo");
    }
    // SAFETY: the dynamic linker filled it in.
    let map = unsafe { &*map };
    let value = |tag| {
        let mut entry = map.dynamic;
        loop {
            // SAFETY: the list ends with `DT_NULL`, and isn't followed beyond.
            let Dynamic { tag: found, value } = unsafe { *entry };
            if found == tag {
                return Some(value);
            }
            if found == DT_NULL {
                return None;
            }
            // SAFETY: as above.
            entry = unsafe { entry.add(1) };
        }
    };
    // glibc has made addresses of them, others leave them relative.
    let address = |tag| value(tag).map(|value| if value < map.base { value + map.base } else { value });
    let (Some(symbols), Some(names)) = (address(DT_SYMTAB), address(DT_STRTAB)) else {
        return Err("symbols");
    };
    let (symbols, names) = (symbols as *const Symbol, names as *const c_char);
    let mut missing = [
        (c"write", Some(checked_write as *mut c_void)),
        (c"fdatasync", Some(checked_fdatasync as *mut c_void)),
        (c"close", Some(checked_close as *mut c_void)),
    ];
    for (table, bytes) in [(DT_JMPREL, DT_PLTRELSZ), (DT_RELA, DT_RELASZ)] {
        let (Some(table), Some(bytes)) = (address(table), value(bytes)) else {
            continue;
        };
        for index in 0..bytes / size_of::<Relocation>() {
            // SAFETY: the linker's own table, within its length.
            let Relocation { offset, info, .. } = unsafe { *(table as *const Relocation).add(index) };
            if !ADDRESSES.contains(&(info & 0xffff_ffff)) {
                continue;
            }
            // SAFETY: a relocation's index is one of the symbol table, whose names end with a zero byte.
            let name = unsafe { CStr::from_ptr(names.add((*symbols.add((info >> 32) as usize)).name as usize)) };
            for (wanted, ours) in &mut missing {
                if name == *wanted
                    && let Some(function) = ours.take()
                {
                    // SAFETY: `offset` is that of a word with this function's address.
                    unsafe { redirect(map.base + offset, function) }?;
                }
            }
        }
    }
    let left = missing.iter().find(|(_, ours)| ours.is_some());
    left.map_or(Ok(()), |(name, _)| Err(name.to_str().unwrap_or_default()))
}

/// # Safety
/// `word` is the address of an aligned word that holds a function's address.
unsafe fn redirect(word: usize, function: *mut c_void) -> Result<(), &'static str> {
    // SAFETY: takes no pointers.
    let page = usize::try_from(unsafe { sysconf(SC_PAGESIZE) }).map_err(|_| "sysconf")?;
    // SAFETY: the page is the library's, and stays readable; a word doesn't cross its end.
    if unsafe { mprotect((word & !(page - 1)) as *mut c_void, page, PROT_READ_WRITE) } != 0 {
        return Err("mprotect");
    }
    // SAFETY: aligned, writable since the line above, and read by nothing but calls, which find either function there.
    unsafe { AtomicPtr::from_ptr(word as *mut *mut c_void) }.store(function, Ordering::Release);
    Ok(())
}
