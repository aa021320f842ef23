//! A receipt as a borrowed, typed view of its JSON, and the rules that its members keep.

use std::borrow::Cow;

use uuid::Uuid;

use crate::fault::{FaultCode, Faults, FormatError};
use crate::fields::Fields;
use crate::host::canonical_host;
use crate::rules::{self, SignatureBytes};
use crate::scan::{Scanner, utf8};
use crate::scratch::Scratch;
use crate::tape::{NodeKind, Tape};
use crate::{Algorithm, Limits, Purpose, text};

/// A receipt that passed the format check. Text borrows from the body where it holds no escapes.
#[derive(Clone, Debug)]
pub struct Receipt<'a> {
    /// `receiptId`.
    pub receipt_id: Uuid,
    /// `timestamp`, in Unix milliseconds.
    pub timestamp_ms: i64,
    /// `content.entryId`.
    pub entry_id: Uuid,
    /// `content.url`.
    pub url: Cow<'a, str>,
    /// `content.contentHash`, the 32 bytes of SHA-256.
    pub content_hash: [u8; 32],
    /// `content.publisher` in canonical form: A-labels in lower case, without a dot at the end.
    pub publisher: Cow<'a, str>,
    /// `client.id`.
    pub client_id: Uuid,
    /// `client.name`.
    pub client_name: Cow<'a, str>,
    /// `client.version`.
    pub client_version: Cow<'a, str>,
    /// `client.organization`.
    pub organization: Cow<'a, str>,
    /// `client.publicKey`, PEM.
    pub public_key: Cow<'a, str>,
    /// `usage.purpose`.
    pub purpose: Purpose,
    /// `usage.context`.
    pub context: Cow<'a, str>,
    /// `usage.datasetId`.
    pub dataset_id: Option<Cow<'a, str>>,
    /// `usage.modelId`.
    pub model_id: Option<Cow<'a, str>>,
    /// `usage.queryId`.
    pub query_id: Option<Cow<'a, str>>,
    /// `usage.sessionId`.
    pub session_id: Option<Cow<'a, str>>,
    /// `usage.studyId`.
    pub study_id: Option<Cow<'a, str>>,
    /// `usage.researcherId`.
    pub researcher_id: Option<Cow<'a, str>>,
    /// `signatureAlgorithm`.
    pub algorithm: Algorithm,
    /// `signature`, decoded.
    pub signature: SignatureBytes,
    /// The receipt's JSON as it came.
    pub raw: &'a [u8],
}

impl<'a> Receipt<'a> {
    /// Host of `content.url` in canonical form. Whose receipt it is follows from the host, whatever
    /// parent domain of it `content.publisher` is.
    #[must_use]
    pub fn host(&self) -> Cow<'a, str> {
        match &self.url {
            Cow::Borrowed(url) => host_of(url),
            Cow::Owned(url) => Cow::Owned(host_of(url).into_owned()),
        }
    }
}

fn host_of(url: &str) -> Cow<'_, str> {
    rules::url_host(url).and_then(canonical_host).unwrap_or_default()
}

/// Members that could be read of a receipt that breaks a rule.
#[derive(Debug)]
pub(crate) struct Unreadable<'a> {
    pub(crate) error: FormatError,
    pub(crate) receipt_id: Option<Uuid>,
    pub(crate) entry_id: Option<Uuid>,
    pub(crate) client_id: Option<Uuid>,
    pub(crate) publisher: Option<Cow<'a, str>>,
}

impl From<FormatError> for Unreadable<'_> {
    fn from(error: FormatError) -> Self {
        Self {
            error,
            receipt_id: None,
            entry_id: None,
            client_id: None,
            publisher: None,
        }
    }
}

/// Reads a body that is one receipt: its JSON, and every rule that needs no cryptography.
///
/// `received_at_ms` is the time of arrival in Unix milliseconds, against which the timestamp is
/// held.
///
/// # Errors
/// Up to 20 faults; one alone where the body isn't I-JSON.
pub fn parse_receipt<'a>(
    body: &'a [u8],
    received_at_ms: i64,
    limits: &Limits,
    scratch: &mut Scratch,
) -> Result<Receipt<'a>, FormatError> {
    check_size(body.len(), limits)?;
    let text = utf8(body)?;
    let Scratch { tape, key_kinds, .. } = scratch;
    Scanner::new(text, limits.depth_max, limits.string_bytes_max).document(tape)?;
    let mut key_kind = |pem: &str| key_kinds.of(pem);
    read(tape, text, received_at_ms, limits, &mut key_kind).map_err(|unreadable| unreadable.error)
}

/// Refuses a receipt that is longer than the limit.
pub(crate) fn check_size(bytes: usize, limits: &Limits) -> Result<(), FormatError> {
    if bytes <= limits.receipt_bytes_max {
        return Ok(());
    }
    Err(FormatError::one(
        String::new(),
        FaultCode::ReceiptTooLarge,
        too_large_detail(limits),
    ))
}

pub(crate) fn too_large_detail(limits: &Limits) -> String {
    format!(
        "a receipt may take {} bytes: shorten or remove members",
        limits.receipt_bytes_max
    )
}

/// Reads a scanned receipt. `key_kind` says which kind of key a PEM holds, or what is wrong with
/// it.
pub(crate) fn read<'a>(
    tape: &Tape,
    text: &'a str,
    received_at_ms: i64,
    limits: &Limits,
    key_kind: &mut dyn FnMut(&str) -> Result<Algorithm, String>,
) -> Result<Receipt<'a>, Box<Unreadable<'a>>> {
    let mut fields = Fields {
        tape,
        text,
        faults: Faults::of_receipt(),
    };
    if tape.kind(0) != NodeKind::Object {
        fields.wrong_type("", "an object", 0);
        return Err(Box::new(fields.faults.into_error().into()));
    }
    for &id in &tape.long {
        let (pointer, max) = (tape.pointer_to(id, text), limits.string_bytes_max);
        // A URL has a smaller limit of its own.
        if pointer != "/content/url" && text::unescaped_len(tape.inner(id, text)) > max {
            fields.faults.push(
                pointer,
                FaultCode::TooLong,
                format!("shorten the string to {max} bytes"),
            );
        }
    }

    let [
        client,
        content,
        receipt_id,
        signature,
        algorithm,
        timestamp,
        usage,
        version,
    ] = tape.members(
        0,
        text,
        [
            "client",
            "content",
            "receiptId",
            "signature",
            "signatureAlgorithm",
            "timestamp",
            "usage",
            "version",
        ],
    );
    fields.version(version);
    let receipt_id = fields.uuid(receipt_id, "/receiptId");
    let timestamp_ms = fields.timestamp(timestamp, received_at_ms, limits);

    let [content_hash, entry_id, publisher, url] = fields
        .object(content, "/content", ["contentHash", "entryId", "publisher", "url"])
        .unwrap_or_default();
    let has_content = fields.is_object(content);
    let entry_id = has_content.then(|| fields.uuid(entry_id, "/content/entryId")).flatten();
    let publisher = has_content.then(|| fields.publisher(publisher)).flatten();
    let url = has_content
        .then(|| fields.url(url, publisher.as_deref(), limits))
        .flatten();
    let content_hash = has_content.then(|| fields.content_hash(content_hash)).flatten();

    let [client_id, client_name, organization, public_key, client_version] = fields
        .object(
            client,
            "/client",
            ["id", "name", "organization", "publicKey", "version"],
        )
        .unwrap_or_default();
    let has_client = fields.is_object(client);
    let client_id = has_client.then(|| fields.uuid(client_id, "/client/id")).flatten();
    let client_name = has_client.then(|| fields.text(client_name, "/client/name")).flatten();
    let client_version = has_client
        .then(|| fields.text(client_version, "/client/version"))
        .flatten();
    let organization = has_client
        .then(|| fields.text(organization, "/client/organization"))
        .flatten();
    let public_key = has_client
        .then(|| fields.string(public_key, "/client/publicKey"))
        .flatten();
    let kind = public_key.as_deref().and_then(|pem| fields.key_kind(pem, key_kind));

    let [
        context,
        dataset_id,
        model_id,
        purpose,
        query_id,
        researcher_id,
        session_id,
        study_id,
    ] = fields
        .object(
            usage,
            "/usage",
            [
                "context",
                "datasetId",
                "modelId",
                "purpose",
                "queryId",
                "researcherId",
                "sessionId",
                "studyId",
            ],
        )
        .unwrap_or_default();
    let has_usage = fields.is_object(usage);
    let purpose = has_usage.then(|| fields.purpose(purpose)).flatten();
    let context = has_usage.then(|| fields.text(context, "/usage/context")).flatten();
    let dataset_id = fields.optional(dataset_id, "/usage/datasetId");
    let model_id = fields.optional(model_id, "/usage/modelId");
    let query_id = fields.optional(query_id, "/usage/queryId");
    let session_id = fields.optional(session_id, "/usage/sessionId");
    let study_id = fields.optional(study_id, "/usage/studyId");
    let researcher_id = fields.optional(researcher_id, "/usage/researcherId");

    let signature_text = signature;
    let signature = fields.signature(signature);
    let algorithm = fields.algorithm(algorithm);
    if let (Some(kind), Some(algorithm)) = (kind, algorithm) {
        fields.check_kind(kind, algorithm, "/client/publicKey");
    }
    if let (Some(signature), Some(algorithm)) = (&signature, algorithm) {
        fields.check_length(signature, signature_text, algorithm);
    }

    let unreadable = |error| {
        let publisher = publisher.clone();
        Err(Box::new(Unreadable {
            error,
            receipt_id,
            entry_id,
            client_id,
            publisher,
        }))
    };
    if !fields.faults.is_empty() {
        return unreadable(fields.faults.into_error());
    }
    // Every `None` has left a fault behind; this is for the types.
    let receipt = (|| {
        Some(Receipt {
            receipt_id: receipt_id?,
            timestamp_ms: timestamp_ms?,
            entry_id: entry_id?,
            url: url?,
            content_hash: content_hash?,
            publisher: publisher.clone()?,
            client_id: client_id?,
            client_name: client_name?,
            client_version: client_version?,
            organization: organization?,
            public_key: public_key?,
            purpose: purpose?,
            context: context?,
            dataset_id,
            model_id,
            query_id,
            session_id,
            study_id,
            researcher_id,
            algorithm: algorithm?,
            signature: signature?,
            raw: tape.raw(0, text).as_bytes(),
        })
    })();
    let Some(receipt) = receipt else {
        let detail = "a required member is missing".to_owned();
        return unreadable(FormatError::one(String::new(), FaultCode::MissingMember, detail));
    };
    Ok(receipt)
}
