//! Claims of a token, and whether it holds: for us, and now.

use accounts::Subject;
use serde_json::{Map, Value};

use super::TokenError;

/// The longest `sub`, in bytes (OpenID Connect Core, 2).
const SUBJECT_BYTES_MAX: usize = 255;
/// The latest instant a token may name, in seconds: the year 9999.
const INSTANT_S_MAX: f64 = 253_402_300_799.0;

/// Claims that every token must have.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    pub(crate) issuer: String,
    pub(crate) audience: String,
    pub(crate) leeway_s_max: u32,
}

impl Expected {
    /// Whom the claims are about, if they hold at `now_ms`.
    pub(crate) fn subject(&self, claims: &Map<String, Value>, now_ms: i64) -> Result<Subject, TokenError> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if text("iss") != Some(self.issuer.as_str()) {
            return Err(TokenError::Issuer);
        }
        if !self.is_audience(claims.get("aud")) {
            return Err(TokenError::Audience);
        }
        self.check_time(claims, now_ms)?;
        let subject = text("sub")
            .filter(|subject| is_subject(subject))
            .ok_or(TokenError::Claim("sub"))?;
        // An address that the provider itself doubts is none.
        let doubted = claims.get("email_verified") == Some(&Value::Bool(false));
        Ok(Subject {
            issuer: self.issuer.clone(),
            subject: subject.to_owned(),
            email: text("email").filter(|_| !doubted).and_then(|email| email.parse().ok()),
            name: text("name").and_then(|name| name.trim().parse().ok()),
        })
    }

    /// Whom the claims of an ID token are about, if they hold at `now_ms` and for the sign-in with
    /// this `nonce` (OpenID Connect Core section 3.1.3.7); and when they signed in at the provider,
    /// if it says, in milliseconds since the Unix epoch.
    pub(crate) fn signed_in(
        &self,
        claims: &Map<String, Value>,
        nonce: &str,
        age_s_max: u32,
        now_ms: i64,
    ) -> Result<(Subject, Option<i64>), TokenError> {
        let subject = self.subject(claims, now_ms)?;
        let text = |name: &str| claims.get(name).map(|value| value.as_str().unwrap_or_default());
        if text("nonce") != Some(nonce) {
            return Err(TokenError::Claim("nonce"));
        }
        // The party that the token was issued to, where several may read it.
        let is_several = matches!(claims.get("aud"), Some(Value::Array(several)) if several.len() > 1);
        match text("azp") {
            None if !is_several => {}
            Some(party) if party == self.audience => {}
            _ => return Err(TokenError::Claim("azp")),
        }
        let signed_in_at_ms = instant_ms(claims, "auth_time")?;
        let age_ms_max = (i64::from(age_s_max) + i64::from(self.leeway_s_max)) * 1_000;
        if signed_in_at_ms.is_some_and(|at_ms| now_ms.saturating_sub(at_ms) > age_ms_max) {
            return Err(TokenError::Claim("auth_time"));
        }
        Ok((subject, signed_in_at_ms))
    }

    fn is_audience(&self, audience: Option<&Value>) -> bool {
        match audience {
            Some(Value::String(one)) => *one == self.audience,
            Some(Value::Array(several)) => {
                let ours = |audience: &Value| audience.as_str() == Some(self.audience.as_str());
                several.iter().all(Value::is_string) && several.iter().any(ours)
            }
            _ => false,
        }
    }

    /// RFC 7519, 4.1.4 and 4.1.5: the token ends on `exp` and begins on `nbf`, each with the
    /// leeway.
    fn check_time(&self, claims: &Map<String, Value>, now_ms: i64) -> Result<(), TokenError> {
        let leeway_ms = i64::from(self.leeway_s_max) * 1_000;
        let ends_ms = instant_ms(claims, "exp")?.ok_or(TokenError::Claim("exp"))?;
        let begins_ms = instant_ms(claims, "nbf")?;
        instant_ms(claims, "iat")?;
        if now_ms >= ends_ms.saturating_add(leeway_ms) {
            return Err(TokenError::Expired);
        }
        if begins_ms.is_some_and(|begins_ms| now_ms < begins_ms.saturating_sub(leeway_ms)) {
            return Err(TokenError::NotYet);
        }
        Ok(())
    }
}

fn is_subject(subject: &str) -> bool {
    (1..=SUBJECT_BYTES_MAX).contains(&subject.len()) && !subject.chars().any(char::is_control)
}

/// A NumericDate (RFC 7519, 2): seconds, which may have a fraction.
fn instant_ms(claims: &Map<String, Value>, name: &'static str) -> Result<Option<i64>, TokenError> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| (0.0..=INSTANT_S_MAX).contains(seconds));
    let seconds = seconds.ok_or(TokenError::Claim(name))?;
    // Within the range just checked, so nothing is cut off but the part below a millisecond.
    #[allow(clippy::cast_possible_truncation)]
    Ok(Some((seconds * 1_000.0) as i64))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const NOW_S: i64 = 1_800_000_000;

    fn expected() -> Expected {
        Expected {
            issuer: "https://id.example".to_owned(),
            audience: "receipts".to_owned(),
            leeway_s_max: 30,
        }
    }

    fn ask(changes: Value) -> Result<Subject, TokenError> {
        let mut claims = json!({"iss": "https://id.example", "aud": "receipts", "sub": "anna", "exp": NOW_S + 60});
        for (name, value) in changes.as_object().unwrap() {
            match value {
                Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
                value => claims[name] = value.clone(),
            }
        }
        expected().subject(claims.as_object().unwrap(), NOW_S * 1_000)
    }

    #[test]
    fn who_it_is_about() {
        let subject = ask(json!({"email": "a@example.com", "name": " Anna "})).unwrap();
        assert_eq!(
            (subject.issuer.as_str(), subject.subject.as_str()),
            ("https://id.example", "anna")
        );
        assert_eq!(subject.email.unwrap().as_str(), "a@example.com");
        assert_eq!(subject.name.unwrap().as_str(), "Anna");
        for strange in [
            json!({"email": "no address", "name": 7}),
            json!({"email": "a@example.com", "email_verified": false}),
        ] {
            let subject = ask(strange).unwrap();
            assert_eq!((subject.email, subject.name), (None, None));
        }
    }

    #[test]
    fn another_issuer_audience_or_subject_is_refused() {
        for iss in [
            json!("https://id.example/"),
            json!(["https://id.example"]),
            json!(1),
            Value::Null,
        ] {
            assert!(matches!(ask(json!({"iss": iss})), Err(TokenError::Issuer)), "{iss}");
        }
        assert!(ask(json!({"aud": ["other", "receipts"]})).is_ok());
        for aud in [
            json!("Receipts"),
            json!([]),
            json!(["other"]),
            json!([["receipts"]]),
            json!(["receipts", 1]),
            Value::Null,
        ] {
            assert!(matches!(ask(json!({"aud": aud})), Err(TokenError::Audience)), "{aud}");
        }
        for sub in [
            json!(""),
            json!("a".repeat(256)),
            json!("a\u{0}"),
            json!(7),
            Value::Null,
        ] {
            assert!(
                matches!(ask(json!({"sub": sub})), Err(TokenError::Claim("sub"))),
                "{sub}"
            );
        }
    }

    #[test]
    fn an_id_token_is_for_one_sign_in() {
        let ask = |changes: Value| {
            let mut claims = json!({
                "iss": "https://id.example", "aud": "receipts", "sub": "anna", "exp": NOW_S + 60, "nonce": "n1",
            });
            for (name, value) in changes.as_object().unwrap() {
                claims[name] = value.clone();
            }
            expected().signed_in(claims.as_object().unwrap(), "n1", 600, NOW_S * 1_000)
        };
        assert_eq!(ask(json!({})).unwrap().1, None);
        assert_eq!(
            ask(json!({"auth_time": NOW_S - 5})).unwrap().1,
            Some((NOW_S - 5) * 1_000)
        );
        assert!(ask(json!({"auth_time": NOW_S - 630, "azp": "receipts"})).is_ok());
        assert!(ask(json!({"aud": ["receipts", "other"], "azp": "receipts"})).is_ok());
        for (changes, name) in [
            (json!({"nonce": "n2"}), "nonce"),
            (json!({"nonce": null}), "nonce"),
            (json!({"nonce": ["n1"]}), "nonce"),
            (json!({"azp": "other"}), "azp"),
            (json!({"azp": 1}), "azp"),
            (json!({"aud": ["receipts", "other"]}), "azp"),
            (json!({"auth_time": NOW_S - 631}), "auth_time"),
            (json!({"auth_time": "now"}), "auth_time"),
        ] {
            let refused = ask(changes.clone()).unwrap_err();
            assert!(
                matches!(refused, TokenError::Claim(reported) if reported == name),
                "{changes}: {refused}"
            );
        }
        assert!(matches!(ask(json!({"aud": "other"})), Err(TokenError::Audience)));
        assert!(matches!(
            ask(json!({"iss": "https://id.example/"})),
            Err(TokenError::Issuer)
        ));
        assert!(matches!(ask(json!({"exp": NOW_S - 31})), Err(TokenError::Expired)));
    }

    #[test]
    fn times_that_are_none_are_refused() {
        for time in [
            json!("1800000000"),
            json!(-1),
            json!(1e300),
            json!(true),
            json!([1]),
            json!({}),
        ] {
            for name in ["exp", "nbf", "iat"] {
                assert!(
                    matches!(ask(json!({name: time})), Err(TokenError::Claim(reported)) if reported == name),
                    "{name} {time}"
                );
            }
        }
        assert!(
            matches!(ask(json!({"exp": null})), Err(TokenError::Claim("exp"))),
            "one without an end"
        );
    }

    proptest! {
        /// To the millisecond: from `nbf` on, until before `exp`, with the leeway on both sides.
        #[test]
        fn a_token_holds_between_its_times(exp_ms in -90_000_i64..90_000, nbf_ms in -90_000_i64..90_000) {
            let at = |ms: i64| (NOW_S * 1_000 + ms) as f64 / 1_000.0;
            let result = ask(json!({"exp": at(exp_ms), "nbf": at(nbf_ms)}));
            // A fraction may be a millisecond off in binary.
            if (exp_ms + 30_000).abs() > 1 && (nbf_ms - 30_000).abs() > 1 {
                prop_assert_eq!(result.is_ok(), exp_ms > -30_000 && nbf_ms <= 30_000);
            }
            let whole = ask(json!({"exp": NOW_S + exp_ms, "nbf": NOW_S + nbf_ms}));
            match whole {
                Ok(_) => prop_assert!(exp_ms > -30 && nbf_ms <= 30),
                Err(TokenError::Expired) => prop_assert!(exp_ms <= -30),
                Err(TokenError::NotYet) => prop_assert!(nbf_ms > 30),
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }
}
