//! Buffers of large bodies, used again: freed ones stay with the allocator for a second before the
//! system has them back, and under load that second holds as much memory as the budget of bytes in
//! flight itself.

use std::sync::Arc;

use parking_lot::Mutex;

/// The longest body that may take from the part reserved for small ones.
pub(crate) const SMALL_BYTES_MAX: usize = 64 * 1024;
/// The most bytes that lie unused.
const SPARE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Buffers without a body.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    spare: Mutex<Vec<Vec<u8>>>,
}

/// A body whose buffer comes back when the last one who reads it lets go.
pub(crate) struct Lent {
    bytes: Vec<u8>,
    home: Arc<Buffers>,
}

impl Buffers {
    /// An empty buffer with room for `bytes` bytes, and for at most an eighth more.
    pub(crate) fn take(&self, bytes: usize) -> Vec<u8> {
        if bytes > SMALL_BYTES_MAX {
            let mut spare = self.spare.lock();
            let fits = |buffer: &Vec<u8>| (bytes..=bytes + bytes / 8).contains(&buffer.capacity());
            if let Some(index) = spare.iter().position(fits) {
                return spare.swap_remove(index);
            }
        }
        Vec::with_capacity(bytes)
    }

    /// Makes `bytes` a body that gives its buffer back.
    pub(crate) fn lend(self: &Arc<Self>, bytes: Vec<u8>) -> Lent {
        Lent {
            bytes,
            home: Arc::clone(self),
        }
    }

    fn give_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut spare = self.spare.lock();
        spare.push(buffer);
        let mut bytes: usize = spare.iter().map(Vec::capacity).sum();
        // The oldest ones go: what has lain longest fits least of what comes now.
        let mut gone = 0;
        while bytes > SPARE_BYTES_MAX {
            bytes -= spare[gone].capacity();
            gone += 1;
        }
        let gone: Vec<_> = spare.drain(..gone).collect();
        drop(spare);
        drop(gone);
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.home.give_back(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_by_a_body_of_its_size() {
        let buffers = Arc::new(Buffers::default());
        let mut first = buffers.take(1_000_000);
        first.extend_from_slice(b"body");
        let address = first.as_ptr();
        drop(buffers.lend(first));
        let (too_small, too_large) = (buffers.take(1_000_001), buffers.take(500_000));
        assert!(too_small.as_ptr() != address && too_large.as_ptr() != address);
        let again = buffers.take(900_000);
        assert_eq!((again.as_ptr(), again.len()), (address, 0));
    }

    #[test]
    fn what_lies_unused_is_bounded() {
        let buffers = Arc::new(Buffers::default());
        let lent: Vec<_> = (0..40).map(|_| buffers.lend(Vec::with_capacity(1 << 20))).collect();
        drop(lent);
        drop(buffers.lend(Vec::with_capacity(100 << 20)));
        let spare: usize = buffers.spare.lock().iter().map(Vec::capacity).sum();
        assert!(spare <= SPARE_BYTES_MAX, "{spare}");
    }
}
