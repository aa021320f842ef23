//! `receipts keygen`: a private key and its public half.

use std::ffi::OsString;
use std::path::PathBuf;

use receipt::{Algorithm, SigningKey};

use crate::failure::{CommandFailure, CommandOutcome};
use crate::key_file;
use crate::terminal::{FAINT, Output, paint};

const AFTER_HELP: &str = "\
Examples:
  receipts keygen --algorithm Ed25519 --out client.key
  receipts keygen --algorithm RSA-2048 --out rsa.key --json
  openssl pkey -in client.key -noout -text    # it is a plain PKCS#8 key

Exit codes:
  0  both files are written
  2  wrong usage, or a file exists or can't be written";

/// Make a private key (PKCS#8 PEM) and its public key (SPKI PEM)
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Keygen {
    /// Ed25519, RSA-2048 or ECDSA-P256
    #[arg(long, short, value_name = "A", value_parser = parse_algorithm, default_value = "Ed25519")]
    algorithm: Algorithm,
    /// File for the private key; the public key goes to the same name with .pub
    #[arg(long, short, value_name = "F")]
    out: PathBuf,
    /// Replace existing files
    #[arg(long)]
    force: bool,
    /// Say what was made as JSON
    #[arg(long)]
    json: bool,
}

/// An algorithm by its name, in any case, or by the short names people type.
pub fn parse_algorithm(text: &str) -> Result<Algorithm, String> {
    match text.to_ascii_lowercase().as_str() {
        "ed25519" => Ok(Algorithm::Ed25519),
        "rsa-2048" | "rsa2048" | "rsa" => Ok(Algorithm::Rsa2048),
        "ecdsa-p256" | "ecdsa" | "p256" | "p-256" => Ok(Algorithm::EcdsaP256),
        _ => Err("must be Ed25519, RSA-2048 or ECDSA-P256".to_owned()),
    }
}

impl Keygen {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let mut public_name = OsString::from(&self.out);
        public_name.push(".pub");
        let public_path = PathBuf::from(public_name);
        for path in [&self.out, &public_path] {
            if !self.force && path.symlink_metadata().is_ok() {
                return Err(CommandFailure::Input(format!(
                    "{} exists; --force replaces it",
                    path.display()
                )));
            }
        }
        let key = SigningKey::generate(self.algorithm).map_err(CommandFailure::input)?;
        let private_pem = key.to_pkcs8_pem().map_err(CommandFailure::input)?;
        for (path, text, mode) in [
            (&self.out, private_pem.as_str(), 0o600),
            (&public_path, key.public_key_pem(), 0o644),
        ] {
            key_file::write(path, text, mode, self.force)
                .map_err(|e| CommandFailure::Input(format!("{} can't be written: {e}", path.display())))?;
        }
        let mut out = Output::stdout();
        if self.json {
            out.line(serde_json::json!({
                "algorithm": self.algorithm.as_str(),
                "privateKeyFile": self.out.display().to_string(),
                "publicKeyFile": public_path.display().to_string(),
                "publicKey": key.public_key_pem(),
            }))?;
        } else {
            out.line(format_args!(
                "private key  {}  {}",
                self.out.display(),
                paint(FAINT, "keep it secret")
            ))?;
            out.line(format_args!(
                "public key   {}  {}",
                public_path.display(),
                paint(FAINT, "goes into client.publicKey")
            ))?;
        }
        out.flush()?;
        Ok(CommandOutcome::Good)
    }
}
