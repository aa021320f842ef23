//! Rows as a Parquet file (`application/vnd.apache.parquet`), written group by group.
//!
//! A group of rows is in memory until it is complete: 10,000 rows, or 4 MiB when encoded. The
//! file's footer describes every group, in about 3 KB for the widest table.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Int64Builder, StringBuilder, TimestampMillisecondBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use jiff::Timestamp;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use serde_json::Value;

use super::column::{CellType, RowColumn};

/// Rows that are encoded together.
const BATCH_ROWS: usize = 1_000;
/// Rows of a group at most.
const GROUP_ROWS_MAX: usize = 10_000;
/// Encoded bytes of a group, after which the next one begins.
const GROUP_BYTES_MAX: usize = 4 << 20;
/// Distinct values of a column that a group lists, in bytes; further ones are written in place.
const DICTIONARY_BYTES_MAX: usize = 256 << 10;
const UTC: &str = "UTC";

/// A file being written.
#[derive(Debug)]
pub(super) struct ParquetRows {
    schema: SchemaRef,
    cells: Vec<CellBuilder>,
    /// Rows in `cells`.
    rows: usize,
    writer: ArrowWriter<Vec<u8>>,
}

/// Cells of one column.
#[derive(Debug)]
enum CellBuilder {
    Text(StringBuilder),
    Integer(Int64Builder),
    Instant(TimestampMillisecondBuilder),
    Flag(BooleanBuilder),
}

impl ParquetRows {
    pub(super) fn new(columns: &[RowColumn]) -> Result<Self, ParquetError> {
        let field = |column: &RowColumn| Field::new(column.name, data_type(column.cells), true);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(GROUP_ROWS_MAX))
            .set_max_row_group_bytes(Some(GROUP_BYTES_MAX))
            .set_dictionary_page_size_limit(DICTIONARY_BYTES_MAX)
            // Of groups, not of pages: what describes pages stays in memory to the end.
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .build();
        Ok(Self {
            writer: ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(properties))?,
            cells: columns.iter().map(|column| CellBuilder::new(column.cells)).collect(),
            rows: 0,
            schema,
        })
    }

    /// Adds the next cell of the column of this index; `None` for a value of another type.
    #[must_use]
    pub(super) fn cell(&mut self, index: usize, value: &Value) -> Option<()> {
        self.cells.get_mut(index)?.append(value)
    }

    /// Ends a row, for which every column has its cell.
    pub(super) fn end_row(&mut self) -> Result<(), ParquetError> {
        self.rows += 1;
        if self.rows < BATCH_ROWS {
            return Ok(());
        }
        self.encode()
    }

    fn encode(&mut self) -> Result<(), ParquetError> {
        self.rows = 0;
        let columns = self.cells.iter_mut().map(CellBuilder::finish).collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        self.writer.write(&batch)
    }

    /// Takes the bytes that were written since the last time.
    pub(super) fn take(&mut self) -> Result<Vec<u8>, ParquetError> {
        self.writer.sync()?;
        Ok(std::mem::take(self.writer.inner_mut()))
    }

    /// The bytes that are left, with the footer.
    pub(super) fn end(mut self) -> Result<Vec<u8>, ParquetError> {
        self.encode()?;
        self.writer.into_inner()
    }
}

fn data_type(cells: CellType) -> DataType {
    match cells {
        CellType::Text => DataType::Utf8,
        CellType::Integer => DataType::Int64,
        CellType::Instant => DataType::Timestamp(TimeUnit::Millisecond, Some(UTC.into())),
        CellType::Flag => DataType::Boolean,
    }
}

impl CellBuilder {
    fn new(cells: CellType) -> Self {
        match cells {
            CellType::Text => Self::Text(StringBuilder::new()),
            CellType::Integer => Self::Integer(Int64Builder::new()),
            CellType::Instant => Self::Instant(TimestampMillisecondBuilder::new().with_timezone(UTC)),
            CellType::Flag => Self::Flag(BooleanBuilder::new()),
        }
    }

    /// `None` for a value of another type.
    fn append(&mut self, value: &Value) -> Option<()> {
        let is_absent = value.is_null();
        match self {
            _ if is_absent => self.append_null(),
            Self::Text(cells) => cells.append_value(value.as_str()?),
            Self::Integer(cells) => cells.append_value(value.as_i64()?),
            Self::Instant(cells) => {
                let instant: Timestamp = value.as_str()?.parse().ok()?;
                cells.append_value(instant.as_millisecond());
            }
            Self::Flag(cells) => cells.append_value(value.as_bool()?),
        }
        Some(())
    }

    fn append_null(&mut self) {
        match self {
            Self::Text(cells) => cells.append_null(),
            Self::Integer(cells) => cells.append_null(),
            Self::Instant(cells) => cells.append_null(),
            Self::Flag(cells) => cells.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Text(cells) => Arc::new(cells.finish()),
            Self::Integer(cells) => Arc::new(cells.finish()),
            Self::Instant(cells) => Arc::new(cells.finish()),
            Self::Flag(cells) => Arc::new(cells.finish()),
        }
    }
}
