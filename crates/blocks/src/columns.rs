//! The columns of a record: one list, of which rows, builders and typed columns are made.

use std::sync::{Arc, LazyLock};

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_array::{
    BinaryArray, BooleanArray, FixedSizeBinaryArray, StringArray, TimestampMillisecondArray, UInt32Array,
};
use arrow_schema::{ArrowError, Field, Fields, Schema, SchemaRef};
use uuid::Uuid;

use crate::BlockError;
use crate::column::{ColumnBuilder, Fixed, Flags, Millis, NumberColumn, Raw, TextColumn};

/// Kinds of columns: a row's type, its value where there is none, its value as the builder takes
/// it, the builder, Arrow's type, and a row's value of an Arrow column.
macro_rules! kind {
    (row Position) => { u128 };
    (row Id) => { Uuid };
    (row Hash) => { &'a [u8; 32] };
    (row Time) => { i64 };
    (row String) => { &'a str };
    (row Bytes) => { &'a [u8] };
    (row Count) => { u32 };
    (row Flag) => { bool };
    (empty Position) => { 0 };
    (empty Id) => { Uuid::nil() };
    (empty Hash) => { &[0; 32] };
    (empty Time) => { 0 };
    (empty String) => { "" };
    (empty Bytes) => { &[] };
    (empty Count) => { 1 };
    (empty Flag) => { true };
    (value Position $value:expr) => { $value.to_le_bytes() };
    (value Id $value:expr) => { $value.into_bytes() };
    (value Hash $value:expr) => { *$value };
    (value $other:ident $value:expr) => { $value };
    (builder Position) => { Fixed<16> };
    (builder Id) => { Fixed<16> };
    (builder Hash) => { Fixed<32> };
    (builder Time) => { Millis };
    (builder String) => { TextColumn };
    (builder Bytes) => { Raw };
    (builder Count) => { NumberColumn };
    (builder Flag) => { Flags };
    (array Time) => { TimestampMillisecondArray };
    (array String) => { StringArray };
    (array Bytes) => { BinaryArray };
    (array Count) => { UInt32Array };
    (array Flag) => { BooleanArray };
    (array $fixed:ident) => { FixedSizeBinaryArray };
    (read Position $value:expr) => { $value.first_chunk().copied().map_or(0, u128::from_le_bytes) };
    (read Id $value:expr) => { Uuid::from_slice($value).unwrap_or_default() };
    (read Hash $value:expr) => { $value.first_chunk().unwrap_or(&[0; 32]) };
    (read $other:ident $value:expr) => { $value };
}

/// Columns in their order: those of all rows with the name of the row's field, those of accepted
/// rows, those of rejected ones, those of accepted rows that were added later, those of rejected
/// rows that were added later, which have their empty value in accepted rows, and again those of
/// accepted rows.
macro_rules! columns {
    ($(
        common { $($(#[$common_doc:meta])+ $common:ident as $field:ident: $common_kind:ident,)+ }
        accepted { $($(#[$accepted_doc:meta])+ $accepted:ident: $accepted_kind:ident,)* }
    )+
    rejected { $($(#[$rejected_doc:meta])+ $rejected:ident: $rejected_kind:ident,)+ }
    added { $($(#[$added_doc:meta])+ $added:ident: $added_kind:ident,)+ }
    counted { $($(#[$counted_doc:meta])+ $counted:ident: $counted_kind:ident,)+ }
    stamped { $($(#[$stamped_doc:meta])+ $stamped:ident: $stamped_kind:ident,)+ }) => {
        /// A valid receipt. An empty text is an absent one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct AcceptedRow<'a> {
            $($($(#[$common_doc])+ pub $field: kind!(row $common_kind),)+
            $($(#[$accepted_doc])+ pub $accepted: kind!(row $accepted_kind),)*)+
            $($(#[$added_doc])+ pub $added: kind!(row $added_kind),)+
            $($(#[$stamped_doc])+ pub $stamped: kind!(row $stamped_kind),)+
        }

        impl Default for AcceptedRow<'_> {
            fn default() -> Self {
                Self {
                    $($($field: kind!(empty $common_kind),)+
                    $($accepted: kind!(empty $accepted_kind),)*)+
                    $($added: kind!(empty $added_kind),)+
                    $($stamped: kind!(empty $stamped_kind),)+
                }
            }
        }

        impl<'a> AcceptedRow<'a> {
            /// The receipt as a rejected row, with what both kinds of rows have.
            #[must_use]
            pub fn as_rejected(&self, reason: &'a str, detail: &'a str) -> RejectedRow<'a> {
                RejectedRow {
                    $($($field: self.$field,)+)+
                    $($counted: kind!(empty $counted_kind),)+
                    reason,
                    detail,
                }
            }
        }

        impl Columns {
            /// A row's values as those of an accepted receipt.
            ///
            /// # Panics
            /// There is no such row.
            #[must_use]
            pub fn accepted_row(&self, row: usize) -> AcceptedRow<'_> {
                AcceptedRow {
                    $($($field: kind!(read $common_kind self.$common.value(row)),)+
                    $($accepted: kind!(read $accepted_kind self.$accepted.value(row)),)*)+
                    $($added: kind!(read $added_kind self.$added.value(row)),)+
                    $($stamped: kind!(read $stamped_kind self.$stamped.value(row)),)+
                }
            }

            /// A row's values as those of a rejected receipt.
            ///
            /// # Panics
            /// There is no such row.
            #[must_use]
            pub fn rejected_row(&self, row: usize) -> RejectedRow<'_> {
                RejectedRow {
                    $($($field: kind!(read $common_kind self.$common.value(row)),)+)+
                    $($rejected: kind!(read $rejected_kind self.$rejected.value(row)),)+
                    $($counted: kind!(read $counted_kind self.$counted.value(row)),)+
                }
            }
        }

        /// A rejected receipt with its bytes. Values that couldn't be read are empty, nil or zero.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct RejectedRow<'a> {
            $($($(#[$common_doc])+ pub $field: kind!(row $common_kind),)+)+
            $($(#[$rejected_doc])+ pub $rejected: kind!(row $rejected_kind),)+
            $($(#[$counted_doc])+ pub $counted: kind!(row $counted_kind),)+
        }

        columns! {
            $($($(#[$common_doc])+ $common: $common_kind,)+
            $($(#[$accepted_doc])+ $accepted: $accepted_kind,)*)+
            $($(#[$rejected_doc])+ $rejected: $rejected_kind,)+
            $($(#[$added_doc])+ $added: $added_kind,)+
            $($(#[$counted_doc])+ $counted: $counted_kind,)+
            $($(#[$stamped_doc])+ $stamped: $stamped_kind,)+
        }

        impl Builders {
            pub(crate) fn push_accepted(&mut self, row: &AcceptedRow<'_>) {
                $($(self.$common.push(kind!(value $common_kind row.$field));)+
                $(self.$accepted.push(kind!(value $accepted_kind row.$accepted));)*)+
                $(self.$rejected.push(Default::default());)+
                $(self.$added.push(kind!(value $added_kind row.$added));)+
                $(self.$counted.push(kind!(empty $counted_kind));)+
                $(self.$stamped.push(kind!(value $stamped_kind row.$stamped));)+
            }

            pub(crate) fn push_rejected(&mut self, row: &RejectedRow<'_>) {
                $($(self.$common.push(kind!(value $common_kind row.$field));)+
                $(self.$accepted.push(Default::default());)*)+
                $(self.$rejected.push(kind!(value $rejected_kind row.$rejected));)+
                $(self.$added.push(Default::default());)+
                $(self.$counted.push(kind!(value $counted_kind row.$counted));)+
                $(self.$stamped.push(Default::default());)+
            }
        }
    };
    ($($(#[$doc:meta])+ $name:ident: $kind:ident,)+) => {
        /// Names of the columns in their order.
        pub const COLUMN_NAMES: &[&str] = &[$(stringify!($name)),+];

        fn fields() -> Fields {
            vec![$(Field::new(stringify!($name), <kind!(builder $kind)>::data_type(), false)),+].into()
        }

        /// Columns that are being built.
        #[derive(Default)]
        pub(crate) struct Builders {
            $(pub(crate) $name: kind!(builder $kind),)+
        }

        impl Builders {
            pub(crate) fn append(&mut self, other: Self) {
                $(self.$name.append(other.$name);)+
            }

            pub(crate) fn bytes(&self) -> usize {
                0 $(+ self.$name.bytes())+
            }

            pub(crate) fn finish(self) -> Result<Vec<ArrayRef>, BlockError> {
                let invalid = |name, why: ArrowError| BlockError::Invalid(format!("column {name}: {why}"));
                Ok(vec![$(
                    Arc::new(self.$name.finish().map_err(|why| invalid(stringify!($name), why))?),
                )+])
            }
        }

        /// Typed columns of a record or of a part of one. Values are read by row number.
        #[derive(Debug, Clone)]
        pub struct Columns {
            $($(#[$doc])+ pub $name: kind!(array $kind),)+
        }

        impl Columns {
            /// Columns of a batch that begins with those of [`schema`]. No value is copied.
            ///
            /// # Errors
            /// The batch's columns are others.
            pub fn new(batch: &RecordBatch) -> Result<Self, BlockError> {
                let mut arrays = batch.columns().iter();
                Ok(Self {
                    $($name: arrays
                        .next()
                        .filter(|array| *array.data_type() == <kind!(builder $kind)>::data_type())
                        .and_then(|array| array.as_any().downcast_ref().cloned())
                        .ok_or_else(|| BlockError::Damaged(format!("it has no column {}", stringify!($name))))?,)+
                })
            }
        }
    };
}

columns! {
    common {
        /// Position in the log `receipts` (`receipt_log::Position::receipt`); little-endian.
        position as position: Position,
        /// Host of `content.url`, in lower case.
        publisher as publisher: String,
        /// `timestamp`, milliseconds since the Unix epoch.
        timestamp as timestamp_ms: Time,
        /// `content.entryId`.
        entry_id as entry_id: Id,
        /// `receiptId`.
        receipt_id as receipt_id: Id,
        /// SHA-256 of the canonical bytes.
        payload_hash as payload_hash: Hash,
        /// When the gateway took the request, milliseconds since the Unix epoch.
        received_at as received_at_ms: Time,
    }
    accepted {
        /// `content.url`.
        url: String,
        /// `content.contentHash`, decoded.
        content_hash: Hash,
    }
    common {
        /// `client.id`.
        client_id as client_id: Id,
    }
    accepted {
        /// `client.name`.
        client_name: String,
        /// `client.version`.
        client_version: String,
        /// `client.organization`.
        organization: String,
    }
    common {
        /// SHA-256 of the SPKI of the key that signed. Of a rejected row the key whose signature of
        /// the request or batch was verified; zero if none was.
        key_fingerprint as key_fingerprint: Hash,
    }
    accepted {
        /// `signatureAlgorithm`.
        algorithm: String,
        /// `usage.purpose`.
        purpose: String,
        /// `usage.context`.
        context: String,
        /// `usage.datasetId`.
        dataset_id: String,
        /// `usage.modelId`.
        model_id: String,
        /// `usage.queryId`.
        query_id: String,
        /// `usage.sessionId`.
        session_id: String,
        /// `usage.studyId`.
        study_id: String,
        /// `usage.researcherId`.
        researcher_id: String,
    }
    common {
        /// The request's ID.
        request_id as request_id: String,
        /// The peer's address.
        client_address as client_address: String,
        /// Kind of the log record: `receipt` or `batch`.
        kind as kind: String,
        /// Bytes of the receipt as received, or of the record where no receipt could be
        /// distinguished.
        raw as raw: Bytes,
        /// `X-Service-Signature` of the request, empty without one.
        request_signature as request_signature: String,
        /// Part of its record that `raw` is: `record` or `signed_batch`; `not_stored` without
        /// bytes.
        origin as origin: String,
    }
    accepted {}
    rejected {
        /// Reason, one of `receipt::RejectReason`: empty exactly for accepted rows.
        reason: String,
        /// Finding in detail, for people.
        detail: String,
    }
    added {
        /// Domain of the operator whose key signed the receipt, as of its arrival; empty if the
        /// receipt is unproven.
        operator: String,
        /// `signature` of the batch that the receipt arrived in, decoded; empty for single
        /// receipts.
        batch_signature: Bytes,
        /// SHA-256 of the batch's canonical bytes; zeros for single receipts.
        batch_hash: Hash,
    }
    counted {
        /// Number of receipts that the row counts: 1, unless its `origin` is `not_stored`.
        receipts: Count,
    }
    stamped {
        /// Whether somebody had verified the publisher's domain before the receipt arrived; true
        /// without an account store, and false in rejected rows.
        publisher_verified: Flag,
    }
}

/// `origin` of a row that counts rejected receipts whose bytes aren't stored.
pub const NOT_STORED: &str = "not_stored";

/// The schema of a record's batch, without the header.
#[must_use]
pub fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| Arc::new(Schema::new(fields())));
    Arc::clone(&SCHEMA)
}
