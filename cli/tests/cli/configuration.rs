//! `receipts config check`: each wrong configuration is named with its file, its key and what to
//! change.

use std::path::Path;

use crate::command::{Ran, receipts};
use crate::running::on;

/// A configuration, and what its report must say: the key, in the file or missing, and the remedy.
const WRONG: [(&str, &str, &str); 46] = [
    ("[gateway\n", "FILE: line 1", "unclosed table"),
    ("gateway = 1", "gateway in FILE", "write [gateway]"),
    ("[gatway]", "gatway in FILE", "did you mean `gateway`"),
    (
        "[gateway]\nlisen = \"127.0.0.1:1\"",
        "gateway.lisen in FILE",
        "did you mean `listen`",
    ),
    (
        "[gateway]\nlisten = \"localhost:8080\"",
        "gateway.listen in FILE",
        "as in 0.0.0.0:8080",
    ),
    (
        "[gateway]\nappend_wait_ms_max = \"soon\"",
        "gateway.append_wait_ms_max in FILE",
        "expected u64",
    ),
    (
        "[gateway]\nacknowledgement_keys = [\"/nowhere\"]",
        "gateway.acknowledgement_keys in FILE",
        "No such file",
    ),
    (
        "[gateway]\nwebhook_entries_file = \"/nowhere\"",
        "gateway.webhook_entries_file in FILE",
        "No such file",
    ),
    (
        "[gateway]\nlisten = \"127.0.0.1:9000\"\n[telemetry]\nmetrics_listen = \"0.0.0.0:9000\"",
        "gateway.listen in FILE",
        "telemetry.metrics_listen is 0.0.0.0:9000",
    ),
    (
        "[gateway]\nlisten = \"127.0.0.1:1\"\n[analytics]\nlisten = \"0.0.0.0:1\"",
        "analytics.listen in FILE",
        "give one another port",
    ),
    (
        "[kafka]\nbrokers = \"kafka\"",
        "kafka.brokers in FILE",
        "`kafka` isn't HOST:PORT",
    ),
    (
        "[kafka]\nbrokers = \"http://k:9092\"",
        "kafka.brokers in FILE",
        "isn't HOST:PORT",
    ),
    (
        "[kafka]\nbrokers = \"k:9092\"",
        "gateway.acknowledgement_keys",
        "receipts keygen",
    ),
    (
        "[kafka]\nsecurity_protocol = \"tls\"",
        "kafka.security_protocol in FILE",
        "`sasl_ssl`",
    ),
    (
        "[kafka]\nbrokers = \"k:9092\"\nssl_ca = \"/etc/hosts\"",
        "kafka.ssl_ca in FILE",
        "kafka.security_protocol is without TLS",
    ),
    (
        "[kafka]\nbrokers = \"k:9092\"\nsecurity_protocol = \"ssl\"\nssl_ca = \"/nowhere\"",
        "kafka.ssl_ca in FILE",
        "No such file",
    ),
    (
        "[kafka]\nbrokers = \"k:9092\"\ndelivery_wait_ms_max = 8000",
        "kafka.delivery_wait_ms_max in FILE",
        "is 8000",
    ),
    (
        "[warehouse]\nurl = \"clickhouse:8123\"",
        "warehouse.url in FILE",
        "must start with http:// or https://",
    ),
    (
        "[warehouse]\nurl = \"http://u:p@clickhouse:8123\"",
        "warehouse.url in FILE",
        "keys of their own",
    ),
    (
        "[warehouse]\nurl = \"http://c:8123\"\ncluster = \"m\"\nshards = [\"http://c:8123/r_0\"]",
        "warehouse.shards in FILE",
        "needs kafka.brokers",
    ),
    (
        "[warehouse]\nshards = [\"http://c:8123\"]",
        "warehouse.shards in FILE",
        "like http://host:8123/receipts_0",
    ),
    (
        "[warehouse]\nlibrary = \"/nowhere\"",
        "warehouse.library in FILE",
        "No such file",
    ),
    (
        "[warehouse]\nmemory_bytes_max = 1000",
        "warehouse.memory_bytes_max in FILE",
        "must be at least 209715200",
    ),
    (
        "[warehouse]\ninsert_bytes_max = 1000",
        "warehouse.insert_bytes_max in FILE",
        "a rejected batch is one row",
    ),
    (
        "[accounts]\nurl = \"mysql://db\"",
        "accounts.url in FILE",
        "must start with postgres://",
    ),
    (
        "[redis]\nurl = \"localhost:6379\"",
        "redis.url in FILE",
        "redis://host:port",
    ),
    (
        "[redis]\nurl = \"redis://r:6379\"\ntls_ca_file = \"/etc/hosts\"",
        "redis.tls_ca_file in FILE",
        "rediss://",
    ),
    (
        "[redis]\nurl = \"rediss://r:6379\"\ntls_ca_file = \"/nowhere\"",
        "redis.tls_ca_file in FILE",
        "No such file",
    ),
    (
        "[quotas]\nfree_per_minute = 0",
        "quotas.free_per_minute in FILE",
        "must be 1 to",
    ),
    (
        "[telemetry]\nlog_level = \"loud\"",
        "telemetry.log_level in FILE",
        "info",
    ),
    (
        "[telemetry]\nlog_format = \"xml\"",
        "telemetry.log_format in FILE",
        "`text` or `json`",
    ),
    (
        "[auth]\nissuer = \"https://idp.example\"",
        "auth.audience",
        "is needed once any of [auth] is set",
    ),
    (
        "[auth]\nissuer = \"i\"\naudience = \"a\"",
        "auth.jwks_url",
        "or jwks_file or hs256_secret",
    ),
    (
        "[auth]\njwks_url = \"http://idp.example/keys\"",
        "auth.jwks_url in FILE",
        "must start with https://",
    ),
    (
        "[auth]\njwks_file = \"/nowhere\"",
        "auth.jwks_file in FILE",
        "No such file",
    ),
    (
        "[auth]\nissuer = \"https://i\"\naudience = \"a\"\njwks_url = \"https://i/keys\"\nclient_id = \"c\"",
        "publisher.public_url",
        "is needed with auth.client_id",
    ),
    (
        "[smtp]\nhost = \"mail.example\"",
        "smtp.from",
        "as in receipts@example.com",
    ),
    ("[policy]\nclients = \"some\"", "policy.clients in FILE", "`registered`"),
    (
        "[limits]\nbatch_receipts_max = 0",
        "limits.batch_receipts_max in FILE",
        "must be 1 to 65535",
    ),
    (
        "[limits]\nbatch_receipts_max = 65535",
        "warehouse.memory_bytes_max",
        "limits.batch_receipts_max receipts takes",
    ),
    (
        "[limits]\nbatch_bytes_max = 16777216",
        "gateway.inflight_bytes_max",
        "4 times limits.batch_bytes_max",
    ),
    (
        "[log]\nrecord_bytes_max = 2000",
        "log.record_bytes_max in FILE",
        "limits.batch_bytes_max and 4096 bytes more",
    ),
    (
        "[verdicts]\nrecord_bytes_max = 2000",
        "verdicts.record_bytes_max in FILE",
        "3 x limits.batch_bytes_max",
    ),
    (
        "[verifier]\nkey_cache_entries_max = 0",
        "verifier.key_cache_entries_max in FILE",
        "must be at least 1",
    ),
    (
        "[writer]\nevidence = \"yes\"",
        "writer.evidence in FILE",
        "expected a boolean",
    ),
    (
        "[data]\ndir = \"/etc/hosts/data\"",
        "data.dir in FILE",
        "/etc/hosts is no folder",
    ),
];

fn check(file: &Path, data: Option<&Path>, text: &str) -> Ran {
    std::fs::write(file, text).unwrap();
    let args = ["config", "check", "--config", file.to_str().unwrap()];
    match data {
        Some(data) => on(data, &args),
        None => receipts(&args, b""),
    }
}

#[test]
fn each_wrong_configuration_is_named_with_file_key_and_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("receipts.toml");
    for (text, key, remedy) in WRONG {
        let report = check(&file, None, text).expect(2).stderr;
        let key = key.replace("FILE", file.to_str().unwrap());
        let mut lines = report.lines().filter(|line| line.trim_start().starts_with(&key));
        assert!(lines.any(|line| line.contains(remedy)), "{text}\n{report}");
    }
}

#[test]
fn faults_of_all_stages_come_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("receipts.toml");
    let text = "
[gateway]
listen = \"0.0.0.0:9000\"
acknowledgement_keys = [\"/nowhere\"]
[telemetry]
metrics_listen = \"127.0.0.1:9000\"
log_level = \"loud\"
[policy]
stale_ms_max = 1
[kafka]
brokers = \"k:9092\"
delivery_wait_ms_max = 8000
[log]
queue_records_max = 0
";
    let data = dir.path().join("data");
    let report = check(&file, Some(&data), text).expect(2).stderr;
    for fault in [
        "telemetry.log_level in ",
        "policy.stale_ms_max in ",
        "log.queue_records_max in ",
        "kafka.delivery_wait_ms_max in ",
        "gateway.acknowledgement_keys in ",
        "gateway.listen in ",
    ] {
        assert!(report.contains(fault), "{fault}: {report}");
    }
    assert!(!data.exists());
}
