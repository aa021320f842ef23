//! Refusals of the warehouse: their errors, and verdicts that come out otherwise the second
//! time.

use warehouse::{CommittedOffset, REFUSED_BY_WAREHOUSE, Remedy, Target, Warehouse, WarehouseConfig, WarehouseError};

use crate::harness::{
    PASSWORD, Receipt, USER, accepted, config, fresh, insert, insert_rejected, position, rejected, run, sql, tcp,
};

#[test]
fn a_constraint_refuses_the_block_that_breaks_it_as_a_matter_of_rows() {
    run(async {
        let warehouse = fresh().await;
        let constraint = "ALTER TABLE receipts ADD CONSTRAINT few CHECK purpose != 'other'";
        sql(warehouse.database(), constraint).await;
        let mut rows = [0, 1, 2].map(|n| (Receipt::new(n), position(0, n as u64, 0)));
        rows[1].0.purpose = "other".to_owned();
        let error = warehouse.insert_accepted(&[accepted(&rows)], None).await.unwrap_err();
        assert!(matches!(error, WarehouseError::Refused { code: 469, .. }), "{error}");
        assert_eq!((error.remedy(), error.is_about_rows()), (Remedy::Split, true));
        assert_eq!(warehouse.totals().await.unwrap().receipts, 0, "all or nothing");
        warehouse.accepts_receipts().await.unwrap();
    });
}

#[test]
fn a_table_that_is_not_as_we_made_it_takes_nothing_and_needs_a_person() {
    run(async {
        let warehouse = fresh().await;
        sql(
            warehouse.database(),
            "ALTER TABLE receipts RENAME COLUMN url TO address",
        )
        .await;
        let probe = warehouse.accepts_receipts().await;
        assert!(!probe.unwrap_err().is_retryable());
        let rows = accepted(&[(Receipt::new(1), position(0, 1, 0))]);
        let error = warehouse.insert_accepted(&[rows], None).await.unwrap_err();
        assert_eq!(error.remedy(), Remedy::Person, "{error}");
    });
}

#[test]
fn a_server_without_the_cluster_is_found_out_at_once() {
    run(async {
        let config = WarehouseConfig {
            url: Some(format!("http://{}", tcp().await)),
            user: Some(USER.to_owned()),
            password: Some(PASSWORD.into()),
            shards: vec![format!("http://{}/shard_of_no_cluster", tcp().await)],
            cluster: Some("elsewhere".to_owned()),
            ..config()
        };
        let target = Target::Url(config.url.clone().unwrap());
        let warehouse = Warehouse::connect(&target, &config).await.unwrap();
        let error = warehouse.migrate().await.unwrap_err();
        assert!(matches!(error, WarehouseError::Config(_)), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("`elsewhere`") && text.contains("no such cluster"),
            "{text}"
        );
        assert!(text.contains("wanted: shard_of_no_cluster"), "{text}");
    });
}

#[test]
fn verdicts_of_blocks_that_were_not_committed_can_be_found_and_taken_back() {
    run(async {
        let warehouse = fresh().await;
        let refused = |partition, offset| rejected(position(partition, offset, 2), REFUSED_BY_WAREHOUSE);
        let rows = [
            refused(0, 4),
            refused(0, 5),
            refused(1, 9),
            refused(2, 0),
            rejected(position(0, 6, 0), "malformed"),
        ];
        insert_rejected(&warehouse, &rows).await;
        let end = |partition, next_offset| CommittedOffset {
            epoch: 1,
            partition,
            next_offset,
        };
        let above = warehouse
            .refused_above(&[end(0, 5), end(1, 0)], &[REFUSED_BY_WAREHOUSE], 100)
            .await
            .unwrap();
        assert_eq!(above, [position(0, 5, 2), position(1, 9, 2)]);
        assert!(
            warehouse
                .refused_above(&[], &[REFUSED_BY_WAREHOUSE], 100)
                .await
                .unwrap()
                .is_empty()
        );
        let other_epoch = CommittedOffset { epoch: 2, ..end(0, 0) };
        assert!(
            warehouse
                .refused_above(&[other_epoch], &[REFUSED_BY_WAREHOUSE], 100)
                .await
                .unwrap()
                .is_empty()
        );

        insert(&warehouse, &[(Receipt::new(1), position(0, 5, 2))]).await;
        let occurrences = [
            (uuid::Uuid::from_u128(1), position(0, 5, 2)),
            (uuid::Uuid::from_u128(1), position(1, 9, 2)),
        ];
        assert_eq!(
            warehouse.standing_positions(&occurrences).await.unwrap(),
            [position(0, 5, 2)]
        );
    });
}
