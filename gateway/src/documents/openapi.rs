//! The OpenAPI 3.1 document of the gateway.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use service::problem::Kind;

const JSON: &str = "application/json";

/// Refusals of every address that takes receipts.
const OF_BODIES: &[Kind] = &[
    Kind::BadRequest,
    Kind::InvalidEncoding,
    Kind::RequestTimeout,
    Kind::BodyTooLarge,
    Kind::DecodedBodyTooLarge,
    Kind::UnsupportedMediaType,
    Kind::UnsupportedEncoding,
    Kind::RateLimited,
    Kind::Overloaded,
    Kind::ClockStepped,
    Kind::Internal,
    Kind::UnsupportedTransferCoding,
];

/// Refusals of addresses that store receipts, of this service's policy on keys among them.
const OF_SUBMISSIONS: &[Kind] = &[
    Kind::InvalidJson,
    Kind::WrongAddress,
    Kind::ClientKeyUnknown,
    Kind::ClientKeyRevoked,
    Kind::AccountsUnavailable,
    Kind::LogUnavailable,
];

/// The document, with the schemas of receipts and batches.
pub(crate) fn document(receipt: &Value, batch: &Value) -> Value {
    let example = receipt.pointer("/examples/0").cloned().unwrap_or_default();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Receipts: the sender's side",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Send signed usage receipts, one at a time or in batches. What became of them is at \
                `GET /api/v1/client/outcomes` of the analytics API (docs/outcomes.md). A problem's `type` is the \
                address of a page about its code.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"}
        },
        "servers": [{"url": "/"}],
        "tags": [
            {"name": "receipts", "description": "Sending receipts"},
            {"name": "webhook", "description": "Delivering receipts to a publisher"},
            {"name": "service", "description": "The service itself"}
        ],
        "paths": {
            "/api/v1/receipts": {"post": submission(&example)},
            "/api/v1/receipts/batch": {"post": batch_submission()},
            "/api/v1/receipts/explain": {"post": explanation()},
            "/api/service/receipt": {"post": webhook()},
            "/.well-known/receipts-keys.json": {"get": keys()},
            "/healthz": {"get": liveness()},
            "/readyz": {"get": readiness()}
        },
        "components": {
            "schemas": schemas(receipt, batch),
            "headers": headers(),
            "securitySchemes": {"requestSignature": {
                "type": "apiKey", "in": "header", "name": "X-Service-Signature",
                "description": "Base64 (RFC 4648, padded) of the signature of the body's exact bytes by the key in client.publicKey"
            }}
        }
    })
}

fn submission(example: &Value) -> Value {
    let of_receipts = [
        Kind::InvalidReceipt,
        Kind::MissingRequestSignature,
        Kind::InvalidRequestSignature,
        Kind::BadRequestSignature,
    ];
    json!({
        "operationId": "submitReceipt",
        "tags": ["receipts"],
        "summary": "Sends one receipt",
        "description": "202 means that the receipt is stored durably. Whether it counts is decided a moment later. \
            After a time-out, a 429 or a 5xx send the same bytes again: it doesn't count twice.",
        "security": [{"requestSignature": []}],
        "parameters": parameters(),
        "requestBody": body(json!({"$ref": "#/components/schemas/Receipt"}), Some(example)),
        "responses": responses("202", accepted("ReceiptQueued"), &[OF_BODIES, OF_SUBMISSIONS, &of_receipts])
    })
}

fn batch_submission() -> Value {
    let of_batches = [Kind::InvalidBatch, Kind::BadBatchSignature];
    json!({
        "operationId": "submitBatch",
        "tags": ["receipts"],
        "summary": "Sends a batch of receipts",
        "description": "The batch is signed by the key of its receipts, and needs no X-Service-Signature. A batch with \
            a fault is refused whole; `errors` names every faulty receipt by its index, up to 1,000 faults, and \
            `moreErrors` is true if there are more. Drop the faulty receipts and sign the batch again.",
        "security": [],
        "parameters": parameters(),
        "requestBody": body(json!({"$ref": "#/components/schemas/Batch"}), None),
        "responses": responses("202", accepted("BatchQueued"), &[OF_BODIES, OF_SUBMISSIONS, &of_batches])
    })
}

fn explanation() -> Value {
    let ok = json!({
        "description": "What the service makes of the receipt or batch. Nothing is stored",
        "headers": answer_headers(),
        "content": {JSON: {"schema": {"$ref": "#/components/schemas/Explanation"}}}
    });
    json!({
        "operationId": "explain",
        "tags": ["receipts"],
        "summary": "Checks a receipt or batch without storing it",
        "description": "Shows the canonical bytes, the payload hash and the result of each check. A body that isn't a \
            receipt is explained too.",
        "security": [{}, {"requestSignature": []}],
        "parameters": parameters(),
        "requestBody": body(json!({}), None),
        "responses": responses("200", ok, &[OF_BODIES, &[Kind::InvalidRequestSignature]])
    })
}

fn webhook() -> Value {
    let ok = json!({
        "description": "Every signature is good, and the receipts are stored durably",
        "headers": answer_headers(),
        "content": {JSON: {"schema": {"$ref": "#/components/schemas/Verified"}}}
    });
    let of_webhook = [
        Kind::InvalidJson,
        Kind::InvalidReceipt,
        Kind::InvalidBatch,
        Kind::BadSignature,
        Kind::BadBatchSignature,
        Kind::EntryUnknown,
        Kind::AccountsUnavailable,
        Kind::LogUnavailable,
    ];
    json!({
        "operationId": "deliver",
        "tags": ["webhook"],
        "summary": "Delivers a receipt or a batch to a publisher",
        "description": "Every signature is verified before the answer. A batch is taken whole or refused whole.",
        "security": [],
        "parameters": parameters(),
        "requestBody": body(json!({"oneOf": [
            {"$ref": "#/components/schemas/Receipt"}, {"$ref": "#/components/schemas/Batch"}
        ]}), None),
        "responses": responses("200", ok, &[OF_BODIES, &of_webhook])
    })
}

fn keys() -> Value {
    let ok = json!({
        "description": "JWK Set (RFC 7517) of Ed25519 keys (RFC 8037); `kid` is the `keyId` of acknowledgements",
        "headers": {"X-Request-Id": {"$ref": "#/components/headers/X-Request-Id"}},
        "content": {"application/jwk-set+json": {"schema": {"$ref": "#/components/schemas/KeySet"}}}
    });
    json!({
        "operationId": "acknowledgementKeys",
        "tags": ["service"],
        "summary": "Keys that sign acknowledgements",
        "security": [],
        "responses": responses("200", ok, &[OF_ANY])
    })
}

/// Refusals of any address.
const OF_ANY: &[Kind] = &[Kind::BadRequest, Kind::Overloaded, Kind::UnsupportedTransferCoding];

fn liveness() -> Value {
    let ok = json!({
        "description": "The process answers",
        "content": {JSON: {"schema": {"type": "object", "required": ["status"], "properties": {"status": {"const": "alive"}}}}}
    });
    json!({
        "operationId": "liveness",
        "tags": ["service"],
        "summary": "Whether the process answers",
        "security": [],
        "responses": responses("200", ok, &[OF_ANY])
    })
}

fn readiness() -> Value {
    let state = json!({JSON: {"schema": {"$ref": "#/components/schemas/Readiness"}}});
    let ok = json!({"description": "Receipts can be stored", "content": state});
    let mut all = responses("200", ok, &[&[Kind::BadRequest, Kind::UnsupportedTransferCoding]]);
    let schemas = json!({"schema": {"$ref": "#/components/schemas/Readiness"}});
    let problem = json!({"schema": {"$ref": "#/components/schemas/Problem"}});
    all["503"] = json!({
        "description": "Receipts can't be stored now; `components` says why. Or a problem: `overloaded`",
        "content": {JSON: schemas, "application/problem+json": problem}
    });
    json!({
        "operationId": "readiness",
        "tags": ["service"],
        "summary": "Whether receipts can be stored",
        "security": [],
        "responses": all
    })
}

fn parameters() -> Value {
    json!([{
        "name": "Content-Encoding", "in": "header", "required": false,
        "description": "Encoding of the body. Signatures are over the decoded bytes",
        "schema": {"enum": ["gzip", "zstd", "identity"]}
    }])
}

fn body(schema: Value, example: Option<&Value>) -> Value {
    let mut content = json!({"schema": schema});
    if let Some(example) = example {
        content["example"] = example.clone();
    }
    json!({"required": true, "content": {JSON: content}})
}

fn accepted(schema: &str) -> Value {
    json!({
        "description": "Stored durably, with a signed acknowledgement",
        "headers": answer_headers(),
        "content": {JSON: {"schema": {"$ref": format!("#/components/schemas/{schema}")}}}
    })
}

/// The answer of success, and a problem for each status with its codes.
fn responses(status: &str, success: Value, refusals: &[&[Kind]]) -> Value {
    let mut by_status: BTreeMap<u16, Vec<Kind>> = BTreeMap::new();
    for kind in refusals.iter().copied().flatten() {
        let kinds = by_status.entry(kind.status().as_u16()).or_default();
        if !kinds.contains(kind) {
            kinds.push(*kind);
        }
    }
    let mut all = Map::new();
    all.insert(status.to_owned(), success);
    for (status, kinds) in by_status {
        all.insert(status.to_string(), refusal(status, &kinds));
    }
    // Without a body: a head that is over twice the limit is answered by hyper itself.
    let too_large =
        json!({"description": "`head_too_large`: the request head is too large; a problem, or no body at all"});
    all.insert("431".to_owned(), too_large);
    Value::Object(all)
}

fn refusal(status: u16, kinds: &[Kind]) -> Value {
    let lines: Vec<String> = kinds
        .iter()
        .map(|kind| {
            format!(
                "- [`{code}`]({uri}): {title}",
                code = kind.code(),
                uri = kind.type_uri(),
                title = kind.title()
            )
        })
        .collect();
    let types: Vec<&str> = kinds.iter().map(|kind| kind.type_uri()).collect();
    let schema = json!({
        "allOf": [{"$ref": "#/components/schemas/Problem"}],
        "properties": {"type": {"enum": types}, "status": {"const": status}}
    });
    let mut headers = answer_headers();
    if status == 401 {
        headers["WWW-Authenticate"] = json!({"$ref": "#/components/headers/WWW-Authenticate"});
    }
    if matches!(status, 429 | 503) {
        headers["Retry-After"] = json!({"$ref": "#/components/headers/Retry-After"});
    }
    json!({
        "description": lines.join("\n"),
        "headers": headers,
        "content": {"application/problem+json": {"schema": schema}}
    })
}

fn answer_headers() -> Value {
    let names = [
        "X-Request-Id",
        "X-RateLimit-Limit",
        "X-RateLimit-Remaining",
        "X-RateLimit-Reset",
    ];
    let reference = |name: &str| (name.to_owned(), json!({"$ref": format!("#/components/headers/{name}")}));
    Value::Object(names.into_iter().map(reference).collect())
}

fn headers() -> Value {
    let count = |description: &str| json!({"description": description, "schema": {"type": "integer", "minimum": 0}});
    json!({
        "X-Request-Id": {
            "description": "The ID that the request had or was given; logs have it", "schema": {"type": "string"}
        },
        "X-RateLimit-Limit": count(
            "Receipts that the nearest limit allows at once, sent as these are: requests with one receipt, or receipts of \
             batches. Absent without a limit"
        ),
        "X-RateLimit-Remaining": count("Receipts of these that are left"),
        "X-RateLimit-Reset": count("When all of them are left again, in Unix seconds"),
        "WWW-Authenticate": {"description": "`Signature`: what has to be signed", "schema": {"type": "string"}},
        "Retry-After": count("When to send the request again, in seconds")
    })
}

/// Schemas of bodies. Those of receipts are taken from the JSON Schemas.
fn schemas(receipt: &Value, batch: &Value) -> Value {
    let mut all = own_schemas();
    for (name, schema) in [("Receipt", receipt), ("Batch", batch)] {
        all[name] = component(schema);
    }
    let definitions = receipt["$defs"].as_object().into_iter().flatten();
    for (name, schema) in definitions {
        all[name] = component(schema);
    }
    all
}

/// A JSON Schema as a component: without an identity of its own, and with references to components.
fn component(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => members
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "$schema" | "$id" | "$defs"))
            .map(|(name, value)| match value.as_str().filter(|_| name == "$ref") {
                Some(target) => (name.clone(), Value::String(reference(target))),
                None => (name.clone(), component(value)),
            })
            .collect(),
        Value::Array(items) => items.iter().map(component).collect(),
        other => other.clone(),
    }
}

fn reference(target: &str) -> String {
    let name = target.rsplit_once("#/$defs/").map_or("Receipt", |(_, name)| name);
    format!("#/components/schemas/{name}")
}

fn own_schemas() -> Value {
    let text = || json!({"type": "string"});
    let digest = || json!({"type": "string", "pattern": "^[0-9a-f]{64}$"});
    let integer = || json!({"type": "integer", "minimum": 0});
    let queued = |id: Value| {
        let mut properties = id;
        properties["status"] = json!({"const": "queued"});
        properties["acknowledgement"] = json!({"$ref": "#/components/schemas/Acknowledgement"});
        let required: Vec<&String> = properties
            .as_object()
            .map(|all| all.keys().collect())
            .unwrap_or_default();
        json!({"type": "object", "required": required, "properties": properties})
    };
    let receipt_id = || json!({"$ref": "#/components/schemas/uuid"});
    json!({
        "ReceiptQueued": queued(json!({"receiptId": receipt_id()})),
        "BatchQueued": queued(json!({"batchId": text(), "receiptCount": integer()})),
        "Acknowledgement": {
            "type": "object",
            "description": "Signed proof of what is stored (docs/acknowledgements.md): Ed25519 over the other members in canonical form (RFC 8785), or over the root that `path` leads to",
            "required": ["requestDigest", "logPosition", "receivedAt", "keyId", "outcome", "signature"],
            "properties": {
                "requestDigest": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
                "receiptId": receipt_id(),
                "batchId": text(),
                "receiptCount": integer(),
                "logPosition": {
                    "type": "object", "required": ["epoch", "partition", "offset"],
                    "properties": {"epoch": integer(), "partition": integer(), "offset": integer()}
                },
                "receivedAt": {"type": "string", "format": "date-time"},
                "keyId": {"type": "string", "description": "`kid` in /.well-known/receipts-keys.json"},
                "outcome": {"type": "string", "description": "Address of the outcome at the analytics API; for a batch a URI template"},
                "path": {
                    "type": "array",
                    "description": "Of records that were acknowledged together: SHA-256 hashes in base64, from the leaf to the root of a hash tree (RFC 9162)",
                    "items": {
                        "type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": false,
                        "properties": {"left": text(), "right": text()}
                    }
                },
                "signature": {"$ref": "#/components/schemas/signature"}
            }
        },
        "Explanation": {
            "type": "object",
            "required": ["outcome", "checks"],
            "properties": {
                "outcome": {"enum": ["verified", "rejected"]},
                "reason": {"type": "string", "enum": receipt::RejectReason::ALL.iter().map(|reason| reason.as_str()).collect::<Vec<_>>()},
                "receiptId": receipt_id(),
                "batchId": text(),
                "canonical": {"type": "string", "description": "The canonical bytes that the signature is over"},
                "payloadHash": digest(),
                "checks": {"type": "array", "items": {
                    "type": "object", "required": ["check", "result", "detail"],
                    "properties": {
                        "check": {"enum": ["format", "public_key", "signature", "batch_signature", "request_signature"]},
                        "result": {"enum": ["passed", "failed", "skipped"]},
                        "detail": text()
                    }
                }},
                "faults": {"type": "array", "items": {"$ref": "#/components/schemas/Fault"}},
                "receipts": {"type": "array", "items": {"$ref": "#/components/schemas/Explanation"}}
            }
        },
        "Verified": {
            "type": "object",
            "required": ["status"],
            "properties": {
                "status": {"const": "verified"},
                "receiptId": receipt_id(),
                "batchId": text(),
                "receiptCount": integer(),
                "receipts": {"type": "array", "items": {
                    "type": "object", "required": ["receiptId", "status"],
                    "properties": {"receiptId": receipt_id(), "status": {"const": "verified"}}
                }}
            }
        },
        "KeySet": {
            "type": "object", "required": ["keys"],
            "properties": {"keys": {"type": "array", "items": {
                "type": "object", "required": ["kty"],
                "properties": {"kty": {"const": "OKP"}, "crv": {"const": "Ed25519"}, "x": text(), "kid": text()}
            }}}
        },
        "Readiness": {
            "type": "object", "required": ["status", "components"],
            "properties": {
                "status": {"enum": ["ready", "not_ready", "degraded", "draining"]},
                "components": {"type": "object", "additionalProperties": {
                    "type": "object", "required": ["status"], "properties": {"status": text(), "reason": text()}
                }}
            }
        },
        "Problem": {
            "type": "object",
            "description": "An error (RFC 9457)",
            "required": ["type", "title", "status", "code", "detail", "requestId"],
            "properties": {
                "type": {"type": "string", "description": "Address of a page about the code: `/problems/<code>`"},
                "title": text(),
                "status": {"type": "integer"},
                "code": {"type": "string", "description": "Stable code; of a malformed body the first fault's"},
                "detail": {"type": "string", "description": "Advice to a person"},
                "requestId": text(),
                "errors": {
                    "type": "array", "maxItems": service::problem::FAULTS_MAX,
                    "items": {"$ref": "#/components/schemas/Fault"}
                },
                "moreErrors": {"type": "boolean", "description": "`true` if there are more faults than `errors` lists"}
            }
        },
        "Fault": {
            "type": "object",
            "required": ["pointer", "code", "detail"],
            "properties": {
                "pointer": {"type": "string", "description": "JSON Pointer (RFC 6901) into the body; empty for all of it", "examples": ["/receipts/17/timestamp"]},
                "code": text(),
                "detail": text()
            }
        }
    })
}
