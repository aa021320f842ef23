//! Addresses that must not be requested, in one table, and that none was.

use outbound::{Config, Error};

use crate::server::{Server, answer};
use crate::world::{World, client};

/// URLs refused from their text alone: no name is resolved, nothing connected.
const BY_TEXT: &[(&str, &str)] = &[
    // Not HTTPS, or not a URL.
    ("http://good.test/", "only https"),
    ("ftp://good.test/", "only https"),
    ("file:///etc/passwd", "only https"),
    ("gopher://good.test/", "only https"),
    ("data:text/plain,x", "only https"),
    ("unix:///run/x.sock", "only https"),
    ("good.test/path", "isn't a URL"),
    ("", "isn't a URL"),
    ("https://", "isn't a URL"),
    ("https:///", "isn't a URL"),
    ("https://[fe80::1%25eth0]/", "isn't a URL"),
    ("https://127.0.0.1.256/", "isn't a URL"),
    // Credentials and ports.
    ("https://user@good.test/", "user or password"),
    ("https://user:password@good.test/", "user or password"),
    ("https://good.test@127.0.0.1/", "user or password"),
    ("https://good.test:22/", "port 22"),
    ("https://good.test:8443/", "port 8443"),
    ("https://good.test:0/", "port 0"),
    // IPv4, plain and in every other spelling that resolvers take.
    ("https://0.0.0.0/", "0.0.0.0 isn't public"),
    ("https://10.0.0.1/", "10.0.0.1 isn't public"),
    ("https://127.0.0.9/", "127.0.0.9 isn't public: loopback"),
    ("https://100.100.100.200/", "isn't public"),
    ("https://169.254.169.254/latest/meta-data/", "metadata"),
    ("https://168.63.129.16/", "metadata"),
    ("https://172.16.0.1/", "isn't public"),
    ("https://192.168.0.1/", "isn't public"),
    ("https://198.18.0.1/", "isn't public"),
    ("https://192.0.2.1/", "isn't public"),
    ("https://224.0.0.1/", "isn't public"),
    ("https://255.255.255.255/", "isn't public"),
    ("https://2130706433/", "127.0.0.1 in an unusual form"),
    ("https://0x7f000001/", "unusual form"),
    ("https://0x7f.0.0.1/", "unusual form"),
    ("https://0177.0.0.1/", "unusual form"),
    ("https://127.1/", "unusual form"),
    ("https://0/", "unusual form"),
    ("https://2852039166/", "169.254.169.254 in an unusual form"),
    ("https://134744072/", "8.8.8.8 in an unusual form"),
    ("https://010.8.8.8/", "unusual form"),
    ("https://%31%32%37.0.0.1/", "unusual form"),
    ("https://①②⑦.0.0.1/", "unusual form"),
    ("https://127。0。0。1/", "unusual form"),
    ("https://127.0.0.1./", "unusual form"),
    // IPv6, and IPv4 inside it.
    ("https://[::]/", "isn't public"),
    ("https://[::1]/", "::1 isn't public: loopback"),
    ("https://[0:0:0:0:0:0:0:1]/", "unusual form"),
    ("https://[::ffff:127.0.0.1]/", "unusual form"),
    ("https://[::ffff:7f00:1]/", "mapped"),
    ("https://[::ffff:808:808]/", "mapped"),
    ("https://[::7f00:1]/", "isn't public"),
    ("https://[64:ff9b::a9fe:a9fe]/", "NAT64"),
    ("https://[64:ff9b::808:808]/", "NAT64"),
    ("https://[64:ff9b:1::7f00:1]/", "NAT64"),
    ("https://[2002:7f00:1::]/", "6to4"),
    ("https://[2001::1]/", "Teredo"),
    ("https://[fc00::1]/", "isn't public"),
    ("https://[fd00:ec2::254]/", "isn't public"),
    ("https://[fe80::1]/", "link-local"),
    ("https://[fec0::1]/", "site-local"),
    ("https://[ff02::1]/", "multicast"),
    ("https://[2001:db8::1]/", "documentation"),
];

/// Names refused for an address they resolve to, which isn't reported.
const BY_ADDRESS: &[&str] = &[
    "private.test",
    "metadata.test",
    "mapped.test",
    "nat64.test",
    "loopback6.test",
    "zero.test",
    "hidden.test",
    // One good address doesn't make up for another.
    "mixed.test",
    "mixed6.test",
    // RFC 6761: this machine, whatever the DNS says.
    "localhost",
    "a.localhost",
];

/// Targets to which a redirect from `https://good.test/` must not lead; another spelling is judged
/// as the address it is.
const REDIRECTS: &[(&str, &str)] = &[
    ("http://169.254.169.254/", "only https"),
    ("http://good.test/end", "only https"),
    ("file:///etc/passwd", "only https"),
    ("https://user@good.test/", "user or password"),
    ("https://good.test:22/", "port 22"),
    ("https://", "not to a URL"),
    (
        "https://169.254.169.254/latest/meta-data/",
        "169.254.169.254 isn't public",
    ),
    ("https://2852039166/", "169.254.169.254 isn't public"),
    ("https://0xa9fea9fe/", "169.254.169.254 isn't public"),
    ("https://0251.0376.0251.0376/", "169.254.169.254 isn't public"),
    ("https://0.0.0.0/", "0.0.0.0 isn't public"),
    ("https://0/", "0.0.0.0 isn't public"),
    ("https://127.0.0.9/", "127.0.0.9 isn't public"),
    ("//10.0.0.1/", "10.0.0.1 isn't public"),
    ("https://[::1]/", "::1 isn't public"),
    ("https://[::ffff:127.0.0.1]/", "mapped"),
    ("https://[64:ff9b::a9fe:a9fe]/", "NAT64"),
    ("https://[fe80::1]/", "link-local"),
];

fn refusal(error: Error) -> String {
    match error {
        Error::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn none_of_the_table_is_asked() {
    let server = Server::answering(|_| answer("200 OK", "", "secret")).await;
    let mut config = World::get().config(server.address);
    // Of loopback, only where the server is: ::1 and 127.0.0.9 are judged as they are.
    config.test_allow_addresses = vec!["127.0.0.1/32".parse().unwrap()];
    let client = outbound::OutboundClient::new(&config).unwrap();
    for (url, why) in BY_TEXT {
        let reported = refusal(client.get(url, 100).await.unwrap_err());
        assert!(reported.contains(why), "{url}: {reported}");
        let posted = client.post(url, http::HeaderMap::new(), bytes::Bytes::new(), 100).await;
        assert_eq!(refusal(posted.unwrap_err()), reported, "{url}");
        assert_eq!(refusal(client.check(url).unwrap_err()), reported, "{url}");
    }
    for name in BY_ADDRESS {
        let url = format!("https://{name}/");
        client.check(&url).unwrap();
        let reported = refusal(client.get(&url, 100).await.unwrap_err());
        assert_eq!(reported, format!("{name} resolves to an address that isn't public"));
    }
    assert_eq!(server.connections(), 0, "nobody was connected to");
    assert_eq!(
        &client.get("https://good.test/", 100).await.unwrap().body[..],
        b"secret",
        "and this is how it would have been"
    );
}

#[tokio::test]
async fn a_redirect_is_judged_like_the_first_url() {
    let server = Server::answering(|head| {
        let path = head.split(' ').nth(1).unwrap();
        match path.strip_prefix("/to?") {
            Some(location) => answer("302 Found", &format!("location: {location}\r\n"), ""),
            None => answer("200 OK", "", "end"),
        }
    })
    .await;
    let client = client(server.address);
    for (url, why) in REDIRECTS {
        let reported = refusal(
            client
                .get(&format!("https://good.test/to?{url}"), 100)
                .await
                .unwrap_err(),
        );
        assert!(reported.contains(why), "{url}: {reported}");
    }
    for name in BY_ADDRESS {
        let reported = refusal(
            client
                .get(&format!("https://good.test/to?https://{name}/"), 100)
                .await
                .unwrap_err(),
        );
        let why = format!("{name} resolves to an address that isn't public");
        assert!(reported.ends_with(&why), "{reported}");
    }
    let fetched = client.get("https://good.test/to?/end", 100).await.unwrap();
    assert_eq!(
        (fetched.final_url.as_str(), &fetched.body[..]),
        ("https://good.test/end", &b"end"[..])
    );
}

#[tokio::test]
async fn tests_settings_open_what_they_name_and_nothing_else() {
    let server = Server::answering(|_| answer("200 OK", "", "")).await;
    let config = Config {
        test_allow_addresses: Vec::new(),
        ..World::get().config(server.address)
    };
    let client = outbound::OutboundClient::new(&config).unwrap();
    let reported = refusal(client.get("https://good.test/", 10).await.unwrap_err());
    assert_eq!(reported, "good.test resolves to an address that isn't public");
    assert_eq!(server.connections(), 0);
}
