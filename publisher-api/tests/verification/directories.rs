//! Key directories over HTTPS: what each one makes of an operator's keys.

use std::time::Duration;

use http_signatures::{MEDIA_TYPE, PATH};
use publisher_api::PublisherConfig;
use serde_json::{Value, json};

use crate::signer::Signer;
use crate::stack::{BOTH, START_MS, Stack};
use crate::world::{Page, World};

const HOUR_MS: i64 = 3_600_000;

/// The world, the API, and the operator of `lab.test`, whose directory is fetched when a test says
/// so.
struct Lab {
    world: World,
    stack: Stack,
    api_key: String,
    id: String,
}

impl Lab {
    async fn start() -> Self {
        Self::start_with(PublisherConfig {
            directory_interval_ms: 3_600_000,
            ..PublisherConfig::default()
        })
        .await
    }

    async fn start_with(config: PublisherConfig) -> Self {
        let world = World::start().await;
        let client = world.client();
        let stack = Stack::start_with(config, |deps| deps.outbound = client).await;
        let (api_key, id) = operator(&stack, "lab.test").await;
        Self {
            world,
            stack,
            api_key,
            id,
        }
    }

    fn serve(&self, page: Page) {
        self.world.answer("lab.test", PATH, page);
    }

    /// Fetches the directory, and returns the operator.
    async fn fetch(&self) -> Value {
        fetch(&self.stack, &self.api_key, &self.id).await
    }

    fn now_s(&self) -> i64 {
        self.stack.deps.accounts.now_ms() / 1_000
    }

    /// A directory of these keys, each with its proof.
    fn directory(&self, keys: &[&Signer]) -> Page {
        let jwks: Vec<Value> = keys.iter().map(|signer| signer.jwk()).collect();
        self.directory_of(&jwks, keys, "lab.test")
    }

    fn directory_of(&self, jwks: &[Value], signers: &[&Signer], authority: &str) -> Page {
        let times = (self.now_s(), self.now_s() + 300);
        let proofs = signers.iter().enumerate();
        let proofs = proofs.map(|(number, signer)| signer.prove(&format!("sig{number}"), authority, times));
        page(jwks, &proofs.collect::<Vec<_>>())
    }
}

/// A directory with these members of `Signature-Input` and `Signature`.
fn page(jwks: &[Value], proofs: &[(String, String)]) -> Page {
    let (inputs, signatures): (Vec<_>, Vec<_>) = proofs.iter().cloned().unzip();
    let mut fields = format!("content-type: {MEDIA_TYPE}\r\n");
    if !proofs.is_empty() {
        fields += &format!("signature-input: {}\r\n", inputs.join(", "));
        fields += &format!("signature: {}\r\n", signatures.join(", "));
    }
    Page {
        status: 200,
        fields,
        body: json!({"keys": jwks}).to_string(),
        ..Page::default()
    }
}

async fn operator(stack: &Stack, domain: &str) -> (String, String) {
    let api_key = stack.key(domain, BOTH).await;
    let body = json!({"domain": domain});
    let created = stack.server.json("POST", "/api/v1/operators", &api_key, &body).await;
    let id = created.expect(200)["operatorId"].as_str().unwrap().to_owned();
    (api_key, id)
}

async fn fetch(stack: &Stack, api_key: &str, id: &str) -> Value {
    let path = format!("/api/v1/operators/{id}/directory/fetch");
    stack.server.json("POST", &path, api_key, &json!({})).await.expect(200)
}

/// Thumbprints of the keys whose period is open, sorted.
fn open(operator: &Value) -> Vec<&str> {
    let keys = operator["keys"].as_array().unwrap().iter();
    let open = keys.filter(|key| key["until"].is_null());
    let mut open: Vec<&str> = open.map(|key| key["thumbprint"].as_str().unwrap()).collect();
    open.sort_unstable();
    open
}

fn sorted(signers: &[&Signer]) -> Vec<String> {
    let mut thumbprints: Vec<String> = signers.iter().map(|signer| signer.thumbprint().to_owned()).collect();
    thumbprints.sort_unstable();
    thumbprints
}

fn failure(operator: &Value) -> &str {
    operator["directory"]["failure"].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_follow_a_rotated_directory_and_an_emptied_one() {
    let lab = Lab::start().await;
    let [one, two, three] = [1, 2, 3].map(Signer::new);
    lab.serve(lab.directory(&[&one, &two]));
    let fetched = lab.fetch().await;
    assert_eq!(
        (open(&fetched), failure(&fetched)),
        (sorted(&[&one, &two]).iter().map(String::as_str).collect(), "")
    );
    assert!(
        fetched["keys"]
            .as_array()
            .unwrap()
            .iter()
            .all(|key| key["source"] == "directory")
    );
    assert_eq!(fetched["directory"]["fetchedAt"], "2027-01-15T08:00:00.000Z");

    lab.stack.pass_ms(HOUR_MS);
    lab.serve(lab.directory(&[&two, &three]));
    let rotated = lab.fetch().await;
    assert_eq!(open(&rotated), sorted(&[&two, &three]));
    let ended = rotated["keys"].as_array().unwrap().iter();
    let ended: Vec<&Value> = ended.filter(|key| !key["until"].is_null()).collect();
    assert_eq!(ended.len(), 1);
    assert_eq!(
        (&ended[0]["from"], &ended[0]["until"]),
        (&json!("2027-01-15T08:00:00.000Z"), &json!("2027-01-15T09:00:00.000Z"))
    );

    lab.stack.pass_ms(HOUR_MS);
    lab.serve(lab.directory(&[]));
    assert!(
        open(&lab.fetch().await).is_empty(),
        "a directory without keys ends them all"
    );
    lab.serve(lab.directory(&[&one]));
    assert_eq!(
        open(&lab.fetch().await),
        [one.thumbprint()],
        "a key may come back, in a new period"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_fetch_changes_no_key_and_is_repeated_later_and_later() {
    let lab = Lab::start().await;
    let [one, two] = [1, 2].map(Signer::new);
    lab.serve(lab.directory(&[&one]));
    lab.fetch().await;
    let good = lab.directory(&[&two]);
    let redirect = Page {
        status: 302,
        fields: format!("location: https://other.test{PATH}\r\n"),
        ..Page::default()
    };
    lab.world.answer("other.test", PATH, good.clone());
    let jwks: Vec<Value> = (0..33).map(|number| Signer::new(number).jwk()).collect();
    let cases = [
        (
            Page {
                status: 500,
                ..good.clone()
            },
            "answered 500",
        ),
        (
            Page {
                status: 404,
                ..good.clone()
            },
            "answered 404",
        ),
        (
            Page {
                status: 304,
                ..good.clone()
            },
            "redirects aren't followed",
        ),
        (redirect, "redirects aren't followed"),
        (
            Page {
                fields: good.fields.replace(MEDIA_TYPE, "application/json"),
                ..good.clone()
            },
            "Content-Type must be",
        ),
        (
            Page {
                fields: String::new(),
                ..good.clone()
            },
            "Content-Type must be",
        ),
        (
            Page {
                body: format!("{}{}", good.body, " ".repeat(64 << 10)),
                ..good.clone()
            },
            "more than 65536 bytes",
        ),
        (
            Page {
                body: "[]".to_owned(),
                ..good.clone()
            },
            "isn't a JWK Set",
        ),
        (page(&jwks, &[]), "33 keys"),
        (
            Page {
                fields: good.fields.replace("signature: ", "signature: ;"),
                ..good.clone()
            },
            "signatures",
        ),
        (
            Page {
                delay: Duration::from_secs(20),
                ..good.clone()
            },
            "didn't answer within 5 s",
        ),
    ];
    for (number, (page, why)) in (1..).zip(cases) {
        lab.serve(page);
        let failed = lab.fetch().await;
        assert_eq!(open(&failed), [one.thumbprint()], "{why}");
        assert!(failure(&failed).contains(why), "{why}: {}", failure(&failed));
        let directory = &failed["directory"];
        assert_eq!(directory["fetchedAt"], "2027-01-15T08:00:00.000Z", "the last success");
        assert_eq!(directory["failures"], number);
        let minutes = 1_i64 << (number - 1);
        let next: jiff::Timestamp = directory["nextFetchAt"].as_str().unwrap().parse().unwrap();
        assert_eq!(
            next.as_millisecond() - START_MS,
            minutes.min(360) * 60_000,
            "{number} failures"
        );
    }
    lab.serve(good);
    let recovered = lab.fetch().await;
    assert_eq!((open(&recovered), failure(&recovered)), (vec![two.thumbprint()], ""));
    assert_eq!(recovered["directory"]["failures"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_keys_whose_possession_is_proven_are_stored() {
    let lab = Lab::start().await;
    let [one, two, good] = [1, 2, 3].map(Signer::new);
    let now_s = lab.now_s();
    let proof = |signer: &Signer, authority: &str, times| signer.prove("sig", authority, times);
    let (good_input, good_signature) = good.prove("good", "lab.test", (now_s, now_s + 60));
    let foreign = proof(&two, "lab.test", (now_s, now_s + 60));
    let proven = proof(&one, "lab.test", (now_s, now_s + 60));
    let bad = [
        proof(&one, "other.test", (now_s, now_s + 60)),
        proof(&one, "lab.test", (now_s - 120, now_s - 60)),
        proof(&one, "lab.test", (now_s + 120, now_s + 180)),
        proof(&one, "lab.test", (now_s, now_s + 86_401)),
        (
            proven.0.replace("http-message-signatures-directory", "web-bot-auth"),
            proven.1.clone(),
        ),
        // Another key's signature under the name of this one.
        (proven.0.clone(), foreign.1.clone()),
        foreign,
    ];
    for (input, signature) in bad {
        let proofs = [(input.clone(), signature), (good_input.clone(), good_signature.clone())];
        lab.serve(page(&[one.jwk(), good.jwk()], &proofs));
        let fetched = lab.fetch().await;
        assert_eq!(open(&fetched), [good.thumbprint()], "{input}");
        assert!(
            failure(&fetched).contains("no valid signature"),
            "{input}: {}",
            failure(&fetched)
        );
        assert!(failure(&fetched).contains(one.thumbprint()));
    }
    lab.serve(page(&[one.jwk(), good.jwk()], &[proven, (good_input, good_signature)]));
    let fetched = lab.fetch().await;
    assert_eq!((open(&fetched).len(), failure(&fetched)), (2, ""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_operators_key_published_ones_and_other_kinds_are_skipped() {
    let lab = Lab::start().await;
    let [mine, theirs] = [1, 2].map(Signer::new);
    let (other_key, other_id) = operator(&lab.stack, "other.test").await;
    lab.world.answer(
        "other.test",
        PATH,
        lab.directory_of(&[theirs.jwk()], &[&theirs], "other.test"),
    );
    assert_eq!(
        open(&fetch(&lab.stack, &other_key, &other_id).await),
        [theirs.thumbprint()]
    );
    let jwks = [
        mine.jwk(),
        theirs.jwk(),
        // RFC 9421 appendix B.1.4.
        json!({"kty": "OKP", "crv": "Ed25519", "x": "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}),
        json!({"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA"}),
        json!({"kty": "oct", "k": "AA"}),
        mine.jwk(),
    ];
    lab.serve(lab.directory_of(&jwks, &[&mine, &theirs], "lab.test"));
    let fetched = lab.fetch().await;
    assert_eq!(open(&fetched), [mine.thumbprint()]);
    assert!(
        failure(&fetched).contains("another operator has this key"),
        "{}",
        failure(&fetched)
    );
    assert_eq!(
        open(&fetch(&lab.stack, &other_key, &other_id).await),
        [theirs.thumbprint()]
    );
    // When the other one gives it up, the next fetch stores it.
    lab.world
        .answer("other.test", PATH, lab.directory_of(&[], &[], "other.test"));
    fetch(&lab.stack, &other_key, &other_id).await;
    let fetched = lab.fetch().await;
    assert_eq!(open(&fetched).len(), 2);
    // Faulty keys are named, other kinds aren't.
    let fault = failure(&fetched);
    assert!(
        fault.starts_with("key 3 of the set was skipped: it is a test key") && !fault.contains(';'),
        "{fault}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_ends_when_its_jwk_forbids_its_use() {
    let lab = Lab::start().await;
    let [stays, ends] = [1, 2].map(Signer::new);
    let serve = |ending: Value| lab.serve(lab.directory_of(&[stays.jwk(), ending], &[&stays, &ends], "lab.test"));
    let with = |name: &str, value: Value| {
        let mut jwk = ends.jwk();
        jwk[name] = value;
        jwk
    };
    for (name, value, cause) in [
        ("exp", json!(1), "expired at 1"),
        ("use", json!("enc"), "`use` is \"enc\""),
        ("d", json!("AA"), "private part `d`"),
    ] {
        serve(ends.jwk());
        assert_eq!(open(&lab.fetch().await).len(), 2);
        serve(with(name, value));
        let fetched = lab.fetch().await;
        assert_eq!(open(&fetched), [stays.thumbprint()]);
        assert!(failure(&fetched).contains(cause), "{}", failure(&fetched));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unchanged_directory_stays_as_long_as_its_headers_say() {
    let lab = Lab::start().await;
    let one = Signer::new(1);
    let mut page = lab.directory(&[&one]);
    page.fields += "etag: \"v1\"\r\ncache-control: max-age=7200\r\n";
    lab.serve(page);
    let fetched = lab.fetch().await;
    assert_eq!(fetched["directory"]["nextFetchAt"], "2027-01-15T10:00:00.000Z");
    let heads = lab.world.heads().concat().to_ascii_lowercase();
    assert!(
        heads.contains(&format!("accept: {MEDIA_TYPE}")) && !heads.contains("if-none-match"),
        "{heads}"
    );

    lab.stack.pass_ms(HOUR_MS);
    lab.serve(Page {
        status: 304,
        fields: "cache-control: max-age=1\r\n".to_owned(),
        ..Page::default()
    });
    let unchanged = lab.fetch().await;
    assert_eq!((open(&unchanged), failure(&unchanged)), (vec![one.thumbprint()], ""));
    assert_eq!(unchanged["directory"]["fetchedAt"], "2027-01-15T09:00:00.000Z");
    assert_eq!(unchanged["directory"]["nextFetchAt"], "2027-01-15T09:05:00.000Z");
    assert!(lab.world.heads().concat().contains("if-none-match: \"v1\""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn due_directories_are_fetched_without_a_request() {
    let lab = Lab::start_with(PublisherConfig {
        directory_interval_ms: 20,
        ..PublisherConfig::default()
    })
    .await;
    let [one, two] = [1, 2].map(Signer::new);
    let wait_for = async |thumbprint: &str| {
        let path = format!("/api/v1/operators/{}", lab.id);
        for _ in 0..500 {
            let operator = lab.stack.server.get(&path, &lab.api_key).await.expect(200);
            if open(&operator) == [thumbprint] {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{thumbprint} isn't stored");
    };
    // The first round found nothing there; the next one is a minute later.
    lab.serve(lab.directory(&[&one]));
    lab.stack.pass_ms(61_000);
    lab.serve(lab.directory(&[&one]));
    wait_for(one.thumbprint()).await;
    lab.stack.pass_ms(HOUR_MS);
    lab.serve(lab.directory(&[&two]));
    // A round may have failed between the two lines above, on signatures that had expired.
    lab.stack.pass_ms(61_000);
    lab.serve(lab.directory(&[&two]));
    wait_for(two.thumbprint()).await;
}

/// Directories of one account that hang leave places for another's: before its directory is queried
/// for, there is none that waits for one of them to end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_directories_of_an_account_delay_no_other() {
    let world = World::start().await;
    let client = world.client();
    let config = PublisherConfig {
        directory_interval_ms: 20,
        ..PublisherConfig::default()
    };
    let stack = Stack::start_with(config, |deps| deps.outbound = client).await;
    // More than there are places at one time.
    let hosts: Vec<String> = (0..20).map(|number| format!("{number:02}.hang.test")).collect();
    for host in &hosts {
        let page = Page {
            delay: Duration::from_secs(20),
            ..Page::default()
        };
        world.answer(host, PATH, page);
    }
    let key = stack.key(&hosts.join(","), BOTH).await;
    let accounts = &stack.deps.accounts;
    let account = accounts.authenticate(&key).await.unwrap().account_id;
    for host in &hosts {
        let domain = host.parse().unwrap();
        accounts.create_operator(&account, "key:test", &domain).await.unwrap();
    }
    operator(&stack, "lab.test").await;
    let mut hanging = 0;
    for _ in 0..1_500 {
        let heads = world.heads();
        let is_lab = |head: &String| head.to_ascii_lowercase().contains("host: lab.test");
        let lab = heads.iter().position(is_lab);
        hanging += heads[..lab.unwrap_or(heads.len())].len();
        if lab.is_some() {
            assert!((1..16).contains(&hanging), "{hanging} hanging requests came before");
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the directory wasn't fetched");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fetches_are_limited_and_need_a_proven_domain() {
    let lab = Lab::start().await;
    lab.serve(Page {
        status: 404,
        ..Page::default()
    });
    for _ in 0..60 {
        lab.fetch().await;
    }
    let path = format!("/api/v1/operators/{}/directory/fetch", lab.id);
    let limited = lab.stack.server.json("POST", &path, &lab.api_key, &json!({})).await;
    limited.refused(429, "rate_limited");
    lab.world.heads();
    let given_back = lab
        .stack
        .server
        .ask("DELETE", "/api/v1/verification/lab.test", &lab.api_key, &[], "");
    assert_eq!(given_back.await.status, 204);
    let refused = lab.stack.server.json("POST", &path, &lab.api_key, &json!({})).await;
    refused.refused(403, "domain_not_verified");
    assert!(lab.world.heads().is_empty(), "nothing was fetched");
}
