//! Replaces C functions that libchdb calls.
//!
//! The addresses are exchanged where the dynamic linker put them into libchdb, so the rest of the
//! process isn't concerned.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

unsafe extern "C" {
    fn dlinfo(handle: *mut c_void, request: c_int, info: *mut c_void) -> c_int;
    fn mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int;
    fn sysconf(name: c_int) -> isize;
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

/// Makes the library call these functions instead of those of these names. Fails with the name of a
/// function that the library doesn't call through the linker's tables.
///
/// # Safety
/// `handle` is `dlopen`'s, of a library that is never closed. Each function has the signature of
/// the one it replaces.
pub(super) unsafe fn redirect<const N: usize>(
    handle: *mut c_void,
    functions: [(&'static CStr, *mut c_void); N],
) -> Result<(), &'static str> {
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
    let mut missing = functions.map(|(name, function)| (name, Some(function)));
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
            // SAFETY: a relocation's index is one of the symbol table, whose names end with a zero
            // byte.
            let name = unsafe { CStr::from_ptr(names.add((*symbols.add((info >> 32) as usize)).name as usize)) };
            for (wanted, ours) in &mut missing {
                if name == *wanted
                    && let Some(function) = ours.take()
                {
                    // SAFETY: `offset` is that of a word with this function's address.
                    unsafe { store(map.base + offset, function) }?;
                }
            }
        }
    }
    let left = missing.iter().find(|(_, ours)| ours.is_some());
    left.map_or(Ok(()), |(name, _)| Err(name.to_str().unwrap_or_default()))
}

/// # Safety
/// `word` is the address of an aligned word that holds a function's address.
unsafe fn store(word: usize, function: *mut c_void) -> Result<(), &'static str> {
    // SAFETY: takes no pointers.
    let page = usize::try_from(unsafe { sysconf(SC_PAGESIZE) }).map_err(|_| "sysconf")?;
    // SAFETY: the page is the library's, and stays readable; a word doesn't cross its end.
    if unsafe { mprotect((word & !(page - 1)) as *mut c_void, page, PROT_READ_WRITE) } != 0 {
        return Err("mprotect");
    }
    // SAFETY: aligned, writable since the line above, and read by nothing but calls, which find
    // either function there.
    unsafe { AtomicPtr::from_ptr(word as *mut *mut c_void) }.store(function, Ordering::Release);
    Ok(())
}
