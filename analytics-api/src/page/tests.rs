#![allow(clippy::unwrap_used)]
use std::io::Read as _;

use flate2::read::GzDecoder;
use futures_util::FutureExt;
use http_body_util::BodyExt;

use super::*;

fn headers(lines: &[(HeaderName, &str)]) -> HeaderMap {
    lines
        .iter()
        .map(|(name, value)| (name.clone(), value.parse().unwrap()))
        .collect()
}

fn bytes(response: Response) -> Vec<u8> {
    let body = response.into_body().collect().now_or_never().unwrap();
    body.unwrap().to_bytes().to_vec()
}

#[test]
fn every_file_has_a_type_and_is_never_asked_for_in_vain() {
    assert!(ASSETS.contains_key("index.html"));
    for name in ASSETS.keys() {
        let response = served(name, &HeaderMap::new());
        assert_eq!(response.status(), StatusCode::OK, "{name}");
        assert_ne!(
            response.headers()[header::CONTENT_TYPE],
            "application/octet-stream",
            "{name}"
        );
        let cached = headers(&[(
            header::IF_NONE_MATCH,
            response.headers()[header::ETAG].to_str().unwrap(),
        )]);
        let again = served(name, &cached);
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{name}");
        assert_eq!(again.headers()[header::ETAG], response.headers()[header::ETAG]);
        assert!(bytes(again).is_empty());
    }
    assert_eq!(
        served("assets/none.js", &HeaderMap::new()).status(),
        StatusCode::NOT_FOUND
    );
}

#[test]
fn the_page_names_only_what_is_there_and_runs_nothing_inline() {
    let page = String::from_utf8(bytes(served("index.html", &HeaderMap::new()))).unwrap();
    let named = ["src=\"", "href=\""].map(|attribute| {
        page.split(attribute)
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
    });
    let mut count = 0;
    for address in named.into_iter().flatten() {
        let name = address
            .strip_prefix("/dashboard/")
            .unwrap_or_else(|| panic!("{address} is elsewhere"));
        assert!(ASSETS.contains_key(name), "{address}");
        count += 1;
    }
    assert!(count >= 2, "a script and a style sheet");
    assert!(
        !page.contains("<style") && !page.contains("style=") && !page.contains(" on"),
        "{page}"
    );
    for script in page.split("<script").skip(1) {
        assert!(script.split('>').next().unwrap().contains("src="), "{script}");
    }
}

#[test]
fn only_hashed_names_are_retained_for_ever() {
    for (name, asset) in ASSETS.iter() {
        assert_eq!(
            asset.caching.contains("immutable"),
            name.starts_with("assets/"),
            "{name}"
        );
    }
}

#[test]
fn compressed_where_that_can_be_read() {
    let plain = bytes(served("index.html", &HeaderMap::new()));
    for (accepted, gzip) in [
        ("gzip, deflate, br", true),
        ("GZIP;q=0.5", true),
        ("gzip;q=0, identity", false),
        ("br", false),
    ] {
        let response = served("index.html", &headers(&[(header::ACCEPT_ENCODING, accepted)]));
        assert_eq!(
            response.headers().get(header::CONTENT_ENCODING).is_some(),
            gzip,
            "{accepted}"
        );
        let got = bytes(response);
        let text = if gzip {
            let mut text = Vec::new();
            GzDecoder::new(got.as_slice()).read_to_end(&mut text).unwrap();
            text
        } else {
            got
        };
        assert_eq!(text, plain, "{accepted}");
    }
}
