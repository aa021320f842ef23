//! ClickHouse: schema, row writer, queries, and the embedded engine behind the same HTTP protocol.
