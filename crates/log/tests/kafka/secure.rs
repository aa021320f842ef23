//! TLS and logins.

use receipt_log::{
    KafkaConfig, KafkaLog, LogWriter,
    kafka_config::{SaslMechanism, SecurityProtocol},
};
use test_engines::Kafka;

use crate::{
    config,
    contract::{poll_records, record},
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
