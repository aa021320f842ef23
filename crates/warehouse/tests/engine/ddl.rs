//! The statements that make the tables of a shard, under the real engine's parser.

use crate::harness::{request, run};

#[test]
fn the_engine_reads_every_statement() {
    run(async {
        for (name, text) in [
            ("single", include_str!("../ddl/single.sql")),
            ("replicated", include_str!("../ddl/replicated.sql")),
        ] {
            let statements: Vec<&str> = text.split(";\n\n").filter(|text| !text.trim().is_empty()).collect();
            assert!(statements.len() > 5, "{name}");
            for statement in statements {
                let explain = format!("EXPLAIN AST {statement}");
                let answer = request("POST / HTTP/1.1", explain.as_bytes()).await;
                assert_eq!(answer.status, 200, "{name}: {statement}\n{}", answer.text());
            }
        }
    });
}
