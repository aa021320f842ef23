#![allow(clippy::unwrap_used, clippy::expect_used)]
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::*;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Example {
    listen: SocketAddr,
    connections_max: u32,
    name: String,
    ratio: f64,
    mode: Mode,
    url: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Deferred,
    Inline,
}

impl Default for Example {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            connections_max: 10,
            name: "x".to_owned(),
            ratio: 0.5,
            mode: Mode::Deferred,
            url: None,
        }
    }
}

impl Section for Example {
    fn check(&self, faults: &mut ConfigFaults) {
        faults.range("connections_max", self.connections_max, 1..=100);
        faults.require("name", !self.name.is_empty(), "must not be empty");
    }
}

fn read(text: &str, variables: &[(&str, &str)]) -> (Example, Result<(), ConfigError>) {
    let mut source = Source::from_parts(text, variables.iter().copied()).unwrap();
    let example = source.section("gateway");
    (example, source.finish())
}

fn faults(text: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let error = read(text, variables).1.unwrap_err();
    error
        .faults
        .into_iter()
        .map(|fault| format!("{}: {}", fault.location, fault.what))
        .collect()
}

#[test]
fn nothing_given_is_the_defaults() {
    assert_eq!(read("", &[]), (Example::default(), Ok(())));
}

#[test]
fn variables_stand_over_the_file_key_by_key() {
    let text = "[gateway]\nlisten = '127.0.0.1:1'\nname = 'file'\nmode = 'inline'";
    let variables = [
        ("RECEIPTS_GATEWAY_LISTEN", "[::1]:2"),
        ("RECEIPTS_GATEWAY_CONNECTIONS_MAX", "7"),
        ("RECEIPTS_GATEWAY_RATIO", "0.25"),
        ("RECEIPTS_GATEWAY_URL", "postgres://u:p@h/db?x=1#y"),
    ];
    let (example, end) = read(text, &variables);
    assert_eq!(end, Ok(()));
    let wanted = Example {
        listen: "[::1]:2".parse().unwrap(),
        connections_max: 7,
        name: "file".to_owned(),
        ratio: 0.25,
        mode: Mode::Inline,
        url: Some("postgres://u:p@h/db?x=1#y".to_owned()),
    };
    assert_eq!(example, wanted);
}

#[test]
fn a_variables_text_stays_text_where_text_belongs() {
    for text in ["42", "true", "2026-01-01", "1.5", "[a]", "\"", "", "a\nb = 1"] {
        let (example, end) = read("", &[("RECEIPTS_GATEWAY_URL", text)]);
        assert_eq!((example.url.as_deref(), end), (Some(text), Ok(())), "{text:?}");
    }
    assert_eq!(read("", &[("RECEIPTS_GATEWAY_NAME", "\"quoted\"")]).0.name, "quoted");
}

#[test]
fn every_fault_is_reported_at_once_with_its_location() {
    let text =
        "[gateway]\nconnections_max = 'many'\nlistn = '127.0.0.1:1'\nmode = 'sometimes'\n[gatway]\nx = 1\n[log]\n";
    let variables = [
        ("RECEIPTS_GATEWAY_RATIO", "half"),
        ("RECEIPTS_TELEMETRI_X", "1"),
        ("RECEIPTS_GATEWAY", "1"),
    ];
    let found = faults(text, &variables);
    let wanted = [
        "gatway in configuration: no such section; did you mean `gateway`?",
        "RECEIPTS_GATEWAY: names a section without a key; variables are RECEIPTS_<SECTION>_<KEY>",
        "RECEIPTS_TELEMETRI_X: no section `telemetri`; did you mean `telemetry`?; variables are RECEIPTS_<SECTION>_<KEY>",
        "gateway.connections_max in configuration: invalid type: string \"many\", expected u32",
        "gateway.listn in configuration: no such key in [gateway]; did you mean `listen`?",
        "gateway.mode in configuration: unknown variant `sometimes`, expected `deferred` or `inline`",
        "RECEIPTS_GATEWAY_RATIO: invalid type: string \"half\", expected f64",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn values_out_of_range_name_where_they_were_given() {
    let found = faults("[gateway]\nname = ''", &[("RECEIPTS_GATEWAY_CONNECTIONS_MAX", "101")]);
    let wanted = [
        "RECEIPTS_GATEWAY_CONNECTIONS_MAX: is 101, must be 1 to 100",
        "gateway.name in configuration: must not be empty",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn a_number_too_large_for_its_type_is_a_fault() {
    assert_eq!(faults("[gateway]\nconnections_max = -1", &[]).len(), 1);
    assert_eq!(
        faults("", &[("RECEIPTS_GATEWAY_CONNECTIONS_MAX", "4294967296")]).len(),
        1
    );
}

#[test]
fn reserved_and_kubernetes_variables_are_passed_over() {
    let variables = [
        ("RECEIPTS_CONFIG", "x.toml"),
        ("RECEIPTS_TEST_POSTGRES", "1"),
        ("RECEIPTS_GATEWAY_SERVICE_HOST", "10.0.0.7"),
        ("RECEIPTS_GATEWAY_SERVICE_PORT", "80"),
        ("RECEIPTS_GATEWAY_SERVICE_PORT_HTTP", "80"),
        ("RECEIPTS_GATEWAY_PORT", "tcp://10.0.0.7:80"),
        ("RECEIPTS_GATEWAY_PORT_80_TCP", "tcp://10.0.0.7:80"),
        ("RECEIPTS_GATEWAY_PORT_80_TCP_ADDR", "10.0.0.7"),
        ("OTHER_GATEWAY_X", "1"),
    ];
    assert_eq!(read("", &variables), (Example::default(), Ok(())));
    assert_eq!(
        faults("", &[("RECEIPTS_GATEWAY_PORT", "80")]).len(),
        1,
        "a person's own mistake is still one"
    );
}

#[test]
fn a_section_that_isnt_one_and_text_that_isnt_toml() {
    assert_eq!(
        faults("gateway = 3", &[])[0].split(": ").nth(1),
        Some("must be a section")
    );
    let error = Source::from_parts::<&str, &str>("[gateway]\nurl = 'postgres://u:secret@h", [])
        .err()
        .unwrap();
    let shown = error.to_string();
    assert!(shown.contains("line 2: not TOML"), "{shown}");
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn a_file_is_read_and_a_missing_one_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("receipts.toml");
    let error = Source::load(Some(&path)).err().unwrap();
    assert!(error.to_string().contains("receipts.toml: can't be read"), "{error}");
    std::fs::write(&path, "[gateway]\nname = 'n'\ncolour = 1").unwrap();
    let mut source = Source::load(Some(&path)).unwrap();
    assert_eq!(source.section::<Example>("gateway").name, "n");
    let shown = source.finish().unwrap_err().to_string();
    assert!(
        shown.starts_with("the configuration has 1 fault\n  gateway.colour in "),
        "{shown}"
    );
}

#[test]
fn sections_are_compared_once_every_value_has_its_type() {
    let finish = |text: &str| {
        let mut source = Source::from_parts::<&str, &str>(text, []).unwrap();
        let example: Example = source.section("gateway");
        let compared = source.finish_with(|faults| faults.require("gateway.name", example.ratio < 0.5, "is too long"));
        compared.unwrap_err().faults.len()
    };
    assert_eq!(finish(""), 1);
    assert_eq!(finish("[gateway]\nconnections_max = 0"), 2);
    assert_eq!(finish("[gateway]\nratio = 'half'"), 1);
}

#[test]
fn a_section_keeps_the_defaults_that_are_its_own() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(transparent)]
    struct Wider(Example);

    impl Default for Wider {
        fn default() -> Self {
            Self(Example {
                connections_max: 20,
                ..Example::default()
            })
        }
    }

    impl Section for Wider {
        fn check(&self, faults: &mut ConfigFaults) {
            self.0.check(faults);
        }
    }

    let mut source = Source::from_parts::<&str, &str>("[gateway]\nname = 'n'", []).unwrap();
    let wider: Wider = source.section("gateway");
    source.finish().unwrap();
    assert_eq!((wider.0.connections_max, wider.0.name.as_str()), (20, "n"));
    assert_eq!(valid_keys::<Wider>(), valid_keys::<Example>());
}

#[test]
fn keys_are_asked_of_the_type() {
    assert_eq!(
        valid_keys::<Example>(),
        ["listen", "connections_max", "name", "ratio", "mode", "url"]
    );
    assert_eq!(valid_keys::<std::collections::HashMap<String, u8>>(), [""; 0]);
}

proptest::proptest! {
    #[test]
    fn no_environment_and_no_file_makes_it_panic(text in "\\PC{0,60}", name in "[A-Z_]{0,20}", value in "\\PC{0,20}") {
        if let Ok(mut source) = Source::from_parts(&text, [(format!("RECEIPTS_{name}"), value)]) {
            let _: Example = source.section("gateway");
            let _ = source.finish();
        }
    }
}
