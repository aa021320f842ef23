//! Signing receipts and batches. What comes out is canonical JSON.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rayon::prelude::*;

use crate::canonical::{SIGNATURE_MEMBERS, write_value};
use crate::fault::{Fault, FaultCode, FormatError};
use crate::scan::{Scanner, utf8};
use crate::spki::Spki;
use crate::tape::{NodeId, NodeKind, Tape};
use crate::{KeyError, Limits, SigningKey, batch, receipt, text};

/// Why a receipt or batch couldn't be signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The document isn't a JSON object of the right shape, or exceeds a limit.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The document names another key than the one it is to be signed with.
    #[error("client.publicKey at \"{0}\" is another key than the one to sign with")]
    OtherKey(String),
    /// The key failed.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Signs a receipt: `signature` and `signatureAlgorithm` are added, or replaced, and so is a
/// missing `client.publicKey`. Other members are only scanned, not checked by the rules of the
/// format.
///
/// # Errors
/// JSON that isn't an object with a `client` object, a receipt that is too large, or another key in
/// it.
pub fn sign_receipt(json: &[u8], key: &SigningKey, limits: &Limits) -> Result<Vec<u8>, SignError> {
    let text = utf8(json).map_err(FormatError::from)?;
    let mut tape = Tape::default();
    scan(text, limits, &mut tape)?;
    let mut members = CanonicalMembers::of(&tape, 0, text, "")?;
    let [client] = tape.members(0, text, ["client"]);
    if client == 0 {
        let detail = "add the required member \"client\"".to_owned();
        return Err(FormatError::one("/client".to_owned(), FaultCode::MissingMember, detail).into());
    }
    let mut client_members = CanonicalMembers::of(&tape, client, text, "/client")?;
    match tape.members(client, text, ["publicKey"]) {
        [0] => client_members.set_string("publicKey", key.public_key_pem()),
        [public_key] => check_key(&tape, public_key, text, key)?,
    }
    members.set("client", client_members.to_json());
    let signed = members.signed(key)?;
    receipt::check_size(signed.len(), limits)?;
    Ok(signed)
}

/// Signs a batch: every receipt that lacks `signature` or `signatureAlgorithm` as [`sign_receipt`]
/// does (in parallel, on the calling thread's rayon pool), then the batch.
///
/// # Errors
/// As for a receipt, with pointers into the batch; no array of receipts; a batch that is too large.
pub fn sign_batch(json: &[u8], key: &SigningKey, limits: &Limits) -> Result<Vec<u8>, SignError> {
    batch::check_size(json.len(), limits)?;
    let text = utf8(json).map_err(FormatError::from)?;
    let mut tape = Tape::default();
    scan(text, limits, &mut tape)?;
    let mut members = CanonicalMembers::of(&tape, 0, text, "")?;
    let receipts = match tape.members(0, text, ["receipts"]) {
        [receipts] if receipts != 0 && tape.kind(receipts) == NodeKind::Array => elements(&tape, receipts),
        _ => {
            let detail = "must be an array of receipts".to_owned();
            return Err(FormatError::one("/receipts".to_owned(), FaultCode::WrongType, detail).into());
        }
    };
    let signed: Vec<Vec<u8>> = receipts
        .par_iter()
        .enumerate()
        .map(|(index, &receipt)| sign_element(&tape, receipt, text, key, limits).map_err(|error| error.below(index)))
        .collect::<Result<_, _>>()?;
    members.set("receipts", [&b"["[..], &signed.join(&b','), b"]"].concat());
    let signed = members.signed(key)?;
    batch::check_size(signed.len(), limits)?;
    Ok(signed)
}

fn scan(text: &str, limits: &Limits, tape: &mut Tape) -> Result<(), FormatError> {
    Ok(Scanner::new(text, limits.depth_max, usize::MAX).document(tape)?)
}

fn elements(tape: &Tape, array: NodeId) -> Vec<NodeId> {
    let end = tape.node(array).next;
    // Bounded before it is read: after the last element of the last member the tape ends.
    let within = |id: NodeId| (id < end).then_some(id);
    std::iter::successors(within(array + 1), |&id| within(tape.node(id).next)).collect()
}

fn sign_element(
    tape: &Tape,
    receipt: NodeId,
    text: &str,
    key: &SigningKey,
    limits: &Limits,
) -> Result<Vec<u8>, SignError> {
    let signed = tape.kind(receipt) == NodeKind::Object && !tape.members(receipt, text, SIGNATURE_MEMBERS).contains(&0);
    if !signed {
        return sign_receipt(tape.raw(receipt, text).as_bytes(), key, limits);
    }
    let mut json = Vec::new();
    write_value(tape, receipt, text, &mut json);
    Ok(json)
}

/// Refuses a receipt that names another key.
fn check_key(tape: &Tape, public_key: NodeId, text: &str, key: &SigningKey) -> Result<(), SignError> {
    let pointer = "/client/publicKey".to_owned();
    if tape.kind(public_key) != NodeKind::String {
        return Err(FormatError::one(pointer, FaultCode::WrongType, "must be a string".to_owned()).into());
    }
    let named = tape.string(public_key, text);
    if named == key.public_key_pem() {
        return Ok(());
    }
    let named = Spki::from_pem(&named)
        .map_err(|detail| FormatError::one(pointer.clone(), FaultCode::InvalidPublicKey, detail))?;
    let ours = Spki::from_pem(key.public_key_pem()).map_err(KeyError::new)?;
    if named.der == ours.der {
        Ok(())
    } else {
        Err(SignError::OtherKey(pointer))
    }
}

impl SignError {
    /// The error of a receipt, its pointers below the batch's.
    fn below(self, index: usize) -> Self {
        let below = |pointer: &str| format!("/receipts/{index}{pointer}");
        match self {
            Self::Format(error) => Self::Format(FormatError {
                faults: error
                    .faults
                    .into_iter()
                    .map(|fault| Fault {
                        pointer: below(&fault.pointer),
                        ..fault
                    })
                    .collect(),
                more: error.more,
            }),
            Self::OtherKey(pointer) => Self::OtherKey(below(&pointer)),
            other => other,
        }
    }
}

/// An object's members, each value canonical already.
struct CanonicalMembers(Vec<(String, Vec<u8>)>);

impl CanonicalMembers {
    fn of(tape: &Tape, object: NodeId, text: &str, pointer: &str) -> Result<Self, FormatError> {
        if tape.kind(object) != NodeKind::Object {
            let detail = format!("must be an object, not {}", tape.kind(object).name());
            return Err(FormatError::one(pointer.to_owned(), FaultCode::WrongType, detail));
        }
        let member = |&name: &NodeId| {
            let mut value = Vec::new();
            write_value(tape, name + 1, text, &mut value);
            (tape.string(name, text).into_owned(), value)
        };
        Ok(Self(tape.names(object).iter().map(member).collect()))
    }

    fn set(&mut self, name: &str, value: Vec<u8>) {
        self.0.retain(|(other, _)| other != name);
        self.0.push((name.to_owned(), value));
        self.0.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    }

    fn set_string(&mut self, name: &str, value: &str) {
        let mut json = Vec::new();
        text::write_string(&mut json, value);
        self.set(name, json);
    }

    fn to_json(&self) -> Vec<u8> {
        let mut out = vec![b'{'];
        for (i, (name, value)) in self.0.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            text::write_string(&mut out, name);
            out.push(b':');
            out.extend_from_slice(value);
        }
        out.push(b'}');
        out
    }

    /// The object as JSON with the signature over everything but the signature's own members.
    fn signed(mut self, key: &SigningKey) -> Result<Vec<u8>, KeyError> {
        self.0.retain(|(name, _)| !SIGNATURE_MEMBERS.contains(&name.as_str()));
        let signature = key.sign(&self.to_json())?;
        self.set_string("signature", &STANDARD.encode(signature));
        self.set_string("signatureAlgorithm", key.algorithm().as_str());
        Ok(self.to_json())
    }
}
