#![allow(warnings, clippy::all)]
mod fixtures;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use curve25519_dalek::constants::EIGHT_TORSION;
use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::Scalar;
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};
use receipt::*;
use sha2::{Digest as _, Sha512};
use std::io::Write as _;
use std::time::Instant;

fn ed_pem(key: &[u8; 32]) -> String {
    let head = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    spki_pem(&[&head[..], key].concat())
}
fn spki_pem(der: &[u8]) -> String {
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
}
const L: [u8; 32] = [0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10];
fn add(a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
    let mut c = 0u16;
    std::array::from_fn(|i| { let s = a[i] as u16 + b[i] as u16 + c; c = s >> 8; s as u8 })
}
/// all encodings that decompress to small order points, plus sign games and noncanonical ys
fn odd_encodings() -> Vec<[u8; 32]> {
    let mut v = vec![];
    for t in EIGHT_TORSION { let e = t.compress().0; v.push(e); let mut f = e; f[31] ^= 0x80; v.push(f); }
    let mut p = [0xff; 32]; p[0] = 0xed; p[31] = 0x7f;
    for y in 0..19u8 { let mut e = p; e[0] = 0xed + y; v.push(e); e[31] |= 0x80; v.push(e); }
    for y in 0..19u8 { let mut e = [0; 32]; e[0] = y; v.push(e); e[31] |= 0x80; v.push(e); }
    v
}
fn rs(rng: &mut StdRng) -> Scalar { let mut b = [0u8; 64]; rng.fill(&mut b[..]); Scalar::from_bytes_mod_order_wide(&b) }
fn chal(r: &[u8; 32], a: &[u8; 32], m: &[u8]) -> Scalar {
    Scalar::from_bytes_mod_order_wide(&Sha512::new().chain_update(r).chain_update(a).chain_update(m).finalize().into())
}
fn reference(key: &[u8; 32], m: &[u8], s: &[u8; 64]) -> bool {
    ed25519_dalek::VerifyingKey::from_bytes(key).is_ok_and(|k| k.verify_strict(m, &ed25519_dalek::Signature::from_bytes(s)).is_ok())
}

#[test]
fn ed25519_diff() {
    let t0 = Instant::now();
    let handles: Vec<_> = (0..4u64).map(|thread| std::thread::spawn(move || {
        let mut rng = StdRng::seed_from_u64(77 + thread);
        let odd = odd_encodings();
        let (mut n, mut yes, mut small_eq) = (0u64, 0u64, 0u64);
        // same keys on every thread => table races; 100 keys > 64 tables => eviction
        let keys: Vec<(Scalar, [u8; 32])> = { let mut k = StdRng::seed_from_u64(5); (0..100).map(|i| { let a = rs(&mut k); let p = EdwardsPoint::mul_base(&a) + EIGHT_TORSION[i % 8]; (a, p.compress().0) }).collect() };
        let parsed: Vec<PublicKey> = keys.iter().map(|(_, e)| PublicKey::from_pem(&ed_pem(e)).unwrap()).collect();
        while t0.elapsed().as_secs() < 40 {
            // runs on one key so that tables come and go
            let hot = rng.random_range(0..100);
            for _ in 0..rng.random_range(1..120) {
                let i = if rng.random_bool(0.9) { hot } else { rng.random_range(0..100) };
                let (a, enc) = keys[i];
                let m: [u8; 9] = rng.random();
                let nonce = if rng.random_bool(0.3) { Scalar::ZERO } else if rng.random_bool(0.2) { Scalar::from(rng.random_range(0..4u8)) } else { rs(&mut rng) };
                let r = match rng.random_range(0..4) {
                    0 => odd[rng.random_range(0..odd.len())],
                    _ => (EdwardsPoint::mul_base(&nonce) + EIGHT_TORSION[if rng.random_bool(0.5) { 0 } else { rng.random_range(0..8) }]).compress().0,
                };
                let k = chal(&r, &enc, &m);
                let mut s = (nonce + k * a).to_bytes();
                match rng.random_range(0..12) { 0 => s = add(s, L), 1 => s = L, 2 => s[31] |= 0x80 >> rng.random_range(0..4), 3 => { s = L; s[0] -= 1 } 4 => s[rng.random_range(0..32)] ^= 1, 5 => { s = L; s[0] += 1 } _ => {} }
                let mut sig = [0; 64]; sig[..32].copy_from_slice(&r); sig[32..].copy_from_slice(&s);
                if rng.random_bool(0.05) { sig[31] ^= 0x80; }
                let want = reference(&enc, &m, &sig);
                assert_eq!(parsed[i].verify(&m, &sig), want, "key {} sig {}", hex::encode(enc), hex::encode(sig));
                // fresh key object: global table if present
                if n % 7 == 0 { assert_eq!(PublicKey::from_pem(&ed_pem(&enc)).unwrap().verify(&m, &sig), want); }
                if !want && odd.contains(&r) { if let Ok(vk) = ed25519_dalek::VerifyingKey::from_bytes(&enc) { use ed25519_dalek::Verifier; if vk.verify(&m, &ed25519_dalek::Signature::from_bytes(&sig)).is_ok() { small_eq += 1; } } }
                n += 1; yes += want as u64;
            }
        }
        (n, yes, small_eq)
    })).collect();
    for h in handles { println!("ed25519 (n, accepted, small-R-where-equation-holds) {:?}", h.join().unwrap()); }
    // keys: whatever we accept must be accepted by strict and canonical
    let mut rng = StdRng::seed_from_u64(9);
    for e in odd_encodings() {
        let ours = PublicKey::from_pem(&ed_pem(&e)).is_ok();
        let d = ed25519_dalek::VerifyingKey::from_bytes(&e);
        let want = d.is_ok_and(|d| !d.is_weak() && d.to_edwards().compress().0 == e);
        assert_eq!(ours, want);
        if ours { println!("odd key accepted {}", hex::encode(e)); }
    }
}

// ---------- JSON ----------
const ATOMS: &[&str] = &["0", "-0", "-0.0", "1E400", "-1e400", "1e-400", "9007199254740993", "-9007199254740993", "0e1", "0e99999999999999999999", "1e99999999999999999999","1e-99999999999999999999", "1.0", "5e-324", "2e-324", "3e-324", "1e21", "1e20", "999999999999999999999", "123456789012345680000", "123456789012345678901234567890", "0.1", "1e-7", "0.000001", "1.7976931348623157e308", "1.7976931348623159e308", "4.35", "0.3000000000000000444", "2.2250738585072011e-308", "333333333.33333329", "1E30", "4.50", "6e23", "01", "-", "+1", ".5", "1.", "1.e1", "1e", "1e+", "-01", "00", "0x1", "NaN", "Infinity", "-Infinity", "true", "false", "null", "tru", "nullx", "True", "\"\"", "\"a\"", "100000000000000", "999999999999999", "1000000000000000", "9999999999999999", "12345678901234567", "-999999999999999", "0E0", "0.0", "0e-5", "1e0", "1E+2"];
const FRAGS: &[&str] = &["a", "b", "é", "ü", "\u{7f}", "\u{80}", "\u{2028}", "\u{2029}", "\u{feff}", "\u{e000}", "\u{ffff}", "\u{fffd}", "\u{10000}", "\u{1f600}", "\u{10ffff}", "\u{d7ff}", "\\u0061", "\\u0000", "\\u001f", "\\u001F", "\\u0008", "\\b", "\\f", "\\n", "\\r", "\\t", "\\/", "\\\\", "\\\"", "\\u0022", "\\u005c", "\\u005C", "\\u002f", "\\u007f", "\\u2028", "\\ud83d\\ude00", "\\uD83D\\uDE00", "\\uD800\\uDC00", "\\udbff\\udfff", "\\ue000", "\\uffff", "\\ud7ff", "\\u000a", "\\u000b", "\\u000B", "\\u0009", "\\u000c", "\\u000d", "abcdefgh", "abcdefghi", "/", "'", "\\u00e9", "signature", "signatur\\u0065", "", "~"];
const BADFRAGS: &[&str] = &["\\ud800", "\\udc00", "\\ud800\\ud800", "\\udc00\\ud800", "\\ud800x", "\\ud800\\u0061", "\\ud83d\\n", "\\u12", "\\u", "\\x", "\\", "\\u00g0", "\\U0061", "\n", "\t", "\0", "\u{1}", "\u{1f}", "\"", "\\'", "\\u+123", "\\ud83d\\ude0", "\\ud83d\\u"];
const WS: &[&str] = &["", "", "", "", " ", "\n", "\r", "\t", "  \r\n\t"];
const BADWS: &[&str] = &["\u{b}", "\u{c}", "\u{a0}", "\u{feff}", "\0", "\u{2028}", "/**/", "//", "\u{85}", "\u{3000}"];
struct Gen { rng: StdRng, bad: f64 }
impl Gen {
    fn pick(&mut self, l: &[&'static str]) -> &'static str { l[self.rng.random_range(0..l.len())] }
    fn ws(&mut self, o: &mut String) { if self.rng.random_bool(self.bad * 0.2) { let w = self.pick(BADWS); o.push_str(w) } else { let w = self.pick(WS); o.push_str(w) } }
    fn string(&mut self, o: &mut String) {
        o.push('"');
        for _ in 0..self.rng.random_range(0..5) { let f = if self.rng.random_bool(self.bad * 0.3) { self.pick(BADFRAGS) } else { self.pick(FRAGS) }; o.push_str(f); }
        o.push('"');
    }
    fn num(&mut self, o: &mut String) {
        let r = &mut self.rng;
        match r.random_range(0..5) {
            0 => { let f = f64::from_bits(r.random()); if f.is_finite() { if r.random_bool(0.5) { o.push_str(&format!("{f:e}")) } else { o.push_str(&format!("{f:?}")) } } else { o.push('1') } }
            1 => { let n = r.random_range(1..40); for i in 0..n { let d = r.random_range(if i == 0 { 1 } else { 0 }..10u32); o.push(char::from_digit(d, 10).unwrap()); } if r.random_bool(0.5) { o.push_str(&format!(".{:05}", r.random_range(0..100000))); } if r.random_bool(0.5) { o.push_str(&format!("{}{}", ["e", "E", "e+", "e-", "E-", "E+"][r.random_range(0..6)], r.random_range(0..330))); } }
            2 => o.push_str(&format!("{}", r.random::<i64>())),
            _ => { let a = loop { let a = self.pick(ATOMS); if self.rng.random_bool(self.bad.max(0.0)) || serde_json::from_str::<serde_json::Value>(a).is_ok() { break a } }; o.push_str(a) }
        }
    }
    fn value(&mut self, o: &mut String, depth: usize) {
        self.ws(o);
        match if depth == 0 { self.rng.random_range(0..5) } else { self.rng.random_range(0..9) } {
            0 | 1 => self.num(o), 2..=4 => self.string(o),
            5 | 6 => { o.push('['); let n = self.rng.random_range(0..4); for i in 0..n { if i > 0 { o.push(','); } self.value(o, depth - 1); } if self.rng.random_bool(self.bad * 0.1) { o.push(','); } self.ws(o); o.push(']') }
            _ => { o.push('{'); let n = self.rng.random_range(0..7); for i in 0..n { if i > 0 { o.push(','); } self.ws(o); self.string(o); self.ws(o); o.push(':'); self.value(o, depth - 1); } if self.rng.random_bool(self.bad * 0.1) { o.push(','); } self.ws(o); o.push('}') }
        }
        self.ws(o);
    }
}
#[test]
fn json_gen() {
    let mut out = std::io::BufWriter::new(std::fs::File::create("/tmp/rv/json.tsv").unwrap());
    let mut g = Gen { rng: StdRng::seed_from_u64(std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1)), bad: 0.0 };
    let limits = Limits::default();
    for i in 0..150_000 {
        g.bad = [0.0, 0.0, 0.05, 0.2][i % 4];
        let mut s = String::new();
        g.value(&mut s, 3);
        let mut b = s.into_bytes();
        if i % 5 == 4 && !b.is_empty() { // byte mutations
            for _ in 0..g.rng.random_range(1..3) { let at = g.rng.random_range(0..b.len()); match g.rng.random_range(0..4) { 0 => b[at] = g.rng.random(), 1 => { b.remove(at); } 2 => b.insert(at, b"\"\\{}[],:0-eE.u \xff\xc0\x80\xed\xa0\xf4\x00\x1f"[g.rng.random_range(0..23)]), _ => b.truncate(at) } if b.is_empty() { break } }
        }
        let r = canonicalize(&b, 32);
        // every entry point must survive it
        let _ = check_receipt(&b, 0, &limits); let _ = check_batch(&b, 0, &limits);
        let mut w = b"{\"receipts\":[".to_vec(); w.extend(&b); w.extend(b"],\"z\":"); w.extend(&b); w.push(b'}');
        let cb = check_batch(&w, 0, &limits);
        if r.is_err() { assert!(cb.unwrap_err().faults.iter().any(|f| !f.code.as_str().is_empty())); }
        let judge = JUDGE.judge(&Arrival { kind: BodyKind::Batch, body: &w, request_signature: None, received_at_ms: 0 }, &|_, j| matches!(j, Judged::Verified(_)));
        let res = match &r { Ok(c) => format!("ok\t{}", hex::encode(c)), Err(e) => format!("{}\t{}", e.faults[0].code.as_str(), e.faults[0].detail.replace(['\n','\t'], " ")) };
        writeln!(out, "{}\t{res}", hex::encode(&b)).unwrap();
    }
}
static JUDGE: std::sync::LazyLock<Judge> = std::sync::LazyLock::new(|| Judge::new(Limits::default(), 100));

fn time<R>(name: &str, f: impl Fn() -> R) -> R { let t = Instant::now(); let r = f(); println!("{name}: {:?}", t.elapsed()); r }
#[test]
fn timing() {
    let limits = Limits::default();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let obj = |name: &dyn Fn(usize) -> String, n: usize| { let mut s = String::from("{"); let mut i = 0; loop { let m = format!("\"{}\":0,", name(i)); if s.len() + m.len() > 65_500 || i >= n { break } s += &m; i += 1; } s.pop(); s.push('}'); (s, i) };
    let rev = |i: usize| 99_999 - i * 7919 % 90_000;
    let cases: Vec<(&str, (String, usize))> = vec![
        ("sorted plain", obj(&|i| format!("{:05}", i), 99999)),
        ("unsorted plain", obj(&|i| format!("{:x}", i * 7919 % 8191), 8191)),
        ("eq prefix 8", obj(&|i| format!("aaaaaaaa{:x}", i * 7919 % 8191), 8191)),
        ("eq prefix 100", obj(&|i| format!("{}{:x}", "a".repeat(100), i * 7919 % 8191), 8191)),
        ("unicode short", obj(&|i| format!("é{:x}", i * 7919 % 8191), 8191)),
        ("unicode prefix 20", obj(&|i| format!("é{}{:x}", "a".repeat(20), i * 7919 % 8191), 8191)),
        ("escaped", obj(&|i| format!("\\u0061{:x}", i * 7919 % 8191), 8191)),
        ("escaped prefix 4", obj(&|i| format!("\\u0061\\u0061\\u0061\\u0061{:x}", i * 7919 % 8191), 8191)),
        ("escaped prefix 4n", obj(&|i| format!("\\n\\n\\n\\n\\n\\n\\n\\n{:x}", i * 7919 % 8191), 8191)),
        ("escaped prefix 100n", obj(&|i| format!("{}{:x}", "\\n".repeat(100), i * 7919 % 8191), 8191)),
        ("escaped prefix 1000n", obj(&|i| format!("{}{:x}", "\\n".repeat(1000), i * 7919 % 8191), 8191)),
        ("numbers 1e20", (format!("[{}1]", "1e20,".repeat(13000)), 0)),
        ("numbers long", (format!("[{}1]", "2.2250738585072011360574097967091319759348195463516456480234261097248222220210769455165295239081350879141491589130396211068700864386945946455276572074078206217433799881410632673292535522868813721490129811224514518898490572223072852551331557550159143974763979834118019993239628656e-308,".repeat(220)), 0)),
        ("one long number", (format!("{}", "9".repeat(65000)), 0)),
        ("one long 0.000", (format!("0.{}1", "0".repeat(65000)), 0)),
        ("many {}", (format!("[{}{{}}]", "{},".repeat(21800)), 0)),
        ("strings a", (format!("[{}1]", "\"\",".repeat(21800)), 0)),
    ];
    for (name, (s, n)) in &cases {
        let mut scratch = Scratch::default();
        let go = || { let t = Instant::now(); let _ = payload_hash(s.as_bytes(), &limits, &mut Scratch::default()); let c = canonicalize(s.as_bytes(), 32); (t.elapsed() / 2, c.map(|c| c.len()).unwrap_or(0)) };
        go(); let (t, l) = go();
        println!("{name:24} {n:6} members {:6} B -> {l:7} B {t:?}", s.len());
    }
    for (name, body) in [("8 MiB [[[[", "[".repeat(8 << 20)), ("8 MiB receipts [[[", format!("{{\"receipts\":[{}", "[".repeat((8 << 20) - 100))), ("8 MiB spaces", " ".repeat(8 << 20)), ("8 MiB string key", format!("{{\"{}\":1}}", "a".repeat(8_000_000))), ("8 MiB escaped key", format!("{{\"{}\":1}}", "\\n".repeat(4_000_000))),
        ("8 MiB number", format!("{{\"a\":{}}}", "9".repeat(8_000_000))), ("8 MiB 1.999e0", format!("{{\"a\":1.{}}}", "9".repeat(8_000_000))), ("8MiB string value", format!("{{\"a\":\"{}\"}}", "é".repeat(4_000_000))), ("4096*10000 {} receipts", format!("{{\"receipts\":[{}{{}}]}}", "{},".repeat(9_999))), ("10000 receipts 0", format!("{{\"receipts\":[{}0]}}", "0,".repeat(9_999))), ("10001 receipts 0", format!("{{\"receipts\":[{}0]}}", "0,".repeat(10_000))),
        ("65535 own members", format!("{{{}}}", (0..7000).map(|i| format!("\"{}\":0", i * 7919 % 65521)).collect::<Vec<_>>().join(","))),
        ("own keys spaced", format!("{{{}}}", (0..7000).map(|i| format!("\"{}\":{}0", i * 7919 % 65521, " ".repeat(1000))).collect::<Vec<_>>().join(","))),
        ("10000 receipts deep", format!("{{\"receipts\":[{}0]}}", format!("{}{},", "[".repeat(29), "]".repeat(29)).repeat(9_999))),
        ("128 x 64K escaped", { let (o, _) = obj(&|i| format!("\\n\\n\\n\\n\\n\\n\\n\\n{:x}", i * 7919 % 8191), 8191); format!("{{\"receipts\":[{}]}}", vec![o; 127].join(",")) }),
        ("128 x 64K escaped 1000", { let (o, _) = obj(&|i| format!("{}{:x}", "\\n".repeat(1000), i * 7919 % 8191), 8191); format!("{{\"receipts\":[{}]}}", vec![o; 127].join(",")) }),
        ("128 x 64K 1e20", { let o = format!("[{}1]", "1e20,".repeat(13000)); format!("{{\"receipts\":[{}]}}", vec![o; 127].join(",")) }),
        ("8M of 20 faults", format!("{{\"receipts\":[{}0]}}", format!("{{\"{}\":0}},", "z".repeat(800)).repeat(9_999))),
    ] {
        let t = Instant::now(); let a = check_batch(body.as_bytes(), 0, &limits); let t1 = t.elapsed();
        let t = Instant::now(); let n = pool.install(|| JUDGE.judge(&Arrival { kind: BodyKind::Batch, body: body.as_bytes(), request_signature: None, received_at_ms: 0 }, &|_, j| match j { Judged::Rejected(r) => (r.detail.len()), _ => panic!() })); let t2 = t.elapsed();
        let e = a.unwrap_err();
        println!("{name:24} {:8} B check {t1:?} judge(1 thread) {t2:?}, {} outcomes, {:?} {}", body.len(), n.len(), e.faults[0].code, e.faults[0].detail.chars().take(90).collect::<String>());
        assert!(e.faults.iter().all(|f| f.pointer.len() < 10_000), "pointer");
    }
}
#[test]
fn keys_gen() {
    let mut rng = StdRng::seed_from_u64(31);
    let mut out = std::io::BufWriter::new(std::fs::File::create("/tmp/rv/keys.tsv").unwrap());
    let mut emit = |kind: &str, pem: &str| { let ok = PublicKey::from_pem(pem).is_ok(); writeln!(out, "{kind}\t{}\t{ok}", hex::encode(pem)).unwrap(); };
    let read = |n: &str| std::fs::read_to_string(format!("{}/tests/keys/{n}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut pems: Vec<String> = Algorithm::ALL.iter().map(|&a| fixtures::key(a).public_key_pem().to_owned()).collect();
    pems.push(read("p256-compressed.pem"));
    let der = |p: &str| STANDARD.decode(p.lines().filter(|l| !l.starts_with('-')).collect::<String>()).unwrap();
    for p in &pems { emit("good", p); }
    // PEM text mutations
    let ins = ["\n", "\r", "\r\n", " ", "\t", "-", "-----", "=", "A", "\n\n", "\u{b}", "\u{c}", "\0", ":", "\u{a0}", "-----BEGIN PUBLIC KEY-----", "-----END PUBLIC KEY-----", "\n \n", "\\n", "Proc-Type: 4,ENCRYPTED\n", "#"];
    for i in 0..60_000 {
        let base = &pems[i % pems.len()];
        let mut s = base.clone();
        if rng.random_bool(0.3) { // rewrap
            let b: String = base.lines().filter(|l| !l.starts_with('-')).collect();
            let w = [1, 3, 4, 7, 63, 64, 65, 76, 77, 80, 100, 127, 128, 200, 252, 253, 254, 255, 256, 257, 300, 400][rng.random_range(0..22)];
            let nl = ["\n", "\r\n", " \n", "\n", "\n "][rng.random_range(0..5)];
            s = format!("-----BEGIN PUBLIC KEY-----{nl}{}{nl}-----END PUBLIC KEY-----{nl}", b.as_bytes().chunks(w).map(|c| std::str::from_utf8(c).unwrap()).collect::<Vec<_>>().join(nl));
        }
        for _ in 0..rng.random_range(0..3) {
            let spots: Vec<usize> = s.match_indices('\n').map(|(i, _)| i).chain(s.match_indices("-----").map(|(i, _)| i)).collect();
            let at = if rng.random_bool(0.6) && !spots.is_empty() { (spots[rng.random_range(0..spots.len())] + rng.random_range(0..7usize)).min(s.len()) } else { rng.random_range(0..=s.len()) };
            if !s.is_char_boundary(at) { continue }
            match rng.random_range(0..4) { 0 if at < s.len() && s.is_char_boundary(at + 1) => { s.remove(at); } 1 => { let n = rng.random_range(1..300); let c = [" ", "\t", "\n"][rng.random_range(0..3)]; if rng.random_bool(0.3) { s.insert_str(at, &c.repeat(n)) } else { s.insert_str(at, c) } } _ => s.insert_str(at, ins[rng.random_range(0..ins.len())]) }
        }
        emit("pem", &s);
    }
    // DER mutations
    for i in 0..120_000 {
        let mut d = der(&pems[i % pems.len()]);
        for _ in 0..rng.random_range(1..3) {
            let at = if rng.random_bool(0.7) { rng.random_range(0..d.len().min(40)) } else { rng.random_range(0..d.len()) };
            match rng.random_range(0..5) { 0 => d[at] = rng.random(), 1 => d[at] ^= 1 << rng.random_range(0..8), 2 => { d.remove(at); } 3 => d.insert(at, [0, 0x80, 0x81, 0x82, 0xff, 5, 2, 1][rng.random_range(0..8)]), _ => d.push(rng.random()) }
        }
        emit("der", &spki_pem(&d));
    }
    // RSA crafted
    let tlv = |t: u8, c: &[u8]| { let mut v = vec![t]; if c.len() < 128 { v.push(c.len() as u8) } else if c.len() < 256 { v.extend([0x81, c.len() as u8]) } else { v.push(0x82); v.extend((c.len() as u16).to_be_bytes()) } v.extend(c); v };
    let rsa = |n: &[u8], e: &[u8]| { let k = tlv(0x30, &[tlv(2, n), tlv(2, e)].concat()); let alg = [0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00]; spki_pem(&tlv(0x30, &[&alg[..], &tlv(3, &[&[0u8][..], &k].concat())].concat())) };
    for _ in 0..300 { for len in [256usize, 257, 255, 258] { for e in [&[3u8][..], &[1], &[0], &[2], &[1, 0, 1], &[0, 1, 0, 1], &[0x80], &[0, 0x81], &[1, 0, 0, 0, 1], &[1, 0xff, 0xff, 0xff, 0xff], &[2, 0, 0, 0, 1], &[0x7f; 9], &[0x7f; 200], &[], &[0, 3], &[0xff]] {
        let mut n = vec![0u8; len]; rng.fill(&mut n[..]); if len == 257 { n[0] = 0; if rng.random_bool(0.8) { n[1] |= 0x80 } } if rng.random_bool(0.8) { n[len - 1] |= 1 }
        let p = rsa(&n, e); emit("rsa", &p);
    } } }
    // EC crafted
    for _ in 0..3000 { let alg = [0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
        let len = [33, 65, 1, 64, 66][rng.random_range(0..5)]; let mut k = vec![0u8; len]; if rng.random_bool(0.9) { rng.fill(&mut k[..]); } k[0] = [0, 2, 3, 4, 5, 6, 7][rng.random_range(0..7)];
        if rng.random_bool(0.2) && len >= 33 { k[1..33].fill(0xff); }
        emit("ec", &spki_pem(&tlv(0x30, &[&alg[..], &tlv(3, &[&[0u8][..], &k].concat())].concat()))); }
    for e in odd_encodings() { emit("ed", &ed_pem(&e)); }
    // signatures
    let mut out = std::io::BufWriter::new(std::fs::File::create("/tmp/rv/sigs.tsv").unwrap());
    for a in Algorithm::ALL { let key = fixtures::key(a); let public = PublicKey::from_pem(key.public_key_pem()).unwrap();
        writeln!(out, "key\t{}", hex::encode(key.public_key_pem())).unwrap();
        let mut emit = |m: &[u8], s: &[u8]| { let ok = public.verify(m, s); let check = SignatureCheck { algorithm: a, public_key_pem: key.public_key_pem(), message: m, signature: s }.verify(JUDGE.keys()).is_ok(); assert_eq!(ok, check); writeln!(out, "{a}\t{}\t{}\t{ok}", hex::encode(m), hex::encode(s)).unwrap(); };
        for i in 0..6000 {
            let m: [u8; 5] = rng.random(); let mut s = key.sign(&m).unwrap();
            if a == Algorithm::EcdsaP256 && i % 3 == 0 { // rebuild as DER with oddities
                let (r, v) = if s[0] == 0x30 && s.len() != 64 { let rl = s[3] as usize; (s[4..4 + rl].to_vec(), s[6 + rl..].to_vec()) } else { (s[..32].to_vec(), s[32..].to_vec()) };
                let strip = |x: &[u8]| { let mut x = x.to_vec(); while x.len() > 1 && x[0] == 0 && x[1] < 0x80 { x.remove(0); } if x[0] >= 0x80 { x.insert(0, 0) } x };
                let order = hex::decode("00ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551").unwrap();
                let (mut r, mut v) = (strip(&r), strip(&v));
                match rng.random_range(0..8) { 0 => r.insert(0, 0), 1 => v.insert(0, 0), 2 => { if r[0] == 0 { r.remove(0); } } 3 => v = order.clone(), 4 => r = vec![0], 5 => v = vec![], 6 => { v = { let mut c = 0u16; let mut o = vec![0u8; 33]; let vv = { let mut z = vec![0; 33 - v.len()]; z.extend(&v); z }; for j in (0..33).rev() { let t = vv[j] as u16 + order[j] as u16 + c; o[j] = t as u8; c = t >> 8; } o } } _ => {} }
                s = match rng.random_range(0..6) { 0 => { let body = [tlv(2, &r), tlv(2, &v)].concat(); [&[0x30, 0x81, body.len() as u8][..], &body].concat() } 1 => { let body = [tlv(2, &r), tlv(2, &v)].concat(); [&[0x30, 0x80][..], &body, &[0, 0]].concat() } 2 => tlv(0x30, &[tlv(2, &r), tlv(2, &v), tlv(5, &[])].concat()), _ => tlv(0x30, &[tlv(2, &r), tlv(2, &v)].concat()) };
            } else if i % 3 == 1 { let at = rng.random_range(0..s.len()); match rng.random_range(0..4) { 0 => s[at] ^= 1 << rng.random_range(0..8), 1 => { s.remove(at); } 2 => s.push(rng.random()), _ => s.insert(0, 0) } }
            emit(&m, &s);
        }
        emit(b"", &[]); emit(b"", &[0; 64]); emit(b"", &[0x30, 0]); emit(b"", &[0xff; 256]); emit(b"", &[0; 256]);
    }
}
