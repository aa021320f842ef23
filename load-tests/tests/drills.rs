//! Every drill in its short form, one after the other on one Kafka.
//! `cargo test --test drills -- kafka` runs those with that word in their names.

use std::path::Path;
use std::process::ExitCode;

use load_tests::drills::{Setting, show};

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    // A word that is no drill's is another test binary's.
    let Ok(drills) = show::chosen(&words) else {
        return ExitCode::SUCCESS;
    };
    let setting = Setting {
        programs: Path::new(env!("CARGO_BIN_EXE_receipts-load"))
            .parent()
            .unwrap_or(Path::new("."))
            .to_owned(),
        short: true,
        seed: rand::random(),
        verbose: false,
    };
    if show::run(drills, &setting).await {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
