//! A summary as rows, of the dashboard, an entry or a client: `measure,key,label,value`, where a
//! total has neither key nor label.

use crate::answers::{ClientCount, ContentCount, OperatorCount, PurposeCounts, TotalsByTrust};
use crate::format::table::{Table, TableCell};
use crate::signers::Signer;

/// The columns; with a period to compare with there is one more.
pub(crate) fn columns(compared: bool) -> Vec<&'static str> {
    let mut columns = vec!["measure", "key", "label", "value"];
    if compared {
        columns.push("previous");
    }
    columns
}

/// Writes the rows of one summary.
pub(crate) struct SummaryRows<'a> {
    table: &'a mut Table,
    compared: bool,
}

impl<'a> SummaryRows<'a> {
    /// Into `table`, which has [`columns`]`(compared)`.
    pub(crate) fn new(table: &'a mut Table, compared: bool) -> Self {
        Self { table, compared }
    }

    /// A total.
    pub(crate) fn total(&mut self, measure: &str, value: u64, previous: Option<u64>) {
        self.row(measure, TableCell::Nothing, TableCell::Nothing, value, previous);
    }

    /// `usageByPurpose`.
    pub(crate) fn purposes(&mut self, counts: PurposeCounts, previous: Option<PurposeCounts>) {
        let mut previous = previous.map(PurposeCounts::named);
        for (purpose, value) in counts.named() {
            let before = previous.as_mut().and_then(Iterator::next).map(|(_, count)| count);
            self.row("usageByPurpose", purpose.into(), TableCell::Nothing, value, before);
        }
    }

    /// `byTrust`: each part's totals, with the part as key.
    pub(crate) fn parts(&mut self, parts: &TotalsByTrust, previous: Option<TotalsByTrust>) {
        let named = |parts: &TotalsByTrust| [("proven", parts.proven), ("unproven", parts.unproven)];
        let previous = previous.as_ref().map(named);
        for (at, (name, part)) in named(parts).into_iter().enumerate() {
            let before = previous.map(|parts| parts[at].1);
            let receipts = before.map(|part| part.total_receipts);
            self.row(
                "totalReceipts",
                name.into(),
                TableCell::Nothing,
                part.total_receipts,
                receipts,
            );
            let clients = before.map(|part| part.unique_clients);
            self.row(
                "uniqueClients",
                name.into(),
                TableCell::Nothing,
                part.unique_clients,
                clients,
            );
        }
    }

    /// `topContent`.
    pub(crate) fn content(&mut self, top: &[ContentCount]) {
        for content in top {
            let (key, label) = ((&content.entry_id).into(), (&content.title).into());
            self.row("topContent", key, label, content.receipt_count, None);
        }
    }

    /// `keys`: clients by their keys, with their names.
    pub(crate) fn keys<'b>(&mut self, keys: impl Iterator<Item = (&'b Signer, &'b str, u64)>) {
        for (signer, name, receipts) in keys {
            self.row(
                "keys",
                signer.key_fingerprint.as_ref().into(),
                name.into(),
                receipts,
                None,
            );
        }
    }

    /// `operators`, with the domain as key.
    pub(crate) fn operators(&mut self, operators: &[OperatorCount]) {
        for one in operators {
            self.row(
                "topOperators",
                (&one.operator).into(),
                TableCell::Nothing,
                one.receipt_count,
                None,
            );
        }
    }

    /// `topClients`.
    pub(crate) fn clients(&mut self, top: &[ClientCount]) {
        for client in top {
            let (key, label) = ((&client.client_id).into(), (&client.name).into());
            self.row("topClients", key, label, client.receipt_count, None);
        }
    }

    fn row(&mut self, measure: &str, key: TableCell<'_>, label: TableCell<'_>, value: u64, previous: Option<u64>) {
        let mut cells = vec![measure.into(), key, label, value.into()];
        if self.compared {
            cells.push(previous.into());
        }
        self.table.row(&cells);
    }
}
