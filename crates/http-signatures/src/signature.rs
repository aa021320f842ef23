//! Signatures of RFC 9421: parsed from the two fields, and the bytes that they cover.

use receipt::{Algorithm, PublicKey};
use sfv::{BareItem, Dictionary, FieldType as _, InnerList, ListEntry, Parser};

/// Signatures of one message that are read.
pub const SIGNATURES_MAX: usize = 32;
/// Bytes of a field that are read.
const FIELD_BYTES_MAX: usize = 16 << 10;
/// Components that a signature may cover.
const COMPONENTS_MAX: usize = 16;
/// Seconds by which a signer's clock may be ahead.
const CLOCK_AHEAD_S: i64 = 60;

/// Why a signature doesn't hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SignatureError(String);

pub(crate) fn error(detail: impl Into<String>) -> SignatureError {
    SignatureError(detail.into())
}

/// The message that a signature covers a part of. Derived components are those of RFC 9421 section
/// 2.2. In a response, those of its request have the parameter `req`.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// `@method`.
    pub method: &'a str,
    /// `@target-uri`.
    pub target_uri: &'a str,
    /// `@authority`: in lower case, without the scheme's default port.
    pub authority: &'a str,
    /// `content-digest`, if the message has one and the caller has compared it with the content.
    pub content_digest: Option<&'a str>,
    /// Whether the signed message is the response to this request.
    pub is_response: bool,
}

/// A signature, and what it covers.
#[derive(Debug, Clone)]
pub struct MessageSignature {
    /// The signature's bytes.
    pub signature: Vec<u8>,
    /// The signature's parameters as the signer has put them, with the components.
    input: InnerList,
}

impl MessageSignature {
    /// Reads the fields `Signature-Input` and `Signature` of a message.
    ///
    /// # Errors
    /// A field that isn't one, is too long, or has more than [`SIGNATURES_MAX`] signatures.
    pub fn parse(signature_input: &str, signature: &str) -> Result<Vec<Self>, SignatureError> {
        let inputs = dictionary("Signature-Input", signature_input)?;
        let signatures = dictionary("Signature", signature)?;
        let mut found = Vec::new();
        for (label, input) in inputs {
            let ListEntry::InnerList(input) = input else {
                return Err(error(format!(
                    "Signature-Input: {} isn't a list of components",
                    label.as_str()
                )));
            };
            if input.items.len() > COMPONENTS_MAX {
                return Err(error(format!(
                    "a signature may cover at most {COMPONENTS_MAX} components"
                )));
            }
            let bytes = match signatures.get(&label) {
                Some(ListEntry::Item(item)) => item.bare_item.as_byte_sequence(),
                _ => None,
            };
            let Some(bytes) = bytes else {
                return Err(error(format!("Signature has no bytes for {}", label.as_str())));
            };
            found.push(Self {
                signature: bytes.to_vec(),
                input,
            });
        }
        Ok(found)
    }

    /// The parameter `keyid`.
    #[must_use]
    pub fn key_id(&self) -> Option<&str> {
        self.text("keyid")
    }

    /// The parameter `tag`.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.text("tag")
    }

    /// Checks that the signature covers at least these components, was created and hasn't expired,
    /// holds for at most `seconds_max`, and is the key's. `now_s` is in seconds since the Unix
    /// epoch.
    ///
    /// # Errors
    /// A rule that doesn't hold, in a sentence for the signer.
    pub fn verify(
        &self,
        key: &PublicKey,
        message: &Message<'_>,
        components: &[&str],
        now_s: i64,
        seconds_max: i64,
    ) -> Result<(), SignatureError> {
        self.check_times(now_s, seconds_max)?;
        let covered: Vec<&str> = self
            .input
            .items
            .iter()
            .filter_map(|item| name(&item.bare_item))
            .collect();
        if let Some(missing) = components.iter().find(|component| !covered.contains(component)) {
            return Err(error(format!("the signature must cover \"{missing}\"")));
        }
        let named = match key.algorithm() {
            Algorithm::Ed25519 => "ed25519",
            Algorithm::Rsa2048 => "rsa-v1_5-sha256",
            Algorithm::EcdsaP256 => "ecdsa-p256-sha256",
        };
        if self.text("alg").is_some_and(|alg| alg != named) {
            return Err(error(format!("alg must be \"{named}\", as the key is, or be left out")));
        }
        if key.verify(self.base(message)?.as_bytes(), &self.signature) {
            Ok(())
        } else {
            Err(error("the signature isn't the key's over the covered components"))
        }
    }

    fn check_times(&self, now_s: i64, seconds_max: i64) -> Result<(), SignatureError> {
        let (created, expires) = (self.number("created"), self.number("expires"));
        let (Some(created), Some(expires)) = (created, expires) else {
            return Err(error(
                "the signature needs the parameters created and expires, in seconds",
            ));
        };
        if created > now_s + CLOCK_AHEAD_S {
            return Err(error(format!("created is {created}, in the future: it is {now_s} now")));
        }
        if expires <= now_s {
            return Err(error(format!("expired at {expires}: it is {now_s} now")));
        }
        if expires - created > seconds_max {
            return Err(error(format!(
                "expires must be at most {seconds_max} seconds after created"
            )));
        }
        Ok(())
    }

    /// The signature base (RFC 9421 section 2.5).
    fn base(&self, message: &Message<'_>) -> Result<String, SignatureError> {
        let mut base = String::new();
        let mut seen = Vec::with_capacity(self.input.items.len());
        for item in &self.input.items {
            let name = name(&item.bare_item).ok_or_else(|| error("a component's name is a text"))?;
            let of_request = match item.params.iter().next() {
                None => false,
                Some((key, value)) if item.params.len() == 1 && key.as_str() == "req" => {
                    value.as_boolean() == Some(true)
                }
                Some((key, _)) => return Err(error(format!("the parameter {} isn't supported", key.as_str()))),
            };
            if seen.contains(&(name, of_request)) {
                return Err(error(format!("\"{name}\" is covered twice")));
            }
            seen.push((name, of_request));
            let is_of_request = of_request == message.is_response;
            let value = match name {
                "@method" if is_of_request => Some(message.method),
                "@target-uri" if is_of_request => Some(message.target_uri),
                "@authority" if is_of_request => Some(message.authority),
                "content-digest" if !of_request => message.content_digest,
                _ => None,
            };
            let value = value.ok_or_else(|| error(format!("the component \"{name}\" isn't supported here")))?;
            let shown = serialized(ListEntry::Item(item.clone()))?;
            base.push_str(&format!("{shown}: {value}\n"));
        }
        let parameters = serialized(ListEntry::InnerList(self.input.clone()))?;
        base.push_str(&format!("\"@signature-params\": {parameters}"));
        Ok(base)
    }

    fn parameter(&self, name: &str) -> Option<&BareItem> {
        let mut parameters = self.input.params.iter();
        parameters.find(|(key, _)| key.as_str() == name).map(|(_, value)| value)
    }

    fn text(&self, parameter: &str) -> Option<&str> {
        self.parameter(parameter)?.as_string().map(|text| text.as_str())
    }

    fn number(&self, parameter: &str) -> Option<i64> {
        self.parameter(parameter)?.as_integer().map(i64::from)
    }
}

fn name(item: &BareItem) -> Option<&str> {
    item.as_string().map(|text| text.as_str())
}

fn serialized(entry: ListEntry) -> Result<String, SignatureError> {
    vec![entry].serialize().ok_or_else(|| error("nothing to serialize"))
}

pub(crate) fn dictionary(field: &str, value: &str) -> Result<Dictionary, SignatureError> {
    if value.len() > FIELD_BYTES_MAX {
        return Err(error(format!("{field} has at most {FIELD_BYTES_MAX} bytes")));
    }
    let parsed: Result<Dictionary, sfv::Error> = Parser::new(value).parse();
    let parsed = parsed.map_err(|why| error(format!("{field} isn't a dictionary (RFC 9651): {why}")))?;
    if parsed.len() > SIGNATURES_MAX {
        return Err(error(format!("{field} has at most {SIGNATURES_MAX} members")));
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests;
