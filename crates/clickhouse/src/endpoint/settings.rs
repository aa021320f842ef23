//! Settings that a request may carry.

/// Settings that may be set for one request, with how their values look.
const ALLOWED: [(&str, SettingValue); 33] = [
    ("allow_nondeterministic_mutations", SettingValue::Number),
    ("async_insert", SettingValue::Number),
    ("distributed_product_mode", SettingValue::Word),
    ("do_not_merge_across_partitions_select_final", SettingValue::Number),
    ("final", SettingValue::Number),
    ("insert_deduplicate", SettingValue::Number),
    ("insert_quorum", SettingValue::Word),
    ("insert_quorum_parallel", SettingValue::Number),
    ("insert_quorum_timeout", SettingValue::Number),
    ("lightweight_deletes_sync", SettingValue::Number),
    ("load_balancing", SettingValue::Word),
    ("max_block_size", SettingValue::Number),
    ("max_bytes_before_external_group_by", SettingValue::Number),
    ("max_bytes_before_external_sort", SettingValue::Number),
    ("max_execution_time", SettingValue::Number),
    ("max_insert_block_size", SettingValue::Number),
    ("max_insert_threads", SettingValue::Number),
    ("max_memory_usage", SettingValue::Number),
    ("max_partitions_per_insert_block", SettingValue::Number),
    ("max_result_bytes", SettingValue::Number),
    ("max_result_rows", SettingValue::Number),
    ("max_threads", SettingValue::Number),
    ("min_insert_block_size_bytes", SettingValue::Number),
    ("min_insert_block_size_rows", SettingValue::Number),
    ("mutations_sync", SettingValue::Number),
    ("optimize_on_insert", SettingValue::Number),
    ("optimize_throw_if_noop", SettingValue::Number),
    ("os_thread_priority", SettingValue::Number),
    ("prefer_localhost_replica", SettingValue::Number),
    ("result_overflow_mode", SettingValue::Word),
    ("select_sequential_consistency", SettingValue::Number),
    ("session_timezone", SettingValue::Word),
    ("skip_unavailable_shards", SettingValue::Number),
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
enum SettingValue {
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
        Some(SettingValue::Number)
            if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') =>
        {
            Ok(Some(value.to_owned()))
        }
        Some(SettingValue::Word)
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
