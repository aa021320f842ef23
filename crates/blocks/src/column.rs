//! Builders of columns: plain vectors, which become Arrow buffers without a copy.

use std::marker::PhantomData;

use arrow_array::types::{BinaryType, ByteArrayType, Utf8Type};
use arrow_array::{
    Array, BooleanArray, FixedSizeBinaryArray, GenericByteArray, TimestampMillisecondArray, UInt32Array,
};
use arrow_buffer::{BooleanBufferBuilder, Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, TimeUnit};

/// A column that is being built.
pub(crate) trait ColumnBuilder: Default {
    type Value<'a>;
    type Array: Array;

    fn data_type() -> DataType;
    fn push(&mut self, value: Self::Value<'_>);
    fn append(&mut self, other: Self);
    /// Bytes of the column in a record, without padding.
    fn bytes(&self) -> usize;
    fn finish(self) -> Result<Self::Array, ArrowError>;
}

/// Values of `N` bytes each.
#[derive(Default)]
pub(crate) struct Fixed<const N: usize>(Vec<[u8; N]>);

#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // `N` is 16 or 32.
impl<const N: usize> ColumnBuilder for Fixed<N> {
    type Value<'a> = [u8; N];
    type Array = FixedSizeBinaryArray;

    fn data_type() -> DataType {
        DataType::FixedSizeBinary(N as i32)
    }

    fn push(&mut self, value: [u8; N]) {
        self.0.push(value);
    }

    fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    fn bytes(&self) -> usize {
        self.0.len() * N
    }

    fn finish(self) -> Result<FixedSizeBinaryArray, ArrowError> {
        FixedSizeBinaryArray::try_new(N as i32, Buffer::from_vec(self.0.into_flattened()), None)
    }
}

/// Instants in milliseconds since the Unix epoch.
#[derive(Default)]
pub(crate) struct Millis(Vec<i64>);

impl ColumnBuilder for Millis {
    type Value<'a> = i64;
    type Array = TimestampMillisecondArray;

    fn data_type() -> DataType {
        DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))
    }

    fn push(&mut self, value: i64) {
        self.0.push(value);
    }

    fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    fn bytes(&self) -> usize {
        self.0.len() * size_of::<i64>()
    }

    fn finish(self) -> Result<TimestampMillisecondArray, ArrowError> {
        Ok(TimestampMillisecondArray::new(ScalarBuffer::from(self.0), None).with_timezone("UTC"))
    }
}

/// Numbers.
#[derive(Default)]
pub(crate) struct NumberColumn(Vec<u32>);

impl NumberColumn {
    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().copied().map(u64::from).sum()
    }

    pub(crate) fn has_zero(&self) -> bool {
        self.0.contains(&0)
    }
}

impl ColumnBuilder for NumberColumn {
    type Value<'a> = u32;
    type Array = UInt32Array;

    fn data_type() -> DataType {
        DataType::UInt32
    }

    fn push(&mut self, value: u32) {
        self.0.push(value);
    }

    fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    fn bytes(&self) -> usize {
        self.0.len() * size_of::<u32>()
    }

    fn finish(self) -> Result<UInt32Array, ArrowError> {
        Ok(UInt32Array::new(ScalarBuffer::from(self.0), None))
    }
}

/// Yes or no, one bit each.
pub(crate) struct Flags(BooleanBufferBuilder);

impl Default for Flags {
    fn default() -> Self {
        Self(BooleanBufferBuilder::new(0))
    }
}

impl ColumnBuilder for Flags {
    type Value<'a> = bool;
    type Array = BooleanArray;

    fn data_type() -> DataType {
        DataType::Boolean
    }

    fn push(&mut self, value: bool) {
        self.0.append(value);
    }

    fn append(&mut self, mut other: Self) {
        self.0.append_buffer(&other.0.finish());
    }

    fn bytes(&self) -> usize {
        self.0.len().div_ceil(8)
    }

    fn finish(mut self) -> Result<BooleanArray, ArrowError> {
        Ok(BooleanArray::new(self.0.finish(), None))
    }
}

/// Values of any length. Lengths become offsets at the end, so that `append` is a plain copy.
pub(crate) struct Variable<T> {
    /// A length beyond `i32` is stored as the greatest: then `finish` fails by the sum.
    lengths: Vec<i32>,
    values: Vec<u8>,
    kind: PhantomData<T>,
}

/// UTF-8 text.
pub(crate) type TextColumn = Variable<Utf8Type>;
/// Any bytes.
pub(crate) type Raw = Variable<BinaryType>;

impl<T> Variable<T> {
    pub(crate) fn has_empty_value(&self) -> bool {
        self.lengths.contains(&0)
    }

    pub(crate) fn len(&self) -> usize {
        self.lengths.len()
    }
}

// Derived, it would want a default of `T`.
impl<T> Default for Variable<T> {
    fn default() -> Self {
        let (lengths, values) = Default::default();
        Self {
            lengths,
            values,
            kind: PhantomData,
        }
    }
}

impl<T: ByteArrayType<Offset = i32>> ColumnBuilder for Variable<T> {
    type Value<'a> = &'a T::Native;
    type Array = GenericByteArray<T>;

    fn data_type() -> DataType {
        T::DATA_TYPE
    }

    fn push(&mut self, value: &T::Native) {
        let bytes: &[u8] = value.as_ref();
        self.lengths.push(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
        self.values.extend_from_slice(bytes);
    }

    fn append(&mut self, mut other: Self) {
        self.lengths.append(&mut other.lengths);
        self.values.append(&mut other.values);
    }

    fn bytes(&self) -> usize {
        self.lengths.len() * size_of::<i32>() + self.values.len()
    }

    fn finish(self) -> Result<GenericByteArray<T>, ArrowError> {
        if i32::try_from(self.values.len()).is_err() {
            return Err(ArrowError::OffsetOverflowError(self.values.len()));
        }
        let mut offsets = self.lengths;
        offsets.push(0);
        let mut end = 0;
        for slot in &mut offsets {
            end += std::mem::replace(slot, end);
        }
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        GenericByteArray::try_new(offsets, Buffer::from_vec(self.values), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_the_offsets_are_an_error() {
        // Zeroed pages are never touched, so this needs no memory.
        let column = TextColumn {
            lengths: vec![i32::MAX],
            values: vec![0; 1 << 31],
            ..TextColumn::default()
        };
        assert!(column.finish().unwrap_err().to_string().contains("2147483648"));
    }

    #[test]
    fn lengths_become_offsets() {
        let mut column = TextColumn::default();
        for value in ["", "ab", "", "c"] {
            column.push(value);
        }
        assert_eq!(column.finish().unwrap().value_offsets(), [0, 0, 2, 2, 3]);
        assert_eq!(TextColumn::default().finish().unwrap().value_offsets(), [0]);
    }
}
