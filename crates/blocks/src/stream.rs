//! Arrow IPC streams: writing them, and reading the one of a record.
//!
//! arrow-ipc's own `StreamDecoder` panics at a buffer that isn't inside its message, at a schema
//! without fields and at offsets of an odd length. So this module reads the messages and checks
//! their numbers itself, and arrow-ipc's `RecordBatchDecoder` builds and validates the arrays.

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::RecordBatchDecoder;
use arrow_ipc::writer::{IpcWriteOptions, StreamEncoder};
use arrow_ipc::{Endianness, Message, MetadataVersion, TimeUnit, Type, root_as_message};
use arrow_schema::{ArrowError, DataType, Field};
use bytes::Bytes;

use crate::{BlockError, Header, schema};

/// Begins every message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Longest description of a message (schema with header, or the batch's buffers). Ours have 8 KiB.
const DESCRIPTION_BYTES_MAX: usize = 256 * 1024;

/// Buffers of a message begin at multiples of this.
const ALIGNMENT: usize = 8;

/// Batches of one schema as one Arrow IPC stream, uncompressed: what ClickHouse reads as
/// `FORMAT ArrowStream`.
///
/// # Errors
/// There is no batch, or the batches' schemas differ.
pub fn encode_stream(batches: &[RecordBatch]) -> Result<Bytes, BlockError> {
    let first = batches
        .first()
        .ok_or_else(|| BlockError::Invalid("there is no batch".to_owned()))?;
    if batches.iter().any(|batch| batch.schema_ref() != first.schema_ref()) {
        return Err(BlockError::Invalid(
            "the batches of a stream have different schemas".to_owned(),
        ));
    }
    let parts = encode_parts(first, batches).map_err(|error| BlockError::Invalid(error.to_string()))?;
    let mut stream = Vec::with_capacity(parts.iter().map(Buffer::len).sum());
    for part in &parts {
        stream.extend_from_slice(part);
    }
    Ok(stream.into())
}

fn encode_parts(first: &RecordBatch, batches: &[RecordBatch]) -> Result<Vec<Buffer>, ArrowError> {
    let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
    let mut encoder = StreamEncoder::try_new_with_options(first.schema_ref(), options)?;
    let mut parts = Vec::new();
    for batch in batches {
        parts.extend(encoder.encode(batch)?);
    }
    parts.extend(encoder.finish()?);
    Ok(parts)
}

/// Header and rows of a record. Columns behind ours are ignored.
pub(crate) fn decode(bytes: &Bytes) -> Result<(Header, RecordBatch), BlockError> {
    let bytes = Buffer::from(bytes.clone());
    let mut messages = Messages {
        bytes: &bytes,
        position: 0,
    };
    let (message, _) = messages.next()?.ok_or_else(|| damaged("it has no schema"))?;
    let header = decode_schema(&message)?;
    let (message, body) = messages.next()?.ok_or_else(|| damaged("it has no record batch"))?;
    let batch = decode_batch(&message, &body)?;
    if messages.next()?.is_some() {
        return Err(damaged("it has a third message, where the stream should end"));
    }
    if messages.position != bytes.len() {
        return Err(damaged(format!(
            "{} bytes follow its end",
            bytes.len() - messages.position
        )));
    }
    Ok((header, batch))
}

/// Messages of a stream, one after the other.
struct Messages<'a> {
    bytes: &'a Buffer,
    position: usize,
}

impl<'a> Messages<'a> {
    /// The next message and its body; none at the stream's end.
    fn next(&mut self) -> Result<Option<(Message<'a>, Buffer)>, BlockError> {
        if *self.take(4)? != CONTINUATION {
            return Err(damaged(format!("no message begins at byte {}", self.position - 4)));
        }
        let length = self.take(4)?.try_into().map_or(0, u32::from_le_bytes) as usize;
        if length == 0 {
            return Ok(None);
        }
        if length > DESCRIPTION_BYTES_MAX {
            return Err(damaged(format!("the description of a message has {length} bytes")));
        }
        let message = root_as_message(self.take(length)?)
            .map_err(|error| damaged(format!("the description of a message isn't one: {error}")))?;
        if message.version() != MetadataVersion::V5 {
            return Err(damaged(format!(
                "a message is of Arrow's format {:?}, not V5",
                message.version()
            )));
        }
        let start = self.position;
        let body = self.take(usize::try_from(message.bodyLength()).unwrap_or(usize::MAX))?;
        Ok(Some((message, self.bytes.slice_with_length(start, body.len()))))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], BlockError> {
        let rest = &self.bytes.as_slice()[self.position..];
        let taken = rest.get(..length).ok_or_else(|| {
            damaged(format!(
                "it is cut: {length} bytes should follow byte {}, and {} do",
                self.position,
                rest.len()
            ))
        })?;
        self.position += length;
        Ok(taken)
    }
}

/// Reads the header, and checks that the columns begin with ours.
fn decode_schema(message: &Message<'_>) -> Result<Header, BlockError> {
    let found = message
        .header_as_schema()
        .ok_or_else(|| damaged("its first message isn't a schema"))?;
    let metadata = found.custom_metadata().into_iter().flatten();
    // The version decides what the columns are, so it is read first.
    let header = Header::from_metadata(metadata.filter_map(|entry| entry.key().zip(entry.value())))?;
    if found.endianness() != Endianness::Little {
        return Err(damaged("its numbers aren't little-endian"));
    }
    let mut fields = found.fields().into_iter().flatten();
    for (index, ours) in schema().fields().iter().enumerate() {
        let name = ours.name();
        let field = fields
            .next()
            .ok_or_else(|| damaged(format!("it has no column {name}")))?;
        if field.name() != Some(name) {
            let found = field.name().unwrap_or_default();
            return Err(damaged(format!("column {index} should be {name} and is {found:.80}")));
        }
        if field.nullable() {
            return Err(damaged(format!("column {name} is nullable")));
        }
        if field.dictionary().is_some() {
            return Err(damaged(format!("column {name} has a dictionary")));
        }
        if !is_type(&field, ours) {
            return Err(damaged(format!("column {name} isn't of type {}", ours.data_type())));
        }
    }
    Ok(header)
}

/// Whether a field has the type of one of our columns.
fn is_type(field: &arrow_ipc::Field<'_>, ours: &Field) -> bool {
    match ours.data_type() {
        DataType::UInt32 => field
            .type_as_int()
            .is_some_and(|found| found.bitWidth() == 32 && !found.is_signed()),
        DataType::Boolean => field.type_type() == Type::Bool,
        DataType::Utf8 => field.type_type() == Type::Utf8,
        DataType::Binary => field.type_type() == Type::Binary,
        DataType::FixedSizeBinary(width) => field
            .type_as_fixed_size_binary()
            .is_some_and(|found| found.byteWidth() == *width),
        DataType::Timestamp(_, zone) => field
            .type_as_timestamp()
            .is_some_and(|found| found.unit() == TimeUnit::MILLISECOND && found.timezone() == zone.as_deref()),
        _ => false,
    }
}

/// Reads our columns of a batch, once its numbers can't lead outside the body.
fn decode_batch(message: &Message<'_>, body: &Buffer) -> Result<RecordBatch, BlockError> {
    let batch = message
        .header_as_record_batch()
        .ok_or_else(|| damaged("its second message isn't a record batch"))?;
    if batch.compression().is_some() {
        return Err(damaged("its record batch is compressed, and the log does that"));
    }
    // Every row has a position of 16 bytes, so their number is bounded by the body.
    let rows = batch.length();
    if !usize::try_from(rows).is_ok_and(|rows| rows <= body.len() / 16) {
        return Err(damaged(format!(
            "a body of {} bytes can't have {rows} rows",
            body.len()
        )));
    }
    let schema = schema();
    let columns = schema.fields();
    let mut nodes = batch.nodes().into_iter().flatten();
    let mut buffers = batch.buffers().into_iter().flatten();
    let mut used = 0;
    for column in columns {
        let name = column.name();
        let node = nodes
            .next()
            .ok_or_else(|| damaged(format!("its batch has no column {name}")))?;
        if node.length() != rows || node.null_count() != 0 {
            return Err(damaged(format!(
                "column {name} has {} rows and {} nulls, in a batch of {rows} rows without nulls",
                node.length(),
                node.null_count()
            )));
        }
        let has_offsets = matches!(column.data_type(), DataType::Utf8 | DataType::Binary);
        for index in 0..if has_offsets { 3 } else { 2 } {
            let buffer = buffers
                .next()
                .ok_or_else(|| damaged(format!("column {name} has too few buffers")))?;
            let start = usize::try_from(buffer.offset()).ok();
            let length = usize::try_from(buffer.length()).ok();
            let end = start.zip(length).and_then(|(start, length)| start.checked_add(length));
            // In order and without overlaps, so that copies of unaligned ones stay within the body.
            let inside = start.is_some_and(|start| start >= used && start % ALIGNMENT == 0);
            let whole = !(has_offsets && index == 1) || buffer.length() % 4 == 0;
            used = match end {
                Some(end) if inside && whole && end <= body.len() => end,
                _ => {
                    return Err(damaged(format!(
                        "buffer {index} of column {name} can't be {} bytes at {} in a body of {}",
                        buffer.length(),
                        buffer.offset(),
                        body.len()
                    )));
                }
            };
        }
    }
    RecordBatchDecoder::try_new(body, batch, schema, &HashMap::new(), &message.version())
        .and_then(RecordBatchDecoder::read_record_batch)
        .map_err(|error| damaged(format!("its columns can't be read: {error}")))
}

fn damaged(why: impl Into<String>) -> BlockError {
    BlockError::Damaged(why.into())
}
