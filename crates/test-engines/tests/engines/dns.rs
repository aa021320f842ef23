use std::net::UdpSocket;
use std::time::Duration;

use test_engines::Dns;

/// A question by hand: the answer's code and how many records it has, or nothing within half a
/// second.
fn ask(dns: &Dns, name: &str, kind: u16) -> Option<(u8, u16)> {
    let mut question = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.').filter(|label| !label.is_empty()) {
        question.push(u8::try_from(label.len()).unwrap());
        question.extend_from_slice(label.as_bytes());
    }
    question.push(0);
    question.extend_from_slice(&kind.to_be_bytes());
    question.extend_from_slice(&[0, 1]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    socket.send_to(&question, dns.address()).unwrap();
    let mut answer = [0; 512];
    socket.recv(&mut answer).ok()?;
    assert_eq!(answer[..2], [7, 7]);
    Some((answer[3] & 15, u16::from_be_bytes([answer[6], answer[7]])))
}

const A: u16 = 1;
const TXT: u16 = 16;

#[test]
fn it_knows_its_zone_and_that_nothing_else_exists() {
    let zone = "a.test. 0 IN TXT \"one\" \"two\"\na.test. 0 IN TXT \"three\"\nb.test. 0 IN CNAME a.test.\nc.example. 0 IN A 10.0.0.1";
    let dns = Dns::start(zone).unwrap();
    assert_eq!(ask(&dns, "a.test", TXT), Some((0, 2)));
    assert_eq!(ask(&dns, "b.test", TXT), Some((0, 3)), "the alias and what it leads to");
    assert_eq!(ask(&dns, "a.test", A), Some((0, 0)), "NODATA");
    assert_eq!(ask(&dns, "c.example", A), Some((0, 1)));
    assert_eq!(ask(&dns, "x.test", A), Some((3, 0)), "NXDOMAIN");
    assert_eq!(ask(&dns, "x.broken", A), Some((2, 0)), "SERVFAIL");
    assert_eq!(ask(&dns, "x.refused", A), Some((5, 0)));
    assert_eq!(ask(&dns, "x.silent", A), None);

    dns.set("x.test. 0 IN A 127.0.0.1").unwrap();
    assert_eq!(ask(&dns, "x.test", A), Some((0, 1)), "at once");
    assert_eq!(ask(&dns, "a.test", TXT), Some((3, 0)));
    assert!(dns.set("x.test. 0 IN A nonsense").is_err());
    dns.set("").unwrap();
    dns.freeze().unwrap();
    assert_eq!(ask(&dns, "ns.test", A), None);
    dns.thaw().unwrap();
    assert_eq!(ask(&dns, "ns.test", A), Some((0, 1)));
}
