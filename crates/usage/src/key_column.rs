//! Columns of the key of `usage`, beside grain and revision: which grains have them, and how they
//! follow from receipts. `rows.rs` makes the same rows without SQL.

use warehouse::{OPERATOR, VERIFIED};

use crate::Grain;

/// A column of the key.
#[derive(Debug)]
pub(crate) struct KeyColumn {
    pub(crate) name: &'static str,
    grains: &'static [Grain],
    /// Value in rows of other grains.
    pub(crate) blank: &'static str,
    /// Value over a row of `receipts`; of `time`, the second.
    pub(crate) of_receipt: &'static str,
}

const fn column(
    name: &'static str,
    grains: &'static [Grain],
    blank: &'static str,
    of_receipt: &'static str,
) -> KeyColumn {
    KeyColumn {
        name,
        grains,
        blank,
        of_receipt,
    }
}

const EVERY: &[Grain] = &Grain::AGGREGATES;
const ENTRY: &[Grain] = &[Grain::All, Grain::Entry];
const CLIENT: &[Grain] = &[Grain::All, Grain::Client];
const PURPOSE: &[Grain] = &[Grain::All, Grain::Purpose, Grain::Client];
const NIL: &str = "toUUID('00000000-0000-0000-0000-000000000000')";
const NO_FINGERPRINT: &str = "toFixedString('', 32)";
const FINGERPRINT: &str = "CAST(key_fingerprint AS FixedString(32))";
const HALF_HOUR: &str = "toUInt8(intDiv(toUnixTimestamp(timestamp) - {day:UInt32}, 1800))";

/// The columns, in the order of the sorting key.
pub(crate) static KEY: [KeyColumn; 15] = [
    column("publisher", EVERY, "''", "{publisher:String}"),
    column("time", &Grain::ALL, "toUInt32(0)", "toUnixTimestamp(timestamp)"),
    column("entry_id", ENTRY, NIL, "entry_id"),
    column("half_hour", &[Grain::All], "toUInt8(0)", HALF_HOUR),
    column("key", &[Grain::Counted], "toFixedString('', 16)", "payload_hash"),
    column("client_id", CLIENT, NIL, "client_id"),
    column("purpose", PURPOSE, "''", "toString(purpose)"),
    column("model_id", CLIENT, "''", "model_id"),
    column("client_name", &[Grain::Client], "''", "toString(client_name)"),
    column("organization", &[Grain::Client], "''", "toString(organization)"),
    column("client_version", &[Grain::Client], "''", "toString(client_version)"),
    column("url", &[Grain::Entry], "''", "url"),
    column("operator", EVERY, "''", OPERATOR),
    column("key_fingerprint", CLIENT, NO_FINGERPRINT, FINGERPRINT),
    column("verified", EVERY, "false", VERIFIED),
];

impl KeyColumn {
    /// Whether rows of a grain have a value.
    pub(crate) fn is_in(&self, grain: Grain) -> bool {
        self.grains.contains(&grain)
    }

    /// Value over a row of `usage`, without a dictionary.
    pub(crate) fn stored(&self) -> String {
        let name = self.name;
        match self.blank {
            "''" => format!("toString({name})"),
            NO_FINGERPRINT => FINGERPRINT.to_owned(),
            _ => name.to_owned(),
        }
    }

    /// Value in a contribution to `grain`, a column, of a receipt whose values are called `of_` and
    /// the name.
    pub(crate) fn contributed(&self) -> String {
        let (name, blank) = (self.name, self.blank);
        let grains = Grain::AGGREGATES.into_iter().filter(|grain| self.is_in(*grain));
        let grains: Vec<String> = grains.map(|grain| format!("'{}'", grain.name())).collect();
        match grains.len() {
            _ if name == "time" => "if(grain = 'purpose', of_time - of_time % 1800, {day:UInt32})".to_owned(),
            0 => blank.to_owned(),
            4 => format!("of_{name}"),
            _ => format!("if(grain IN ({}), of_{name}, {blank})", grains.join(", ")),
        }
    }
}

/// Expressions of every column, each called by the column's name, as a list of SQL.
pub(crate) fn columns(expression: impl Fn(&KeyColumn) -> String) -> String {
    let columns = KEY
        .iter()
        .map(|column| format!("{} AS {}", expression(column), column.name));
    columns.collect::<Vec<_>>().join(", ")
}

/// Names of these columns, as a list of SQL.
pub(crate) fn names(prefix: &str, is_wanted: impl Fn(&KeyColumn) -> bool) -> String {
    let wanted = KEY.iter().filter(|column| is_wanted(column));
    let names = wanted.map(|column| format!("{prefix}{}", column.name));
    names.collect::<Vec<_>>().join(", ")
}
