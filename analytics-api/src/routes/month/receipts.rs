//! `receipts.ndjson` of a month: receipts as they are listed, each with its evidence.

use serde::Serialize;
use warehouse::{ExportLimits, ExportPage, Filter, QueryScope, ReceiptCursor};
use web::Failure;
use web::stream::BrokenOff;

use super::super::evidence::PayloadEvidence;
use super::super::receipts::{ListedReceipt, listed};
use super::{MonthArchive, NO_ANSWER};
use crate::completeness::Completeness;
use crate::format::archive::{Archive, unwritable};
use crate::state::AnalyticsState;

/// Line of the file. `receipts verify` accepts it, as it accepts an answer with evidence.
#[derive(Serialize)]
struct ReceiptLine {
    #[serde(flatten)]
    receipt: ListedReceipt,
    /// Empty if none is stored, or if it was erased.
    evidence: Vec<PayloadEvidence>,
}

/// Queries the page behind `after`.
pub(super) async fn page(
    app: &AnalyticsState,
    account_id: &str,
    scope: &QueryScope,
    filter: &Filter,
    after: Option<&ReceiptCursor>,
) -> Result<(Completeness, Option<ExportPage>), Failure> {
    let warehouse = app.warehouse();
    app.ask(account_id, async |_| {
        warehouse.export_page(scope, filter, after, ExportLimits::DEFAULT).await
    })
    .await
}

impl MonthArchive {
    /// Writes the receipts from the first page on, and returns how many there are.
    pub(super) async fn write_receipts(
        &self,
        first: Option<ExportPage>,
        archive: &mut Archive<'_>,
    ) -> Result<u64, BrokenOff> {
        let (mut rows, mut next) = (0, first);
        while let Some(ExportPage { receipts, end }) = next {
            rows += receipts.len() as u64;
            let (receipts, evidence): (Vec<_>, Vec<_>) = receipts.into_iter().unzip();
            let receipts = listed(&self.app, &self.principal, receipts).await;
            for (receipt, evidence) in receipts.into_iter().zip(evidence) {
                let line = ReceiptLine {
                    receipt,
                    evidence: PayloadEvidence::new(evidence).into_iter().collect(),
                };
                let mut line = serde_json::to_vec(&line).map_err(unwritable)?;
                line.push(b'\n');
                archive.write(&line).await?;
            }
            let account_id = &self.principal.account_id;
            let page = page(&self.app, account_id, &self.scope, &self.filter, Some(&end));
            next = page.await.map_err(|_| NO_ANSWER)?.1;
        }
        Ok(rows)
    }
}
