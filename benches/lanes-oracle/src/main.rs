//! Verdicts and CPU times of `verify_strict`, the lanes, the lanes with tables, and ed25519-simd,
//! one core, messages of 1 KiB: `cargo run --release` in this folder.
//!
//! Without ed25519-simd and with the product's flags:
//!
//! ```sh
//! RUSTFLAGS='--cfg curve25519_dalek_backend="avx512"' cargo run --release --no-default-features
//! ```

use cpu_time::ThreadTime;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use ed25519_lanes::{Item, Key, KeyTable, Lanes, Signer};
#[cfg(feature = "simd")]
use ed25519_simd::{DalekVerifier, VerifyInput};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

const ROUNDS: usize = 9;
const SIGNATURES: usize = 4_096;
const MESSAGE_BYTES: usize = 1_024;
/// Each verifier is handed this many signatures at once.
const BLOCK: usize = 256;
/// Above this number of keys none has a table.
const TABLES_MAX: usize = 1_000;

struct Signed {
    /// The key's index.
    key: usize,
    message: Vec<u8>,
    signature: [u8; 64],
}

fn main() {
    let lanes = Lanes::detect().expect("a CPU with AVX-512 IFMA");
    println!("us a signature: median (least) of {ROUNDS} rounds; {SIGNATURES} signatures, blocks of {BLOCK}");
    for keys in [1, 16, 1_000, 100_000] {
        compare(lanes, keys);
    }
}

fn compare(lanes: Lanes, key_count: usize) {
    let random = &mut StdRng::seed_from_u64(1);
    let signing: Vec<SigningKey> = (0..key_count)
        .map(|_| SigningKey::from_bytes(&random.random()))
        .collect();
    let signed: Vec<Signed> = (0..SIGNATURES).map(|_| sign(&signing, random)).collect();
    let parsed: Vec<VerifyingKey> = signing.iter().map(SigningKey::verifying_key).collect();
    let start = ThreadTime::now();
    let keys: Vec<Key> = parsed
        .iter()
        .map(|key| Key::new(lanes, key.as_bytes()).expect("a key"))
        .collect();
    println!("\n{key_count} keys, {:.1} us a key to decode", each(start, key_count));
    let tables: Vec<KeyTable> = if key_count > TABLES_MAX {
        Vec::new()
    } else {
        let start = ThreadTime::now();
        let tables = keys.iter().map(|key| KeyTable::new(lanes, key)).collect();
        println!("{:.1} us a table", each(start, key_count));
        tables
    };
    let items: Vec<Item<'_>> = signed
        .iter()
        .map(|signed| Item {
            signer: Signer::Key(&keys[signed.key]),
            message: &signed.message,
            signature: &signed.signature,
        })
        .collect();
    let with_tables: Vec<Item<'_>> = signed
        .iter()
        .zip(&items)
        .map(|(signed, item)| Item {
            signer: tables.get(signed.key).map_or(item.signer, Signer::Table),
            ..*item
        })
        .collect();

    let strict = || -> Vec<bool> {
        let verdict = |signed: &Signed| {
            parsed[signed.key].verify_strict(&signed.message, &Signature::from_bytes(&signed.signature))
        };
        signed.iter().map(|signed| verdict(signed).is_ok()).collect()
    };
    let expected = strict();
    let in_blocks = |items: &[Item<'_>], block: usize| -> Vec<bool> {
        items.chunks(block).flat_map(|block| lanes.verify(block)).collect()
    };
    let mut rows: Vec<(&str, Box<dyn FnMut() -> Vec<bool>>)> = vec![
        ("verify_strict, keys parsed", Box::new(strict)),
        ("lanes", Box::new(|| in_blocks(&items, BLOCK))),
        ("lanes, blocks of 8", Box::new(|| in_blocks(&items, 8))),
    ];
    if !tables.is_empty() {
        rows.push(("lanes with tables", Box::new(|| in_blocks(&with_tables, BLOCK))));
    }
    #[cfg(feature = "simd")]
    {
        let inputs: Vec<VerifyInput<'_>> = signed
            .iter()
            .map(|signed| VerifyInput {
                public_key: parsed[signed.key].to_bytes(),
                signature: signed.signature,
                message: &signed.message,
            })
            .collect();
        let mut verifier = DalekVerifier::new();
        rows.push((
            "ed25519-simd",
            Box::new(move || {
                let mut verdicts = vec![false; inputs.len()];
                for (inputs, verdicts) in inputs.chunks(BLOCK).zip(verdicts.chunks_mut(BLOCK)) {
                    verifier.verify_batch(inputs, verdicts);
                }
                verdicts
            }),
        ));
    }
    // Rounds alternate, so that a change of the CPU's frequency meets all rows.
    let mut times = vec![Vec::new(); rows.len()];
    for _ in 0..ROUNDS {
        for ((name, run), times) in rows.iter_mut().zip(&mut times) {
            let start = ThreadTime::now();
            let verdicts = run();
            times.push(each(start, SIGNATURES));
            assert_eq!(verdicts, expected, "verdicts of {name}");
        }
    }
    let medians: Vec<f64> = times
        .iter_mut()
        .map(|times| {
            times.sort_by(f64::total_cmp);
            times[ROUNDS / 2]
        })
        .collect();
    for (((name, _), times), median) in rows.iter().zip(&times).zip(&medians) {
        println!("{name:28} {median:6.2} ({:.2})  {:5.2}x", times[0], medians[0] / median);
    }
}

/// Signs a random message with a random key; one signature of eight is broken.
fn sign(keys: &[SigningKey], random: &mut StdRng) -> Signed {
    let key = random.random_range(0..keys.len());
    let mut message = vec![0; MESSAGE_BYTES];
    random.fill(&mut message[..]);
    let mut signature = keys[key].sign(&message).to_bytes();
    if random.random_range(0..8) == 0 {
        signature[random.random_range(0..64)] ^= 1;
    }
    Signed {
        key,
        message,
        signature,
    }
}

fn each(start: ThreadTime, count: usize) -> f64 {
    start.elapsed().as_secs_f64() * 1e6 / count as f64
}
