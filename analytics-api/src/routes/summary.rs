//! A summary as rows, of the dashboard, an entry or a client: `measure,key,label,value`, where a
//! total has neither key nor label.

use serde::Serialize;

use crate::answers::{ClientCount, ContentCount, OperatorCount, PurposeCounts, TotalsByTrust};
use crate::signers::Signer;
use web::format::column::{RowColumn, integer, text};
use web::format::table::{Table, TableError};

/// The columns; with a period to compare with there is one more.
pub(crate) fn columns(compared: bool) -> Vec<RowColumn> {
    let mut columns = vec![text("measure"), text("key"), text("label"), integer("value")];
    if compared {
        columns.push(integer("previous"));
    }
    columns
}

/// Row of a summary.
#[derive(Debug, Default, Serialize)]
struct SummaryRow<'a> {
    measure: &'static str,
    key: Option<&'a str>,
    label: Option<&'a str>,
    value: u64,
    previous: Option<u64>,
}

/// Rows of one summary, being collected.
#[derive(Debug, Default)]
pub(crate) struct SummaryRows<'a>(Vec<SummaryRow<'a>>);

impl<'a> SummaryRows<'a> {
    /// Writes the rows into a table with [`columns`].
    pub(crate) fn write(self, table: &mut Table) -> Result<(), TableError> {
        self.0.iter().try_for_each(|row| table.row(row, &[]))
    }

    /// Adds a total.
    pub(crate) fn total(&mut self, measure: &'static str, value: u64, previous: Option<u64>) {
        self.0.push(SummaryRow {
            measure,
            value,
            previous,
            ..SummaryRow::default()
        });
    }

    fn part(&mut self, measure: &'static str, key: &'a str, value: u64, previous: Option<u64>) {
        self.total(measure, value, previous);
        if let Some(row) = self.0.last_mut() {
            row.key = Some(key);
        }
    }

    fn labelled(&mut self, measure: &'static str, key: Option<&'a str>, label: &'a str, value: u64) {
        self.0.push(SummaryRow {
            measure,
            key,
            label: Some(label),
            value,
            previous: None,
        });
    }

    /// Adds `usageByPurpose`.
    pub(crate) fn purposes(&mut self, counts: PurposeCounts, previous: Option<PurposeCounts>) {
        let mut previous = previous.map(PurposeCounts::named);
        for (purpose, value) in counts.named() {
            let before = previous.as_mut().and_then(Iterator::next).map(|(_, count)| count);
            self.part("usageByPurpose", purpose, value, before);
        }
    }

    /// Adds `byTrust`: each part's totals, with the part as key.
    pub(crate) fn parts(&mut self, parts: &TotalsByTrust, previous: Option<TotalsByTrust>) {
        let before = previous.as_ref();
        for (name, part, before) in [
            ("proven", parts.proven, before.map(|parts| parts.proven)),
            ("unproven", parts.unproven, before.map(|parts| parts.unproven)),
        ] {
            let receipts = before.map(|part| part.total_receipts);
            self.part("totalReceipts", name, part.total_receipts, receipts);
            let clients = before.map(|part| part.unique_clients);
            self.part("uniqueClients", name, part.unique_clients, clients);
        }
    }

    /// Adds `topContent`.
    pub(crate) fn content(&mut self, top: &'a [ContentCount]) {
        for content in top {
            let key = Some(content.entry_id.as_str());
            self.labelled("topContent", key, &content.title, content.receipt_count);
        }
    }

    /// Adds a client's key, with its name.
    pub(crate) fn key(&mut self, signer: &'a Signer, name: &'a str, receipts: u64) {
        self.labelled("keys", signer.key_fingerprint.as_deref(), name, receipts);
    }

    /// Adds `topOperators`, with the domain as key.
    pub(crate) fn operators(&mut self, operators: &'a [OperatorCount]) {
        for one in operators {
            self.part("topOperators", &one.operator, one.receipt_count, None);
        }
    }

    /// Adds `topClients`.
    pub(crate) fn clients(&mut self, top: &'a [ClientCount]) {
        for client in top {
            let key = Some(client.client_id.as_str());
            self.labelled("topClients", key, &client.name, client.receipt_count);
        }
    }
}
