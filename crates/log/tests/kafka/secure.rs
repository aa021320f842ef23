//! TLS and logins.

use receipt_log::{
    ConsumeError, KafkaConfig, KafkaLog, LogConsumer, LogWriter,
    kafka_config::{SaslMechanism, SecurityProtocol},
};
use test_engines::Kafka;

use crate::{
    config,
    contract::{ALL, poll_records, record},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_within_tls_is_taken_and_a_wrong_one_reported() {
    let kafka = Kafka::start_secure().unwrap();
    let security = kafka.security().unwrap();
    let config = KafkaConfig {
        security_protocol: SecurityProtocol::SaslSsl,
        ssl_ca: security.certificates.ca.display().to_string(),
        sasl_username: security.login.user.clone(),
        sasl_password: security.login.password.as_str().into(),
        request_wait_ms_max: 5_000,
        ..config(kafka.bootstrap())
    };
    for (appended, mechanism) in [SaslMechanism::Plain, SaslMechanism::ScramSha512]
        .into_iter()
        .enumerate()
    {
        let config = KafkaConfig {
            sasl_mechanism: mechanism,
            ..config.clone()
        };
        let log = KafkaLog::open(config).unwrap();
        log.append(record(appended)).await.unwrap();
        let mut consumer = log.consumer(&format!("{mechanism:?}")).unwrap();
        poll_records(&mut consumer, appended + 1).await;
    }
    let guessed = KafkaConfig {
        sasl_password: "guessed".into(),
        ..config.clone()
    };
    let reported = KafkaLog::open(guessed).unwrap_err().to_string();
    assert!(
        reported.contains("uthentication") && !reported.contains("guessed"),
        "{reported}"
    );
    let stranger = KafkaConfig {
        ssl_ca: String::new(),
        ..config
    };
    let reported = KafkaLog::open(stranger).unwrap_err().to_string();
    assert!(reported.contains("certificate"), "{reported}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_to_read_that_is_missing_is_reported_until_it_is_granted() {
    let kafka = Kafka::start_with_users(&["gateway", "verifier"]).unwrap();
    let security = kafka.security().unwrap();
    let config = KafkaConfig {
        security_protocol: SecurityProtocol::SaslSsl,
        ssl_ca: security.certificates.ca.display().to_string(),
        sasl_username: "gateway".to_owned(),
        sasl_password: security.login.password.as_str().into(),
        ..config(kafka.bootstrap())
    };
    let grant = |user: &str, rights: &str| {
        kafka
            .add_acls(&format!("--allow-principal User:{user} {rights}"))
            .unwrap()
    };
    let topic = format!("--topic {}", config.topic);
    let writing = "--operation Create --operation DescribeConfigs --operation Write";
    grant("gateway", &format!("{topic} {writing}"));
    let log = KafkaLog::open(config.clone()).unwrap();
    log.append(record(0)).await.unwrap();

    grant(
        "verifier",
        &format!("{topic} --operation Describe --operation DescribeConfigs"),
    );
    grant("verifier", "--group readers --operation Read");
    let reader = KafkaConfig {
        sasl_username: "verifier".to_owned(),
        ..config
    };
    let reading = KafkaLog::open(reader).unwrap();
    let mut consumer = reading.consumer("readers").unwrap();
    let mut assigned = 0;
    while assigned < 3 {
        assigned += consumer.poll(ALL).await.unwrap().assigned.len();
    }
    // The first may end before a broker has answered.
    let _ = consumer.poll(ALL).await;
    for _ in 0..3 {
        let Err(ConsumeError::Unavailable(reason)) = consumer.poll(ALL).await else {
            panic!("a poll passes the missing right over")
        };
        assert!(reason.contains("uthorization"), "{reason}");
    }
    grant("verifier", &format!("{topic} --operation Read"));
    log.append(record(1)).await.unwrap();
    let mut records = 0;
    while records < 2 {
        // The broker may refuse for another moment.
        records += consumer.poll(ALL).await.map_or(0, |polled| polled.records.len());
    }
}
