//! Rows of the tables in Arrow's columns, as they are inserted.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, FixedSizeBinaryArray, ListArray, RecordBatch, StringArray, StructArray, TimestampMillisecondArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields, Schema};

use crate::WarehouseError;
use crate::schema::SchemaTable;

/// A column of an insert: its name, and a value for each row.
pub(crate) type InsertColumn = (&'static str, ArrayRef);

/// An `Array(Tuple(...))` column: the length of each row's list, and the tuples' members.
pub(crate) fn lists_of_tuples(
    lengths: impl IntoIterator<Item = usize>,
    members: Vec<ArrayRef>,
) -> Result<ArrayRef, WarehouseError> {
    let tuples = tuples(members)?;
    let item = Arc::new(Field::new("item", tuples.data_type().clone(), false));
    let offsets = OffsetBuffer::from_lengths(lengths);
    let lists = ListArray::try_new(item, offsets, tuples, None).map_err(|_| BROKEN)?;
    Ok(Arc::new(lists))
}

/// A `Tuple(...)` column. The table's tuples have no names, so members are read by order.
fn tuples(members: Vec<ArrayRef>) -> Result<ArrayRef, WarehouseError> {
    let field = |(number, member): (usize, &ArrayRef)| {
        Field::new(format!("member_{number}"), member.data_type().clone(), false)
    };
    let fields: Fields = members.iter().enumerate().map(field).collect();
    Ok(Arc::new(
        StructArray::try_new(fields, members, None).map_err(|_| BROKEN)?,
    ))
}

/// Instants in milliseconds since the Unix epoch as `DateTime64(3, 'UTC')`.
pub(crate) fn instants(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(TimestampMillisecondArray::from_iter_values(values).with_timezone("UTC"))
}

impl SchemaTable {
    /// Columns of this table from a batch of verdicts.
    pub(crate) fn project(&self, verdicts: &RecordBatch) -> Result<RecordBatch, WarehouseError> {
        let source = |name: &str| verdicts.column_by_name(name).ok_or(BROKEN);
        let copies = |names: &[&str]| {
            names
                .iter()
                .map(|name| source(name).cloned())
                .collect::<Result<Vec<_>, _>>()
        };
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for column in self.columns() {
            let values = match column.name {
                "positions" => singletons(source("position")?),
                "unsigned_positions" => {
                    unsigned_positions(source("position")?, source("kind")?, source("request_signature")?)?
                }
                "stamp" => tuples(copies(&["received_at", "operator", "publisher_verified"])?)?,
                "arrival" => tuples(copies(&[
                    "received_at",
                    "position",
                    "raw",
                    "batch_hash",
                    "batch_signature",
                ])?)?,
                name if column.is_nullable() => with_nulls(source(name)?)?,
                name => Arc::clone(source(name)?),
            };
            fields.push(Field::new(
                column.name,
                values.data_type().clone(),
                column.is_nullable(),
            ));
            arrays.push(values);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|_| BROKEN)
    }
}

const BROKEN: WarehouseError = WarehouseError::BadRows("their columns aren't the table's");

/// A list of one element a row.
fn singletons(values: &ArrayRef) -> ArrayRef {
    let item = Arc::new(Field::new("item", values.data_type().clone(), false));
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(1, values.len()));
    Arc::new(ListArray::new(item, offsets, Arc::clone(values), None))
}

/// A list a row: of its position where nothing binds the row's receipt to its sender, neither a
/// batch's signature nor one of the request, else empty.
fn unsigned_positions(
    positions: &ArrayRef,
    kinds: &ArrayRef,
    request_signatures: &ArrayRef,
) -> Result<ArrayRef, WarehouseError> {
    let texts = |array: &ArrayRef| array.as_any().downcast_ref::<StringArray>().cloned().ok_or(BROKEN);
    let (kinds, signatures) = (texts(kinds)?, texts(request_signatures)?);
    let positions: &FixedSizeBinaryArray = positions.as_any().downcast_ref().ok_or(BROKEN)?;
    let (mut lengths, mut unsigned) = (Vec::with_capacity(kinds.len()), Vec::new());
    for ((kind, signature), position) in kinds.iter().zip(&signatures).zip(positions) {
        let is_unsigned = kind != Some("batch") && signature.is_none_or(str::is_empty);
        lengths.push(usize::from(is_unsigned));
        unsigned.extend_from_slice(position.filter(|_| is_unsigned).unwrap_or_default());
    }
    let unsigned = FixedSizeBinaryArray::try_new(16, unsigned.into(), None).map_err(|_| BROKEN)?;
    let item = Arc::new(Field::new("item", unsigned.data_type().clone(), false));
    let lists = ListArray::try_new(item, OffsetBuffer::from_lengths(lengths), Arc::new(unsigned), None);
    Ok(Arc::new(lists.map_err(|_| BROKEN)?))
}

/// Copies values with nulls where a value is zero or empty, which means not known.
fn with_nulls(values: &ArrayRef) -> Result<ArrayRef, WarehouseError> {
    let column = match values.data_type() {
        DataType::FixedSizeBinary(size) => {
            let column: &FixedSizeBinaryArray = values.as_any().downcast_ref().ok_or(BROKEN)?;
            let present = column
                .iter()
                .map(|value| value.is_some_and(|value| value.iter().any(|byte| *byte != 0)));
            let nulls = NullBuffer::from_iter(present);
            let data = column.value_data().to_vec();
            Arc::new(FixedSizeBinaryArray::try_new(*size, data.into(), Some(nulls)).map_err(|_| BROKEN)?) as ArrayRef
        }
        _ => {
            let column: &StringArray = values.as_any().downcast_ref().ok_or(BROKEN)?;
            let nulls = NullBuffer::from_iter(column.iter().map(|value| value.is_some_and(|value| !value.is_empty())));
            let (offsets, data, _) = column.clone().into_parts();
            Arc::new(StringArray::try_new(offsets, data, Some(nulls)).map_err(|_| BROKEN)?)
        }
    };
    Ok(column)
}
