//! The command line of `compare analytics`.

use std::path::PathBuf;

use clap::Args;

/// Measures the analytics API of `receipts up` over many receipts while more come in, and writes
/// the run down
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo build --release --bin receipts && compare analytics
  compare analytics --receipts 1000000 --seconds 10 --warm-seconds 10 --rounds 3 --out /tmp

Exit codes: 0 the run was made, whatever its figures; 2 it could not be made or written.")]
pub struct Arguments {
    /// Receipts to load.
    #[arg(long, value_name = "N", default_value_t = Arguments::RECEIPTS)]
    pub receipts: u64,
    /// Publishers; the biggest has a fifth of all receipts, the others follow Zipf's law.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub publishers: u64,
    /// Days that the receipts are spread over, up to now.
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub days: u64,
    /// Receipts of one loading statement.
    #[arg(long, value_name = "N", default_value_t = 250_000)]
    pub chunk: u64,
    /// Readers of the mix.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub readers: usize,
    /// The longest that a reader looks at a page before it requests the next, in milliseconds; half
    /// of it on average.
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    pub look_ms: u64,
    /// Receipts a second that come in meanwhile.
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    pub rate: u32,
    /// Duration of the mix, and of the live feed after it, in seconds.
    #[arg(long, value_name = "S", default_value_t = 120)]
    pub seconds: u64,
    /// Time that the readers read before the mix counts, in seconds: their first pages of each
    /// publisher aren't in memory yet.
    #[arg(long, value_name = "S", default_value_t = 300)]
    pub warm_seconds: u64,
    /// Rounds of each speed whose median counts.
    #[arg(long, value_name = "N", default_value_t = 11)]
    pub rounds: usize,
    /// A data directory to load into and to keep; one that was loaded before is measured as it is.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The folder for the run's JSON file.
    #[arg(long, value_name = "DIR", default_value = "benches/runs")]
    pub out: PathBuf,
    /// The folder for data while measuring; by default one beside this program.
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// The folder with the program `receipts`; by default the one of this program.
    #[arg(long, value_name = "DIR")]
    pub programs: Option<PathBuf>,
}

impl Arguments {
    /// Receipts of a whole run.
    pub const RECEIPTS: u64 = 50_000_000;

    /// Whether it is of fewer.
    pub fn is_quick(&self) -> bool {
        self.receipts < Self::RECEIPTS
    }
}
