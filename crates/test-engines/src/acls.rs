//! Kafka's access control lists, created by the one request that Kafka's own scripts send for it:
//! the Rust client has none.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, bail};

/// `CreateAcls`, in the version before tagged fields.
const CREATE_ACLS: [i16; 2] = [30, 1];
const ALLOW: u8 = 3;
const LITERAL: u8 = 3;
const PREFIXED: u8 = 4;
const TYPES: [(&str, u8); 3] = [("--topic", 2), ("--group", 3), ("--transactional-id", 5)];
const OPERATIONS: [(&str, u8); 6] = [
    ("Read", 3),
    ("Write", 4),
    ("Create", 5),
    ("Delete", 6),
    ("Describe", 8),
    ("DescribeConfigs", 10),
];

/// Rights of one principal, as the options of `kafka-acls.sh --add` name them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rights<'a> {
    principal: &'a str,
    /// Type and name of each.
    resources: Vec<(u8, &'a str)>,
    pattern: u8,
    operations: Vec<u8>,
}

impl<'a> Rights<'a> {
    fn parse(options: &'a str) -> anyhow::Result<Self> {
        let mut rights = Self {
            pattern: LITERAL,
            ..Self::default()
        };
        let mut words = options.split_whitespace();
        while let Some(option) = words.next() {
            let value = words.next().with_context(|| format!("{option} has no value"))?;
            let number = |table: &[(&str, u8)], key: &str| {
                let found = table.iter().find(|(name, _)| *name == key).map(|(_, number)| *number);
                found.with_context(|| format!("`{option} {value}` isn't among what tests use"))
            };
            match option {
                "--allow-principal" => rights.principal = value,
                "--operation" => rights.operations.push(number(&OPERATIONS, value)?),
                "--resource-pattern-type" => rights.pattern = number(&[("prefixed", PREFIXED)], value)?,
                _ => rights.resources.push((number(&TYPES, option)?, value)),
            }
        }
        Ok(rights)
    }

    fn request(&self) -> Vec<u8> {
        let mut body = Vec::new();
        CREATE_ACLS.iter().for_each(|number| body.extend(number.to_be_bytes()));
        body.extend(1_i32.to_be_bytes());
        text(&mut body, "tests");
        body.extend(length(self.resources.len() * self.operations.len()).to_be_bytes());
        for (kind, name) in &self.resources {
            for operation in &self.operations {
                body.push(*kind);
                text(&mut body, name);
                body.push(self.pattern);
                text(&mut body, self.principal);
                text(&mut body, "*");
                body.extend([*operation, ALLOW]);
            }
        }
        [&length(body.len()).to_be_bytes()[..], &body].concat()
    }
}

/// Adds rights at a listener whose clients may do everything. `options` are those of
/// `kafka-acls.sh --add`.
pub(crate) fn add(port: u16, options: &str) -> anyhow::Result<()> {
    let mut broker = TcpStream::connect(("127.0.0.1", port))?;
    broker.write_all(&Rights::parse(options)?.request())?;
    let mut size = [0; 4];
    broker.read_exact(&mut size)?;
    let mut answer = vec![0; usize::try_from(i32::from_be_bytes(size))?];
    broker.read_exact(&mut answer)?;
    // Correlation, time to wait, count; then a code and a message each.
    let results = answer.get(12..).context("a short answer")?;
    // A result without a fault is the code 0 and no message: null or empty.
    if results
        .chunks(4)
        .any(|result| !matches!(result, [0, 0, 0xff, 0xff] | [0, 0, 0, 0]))
    {
        bail!("`{options}` is refused: {}", String::from_utf8_lossy(results));
    }
    Ok(())
}

fn length(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

fn text(body: &mut Vec<u8>, text: &str) {
    body.extend(i16::try_from(text.len()).unwrap_or(i16::MAX).to_be_bytes());
    body.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn options_are_those_of_kafkas_script() {
        let options =
            "--allow-principal User:one --group a --group b --resource-pattern-type prefixed --operation Read";
        let rights = Rights {
            principal: "User:one",
            resources: vec![(3, "a"), (3, "b")],
            pattern: PREFIXED,
            operations: vec![3],
        };
        assert_eq!(Rights::parse(options).unwrap(), rights);
        Rights::parse("--cluster kafka").unwrap_err();
        Rights::parse("--topic one --operation").unwrap_err();
    }
}
