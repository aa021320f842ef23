//! Every target on its seeds and on random mutations of them. `fuzz/run` searches longer.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const MUTATIONS: usize = 3_000;
const INPUT_BYTES_MAX: usize = 16_384;

fn check(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    let seeds: Vec<Vec<u8>> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(!seeds.is_empty());
    seeds.iter().for_each(|seed| run(seed));
    let number: u64 = rand::random();
    let mut random = StdRng::seed_from_u64(number);
    for case in 0..MUTATIONS {
        let input = mutated(&seeds, &mut random);
        if catch_unwind(|| run(&input)).is_err() {
            let file = std::env::temp_dir().join(format!("receipts-fuzz-{target}-{number}-{case}"));
            fs::write(&file, &input).unwrap();
            panic!("{target} fails on the input in {}", file.display());
        }
    }
}

/// A copy of one of the seeds with up to eight changes.
fn mutated(seeds: &[Vec<u8>], random: &mut StdRng) -> Vec<u8> {
    let mut input = seeds[random.random_range(0..seeds.len())].clone();
    for _ in 0..random.random_range(1..=8) {
        let position = random.random_range(0..=input.len());
        let end = (position + random.random_range(0..64)).min(input.len());
        match random.random_range(0..5) {
            0 if position < input.len() => input[position] ^= 1 << random.random_range(0..8),
            1 if position < input.len() => input[position] = random.random(),
            2 => drop(input.drain(position..end)),
            3 => {
                let copy = input[position..end].to_vec();
                input.splice(position..position, copy);
            }
            _ => {
                let other = &seeds[random.random_range(0..seeds.len())];
                let start = random.random_range(0..=other.len());
                let part = &other[start..(start + 64).min(other.len())];
                input.splice(position..position, part.iter().copied());
            }
        }
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

macro_rules! targets {
    ($($target:ident)*) => {
        $(
            #[test]
            fn $target() {
                check(stringify!($target), receipts_fuzz::$target::run);
            }
        )*
    };
}

targets!(cursors directory message parse signature verdicts);
