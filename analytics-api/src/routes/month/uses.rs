//! `uses.csv` of a month: the uses of each entry by each client.

use serde::Serialize;
use usage::{EntryClientUsage, RankingPage, RankingSort};
use uuid::Uuid;
use web::format::column::{RowColumn, integer, text};
use web::format::table::{RowFormat, Table};
use web::stream::BrokenOff;

use super::{MonthArchive, NO_ANSWER};
use crate::answers::ByTrust;
use crate::format::archive::{Archive, unwritable};
use crate::labels::{Labelled, Labels};
use crate::signers::{Signer, Signers};

/// Rows of a query.
const PAGE_ROWS: u32 = 4_000;

const COLUMNS: [RowColumn; 12] = [
    text("entryId"),
    text("title"),
    text("url"),
    text("clientId"),
    text("name"),
    text("organization"),
    text("keyFingerprint"),
    text("operator"),
    text("trust"),
    text("clientIdClaimedBy"),
    integer("receiptCount"),
    integer("provenReceiptCount"),
];

/// Row of the file.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UseRow {
    entry_id: String,
    title: String,
    url: String,
    client_id: String,
    name: String,
    organization: String,
    #[serde(flatten)]
    signer: Signer,
    receipt_count: u64,
    by_trust: ByTrust,
}

impl UseRow {
    fn new(usage: EntryClientUsage, labels: &Labels, signers: &Signers<'_>) -> Self {
        let Labelled { url, title, .. } = labels.of_entry(usage.entry_id, usage.url);
        Self {
            entry_id: usage.entry_id.to_string(),
            title,
            url,
            client_id: usage.client_id.to_string(),
            name: usage.name,
            organization: usage.organization,
            signer: signers.signer(usage.client_id, &usage.key_fingerprint, usage.operator),
            receipt_count: usage.by_trust.total(),
            by_trust: usage.by_trust.into(),
        }
    }
}

impl MonthArchive {
    /// Writes the rows in the order of entries and clients.
    pub(super) async fn write_uses(&self, archive: &mut Archive<'_>) -> Result<(), BrokenOff> {
        // With the mark by which spreadsheets recognise UTF-8.
        let mut table = Table::new(RowFormat::Csv { bom: true }, COLUMNS.to_vec()).map_err(unwritable)?;
        let mut page = RankingPage {
            sort: RankingSort::Id,
            is_descending: false,
            ..RankingPage::top(PAGE_ROWS)
        };
        loop {
            let asked = self.app.ask(&self.principal.account_id, async |snapshot| {
                snapshot.usage().entry_clients(&self.scope, &self.filter, &page).await
            });
            let (_, found) = asked.await.map_err(|_| NO_ANSWER)?;
            let mut ids: Vec<Uuid> = found.items.iter().map(|one| one.entry_id).collect();
            ids.dedup();
            let labels = Labels::of(&self.app, &self.principal, &ids).await;
            let rows = found.items.iter().map(|one| (one.client_id, one.operator.as_str()));
            let signers = Signers::of(&self.app, &self.principal.trusted_operators, rows).await;
            for usage in found.items {
                table
                    .row(&UseRow::new(usage, &labels, &signers), &[])
                    .map_err(unwritable)?;
                let written = table.take().map_err(unwritable)?;
                archive.write(&written).await?;
            }
            page.after = found.next;
            if page.after.is_none() {
                break;
            }
        }
        archive.write(&table.end().map_err(unwritable)?).await
    }
}
