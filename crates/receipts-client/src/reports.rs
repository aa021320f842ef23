//! Reports of receipts that end without an acknowledgement.

use bytes::Bytes;
use serde::Deserialize;
use uuid::Uuid;

use crate::options::{ClientOptions, RefusedReceipt};
use crate::spool::DamagedFile;

/// Logs the end of a receipt, and hands it to the program.
pub(crate) fn report(options: &ClientOptions, refused: &RefusedReceipt) {
    let RefusedReceipt {
        receipt_id,
        code,
        pointer,
        detail,
        ..
    } = refused;
    tracing::error!(
        receipt_id,
        code,
        pointer,
        detail,
        "a receipt ends without an acknowledgement"
    );
    if let Some(on_refused) = &options.on_refused {
        on_refused(refused);
    }
}

/// The report of a receipt.
pub(crate) fn refused(receipt: &Bytes, code: &str, pointer: &str, detail: &str) -> RefusedReceipt {
    RefusedReceipt {
        receipt_id: receipt_id(receipt),
        code: code.to_owned(),
        pointer: pointer.to_owned(),
        detail: detail.to_owned(),
        receipt: receipt.clone(),
    }
}

/// The reports of bytes that can't be read: of each receipt whose ID is in them.
pub(crate) fn damaged(damage: &DamagedFile) -> Vec<RefusedReceipt> {
    let detail = format!("the spool's file can't be read: {}", damage.location);
    let of_run = |run: &Bytes| {
        let mut ids = receipt_ids(run);
        if ids.is_empty() {
            ids.push(String::new());
        }
        let detail = detail.clone();
        let run = run.clone();
        ids.into_iter().map(move |receipt_id| RefusedReceipt {
            receipt_id,
            code: "damaged".to_owned(),
            pointer: String::new(),
            detail: detail.clone(),
            receipt: run.clone(),
        })
    };
    damage.runs.iter().flat_map(of_run).collect()
}

/// Returns the ID of a receipt.
fn receipt_id(receipt: &[u8]) -> String {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct IdentifiedReceipt {
        receipt_id: String,
    }
    serde_json::from_slice::<IdentifiedReceipt>(receipt).map_or_else(|_| String::new(), |receipt| receipt.receipt_id)
}

/// Returns the IDs in the bytes of receipts in canonical form. Within a text the quotation marks
/// would be escaped.
fn receipt_ids(data: &[u8]) -> Vec<String> {
    const MEMBER: &[u8] = br#""receiptId":""#;
    let positions = data
        .windows(MEMBER.len())
        .enumerate()
        .filter(|(_, window)| *window == MEMBER);
    let ids = positions.filter_map(|(at, _)| {
        let id = data.get(at + MEMBER.len()..)?.get(..36)?;
        Some(Uuid::try_parse_ascii(id).ok()?.to_string())
    });
    ids.collect()
}
