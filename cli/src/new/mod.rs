//! `receipts new`: an unsigned receipt for the use of a content.
//!
//! - [`unsigned`]: the receipt, and the check of its format
//! - [`content_hash`]: the hash of the content
//! - [`sample`]: good and bad receipts to try a service with

pub(crate) mod content_hash;
mod sample;
pub(crate) mod unsigned;

use std::io::{IsTerminal, stdin, stdout};
use std::path::{Path, PathBuf};

use clap::Arg;
use clap::builder::ArgPredicate::IsPresent;
use receipt::{Purpose, SigningKey};
use service::instant::{now_ms, rfc3339_ms};
use uuid::Uuid;

use crate::failure::{CommandFailure, CommandOutcome};
use crate::input::Input;
use crate::key_file;
use crate::terminal::RawOutput;
use sample::Sample;
use unsigned::{ClientMembers, ContentMembers, UnsignedReceipt, UsageMembers, canonical};

const AFTER_HELP: &str = "\
The content is what your client used, as it was received and after any Content-Encoding is removed: its SHA-256 is \
content.contentHash. The receipt is checked before it is written. A terminal shows it indented; a file or a pipe gets \
one line, so that many fit one file.

--sample needs no URL, content, purpose, context or client: what isn't given is made up. A sample is signed, and \
`receipts send` sends it.

content.publisher is the URL's host unless --publisher gives a parent domain of it. Set the RECEIPTS_CLIENT_NAME and \
the like once, and the client's options can be left out.

Examples:
  echo 'All the news' > article.html
  receipts new https://news.example/lead article.html --purpose training \\
    --context 'pre-training of Atlas' --client-name Atlas --client-version 3.1 \\
    --organization 'Example Labs' > receipt.json
  export RECEIPTS_CLIENT_NAME=Atlas RECEIPTS_CLIENT_VERSION=3.1
  export RECEIPTS_ORGANIZATION='Example Labs'
  curl -s https://news.example/lead | receipts new https://news.example/lead \\
    --purpose inference --context 'answer to a question' --query q-17
  receipts keygen --out client.key
  receipts new https://www.news.example/lead article.html --purpose research \\
    --context 'study of headlines' --publisher news.example \\
    --sign --key client.key
  receipts new --sample --key client.key > sample.json
  receipts new --sample=bad-signature --key client.key > bad.ndjson

Exit codes:
  0  the receipt is on standard output
  2  wrong usage, the content can't be read or is empty, or the receipt would break a rule";

/// Write a receipt for content that was used, to be signed
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
// `mut_arg` moves an argument behind the others, so those without a name state their position.
#[command(mut_arg("url", made_up(sample::URL)))]
#[command(mut_arg("purpose", made_up("training")))]
#[command(mut_arg("context", made_up("sample")))]
#[command(mut_arg("client_name", made_up("Sample")))]
#[command(mut_arg("client_version", made_up("1")))]
#[command(mut_arg("organization", made_up("Sample")))]
pub struct NewCommand {
    /// Write a signed sample: whatever isn't given is made up
    #[arg(
        long,
        value_name = "SAMPLE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "receipt",
        requires = "key"
    )]
    sample: Option<Sample>,
    /// URL of the content
    #[arg(value_name = "URL", index = 1)]
    url: String,
    /// File with the content as received; `-` or nothing is standard input
    #[arg(value_name = "FILE", index = 2, conflicts_with = "content_hash")]
    file: Option<PathBuf>,
    /// Hash of the content instead of the content: sha256: and 64 hexadecimal digits
    #[arg(long, value_name = "HASH")]
    content_hash: Option<String>,
    /// ID of the publisher's entry [default: UUIDv5 of the canonical URL]
    #[arg(long, value_name = "UUID")]
    entry_id: Option<Uuid>,
    /// Domain of the publisher [default: host of the URL]
    #[arg(long, value_name = "D")]
    publisher: Option<String>,
    #[arg(long, short, value_name = "P", help = format!("Purpose of the use: {}", Purpose::choices("")))]
    purpose: Purpose,
    /// Use case, for people
    #[arg(long, short, value_name = "TEXT")]
    context: String,
    /// Dataset that the content went into
    #[arg(long, value_name = "ID")]
    dataset: Option<String>,
    /// Model that used it
    #[arg(long, value_name = "ID")]
    model: Option<String>,
    /// Query that it answers
    #[arg(long, value_name = "ID")]
    query: Option<String>,
    /// Session of the query
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Study
    #[arg(long, value_name = "ID")]
    study: Option<String>,
    /// Researcher
    #[arg(long, value_name = "ID")]
    researcher: Option<String>,
    /// ID of the receipt [default: a new UUID]
    #[arg(long, value_name = "UUID")]
    receipt_id: Option<Uuid>,
    /// Time of the use, RFC 3339 [default: now]
    #[arg(long, value_name = "TIME")]
    timestamp: Option<jiff::Timestamp>,
    /// Sign the receipt
    #[arg(long, requires = "key")]
    sign: bool,
    /// The private key that signs; without --sign only its public key is added
    #[arg(long, value_name = "F", env = "RECEIPTS_KEY")]
    key: Option<PathBuf>,
    #[command(flatten)]
    client: ClientArgs,
}

/// Makes an argument optional beside `--sample`, with this value.
fn made_up(value: &'static str) -> impl FnOnce(Arg) -> Arg {
    move |arg| {
        arg.required(false)
            .required_unless_present("sample")
            .default_value_if("sample", IsPresent, value)
    }
}

/// Options of the member `client`, which is the same in all receipts of a client.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Client")]
struct ClientArgs {
    /// ID of the client, the same in all its receipts [default: UUIDv5 of organization and name]
    #[arg(long, value_name = "UUID", env = "RECEIPTS_CLIENT_ID")]
    client_id: Option<Uuid>,
    /// Name of the model or product
    #[arg(long, value_name = "TEXT", env = "RECEIPTS_CLIENT_NAME")]
    client_name: String,
    /// Version of the model or product
    #[arg(long, value_name = "TEXT", env = "RECEIPTS_CLIENT_VERSION")]
    client_version: String,
    /// Organization that runs it
    #[arg(long, value_name = "TEXT", env = "RECEIPTS_ORGANIZATION")]
    organization: String,
}

impl NewCommand {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let key = self.key.as_deref().map(key_file::read).transpose()?;
        let content_hash = match (&self.content_hash, self.sample) {
            (Some(hash), _) => hash.clone(),
            (None, Some(_)) if self.file.is_none() => sample::content_hash(&self.url),
            (None, _) => content_hash::of(open(self.file.as_deref())?)?,
        };
        let (is_signed, sample) = (self.sign || self.sample.is_some(), self.sample);
        let receipt = self.receipt(content_hash, key.as_ref())?;
        receipt.check()?;
        let is_terminal = stdout().is_terminal();
        let written = match (key.filter(|_| is_signed), sample) {
            (Some(key), Some(sample)) => sample.receipts(&receipt, &key)?,
            (Some(key), None) => vec![receipt.signed(&key)?],
            (None, _) if is_terminal => vec![receipt.to_indented_json()?],
            (None, _) => vec![receipt.to_json()?],
        };
        let mut out = RawOutput::stdout();
        for json in written {
            let text = if is_terminal && is_signed {
                indented(&json)?
            } else {
                json
            };
            out.bytes(&text)?;
            out.bytes(b"\n")?;
        }
        out.flush()?;
        Ok(CommandOutcome::Good)
    }

    fn receipt(self, content_hash: String, key: Option<&SigningKey>) -> Result<UnsignedReceipt, CommandFailure> {
        let publisher = match self.publisher {
            Some(publisher) => publisher,
            None => canonical(&self.url)?.host().to_owned(),
        };
        let timestamp_ms = self.timestamp.map_or_else(now_ms, jiff::Timestamp::as_millisecond);
        Ok(UnsignedReceipt {
            receipt_id: self.receipt_id.unwrap_or_else(Uuid::now_v7),
            timestamp: rfc3339_ms(timestamp_ms),
            content: ContentMembers {
                entry_id: match self.entry_id {
                    Some(entry_id) => entry_id,
                    None => canonical(&self.url)?.entry_id(),
                },
                url: self.url,
                content_hash,
                publisher,
            },
            client: self.client.members(key),
            usage: UsageMembers {
                purpose: self.purpose.as_str(),
                context: self.context,
                dataset_id: self.dataset,
                model_id: self.model,
                query_id: self.query,
                session_id: self.session,
                study_id: self.study,
                researcher_id: self.researcher,
            },
            ..UnsignedReceipt::default()
        })
    }
}

impl ClientArgs {
    fn members(self, key: Option<&SigningKey>) -> ClientMembers {
        let (name, organization) = (self.client_name, self.organization);
        let id = self
            .client_id
            .unwrap_or_else(|| unsigned::client_id(&organization, &name));
        ClientMembers {
            id,
            name,
            version: self.client_version,
            organization,
            public_key: key.map(|key| key.public_key_pem().to_owned()),
        }
    }
}

/// Opens the content. Nobody types it: a terminal on standard input is a file that was forgotten.
fn open(file: Option<&Path>) -> Result<Input, CommandFailure> {
    if file.is_none() && stdin().is_terminal() {
        return Err(CommandFailure::Input(
            "there is no content to hash: name the file after the URL, pipe the content in, or give --content-hash"
                .to_owned(),
        ));
    }
    Input::open(file)
}

fn indented(json: &[u8]) -> Result<Vec<u8>, CommandFailure> {
    let value: serde_json::Value = serde_json::from_slice(json).map_err(CommandFailure::input)?;
    serde_json::to_vec_pretty(&value).map_err(CommandFailure::input)
}
