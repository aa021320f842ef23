//! Bytes that no verifier wrote never panic, and sound records aren't taken for damaged.

use blocks::{Block, BlockError};
use bytes::Bytes;
use proptest::prelude::*;

use crate::samples;

/// Decodes, and reads every value of what is still a record.
fn decode(bytes: &[u8]) -> Result<(), BlockError> {
    let block = Block::decode(&Bytes::copy_from_slice(bytes))?;
    let columns = block.columns();
    for row in 0..block.accepted().num_rows() + block.rejected().num_rows() {
        assert_eq!(columns.position.value(row).len(), 16);
        assert_eq!(
            columns.url.value(row).len(),
            columns.url.value(row).chars().map(char::len_utf8).sum::<usize>()
        );
        let _ = (
            columns.raw.value(row),
            columns.timestamp.value(row),
            columns.origin.value(row),
        );
    }
    Ok(())
}

#[test]
fn every_cut_is_damage() {
    let record = samples::record(2, 2);
    for length in 0..record.len() {
        assert!(
            matches!(decode(&record[..length]), Err(BlockError::Damaged(_))),
            "{length} bytes"
        );
    }
}

#[test]
fn every_byte_inverted() {
    let record = samples::record(2, 2);
    let mut bytes = record.to_vec();
    for index in 0..bytes.len() {
        for mask in [0xff, 0x80, 0x01] {
            bytes[index] ^= mask;
            let _ = decode(&bytes);
            bytes[index] ^= mask;
        }
    }
    decode(&bytes).unwrap();
}

/// Offsets, lengths and counts are 8-byte numbers of the descriptions.
#[test]
fn every_number_hostile() {
    let record = samples::record(2, 2);
    let mut bytes = record.to_vec();
    for index in 0..bytes.len() - 8 {
        let original: [u8; 8] = bytes[index..index + 8].try_into().unwrap();
        for value in [i64::MIN, -1, 1, 3, 1 << 31, 1 << 40, i64::MAX, i64::MAX - 7] {
            bytes[index..index + 8].copy_from_slice(&value.to_le_bytes());
            let _ = decode(&bytes);
        }
        bytes[index..index + 8].copy_from_slice(&original);
    }
}

#[test]
fn any_alignment() {
    let record = samples::record(3, 3);
    for shift in 0..8 {
        let shifted = Bytes::from([vec![0; shift], record.to_vec()].concat()).slice(shift..);
        let block = Block::decode(&shifted).unwrap();
        assert_eq!(block.accepted(), Block::decode(&record).unwrap().accepted());
        // Text stays where it is.
        assert!(shifted.as_ptr_range().contains(&block.columns().url.values().as_ptr()));
    }
}

#[test]
fn foreign_bytes() {
    for bytes in [
        &b""[..],
        b"\xff\xff\xff\xff",
        b"\xff\xff\xff\xff\0\0\0\0",
        b"{}",
        b"ARROW1\0\0",
    ] {
        assert!(matches!(decode(bytes), Err(BlockError::Damaged(_))));
    }
}

/// Fuzzing begins at records of the present format.
#[test]
fn seeds_of_the_fuzz_target_are_records() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/verdicts");
    let seeds: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|seed| seed.unwrap().path())
        .collect();
    assert!(!seeds.is_empty());
    for seed in seeds {
        assert_eq!(decode(&std::fs::read(&seed).unwrap()), Ok(()), "{}", seed.display());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        prop_assert!(decode(&bytes).is_err());
    }

    #[test]
    fn changed_records(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::weighted(0.2, any::<(prop::sample::Index, prop::sample::Index)>()),
    ) {
        let mut bytes = samples::record(3, 2).to_vec();
        for (index, byte) in changes {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        if let Some((from, to)) = cut {
            let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
            bytes.drain(from.min(to)..from.max(to));
        }
        let _ = decode(&bytes);
    }
}
