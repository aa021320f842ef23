//! Records of the log `verdicts` on any bytes.

use blocks::Block;
use bytes::Bytes;

/// Checks one input.
pub fn run(record: &[u8]) {
    let Ok(block) = Block::decode(&Bytes::copy_from_slice(record)) else {
        return;
    };
    let (accepted, rejected) = (block.accepted(), block.rejected());
    let counts = block.header.shard_counts;
    assert_eq!(accepted.num_rows() as u64, counts.accepted);
    assert_eq!(rejected.num_rows() as u64, counts.rejected);
    assert!(counts.received <= block.header.block.received);
    let columns = block.columns();
    for row in 0..accepted.num_rows() + rejected.num_rows() {
        assert_eq!(columns.reason.value(row).is_empty(), row < accepted.num_rows());
        for text in [
            &columns.publisher,
            &columns.url,
            &columns.researcher_id,
            &columns.origin,
        ] {
            assert!(std::str::from_utf8(text.value(row).as_bytes()).is_ok());
        }
        assert_eq!(columns.position.value(row).len(), 16);
        let _ = (columns.timestamp.value(row), columns.raw.value(row));
    }
    // What is a record stays one at any alignment.
    let shifted = Bytes::from([&[0], record].concat()).slice(1..);
    assert!(Block::decode(&shifted).is_ok_and(|again| again.accepted() == accepted && again.rejected() == rejected));
}
