//! libchdb's C functions behind safe types. The only `unsafe` code of the project.
//!
//! Everything here blocks; [`crate::statements`] calls it from threads of its own. The rules come
//! from chdb.h 26.7: one engine and one data path per process; a connection runs one statement at a
//! time; every result and every insert stream is destroyed exactly once; a connection that saw an
//! error isn't used again, because a failed SELECT leaves its partial output in front of the next
//! result.
#![allow(unsafe_code)]

#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod calls;
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod exit;
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod failed_writes;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use bytes::Bytes;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use parking_lot::Mutex;

use crate::EngineError;
use crate::error::{code_in, with_causes};

/// `chdb_connection *`: a pointer to the handle that the statement functions take.
type ConnectionCell = *mut *mut c_void;
type ResultHandle = *mut c_void;
type StreamHandle = *mut c_void;
type QueryWithParams = unsafe extern "C" fn(
    *mut c_void,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *const *const c_char,
    *const usize,
    *const *const c_char,
    *const usize,
    usize,
) -> ResultHandle;
type OpenStream = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> StreamHandle;

/// The functions, resolved once. The library is never unloaded: it leaves threads and static state
/// behind.
struct Functions {
    connect: unsafe extern "C" fn(c_int, *mut *mut c_char) -> ConnectionCell,
    close: unsafe extern "C" fn(ConnectionCell),
    query: QueryWithParams,
    result_buffer: unsafe extern "C" fn(ResultHandle) -> *const u8,
    result_length: unsafe extern "C" fn(ResultHandle) -> usize,
    result_error: unsafe extern "C" fn(ResultHandle) -> *const c_char,
    result_rows_written: unsafe extern "C" fn(ResultHandle) -> u64,
    result_destroy: unsafe extern "C" fn(ResultHandle),
    stream_open: OpenStream,
    stream_append: unsafe extern "C" fn(StreamHandle, *const c_void, usize) -> c_int,
    stream_done: unsafe extern "C" fn(StreamHandle) -> ResultHandle,
    stream_error: unsafe extern "C" fn(StreamHandle) -> *const c_char,
    stream_destroy: unsafe extern "C" fn(StreamHandle),
}

/// libchdb, loaded into this process permanently.
#[derive(Clone, Copy)]
pub(crate) struct Chdb {
    functions: &'static Functions,
}

static LOADED: Mutex<Option<(PathBuf, Chdb)>> = Mutex::new(None);

impl Chdb {
    /// Loads the library, or returns the one this process has loaded already.
    pub(crate) fn load(path: &Path) -> Result<Self, EngineError> {
        let mut loaded = LOADED.lock();
        if let Some((_, chdb)) = &*loaded {
            return Ok(*chdb);
        }
        if !path.is_file() {
            return Err(EngineError::LibraryMissing { path: path.to_owned() });
        }
        let unusable = |error: libloading::Error| EngineError::LibraryUnusable {
            path: path.to_owned(),
            detail: with_causes(&error),
        };
        // SAFETY: opening runs the library's initialisers. It is ClickHouse's own build, whose
        // initialisers only set up its static tables and allocator; RTLD_LOCAL keeps its symbols
        // (jemalloc among them) out of this program.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(unusable)?;
        // SAFETY: the names and types are those of chdb.h 26.7 (see the aliases above; `char *` and
        // `const char *` have one representation, and an `enum` result is a C int). `library` is
        // forgotten below, so that the pointers stay valid for as long as the process lives.
        let functions = unsafe {
            let set_signal_handlers = *library
                .get::<unsafe extern "C" fn(c_int)>(b"chdb_set_signal_handlers_enabled\0")
                .map_err(unusable)?;
            // Before anything else: with its handlers on, a Rust stack overflow hangs instead of
            // aborting.
            set_signal_handlers(0);
            Functions {
                connect: *library.get(b"chdb_connect\0").map_err(unusable)?,
                close: *library.get(b"chdb_close_conn\0").map_err(unusable)?,
                query: *library.get(b"chdb_query_with_params_n\0").map_err(unusable)?,
                result_buffer: *library.get(b"chdb_result_buffer\0").map_err(unusable)?,
                result_length: *library.get(b"chdb_result_length\0").map_err(unusable)?,
                result_error: *library.get(b"chdb_result_error\0").map_err(unusable)?,
                result_rows_written: *library.get(b"chdb_result_rows_written\0").map_err(unusable)?,
                result_destroy: *library.get(b"chdb_destroy_query_result\0").map_err(unusable)?,
                stream_open: *library.get(b"chdb_stream_insert_n\0").map_err(unusable)?,
                stream_append: *library.get(b"chdb_stream_append\0").map_err(unusable)?,
                stream_done: *library.get(b"chdb_stream_done\0").map_err(unusable)?,
                stream_error: *library.get(b"chdb_stream_insert_error\0").map_err(unusable)?,
                stream_destroy: *library.get(b"chdb_destroy_insert_stream\0").map_err(unusable)?,
            }
        };
        let handle = library.into_raw();
        #[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
        {
            let [write, sync, close] = failed_writes::redirected();
            // SAFETY: the handle is open and never closed; the functions have the signatures of
            // those they replace.
            unsafe { calls::redirect(handle, [write, sync, close, exit::redirected()]) }.map_err(|name| {
                EngineError::LibraryUnusable {
                    path: path.to_owned(),
                    detail: format!("its calls of C functions can't be replaced ({name})"),
                }
            })?;
            exit::skip_destructors();
        }
        #[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
        let _: *mut c_void = handle;
        let chdb = Self {
            functions: Box::leak(Box::new(functions)),
        };
        *loaded = Some((path.to_owned(), chdb));
        Ok(chdb)
    }

    /// Opens a connection. The first one starts the engine on the `--path` among the arguments, and
    /// the last one to close shuts it down. `None` if the engine refuses; it says why on standard
    /// error only.
    pub(crate) fn connect(self, arguments: &[CString]) -> Option<ChdbConnection> {
        let mut argv: Vec<*mut c_char> = arguments.iter().map(|argument| argument.as_ptr().cast_mut()).collect();
        let argc = c_int::try_from(argv.len()).ok()?;
        // SAFETY: `argv` holds `argc` NUL-terminated strings that live until the call returns; the
        // engine copies them into its configuration and doesn't write to them.
        let cell = unsafe { (self.functions.connect)(argc, argv.as_mut_ptr()) };
        let cell = NonNull::new(cell)?;
        Some(ChdbConnection {
            functions: self.functions,
            cell,
        })
    }
}

/// Error of the engine instead of an answer. The connection must be closed then.
#[derive(Debug, Clone)]
pub(crate) struct EngineFailure {
    /// ClickHouse's error code, 0 if the message carries none.
    pub(crate) code: u32,
    /// ClickHouse's words.
    pub(crate) message: String,
}

impl EngineFailure {
    fn new(message: String) -> Self {
        Self {
            code: code_in(&message).unwrap_or(0),
            message,
        }
    }
}

/// A connection: one statement at a time, from one thread at a time.
pub(crate) struct ChdbConnection {
    functions: &'static Functions,
    cell: NonNull<*mut c_void>,
}

// SAFETY: a connection has no thread affinity (each call sets up its own ThreadStatus), and
// `&mut self` on every method keeps it to one thread at a time.
unsafe impl Send for ChdbConnection {}

impl ChdbConnection {
    fn handle(&self) -> *mut c_void {
        // SAFETY: `cell` points to the handle that `chdb_connect` allocated; it is valid until
        // `chdb_close_conn`, which only `drop` calls.
        unsafe { *self.cell.as_ptr() }
    }

    /// Runs one statement with bound `{name:Type}` parameters. The output is in `format` unless the
    /// statement names one.
    pub(crate) fn query(
        &mut self,
        sql: &[u8],
        format: &str,
        params: &[(String, String)],
    ) -> Result<Bytes, EngineFailure> {
        let names: Vec<*const c_char> = params.iter().map(|(name, _)| name.as_ptr().cast()).collect();
        let name_lengths: Vec<usize> = params.iter().map(|(name, _)| name.len()).collect();
        let values: Vec<*const c_char> = params.iter().map(|(_, value)| value.as_ptr().cast()).collect();
        let value_lengths: Vec<usize> = params.iter().map(|(_, value)| value.len()).collect();
        // SAFETY: each pointer goes with its length and outlives the call, which copies what it
        // keeps; the four arrays have `params.len()` elements; the handle is open (see `handle`)
        // and not in use elsewhere.
        let result = unsafe {
            (self.functions.query)(
                self.handle(),
                sql.as_ptr().cast(),
                sql.len(),
                format.as_ptr().cast(),
                format.len(),
                names.as_ptr(),
                name_lengths.as_ptr(),
                values.as_ptr(),
                value_lengths.as_ptr(),
                params.len(),
            )
        };
        let answer = ResultBuffer::new(self.functions, result)?;
        Ok(if answer.as_ref().is_empty() {
            Bytes::new()
        } else {
            Bytes::from_owner(answer)
        })
    }

    /// Runs one `INSERT` (without its `FORMAT`) over the chunks, and returns the rows written.
    /// Anything but `Ok` means the insert wasn't completed.
    pub(crate) fn insert(
        &mut self,
        sql: &[u8],
        format: &str,
        chunks: impl Iterator<Item = Bytes>,
    ) -> Result<u64, EngineFailure> {
        // SAFETY: pointers go with their lengths and outlive the call; the handle is open and not
        // in use elsewhere. The stream isn't null by contract, and lives no longer than the
        // connection: `self` is borrowed throughout.
        let handle = unsafe {
            (self.functions.stream_open)(
                self.handle(),
                sql.as_ptr().cast(),
                sql.len(),
                format.as_ptr().cast(),
                format.len(),
            )
        };
        let stream = InsertStream {
            functions: self.functions,
            handle,
        };
        if let Some(message) = stream.error() {
            return Err(EngineFailure::new(message));
        }
        for chunk in chunks.filter(|chunk| !chunk.is_empty()) {
            // SAFETY: the stream is open; the bytes are copied before the call returns.
            let state = unsafe { (self.functions.stream_append)(stream.handle, chunk.as_ptr().cast(), chunk.len()) };
            if state != 0 {
                // Dropping the stream cancels the insert.
                return Err(EngineFailure::new(
                    stream.error().unwrap_or_else(|| "the insert was refused".to_owned()),
                ));
            }
        }
        // SAFETY: the stream is open and this is its only `done`; the stream handle is destroyed by
        // `InsertStream::drop`.
        let result = unsafe { (self.functions.stream_done)(stream.handle) };
        Ok(ResultBuffer::new(self.functions, result)?.rows_written())
    }
}

impl Drop for ChdbConnection {
    fn drop(&mut self) {
        // SAFETY: `cell` came from `chdb_connect` and is closed only here. No stream or statement
        // is open on it: both borrow the connection while they live. (The engine leaves the 8-byte
        // cell itself allocated.)
        unsafe { (self.functions.close)(self.cell.as_ptr()) }
    }
}

/// An insert in progress; dropping it cancels what isn't done.
struct InsertStream {
    functions: &'static Functions,
    handle: StreamHandle,
}

impl InsertStream {
    fn error(&self) -> Option<String> {
        // SAFETY: the handle is live until `drop`; the text belongs to it and is copied here. A
        // null handle gives null.
        unsafe { text((self.functions.stream_error)(self.handle)) }
    }
}

impl Drop for InsertStream {
    fn drop(&mut self) {
        // SAFETY: destroyed exactly once, as chdb.h requires of every handle, finished or not. Null
        // is ignored.
        unsafe { (self.functions.stream_destroy)(self.handle) }
    }
}

/// A result buffer of the engine's, freed when dropped.
struct ResultBuffer {
    functions: &'static Functions,
    result: NonNull<c_void>,
}

// SAFETY: a result is a plain buffer that nothing changes after the statement; reading it and
// freeing it need no particular thread.
unsafe impl Send for ResultBuffer {}

impl ResultBuffer {
    fn new(functions: &'static Functions, result: ResultHandle) -> Result<Self, EngineFailure> {
        let result =
            NonNull::new(result).ok_or_else(|| EngineFailure::new("the engine returned no result".to_owned()))?;
        let answer = Self { functions, result };
        // SAFETY: the result is live until `drop`; the text belongs to it and is copied here.
        match unsafe { text((functions.result_error)(answer.result.as_ptr())) } {
            Some(message) => Err(EngineFailure::new(message)),
            None => Ok(answer),
        }
    }

    fn rows_written(&self) -> u64 {
        // SAFETY: the result is live until `drop`.
        unsafe { (self.functions.result_rows_written)(self.result.as_ptr()) }
    }
}

impl AsRef<[u8]> for ResultBuffer {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the buffer belongs to the result, which is live and unchanged until `drop`; the
        // length is its own.
        unsafe {
            let buffer = (self.functions.result_buffer)(self.result.as_ptr());
            let length = (self.functions.result_length)(self.result.as_ptr());
            if buffer.is_null() || length == 0 {
                &[]
            } else {
                std::slice::from_raw_parts(buffer, length)
            }
        }
    }
}

impl Drop for ResultBuffer {
    fn drop(&mut self) {
        // SAFETY: the result came from the engine and is destroyed only here.
        unsafe { (self.functions.result_destroy)(self.result.as_ptr()) }
    }
}

/// Copies a C string, `None` if null.
///
/// # Safety
/// `pointer` is null or a NUL-terminated string that stays unchanged during the call.
unsafe fn text(pointer: *const c_char) -> Option<String> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: by this function's contract.
    Some(unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}
