//! The names of a section's keys, asked of its type.

use serde::Deserializer;
use serde::de::{DeserializeOwned, Error as _, Visitor, value::Error};
use serde::forward_to_deserialize_any;

/// The keys that a struct reads, in the order it declares them; empty for anything but a plain
/// struct.
#[must_use]
pub fn valid_keys<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // Serde hands the names over with the question; there is no value to answer with, so it always
    // fails.
    let _ = T::deserialize(Question { names: &mut names });
    names
}

struct Question<'a> {
    names: &'a mut &'static [&'static str],
}

impl<'de> Deserializer<'de> for Question<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("only asked for names"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.names = fields;
        Err(Error::custom("only asked for names"))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map enum identifier ignored_any
    }
}
