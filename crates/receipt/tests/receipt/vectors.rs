//! conformance/vectors: generated from this crate, and compared with the committed files.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use p256::ecdsa::signature::Signer as _;
use p256::pkcs8::DecodePrivateKey as _;
use receipt::{
    Algorithm, Arrival, BodyKind, FaultCode, Judge, Judged, Limits, PublicKey, Scratch, SigningKey, canonical_url,
    canonicalize, parse_receipt, sign_receipt,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::fixtures::{NOW_MS, bytes, set, signed};

/// 2026-11-24T09:31:00Z, within a minute after the timestamps of the receipts.
const RECEIVED_MS: i64 = 1_795_512_660_000;
const ALGORITHMS: [&str; 3] = ["ed25519", "rsa-2048", "ecdsa-p256"];

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/vectors")
}

fn key(name: &str) -> SigningKey {
    SigningKey::from_pkcs8_pem(&std::fs::read_to_string(vectors().join(format!("keys/{name}.pem"))).unwrap()).unwrap()
}

/// Signs with a key of the vectors. ECDSA signatures are RFC 6979's, which are the same in each
/// run; those of [`SigningKey`] aren't.
fn sign(algorithm: &str, message: &[u8]) -> Vec<u8> {
    if algorithm != "ecdsa-p256" {
        return key(algorithm).sign(message).unwrap();
    }
    let pem = std::fs::read_to_string(vectors().join("keys/ecdsa-p256.pem")).unwrap();
    let signature: p256::ecdsa::DerSignature = p256::ecdsa::SigningKey::from_pkcs8_pem(&pem).unwrap().sign(message);
    signature.as_bytes().to_vec()
}

/// Compares the file with the vectors, which are one per line, or writes it.
fn compare(file: &str, list: &[Value]) {
    let lines: Vec<String> = list.iter().map(Value::to_string).collect();
    let text = format!("[\n{}\n]\n", lines.join(",\n"));
    let path = vectors().join(file);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap_or_default() == text,
        "conformance/vectors/{file} isn't what this crate computes: run with UPDATE_EXPECT=1"
    );
}

#[test]
fn canonical_forms() {
    let cases = [
        ("empty object", "{}"),
        ("empty array", " [ ] "),
        ("whitespace", "{ \"b\" :\t[ 1 ,\r\n2 ] , \"a\" : null }"),
        ("literals", "[true,false,null]"),
        (
            "members are sorted by UTF-16 code units",
            r#"{"€":1,"\r":2,"דּ":3,"1":4,"😀":5,"\u0080":6,"ö":7}"#,
        ),
        ("a prefix sorts first", r#"{"ab":1,"a":2,"":3,"aa":4}"#),
        ("capitals sort before small letters", r#"{"a":1,"B":2,"A":3,"b":4}"#),
        ("digits sort as text", r#"{"10":1,"9":2,"1":3}"#),
        (
            "nested members are sorted, elements aren't",
            r#"{"z":[{"b":1,"a":2},3],"y":{"d":{"f":1,"e":2},"c":0}}"#,
        ),
        (
            "names that are special in ECMAScript",
            r#"{"__proto__":1,"constructor":2,"toString":3,"2":4}"#,
        ),
        ("short escapes", r#""\b\t\n\f\r\"\\\/""#),
        ("control characters", r#""\u0000\u0001\u000b\u001f\u007f""#),
        ("escapes that aren't needed", r#""\u0041\u00e9\u20ac\ud83d\ude00""#),
        ("characters beyond the basic plane", "\"😀𝄞\""),
        ("line separators aren't escaped", r#""\u2028\u2029\ufeff""#),
        ("text isn't normalized", "[\"A\u{30a}\",\"Å\"]"),
        ("negative zero", "[-0,-0.0,0e5]"),
        (
            "integers",
            "[9007199254740991,-9007199254740991,9007199254740993,18446744073709551615]",
        ),
        ("fractions", "[10.00,0.1e1,4.50,2e-3,333333333.33333329]"),
        (
            "exponents",
            "[1E2,1e+21,1e20,1E-6,1e-7,1e-400,5e-324,1.7976931348623157e308]",
        ),
        ("a top-level text", "\"text\""),
        ("a top-level number", "1.0"),
    ];
    let list: Vec<Value> = cases
        .iter()
        .map(|(name, input)| {
            let canonical = String::from_utf8(canonicalize(input.as_bytes(), 32).expect(name)).unwrap();
            json!({"name": name, "input": input, "canonical": canonical,
                   "sha256": hex::encode(Sha256::digest(canonical.as_bytes()))})
        })
        .collect();
    compare("canonical.json", &list);
}

#[test]
fn refused_texts() {
    let deep = format!("{}{}", "[".repeat(33), "]".repeat(33));
    let cases = [
        ("a member twice", r#"{"a":1,"a":1}"#),
        ("a member twice, once escaped", r#"{"a":1,"\u0061":2}"#),
        ("a high surrogate alone", r#""\ud83d""#),
        ("a low surrogate alone", r#""\ude00""#),
        ("surrogates in the wrong order", r#""\ude00\ud83d""#),
        ("a lone surrogate in a name", r#"{"\ud800":1}"#),
        ("a number beyond a double", "1e309"),
        ("a long integer beyond a double", &"9".repeat(309)),
        ("NaN", "[NaN]"),
        ("Infinity", "[Infinity]"),
        ("a leading zero", "[01]"),
        ("a plus sign", "[+1]"),
        ("a fraction without digits", "[1.]"),
        ("a trailing comma", "[1,]"),
        ("single quotes", "{'a':1}"),
        ("a comment", "[1/*one*/]"),
        ("a control character in a text", "\"\t\""),
        ("two values", "{} {}"),
        ("nothing", ""),
        ("a byte order mark", "\u{feff}{}"),
        ("33 nested arrays", &deep),
    ];
    let list: Vec<Value> = cases
        .iter()
        .map(|(name, input)| {
            let error = canonicalize(input.as_bytes(), 32).expect_err(name);
            json!({"name": name, "input": input, "code": error.faults[0].code.as_str()})
        })
        .collect();
    compare("refused.json", &list);
}

#[test]
fn numbers() {
    let edges = [
        0,
        1,
        2,
        0x000f_ffff_ffff_ffff,
        0x0010_0000_0000_0000,
        0x7fef_ffff_ffff_ffff,
        0x3ff0_0000_0000_0000,
        0x3ff0_0000_0000_0001,
        0x3fef_ffff_ffff_ffff,
        0x4340_0000_0000_0000,
        0x4340_0000_0000_0001,
        0x4430_0000_0000_0000,
        0x44b5_2d02_c7e1_4af5,
        0x44b5_2d02_c7e1_4af6,
        0x44b5_2d02_c7e1_4af7,
        0x444b_1ae4_d6e2_ef4e,
        0x444b_1ae4_d6e2_ef4f,
        0x444b_1ae4_d6e2_ef50,
        0x3eb0_c6f7_a0b5_ed8c,
        0x3eb0_c6f7_a0b5_ed8d,
        0x41b3_de43_5555_5553,
        0x41b3_de43_5555_5557,
        0xbecb_f647_612f_3696,
        0x4314_3ff3_c1cb_0959,
    ];
    let random = (0_u32..)
        .map(|count| u64::from_be_bytes(Sha256::digest(count.to_be_bytes())[..8].try_into().unwrap()))
        .filter(|bits| f64::from_bits(*bits).is_finite());
    let list: Vec<Value> = edges
        .into_iter()
        .chain(random.take(1_000))
        .map(|bits| {
            let text = canonicalize(format!("{:e}", f64::from_bits(bits)).as_bytes(), 1).unwrap();
            json!({"bits": format!("{bits:016x}"), "text": String::from_utf8(text).unwrap()})
        })
        .collect();
    compare("numbers.json", &list);
}

#[test]
fn signatures() {
    let message = canonicalize(br#"{"b":"2","a":[1,true,null]}"#, 32).unwrap();
    let mut list = Vec::new();
    for algorithm in ALGORITHMS {
        let signer = key(algorithm);
        let other = if algorithm == "ed25519" {
            key("other-ed25519")
        } else {
            key("ed25519")
        };
        let public = PublicKey::from_pem(signer.public_key_pem()).unwrap();
        let signature = sign(algorithm, &message);
        let mut changed_message = message.clone();
        changed_message[5] ^= 1;
        let mut changed_signature = signature.clone();
        *changed_signature.last_mut().unwrap() ^= 1;
        let mut longer = signature.clone();
        longer.push(0);
        let mut cases = vec![
            ("a signature", &message, signature.clone()),
            ("another message", &changed_message, signature.clone()),
            ("a changed signature", &message, changed_signature),
            ("a byte too much", &message, longer),
            ("a byte too few", &message, signature[..signature.len() - 1].to_vec()),
            ("another key's signature", &message, other.sign(&message).unwrap()),
            ("an empty signature", &message, Vec::new()),
        ];
        if algorithm == "ecdsa-p256" {
            let parsed = p256::ecdsa::Signature::from_der(&signature).unwrap();
            cases.push(("r and s with 32 bytes each", &message, parsed.to_bytes().to_vec()));
            let high = p256::ecdsa::Signature::from_scalars(parsed.r(), -*parsed.s()).unwrap();
            cases.push((
                "the other s of the same signature",
                &message,
                high.to_der().as_bytes().to_vec(),
            ));
        }
        for (name, message, signature) in cases {
            list.push(json!({
                "name": name,
                "algorithm": signer.algorithm().as_str(),
                "publicKey": signer.public_key_pem(),
                "message": STANDARD.encode(message),
                "signature": STANDARD.encode(&signature),
                "valid": public.verify(message, &signature),
            }));
        }
    }
    compare("signatures.json", &list);
}

#[test]
fn receipts() {
    let judge = Judge::new(Limits::default(), 100);
    let mut list = Vec::new();
    for algorithm in ALGORITHMS {
        let signer = key(algorithm);
        let unsigned = json!({
            "version": "1.0.0",
            "receiptId": "0192f0c1-d2e3-7a4b-8c5d-6e7f80910001",
            "timestamp": "2026-11-24T09:30:01.125Z",
            "content": {
                "entryId": Uuid::new_v5(&Uuid::NAMESPACE_URL, b"https://news.example/2026/11/lead"),
                "url": "https://news.example/2026/11/lead",
                "contentHash": format!("sha256:{}", hex::encode(Sha256::digest(b"hello"))),
                "publisher": "news.example",
            },
            "client": {
                "id": "018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10", "name": "Atlas \u{1f30d}", "version": "3.1",
                "organization": "Example \"Labs\"", "publicKey": signer.public_key_pem(),
            },
            "usage": {"purpose": "training", "context": "pre-training\nof a language model", "modelId": "atlas-3"},
            "extension": {"weights": [1e21, 0.1, -0.0], "signature": "a nested member of this name is signed"},
        });
        let signed = sign_receipt(unsigned.to_string().as_bytes(), &signer, &Limits::default()).unwrap();
        let mut signed: Value = serde_json::from_slice(&signed).unwrap();
        let message = canonicalize(unsigned.to_string().as_bytes(), 32).unwrap();
        signed["signature"] = STANDARD.encode(sign(algorithm, &message)).into();
        let with = |pointer: &str, value: &str| {
            let mut changed = signed.clone();
            *changed.pointer_mut(pointer).unwrap() = Value::from(value);
            changed
        };
        for (name, receipt) in [
            ("a receipt", signed.clone()),
            ("another context", with("/usage/context", "something else")),
            ("another URL", with("/content/url", "https://news.example/other")),
            ("the signature of nothing", with("/signature", "")),
            ("a nested member is changed", with("/extension/signature", "changed")),
        ] {
            let body = receipt.to_string();
            let arrival = Arrival {
                kind: BodyKind::Receipt,
                body: body.as_bytes(),
                request_signature: None,
                received_at_ms: RECEIVED_MS,
            };
            let valid = judge.judge(&arrival, &|_, judged| matches!(judged, Judged::Verified(_)))[0];
            let mut payload = receipt.clone();
            for member in ["signature", "signatureAlgorithm"] {
                payload.as_object_mut().unwrap().remove(member).unwrap();
            }
            let canonical = String::from_utf8(canonicalize(payload.to_string().as_bytes(), 32).unwrap()).unwrap();
            list.push(json!({
                "name": format!("{name}, {algorithm}"),
                "receipt": receipt,
                "payloadHash": hex::encode(Sha256::digest(canonical.as_bytes())),
                "canonical": canonical,
                "valid": valid,
            }));
        }
    }
    assert_eq!(
        list.iter().filter(|case| case["valid"] == true).count(),
        ALGORITHMS.len()
    );
    compare("receipts.json", &list);
}

#[test]
fn entry_ids() {
    let list: Vec<Value> = [
        "https://news.example/2026/11/lead",
        "https://news.example/",
        "https://news.example",
        "https://news.example?a=b",
        "https://news.example/?",
        "HTTPS://News.Example/2026/11/Lead",
        "https://news.example/2026/11/lead#comments",
        "https://news.example/#a#b?c",
        "https://news.example:443/2026/11/lead",
        "https://news.example:/2026/11/lead",
        "https://news.example:80/2026/11/lead",
        "http://news.example:80/a",
        "http://news.example:0080/a",
        "http://news.example:08443/a",
        "https://news.example./2026/11/lead",
        "https://a_b.news.example/",
        "http://news.example/a?b=c&d=%C3%A9",
        "http://news.example/a?b=c&d=%c3%a9",
        "http://news.example/a?b=c&d=\u{e9}",
        "https://news.example/\u{20ac}/\u{1f600}?\u{e9}=\u{e8}",
        "https://news.example/e\u{301}",
        "https://xn--bcher-kva.example/%E2%82%AC",
        "https://b\u{fc}cher.example/%E2%82%AC",
        "https://B\u{dc}CHER.Example/%E2%82%AC",
        "https://bu\u{308}cher\u{3002}example\u{3002}/%E2%82%AC",
        "https://stra\u{df}e.example/",
        "https://\u{391}\u{3a3}.\u{3b1}\u{3c2}.example/",
        "https://\u{130}.example/",
        "https://\u{4f8b}\u{3048}.\u{30c6}\u{30b9}\u{30c8}:443/",
        "https://\u{2603}.example/",
        "https://-a_.b-.example/",
        "https://1.2.3.example/",
        "https://news.example/a/./b/../c//d/",
        "https://news.example/./a/../%2e%2E/b\\c",
        "https://news.example/\u{feff}\u{200b}\u{200d}",
        "https://news.example/%7Ereader/~reader",
        "https://news.example/a+b%20c;d=e,f:g@h!i$j(k)*l",
        "https://news.example/a[b]?c[d]=e",
        "https://news.example/\"'<>^`{|}?\"'<>^`{|}",
        "https://news.example/a?b?c/d//e&f=g&&h",
        "https://news.example/100%",
    ]
    .iter()
    .map(|url| {
        let canonical = canonical_url(url).expect(url);
        json!({"url": url, "canonicalUrl": canonical.as_str(), "entryId": canonical.entry_id()})
    })
    .collect();
    compare("entries.json", &list);
}

#[test]
fn refused_urls() {
    let list: Vec<Value> = [
        ("nothing", ""),
        ("no scheme", "news.example/a"),
        ("another scheme", "ftp://news.example/a"),
        ("no host", "https:///a"),
        ("a user", "https://reader@news.example/a"),
        ("a user and a password", "https://reader:secret@news.example/a"),
        ("an empty user", "https://@news.example/a"),
        ("a space", "https://news.example/a b"),
        ("a space before it", " https://news.example/a"),
        ("a line feed", "https://news.example/a\n"),
        ("NUL", "https://news.example/\u{0}"),
        ("DEL", "https://news.example/\u{7f}"),
        ("a no-break space", "https://news.example/\u{a0}"),
        ("a line separator", "https://news.example/\u{2028}"),
        ("a port that is no number", "https://news.example:https/a"),
        ("a port that is too great", "https://news.example:65536/a"),
        ("an IPv6 address", "https://[2001:db8::1]/a"),
        ("an empty label", "https://news..example/a"),
        ("percent-encoding in the host", "https://news%2Eexample/a"),
        ("a backslash in the host", "https://news.example\\a"),
        (
            "percent-encoding in an international host",
            "https://b\u{fc}cher%2Eexample/a",
        ),
        ("a letter percent-encoded in the host", "https://%6eews.example/a"),
        ("a character that stands for a dot", "https://news\u{2024}example.com/a"),
        ("a joiner between Latin letters", "https://ne\u{200d}ws.example/a"),
        ("a character that controls direction", "https://news\u{202e}.example/a"),
        ("two dots at the end of the host", "https://news.example../a"),
        ("a dot alone", "https://./a"),
        ("a single label", "http://localhost:8080/a"),
        ("an IPv4 address", "http://127.0.0.1/a"),
        ("an IPv4 address in hexadecimal", "http://127.0.0.0x1/a"),
        (
            "an IPv4 address in other digits",
            "http://\u{ff11}\u{ff12}\u{ff17}.0.0.1/a",
        ),
        (
            "a label of 64 characters",
            &format!("https://{}.example/a", "a".repeat(64)),
        ),
        (
            "a host of 254 characters",
            &format!("https://{}ab.example/a", "a.".repeat(122)),
        ),
        (
            "a host whose A-labels are too long",
            &format!("https://{}example/a", "\u{fc}a.".repeat(50)),
        ),
        (
            "a host of 255 characters, most of which UTS 46 drops",
            &format!("https://\u{fc}{}.example/a", "\u{ad}".repeat(246)),
        ),
    ]
    .iter()
    .map(|(name, url)| {
        canonical_url(url).expect_err(name);
        json!({"name": name, "url": url})
    })
    .collect();
    compare("refused-urls.json", &list);
}

#[test]
fn private_keys_are_read_or_refused_with_a_command() {
    let text = std::fs::read_to_string(vectors().join("private-keys.json")).unwrap();
    let list: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(list.len() > 30);
    for vector in list {
        let (name, pem) = (&vector["name"], vector["pem"].as_str().unwrap());
        match SigningKey::from_pkcs8_pem(pem) {
            Ok(key) => assert_eq!(vector["algorithm"], key.algorithm().as_str(), "{name}"),
            Err(error) => {
                let command = vector["command"].as_str().unwrap_or("none: it is usable");
                assert!(error.detail.contains(command), "{name}: {error}");
                let secret = pem.lines().nth(1).filter(|line| line.len() > 20);
                assert!(!secret.is_some_and(|line| error.detail.contains(line)), "{name}");
            }
        }
    }
}

/// A receipt carries fewer forms of a public key than programs may have.
#[test]
fn public_keys_are_read_as_receipts_carry_them() {
    let text = std::fs::read_to_string(vectors().join("public-keys.json")).unwrap();
    let list: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(list.len() > 30);
    for vector in list {
        let name = &vector["name"];
        match PublicKey::from_pem(vector["pem"].as_str().unwrap()) {
            Ok(key) => assert_eq!(
                (&vector["inReceipts"], &vector["algorithm"]),
                (&json!(true), &json!(key.algorithm().as_str())),
                "{name}"
            ),
            Err(error) => assert_ne!(vector["inReceipts"], true, "{name}: {error}"),
        }
    }
}

/// Publishers as the gateway reads them beside a URL, whose canonical host decides.
#[test]
fn publishers() {
    use FaultCode::{InvalidPublisher, InvalidUrl, UrlOutsidePublisher};
    let idn = "xn--bcher-kva.example";
    let list: Vec<Value> = [
        ("the host", "https://news.example/a", "news.example", Ok("news.example")),
        (
            "a parent of the host",
            "https://a.b.news.example:8443/",
            "news.example",
            Ok("news.example"),
        ),
        ("capitals", "https://News.EXAMPLE/a", "NEWS.example", Ok("news.example")),
        (
            "a dot at the URL's end",
            "https://news.example./a",
            "news.example",
            Ok("news.example"),
        ),
        (
            "a dot at the publisher's end",
            "https://news.example/a",
            "news.example.",
            Ok("news.example"),
        ),
        (
            "A-labels of an international URL",
            "https://b\u{fc}cher.example/a",
            idn,
            Ok(idn),
        ),
        (
            "an international publisher",
            "https://xn--bcher-kva.example/a",
            "b\u{fc}cher.example",
            Ok(idn),
        ),
        (
            "both international",
            "https://www.B\u{dc}CHER.example/a",
            "bu\u{308}cher\u{3002}example",
            Ok(idn),
        ),
        (
            "a label below it",
            "https://b\u{fc}cher.news.example/a",
            "news.example",
            Ok("news.example"),
        ),
        (
            "a sharp s",
            "https://stra\u{df}e.example/",
            "xn--strae-oqa.example",
            Ok("xn--strae-oqa.example"),
        ),
        (
            "an underscore below it",
            "https://a_b.news.example/",
            "news.example",
            Ok("news.example"),
        ),
        (
            "another domain",
            "https://other.example/a",
            "news.example",
            Err(UrlOutsidePublisher),
        ),
        (
            "the end of a label",
            "https://fakenews.example/a",
            "news.example",
            Err(UrlOutsidePublisher),
        ),
        (
            "a subdomain of the host",
            "https://news.example/a",
            "www.news.example",
            Err(UrlOutsidePublisher),
        ),
        (
            "two letters that aren't one",
            "https://strasse.example/",
            "stra\u{df}e.example",
            Err(UrlOutsidePublisher),
        ),
        (
            "an empty label in the URL",
            "https://a..news.example/a",
            "news.example",
            Err(InvalidUrl),
        ),
        (
            "percent-encoding in the URL",
            "https://%61.news.example/a",
            "news.example",
            Err(InvalidUrl),
        ),
        (
            "a single label",
            "https://news.example/a",
            "example",
            Err(InvalidPublisher),
        ),
        ("this machine", "http://localhost/a", "localhost", Err(InvalidPublisher)),
        ("an address", "http://192.0.2.7/a", "192.0.2.7", Err(InvalidPublisher)),
        (
            "an address in hexadecimal",
            "http://0x7f.1/a",
            "0x7f.1",
            Err(InvalidPublisher),
        ),
        (
            "an underscore",
            "https://a_b.example/a",
            "a_b.example",
            Err(InvalidPublisher),
        ),
        (
            "an empty label",
            "https://news.example/a",
            "news..example",
            Err(InvalidPublisher),
        ),
        (
            "percent-encoding",
            "https://news.example/a",
            "%6eews.example",
            Err(InvalidPublisher),
        ),
        (
            "a URL",
            "https://news.example/a",
            "https://news.example",
            Err(InvalidPublisher),
        ),
        ("nothing", "https://news.example/a", "", Err(InvalidPublisher)),
    ]
    .into_iter()
    .map(|(name, url, publisher, expected)| {
        let mut receipt = signed(1, Algorithm::Ed25519);
        set(&mut receipt, "/content/url", json!(url));
        set(&mut receipt, "/content/publisher", json!(publisher));
        let (body, mut scratch) = (bytes(&receipt), Scratch::default());
        let read = parse_receipt(&body, NOW_MS, &Limits::default(), &mut scratch);
        let read = read.map(|receipt| receipt.publisher.into_owned());
        let read = read.map_err(|error| error.faults[0].code);
        assert_eq!(read.as_deref(), expected.as_deref(), "{name}");
        let mut vector = json!({"name": name, "url": url, "publisher": publisher});
        match expected {
            Ok(canonical) => vector["canonicalPublisher"] = json!(canonical),
            Err(code) => vector["code"] = json!(code),
        }
        vector
    })
    .collect();
    compare("publishers.json", &list);
}
