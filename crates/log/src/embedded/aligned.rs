//! A growing buffer whose bytes start on a block boundary, as `O_DIRECT` wants them.

/// The unit of direct reads and writes in bytes: the largest logical block of the disks we know.
pub(super) const BLOCK: usize = 4096;

/// `bytes` rounded up to whole blocks.
pub(super) const fn blocks_up(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK as u64)
}

/// `bytes` rounded down to whole blocks.
pub(super) const fn blocks_down(bytes: u64) -> u64 {
    bytes - bytes % BLOCK as u64
}

/// Memory with one block more than requested, and where its first whole block starts.
pub(super) fn aligned_memory(capacity: usize) -> (Vec<u8>, usize) {
    let memory = vec![0; capacity + BLOCK];
    // `align_offset` may answer `usize::MAX` in theory; then the memory is used unaligned, and the
    // write fails and says so.
    let start = memory.as_ptr().align_offset(BLOCK).min(BLOCK);
    (memory, start)
}

/// The bytes of one write, aligned for `O_DIRECT`.
pub(super) struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    pub(super) fn new(capacity: usize) -> Self {
        let (memory, start) = aligned_memory(capacity);
        Self {
            memory,
            start,
            length: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }

    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    /// Makes room for `additional` bytes, so that the appends after it never move the memory.
    pub(super) fn reserve(&mut self, additional: usize) {
        let needed = self.length + additional;
        if needed + BLOCK <= self.memory.len() {
            return;
        }
        let (mut memory, start) = aligned_memory(needed.next_multiple_of(1 << 20));
        memory[start..start + self.length].copy_from_slice(self.bytes());
        self.memory = memory;
        self.start = start;
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let end = self.start + self.length;
        self.memory[end..end + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Zeros up to the next multiple of `unit`.
    pub(super) fn pad(&mut self, unit: usize) {
        let target = self.length.next_multiple_of(unit);
        self.reserve(target - self.length);
        let end = self.start + self.length;
        self.memory[end..self.start + target].fill(0);
        self.length = target;
    }

    /// Keeps only the bytes `from..to`, moved to the front.
    pub(super) fn keep(&mut self, from: usize, to: usize) {
        self.memory.copy_within(self.start + from..self.start + to, self.start);
        self.length = to - from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_aligned_while_it_grows() {
        let mut buffer = AlignedBuffer::new(10);
        let mut expected = Vec::new();
        for round in 0..40_u8 {
            let piece = vec![round; 100_000];
            buffer.extend(&piece);
            expected.extend_from_slice(&piece);
            assert_eq!(buffer.bytes().as_ptr().align_offset(BLOCK), 0);
        }
        assert_eq!(buffer.bytes(), expected);
        buffer.pad(BLOCK);
        assert_eq!(buffer.len() % BLOCK, 0);
        assert!(buffer.bytes()[expected.len()..].iter().all(|&byte| byte == 0));
        buffer.keep(99_999, 100_002);
        assert_eq!(buffer.bytes(), [0, 1, 1]);
    }
}
