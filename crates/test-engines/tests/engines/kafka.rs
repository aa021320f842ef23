use std::path::PathBuf;

use test_engines::Kafka;

/// Records of partition 0 of a topic that `kcat` reads, from its beginning.
fn read(kafka: &Kafka, topic: &str) -> String {
    kafka
        .kcat(&["-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q"])
        .unwrap()
}

fn write(kafka: &Kafka, topic: &str, text: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let path = file.path().display().to_string();
    kafka.kcat(&["-P", "-t", topic, "-p", "0", "-l", &path]).unwrap();
}

#[test]
fn its_records_outlive_a_kill_and_a_freeze_and_its_folder_does_not_outlive_it() {
    let kafka = Kafka::start_with(&[("auto.create.topics.enable", "true")]).unwrap();
    write(&kafka, "retained", "one\ntwo\n");
    assert_eq!(read(&kafka, "retained"), "one\ntwo\n");
    kafka.kill().unwrap();
    assert!(kafka.kcat(&["-L", "-m", "1"]).is_err());
    kafka.restart().unwrap();
    assert_eq!(read(&kafka, "retained"), "one\ntwo\n");
    kafka.freeze().unwrap();
    assert!(kafka.kcat(&["-L", "-m", "1"]).is_err());
    kafka.thaw().unwrap();
    write(&kafka, "retained", "three\n");
    kafka.stop().unwrap();
    kafka.restart().unwrap();
    assert_eq!(read(&kafka, "retained"), "one\ntwo\nthree\n");
    let folder: PathBuf = kafka.log().parent().unwrap().to_owned();
    assert!(folder.is_dir());
    drop(kafka);
    assert!(!folder.exists());
}

#[test]
fn a_secure_one_takes_its_login_and_no_other() {
    let kafka = Kafka::start_secure().unwrap();
    assert!(kafka.kcat(&["-L"]).unwrap().contains("1 brokers"));
    // Later settings win.
    assert!(
        kafka
            .kcat(&["-L", "-m", "3", "-X", "sasl.mechanism=PLAIN"])
            .unwrap()
            .contains("1 brokers")
    );
    assert!(kafka.kcat(&["-L", "-m", "3", "-X", "sasl.password=guessed"]).is_err());
    assert!(
        kafka
            .kcat(&["-L", "-m", "3", "-X", "security.protocol=PLAINTEXT"])
            .is_err()
    );
}
