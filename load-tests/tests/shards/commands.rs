//! The operator's commands, as processes, on an installation with several shards.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tokio::task::block_in_place;
use warehouse::SqlStatement;

use crate::installation::Installation;
use crate::load::Model;

/// A publisher in one shard, whose rows a test deletes.
const SMALL: &str = "p7.example";

impl Installation {
    /// Runs `receipts` and returns its exit code and its JSON.
    fn receipts(&self, arguments: &[&str]) -> (Option<i32>, Value) {
        let programs = Path::new(env!("CARGO_BIN_EXE_receipts-load")).parent().unwrap();
        let output = block_in_place(|| {
            let mut command = Command::new(programs.join("receipts"));
            command
                .args(arguments)
                .arg("--json")
                .arg("--config")
                .arg(self.configuration());
            command.arg("--data").arg(self.directory()).output().unwrap()
        });
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        let json = serde_json::from_str(&text).unwrap_or_else(|_| Value::String(errors.into_owned()));
        (output.status.code(), json)
    }

    /// Runs `receipts` and returns its JSON.
    fn receipts_ok(&self, arguments: &[&str]) -> Value {
        let (code, json) = self.receipts(arguments);
        assert_eq!(code, Some(0), "receipts {arguments:?}: {json}");
        json
    }

    /// Lists the shard map, adds an entry, and is refused one for a shard that isn't there.
    pub(crate) fn assert_shards_commands(&self) {
        let shards = |list: &Value| -> Vec<u64> {
            let entries = list.as_array().unwrap_or_else(|| panic!("{list}"));
            entries.iter().map(|entry| entry["shards"].as_u64().unwrap()).collect()
        };
        assert_eq!(shards(&self.receipts_ok(&["shards", "list"])), [2, 3]);
        let (code, refused) = self.receipts(&["shards", "add", "4"]);
        assert_eq!(code, Some(2), "{refused}");
        let split = format!("{SMALL}=2");
        let added = self.receipts_ok(&["shards", "add", "3", "--split", &split]);
        assert_eq!(added["version"], 3, "{added}");
        assert_eq!(shards(&self.receipts_ok(&["shards", "list"])), [2, 3, 3]);
    }

    /// Deletes rows and ledger lines of different shards, and repairs them from `verdicts` while a
    /// writer runs.
    pub(crate) async fn assert_repaired(&self, model: &Model) {
        assert_eq!(self.receipts_ok(&["audit"])["findings"], Value::Array(Vec::new()));
        let warehouse = self.warehouse().await;
        let lines = async || {
            let count = SqlStatement::new("SELECT count() FROM ledger FINAL");
            warehouse.one::<u64>("test", count).await.unwrap()
        };
        let stored = lines().await;
        let receipts = format!("receipts_0.receipts DELETE WHERE publisher = '{SMALL}'");
        let mut damage = vec![
            (0, receipts),
            (1, "receipts_1.ledger DELETE WHERE partition = 1".to_owned()),
        ];
        damage.extend((0..3).map(|shard| (shard, format!("receipts_{shard}.rejected DELETE WHERE 1"))));
        for (shard, deleted) in damage {
            let sql = format!("ALTER TABLE {deleted} SETTINGS mutations_sync = 2");
            block_in_place(|| self.clickhouse().query(shard, &sql).unwrap());
        }
        assert!(lines().await < stored);
        assert!(warehouse.totals().await.unwrap().receipts < model.distinct);
        let (code, found) = self.receipts(&["audit"]);
        assert_eq!(code, Some(1), "{found}");
        for kind in ["accepted_sum", "rejected_sum", "ledger_gap"] {
            assert!(found["findings"].to_string().contains(kind), "{kind}: {found}");
        }
        self.receipts_ok(&["repair"]);
        assert_eq!(self.receipts_ok(&["audit"])["findings"], Value::Array(Vec::new()));
        assert_eq!(lines().await, stored);
        self.assert_equal(model).await;
    }

    /// Loses `verdicts`, and sets the verifiers back.
    pub(crate) async fn rewind(&mut self) {
        let topic = receipt_log::KafkaConfig::default().verdicts_topic;
        self.kafka().delete_topic(&topic).await.unwrap();
        let done = self.receipts_ok(&["rewind"]);
        assert_eq!(done["rewound"], true, "{done}");
        let set_back = |one: &Value| one["to"].as_u64().unwrap() < one["from"].as_u64().unwrap();
        assert!(done["partitions"].as_array().unwrap().iter().any(set_back), "{done}");
        self.reopen_verdicts();
        assert_eq!(self.receipts_ok(&["rewind"])["rewound"], false);
    }
}
