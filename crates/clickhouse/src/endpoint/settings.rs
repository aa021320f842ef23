//! Settings that a request may carry.

/// Settings that may be set for one request, with how their values look.
const ALLOWED: [(&str, Value); 33] = [
    ("allow_nondeterministic_mutations", Value::Number),
    ("async_insert", Value::Number),
    ("distributed_product_mode", Value::Word),
    ("do_not_merge_across_partitions_select_final", Value::Number),
    ("final", Value::Number),
    ("insert_deduplicate", Value::Number),
    ("insert_quorum", Value::Word),
    ("insert_quorum_parallel", Value::Number),
    ("insert_quorum_timeout", Value::Number),
    ("lightweight_deletes_sync", Value::Number),
    ("load_balancing", Value::Word),
    ("max_block_size", Value::Number),
    ("max_bytes_before_external_group_by", Value::Number),
    ("max_bytes_before_external_sort", Value::Number),
    ("max_execution_time", Value::Number),
    ("max_insert_block_size", Value::Number),
    ("max_insert_threads", Value::Number),
    ("max_memory_usage", Value::Number),
    ("max_partitions_per_insert_block", Value::Number),
    ("max_result_bytes", Value::Number),
    ("max_result_rows", Value::Number),
    ("max_threads", Value::Number),
    ("min_insert_block_size_bytes", Value::Number),
    ("min_insert_block_size_rows", Value::Number),
    ("mutations_sync", Value::Number),
    ("optimize_on_insert", Value::Number),
    ("optimize_throw_if_noop", Value::Number),
    ("os_thread_priority", Value::Number),
    ("prefer_localhost_replica", Value::Number),
    ("result_overflow_mode", Value::Word),
    ("select_sequential_consistency", Value::Number),
    ("session_timezone", Value::Word),
    ("skip_unavailable_shards", Value::Number),
];

/// Parameters that ClickHouse knows and that mean nothing here: the answer is always whole.
const IGNORED: [&str; 7] = [
    "buffer_size",
    "client_protocol_version",
    "http_zlib_compression_level",
    "query_id",
    "send_progress_in_http_headers",
    "session_id",
    "wait_end_of_query",
];

#[derive(Clone, Copy)]
enum Value {
    Number,
    Word,
}

/// A setting's value as an SQL literal, `Ok(None)` if it is to be ignored, `Err` with the reason if
/// it isn't allowed.
pub(crate) fn literal(name: &str, value: &str) -> Result<Option<String>, String> {
    if IGNORED.contains(&name) {
        return Ok(None);
    }
    let kind = ALLOWED
        .iter()
        .find(|(allowed, _)| *allowed == name)
        .map(|(_, kind)| *kind);
    match kind {
        None => Err(format!("Setting {name} can't be set through this endpoint")),
        Some(Value::Number) if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
            Ok(Some(value.to_owned()))
        }
        Some(Value::Word)
            if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') =>
        {
            Ok(Some(format!("'{value}'")))
        }
        Some(_) => Err(format!("Setting {name} has a value that doesn't fit it")),
    }
}

#[cfg(test)]
mod tests {
    use super::literal;

    #[test]
    fn only_listed_settings_with_plain_values_pass() {
        assert_eq!(literal("max_threads", "2"), Ok(Some("2".to_owned())));
        assert_eq!(literal("result_overflow_mode", "throw"), Ok(Some("'throw'".to_owned())));
        assert_eq!(literal("wait_end_of_query", "1"), Ok(None));
        for (name, value) in [
            ("max_threads", "2, readonly = 0"),
            ("max_threads", ""),
            ("result_overflow_mode", "a' b"),
            ("readonly", "0"),
            ("max_server_memory_usage", "0"),
            ("max_threads = 1, final", "1"),
        ] {
            assert!(literal(name, value).is_err(), "{name}={value}");
        }
    }
}
