//! Advice to a sender, for each outcome that isn't simply counted.

/// The hint for a reason of a rejected receipt, or for another outcome.
pub(crate) fn hint(reason: &str) -> &'static str {
    match reason {
        "malformed" => {
            "send a receipt of format 1.0.0: detail names the members that break a rule; POST /api/v1/receipts/explain \
             checks one without storing it"
        }
        "bad_signature" => {
            "sign the canonical form (RFC 8785) of the receipt without signature and signatureAlgorithm, and change \
             nothing afterwards; POST /api/v1/receipts/explain returns the canonical bytes to compare"
        }
        "bad_batch_signature" => {
            "sign the canonical form (RFC 8785) of the batch without signature and signatureAlgorithm, with its receipts \
             complete"
        }
        "batch_abandoned" => "correct the receipts with bad_signature, and send this one again in another batch",
        "bad_request_signature" => "sign exactly the bytes of the body, before compression, for X-Service-Signature",
        "bad_public_key" => "put the SPKI PEM of an Ed25519, RSA-2048 or P-256 key into client.publicKey",
        "key_algorithm_mismatch" => "name the algorithm of client.publicKey in signatureAlgorithm",
        "bad_content_hash" => "write content.contentHash as sha256: and 64 hexadecimal digits",
        "timestamp_out_of_range" => {
            "send a receipt within 30 days of its timestamp, and keep the clock within 5 minutes; create a new receipt \
             with the true time"
        }
        "unsupported_version" => "write version 1.0.0",
        "unsupported_algorithm" => "sign with Ed25519, RSA-2048 or ECDSA-P256",
        "refused_by_warehouse" => "nothing: every check passed, and the service's operator can replay the receipt",
        "client_key_unknown" => "ask the service's operator to register the key for client.id, then send it again",
        "client_key_revoked" => "sign with a key that isn't revoked, in a new receipt",
        "entry_unknown" => "name an entry of the publisher's in content.entryId, or ask the publisher to create it",
        "duplicate" => "nothing: the receipt counts once; after an answer was lost, sending it again is right",
        "conflict" => "give each receipt its own receiptId: another payload was sent under this one before",
        "unattributed" => {
            "nothing, if the URL's host is right: no totals have the receipt, because nobody had verified a domain that \
             the host belongs to when it arrived"
        }
        _ => "detail says what was found",
    }
}

#[cfg(test)]
mod tests {
    use receipt::RejectReason;

    use super::hint;

    #[test]
    fn every_reason_has_a_hint_of_its_own() {
        let reasons = RejectReason::ALL.iter().map(|reason| reason.as_str());
        let mut hints: Vec<_> = reasons
            .chain(["duplicate", "conflict", "unattributed", "of a later version"])
            .map(hint)
            .collect();
        let all = hints.len();
        hints.sort_unstable();
        hints.dedup();
        assert_eq!(hints.len(), all);
    }
}
