//! `receipts dev-token`: a JWT by a key of the data directory, which `receipts up` trusts where no
//! identity provider is configured.
//!
//! The token is put together here: `jsonwebtoken` would need the key's DER, which `receipt` doesn't
//! hand out, or further crates that read PEM.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use accounts::{Email, Lifetime};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_signatures::{DirectoryKey, key_set};
use publisher_api::jwt::dev;
use receipt::{Algorithm, SigningKey};
use serde_json::{Value, json};
use service::instant::now_ms;

use crate::failure::{CommandFailure, CommandOutcome};
use crate::key_file;
use crate::settings::SettingsArgs;
use crate::terminal::Output;

const AFTER_HELP: &str = "\
The key is made once, in dev-key.pem of the data directory, readable by its owner alone; dev-jwks.json beside it is its \
public half. `receipts up` on that directory trusts it as long as nothing of [auth] is configured. The subject decides who \
it is: the first token of a subject makes a user and an account.

Examples:
  TOKEN=$(receipts dev-token)
  curl -H \"Authorization: Bearer $TOKEN\" \\
    http://127.0.0.1:8080/api/v1/user/information
  receipts dev-token --subject anna --email anna@news.example --expires 8h

Exit codes:
  0  the token is written to standard output
  2  wrong usage, [auth] is configured, or the key can't be made or read";

/// Make a JWT for the publisher API of `receipts up`
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct DevToken {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Subject of the token
    #[arg(long, value_name = "S", default_value = "dev")]
    subject: String,
    /// E-mail address of the person
    #[arg(long, value_name = "E", value_parser = email)]
    email: Option<Email>,
    /// Life of the token: 1h, 30d, 8w, 1y
    #[arg(long, value_name = "TIME", default_value = "1h")]
    expires: Lifetime,
}

fn email(text: &str) -> Result<Email, String> {
    text.parse().map_err(|error: accounts::EmailError| error.to_string())
}

impl DevToken {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let settings = self.settings.load()?;
        if settings.auth.is_given() {
            let what =
                "[auth] is configured, so tokens of dev-token aren't trusted: get one from your identity provider";
            return Err(CommandFailure::Input(what.to_owned()));
        }
        settings.data.create()?;
        let issuer = Issuer::open(settings.data.root())?;
        let now_s = now_ms() / 1_000;
        let mut claims = json!({
            "iss": dev::ISSUER,
            "aud": dev::AUDIENCE,
            "sub": self.subject,
            "iat": now_s,
            "nbf": now_s,
            "exp": now_s + self.expires.as_ms() / 1_000,
        });
        if let Some(email) = &self.email {
            claims["email"] = email.as_str().into();
        }
        let mut out = Output::stdout();
        out.line(issuer.sign(&claims)?)?;
        out.flush()?;
        Ok(CommandOutcome::Good)
    }
}

/// The key, and its name in the JWKS.
struct Issuer {
    key: SigningKey,
    kid: String,
}

impl Issuer {
    /// Reads the key of `data`, or makes it; of two commands at one time one makes it. Its JWKS is
    /// there afterwards.
    fn open(data: &Path) -> Result<Self, CommandFailure> {
        let path = dev::key_file(data);
        let key = match fs::exists(&path) {
            Ok(false) => make(&path)?,
            _ => key_file::read(&path)?,
        };
        if key.algorithm() != Algorithm::Ed25519 {
            return Err(CommandFailure::Input(format!(
                "the key {} isn't an Ed25519 key",
                path.display()
            )));
        }
        let public = DirectoryKey::from_pem(key.public_key_pem()).map_err(|error| unusable(&path, error))?;
        let jwks = key_set([&public]).map_err(|error| unusable(&path, error))?;
        publish(&dev::jwks_file(data), &format!("{jwks}\n"))?;
        Ok(Self {
            key,
            kid: public.thumbprint,
        })
    }

    /// A JWT (RFC 7519) in the compact serialization (RFC 7515, 7.1), signed with EdDSA (RFC 8037,
    /// 3.1).
    fn sign(&self, claims: &Value) -> Result<String, CommandFailure> {
        let header = json!({"alg": "EdDSA", "typ": "JWT", "kid": self.kid});
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(claims));
        let signature = self.key.sign(signed.as_bytes()).map_err(CommandFailure::input)?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

fn make(path: &Path) -> Result<SigningKey, CommandFailure> {
    let key = SigningKey::generate(Algorithm::Ed25519).map_err(CommandFailure::input)?;
    let pem = key.to_pkcs8_pem().map_err(CommandFailure::input)?;
    match key_file::write(path, &pem, 0o600, false) {
        Ok(()) => Ok(key),
        // Another command was first.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => key_file::read(path),
        Err(error) => Err(unusable(path, error)),
    }
}

/// Writes the JWKS if it isn't there as it should be.
fn publish(path: &Path, jwks: &str) -> Result<(), CommandFailure> {
    if fs::read_to_string(path).is_ok_and(|there| there == jwks) {
        return Ok(());
    }
    key_file::write(path, jwks, 0o644, true).map_err(|error| unusable(path, error))
}

fn unusable(path: &Path, why: impl ToString) -> CommandFailure {
    CommandFailure::Input(format!("{} can't be used: {}", path.display(), why.to_string()))
}
