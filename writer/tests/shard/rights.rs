//! A ClickHouse server on which the writer's account has the rights that docs/production.md names,
//! and accounts that lack one of them.

use std::net::SocketAddr;

use test_engines::{ClickHouse, ClickHouseUser};
use tokio::task::block_in_place;
use warehouse::{Target, Warehouse};

use crate::harness::{World, run, server_config, wait_until};
use crate::verdicts::{Source, Verdict};

use Verdict::{Accepted, Rejected};

const PASSWORD: &str = "secret";
/// Name of the account that has all rights.
const WHOLE: &str = "writer";

/// The documented grants, without their user.
fn documented() -> Vec<String> {
    let document = include_str!("../../../docs/production.md");
    let grants = document
        .lines()
        .filter_map(|line| line.split_once(" TO receipts_writer;"));
    grants.map(|(grant, _)| grant.to_owned()).collect()
}

fn user(name: &str, grants: Vec<String>) -> ClickHouseUser {
    ClickHouseUser {
        name: name.to_owned(),
        password: PASSWORD.to_owned(),
        grants,
    }
}

/// The table on which an account has no right.
const LACKING: [(&str, &str); 9] = [
    ("without_receipts", "receipts.receipts"),
    ("without_rejected", "receipts.rejected"),
    ("without_usage", "receipts.usage"),
    ("without_ledger", "receipts.ledger"),
    ("without_progress", "receipts.progress"),
    ("without_writers", "receipts.writers"),
    ("without_rebuilds", "receipts.usage_rebuilds"),
    ("without_evidence", "receipts.evidence"),
    ("without_position", "receipts.evidence_progress"),
];

#[test]
fn the_documented_rights_suffice_and_a_missing_one_is_named_and_loses_nothing() {
    let grants = documented();
    let mut users = vec![user(WHOLE, grants.clone())];
    for (name, table) in LACKING {
        let fewer: Vec<_> = grants.iter().filter(|grant| !grant.ends_with(table)).cloned().collect();
        assert_eq!(fewer.len() + 1, grants.len(), "{table}");
        users.push(user(name, fewer));
    }
    run(async {
        let servers = block_in_place(|| ClickHouse::start_with_users(1, &users).unwrap());
        let address: SocketAddr = servers.url(0).strip_prefix("http://").unwrap().parse().unwrap();
        let world = World::on_server(address, WHOLE, PASSWORD).await;
        let mut source = Source::new(3, 0, 1);
        let mut number = 0;
        let mut more = || {
            number += 2;
            source.block(&[
                vec![Accepted(number), Rejected],
                vec![Accepted(number + 1), Accepted(number / 2)],
            ])
        };
        for (name, table) in LACKING {
            world.append(more()).await;
            let config = server_config(address, name, PASSWORD);
            let fewer = Warehouse::new(&Target::Url(config.url.clone().unwrap()), &config).unwrap();
            let writer = world.spawn_with_evidence(fewer);
            wait_until(name, || !writer.reason().is_empty()).await;
            let reason = writer.reason();
            for part in [name, table, "docs/production.md"] {
                assert!(reason.contains(part), "{part}: {reason}");
            }
            writer.stop().await;
        }
        world.append(more()).await;
        let writer = world.spawn_with_evidence(world.warehouse.clone());
        world.stored().await;
        world.evidence(source.receipts().len() as u64).await;
        writer.stop().await;
        world.assert_exact(&[&source]).await;
    });
}
