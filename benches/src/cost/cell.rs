//! Cells of the ledger: an installation, the size of requests, the clients' algorithms, and the
//! load.

use receipt::Algorithm;

/// Processes of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `receipts up`: everything in one process, on embedded engines.
    Up,
    /// A process for each stage, on Kafka and on ClickHouse's protocol.
    Stages,
}

/// Rate of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// [`STEADY_PER_S`] receipts a second.
    Steady,
    /// As fast as answers come, until every receipt is stored.
    Saturation,
}

/// Receipts a second of a steady load.
pub const STEADY_PER_S: u32 = 2_000;

/// Client keys by algorithm. The last mix has the algorithms in the ratio 8 to 1 to 1.
const MIXES: [(&str, &[(Algorithm, usize)]); 4] = [
    ("ed25519", &[(Algorithm::Ed25519, 16)]),
    ("rsa-2048", &[(Algorithm::Rsa2048, 16)]),
    ("ecdsa-p256", &[(Algorithm::EcdsaP256, 16)]),
    (
        "mix",
        &[
            (Algorithm::Ed25519, 16),
            (Algorithm::Rsa2048, 2),
            (Algorithm::EcdsaP256, 2),
        ],
    ),
];

/// Cells of a run without `--all` and `--only`.
const DEFAULT: [&str; 13] = [
    "up/singles/ed25519/steady",
    "up/singles/ed25519/saturation",
    "up/batches-100/ed25519/steady",
    "up/batches-100/ed25519/saturation",
    "up/batches-1000/ed25519/saturation",
    "up/batches-1000/rsa-2048/saturation",
    "up/batches-1000/ecdsa-p256/saturation",
    "up/batches-1000/mix/saturation",
    "stages/singles/ed25519/steady",
    "stages/singles/ed25519/saturation",
    "stages/batches-100/ed25519/steady",
    "stages/batches-1000/ed25519/saturation",
    "stages/batches-1000/mix/saturation",
];

/// A measurement.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    /// Processes of the service.
    pub shape: Shape,
    /// Receipts of a request: 1 sends single receipts.
    pub batch: usize,
    /// Name of the algorithms.
    pub mix: &'static str,
    /// Client keys by algorithm.
    pub clients: &'static [(Algorithm, usize)],
    /// Rate of the requests.
    pub load: Load,
}

impl Cell {
    /// Every cell.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for shape in [Shape::Up, Shape::Stages] {
            for batch in [1, 100, 1_000] {
                for (mix, clients) in MIXES {
                    cells.extend([Load::Steady, Load::Saturation].map(|load| Self {
                        shape,
                        batch,
                        mix,
                        clients,
                        load,
                    }));
                }
            }
        }
        cells
    }

    /// Cells whose name contains one of `only`; without any the default ones, or `all`.
    #[must_use]
    pub fn chosen(only: &[String], all: bool) -> Vec<Self> {
        let mut cells = Self::all();
        cells.retain(|cell| {
            let name = cell.name();
            let named = only.iter().any(|part| name.contains(part.as_str()));
            named || (only.is_empty() && (all || DEFAULT.contains(&name.as_str())))
        });
        cells
    }

    /// A stable name, to compare runs by.
    #[must_use]
    pub fn name(&self) -> String {
        let shape = match self.shape {
            Shape::Up => "up",
            Shape::Stages => "stages",
        };
        let load = match self.load {
            Load::Steady => "steady",
            Load::Saturation => "saturation",
        };
        let size = match self.batch {
            1 => "singles".to_owned(),
            batch => format!("batches-{batch}"),
        };
        format!("{shape}/{size}/{}/{load}", self.mix)
    }

    /// Name of the reference that the cell's CPU time is compared with. A request costs switches
    /// and system calls, a receipt of a batch computes.
    #[must_use]
    pub fn reference(&self) -> String {
        if self.batch == 1 {
            "bare-hyper".to_owned()
        } else {
            format!("verify-{}", self.mix)
        }
    }

    /// Receipts that are measured: what the load takes about `seconds` for. One RSA signature takes
    /// the client as long as ten others.
    #[must_use]
    pub fn receipts(&self, seconds: usize) -> usize {
        let per_s = match (self.load, self.batch) {
            (Load::Steady, _) => STEADY_PER_S as usize,
            (Load::Saturation, 1) => 7_000,
            (Load::Saturation, _) if self.mix == "rsa-2048" => 7_000,
            (Load::Saturation, _) => 15_000,
        };
        (per_s * seconds).next_multiple_of(self.batch)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_run_has_the_default_cells_or_those_that_are_named() {
        assert_eq!(Cell::chosen(&[], false).len(), DEFAULT.len());
        assert_eq!(Cell::chosen(&[], true).len(), 48);
        let named = Cell::chosen(&["up/batches-1000/ed25519".to_owned()], false);
        let names: Vec<String> = named.iter().map(Cell::name).collect();
        assert_eq!(
            names,
            ["up/batches-1000/ed25519/steady", "up/batches-1000/ed25519/saturation"]
        );
        assert!(Cell::chosen(&["nothing".to_owned()], true).is_empty());
    }
}
