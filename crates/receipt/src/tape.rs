//! The flat result of scanning JSON: one node for each value and member name, in source order, with
//! its span.
//!
//! A tape owns no text. It is cleared and used again for the next receipt, so scanning allocates
//! nothing once warm.

use std::{borrow::Cow, cmp::Ordering};

use crate::text;

/// Kind of value that a node represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Object,
    Array,
    String,
    Number,
    True,
    False,
    Null,
}

impl NodeKind {
    /// With its article, for a fault's detail.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::Array => "an array",
            Self::String => "a string",
            Self::Number => "a number",
            Self::True | Self::False => "a boolean",
            Self::Null => "null",
        }
    }
}

/// A node's index in its tape. The root is 0.
pub(crate) type NodeId = u32;

/// A value or member name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// The first byte of its text; of a string the opening quote.
    pub(crate) start: u32,
    /// The byte after its text.
    pub(crate) end: u32,
    /// The node after this one and everything inside it.
    pub(crate) next: NodeId,
    /// Objects: where its sorted names begin in `Tape::order`. Numbers that aren't verbatim: half
    /// of the double's bits.
    pub(crate) order: u32,
    /// Objects: how many members. Numbers that aren't verbatim: the other half.
    pub(crate) members: u32,
    pub(crate) kind: NodeKind,
    /// The text is its own canonical form.
    pub(crate) verbatim: bool,
    /// Strings: holds a `\` escape.
    pub(crate) escaped: bool,
    /// Strings: ASCII without escapes, so bytes compare like UTF-16 code units.
    pub(crate) plain: bool,
}

impl Node {
    #[allow(clippy::cast_possible_truncation)]
    pub(crate) const fn set_number(&mut self, value: f64) {
        let bits = value.to_bits();
        (self.order, self.members) = (bits as u32, (bits >> 32) as u32);
    }

    /// The value of a number that isn't verbatim.
    pub(crate) const fn number(&self) -> f64 {
        f64::from_bits((self.members as u64) << 32 | self.order as u64)
    }
}

/// An array or object that is still open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) node: NodeId,
    /// Objects: the name of the member being read, or `NO_KEY`.
    pub(crate) key: NodeId,
    /// Elements or members before the one being read.
    pub(crate) count: u32,
    /// `Tape::dirty` when it was opened.
    pub(crate) dirty: u32,
    pub(crate) is_object: bool,
}

pub(crate) const NO_KEY: NodeId = NodeId::MAX;

#[derive(Clone, Copy, Debug)]
struct ObjectMember {
    /// The first eight bytes of a plain name, so that most comparisons are one of integers.
    prefix: u64,
    key: NodeId,
    /// Names with escapes: where they lie decoded in `Tape::decoded`.
    decoded: (u32, u32),
}

/// The nodes of one JSON value.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    pub(crate) nodes: Vec<Node>,
    pub(crate) frames: Vec<Frame>,
    /// Each object's names in canonical order, one run for each object.
    order: Vec<NodeId>,
    /// Strings whose text is longer than the limit on strings, to be measured decoded.
    pub(crate) long: Vec<NodeId>,
    /// Number of tokens that aren't canonical as written.
    pub(crate) dirty: u32,
    sorting: Vec<ObjectMember>,
    /// The decoded names with escapes of the object being sorted: decoding them in every comparison
    /// would let 64 KiB of such names take ten milliseconds.
    decoded: String,
}

/// A position in a body as a node holds it. Bodies are shorter than 4 GiB: `scan::utf8` refuses
/// longer ones, and whatever is scanned has come through it.
#[allow(clippy::cast_possible_truncation)]
pub(crate) const fn at(pos: usize) -> u32 {
    pos as u32
}

impl Tape {
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        self.frames.clear();
        self.order.clear();
        self.long.clear();
        self.dirty = 0;
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    pub(crate) fn kind(&self, id: NodeId) -> NodeKind {
        self.node(id).kind
    }

    /// A node's text as written.
    pub(crate) fn raw<'a>(&self, id: NodeId, text: &'a str) -> &'a str {
        let node = self.node(id);
        &text[node.start as usize..node.end as usize]
    }

    /// A string's or name's text between its quotes, as written.
    pub(crate) fn inner<'a>(&self, id: NodeId, text: &'a str) -> &'a str {
        let node = self.node(id);
        &text[node.start as usize + 1..node.end as usize - 1]
    }

    /// A string or name, decoded.
    pub(crate) fn string<'a>(&self, id: NodeId, text: &'a str) -> Cow<'a, str> {
        let inner = self.inner(id, text);
        if self.node(id).escaped {
            Cow::Owned(text::unescape(inner))
        } else {
            Cow::Borrowed(inner)
        }
    }

    /// An object's names in canonical order; each value is the node after its name.
    pub(crate) fn names(&self, object: NodeId) -> &[NodeId] {
        let node = self.node(object);
        &self.order[node.order as usize..(node.order + node.members) as usize]
    }

    /// The values of the members called `wanted` (which must be sorted), 0 where there is none.
    pub(crate) fn members<const N: usize>(&self, object: NodeId, text: &str, wanted: [&str; N]) -> [NodeId; N] {
        let mut found = [0; N];
        let mut from = 0;
        for &key in self.names(object) {
            let inner = self.inner(key, text);
            let decoded;
            let name = if self.node(key).escaped {
                decoded = text::unescape(inner);
                decoded.as_str()
            } else {
                inner
            };
            // Both lists are sorted: what comes before the last match can't match again.
            if let Some(i) = (from..N).find(|&i| wanted[i] == name) {
                found[i] = key + 1;
                from = i + 1;
                if from == N {
                    break;
                }
            }
        }
        found
    }

    /// Sorts the object's names into `order` and finds duplicates: returns the second of two equal
    /// names.
    pub(crate) fn sort_names(&mut self, object: NodeId, text: &str) -> Result<(), NodeId> {
        let bytes = text.as_bytes();
        let end = at(self.nodes.len());
        let mut sorting = std::mem::take(&mut self.sorting);
        sorting.clear();
        self.decoded.clear();
        let mut sorted = true;
        let mut duplicate = None;
        let mut key = object + 1;
        while key < end {
            let node = self.node(key);
            let prefix = if node.plain {
                prefix(bytes, node.start as usize + 1, node.end as usize - 1)
            } else {
                0
            };
            let (escaped, next) = (node.escaped, self.node(key + 1).next);
            let start = at(self.decoded.len());
            if escaped {
                let inner = self.inner(key, text);
                text::unescape_onto(&mut self.decoded, inner);
            }
            let decoded = (start, at(self.decoded.len()));
            let member = ObjectMember { prefix, key, decoded };
            if let Some(&last) = sorting.last().filter(|_| sorted) {
                match self.compare(last, member, text) {
                    Ordering::Less => {}
                    Ordering::Equal => duplicate = Some(key),
                    Ordering::Greater => sorted = false,
                }
            }
            sorting.push(member);
            key = next;
        }
        if !sorted {
            self.dirty += 1;
            sorting.sort_unstable_by(|&a, &b| self.compare(a, b, text));
            duplicate = sorting
                .windows(2)
                .find(|pair| self.compare(pair[0], pair[1], text) == Ordering::Equal)
                .map(|pair| pair[0].key.max(pair[1].key));
        }
        let order = at(self.order.len());
        self.order.extend(sorting.iter().map(|member| member.key));
        let node = &mut self.nodes[object as usize];
        node.order = order;
        node.members = at(sorting.len());
        self.sorting = sorting;
        duplicate.map_or(Ok(()), Err)
    }

    /// Two names by UTF-16 code units (RFC 8785 section 3.2.3).
    fn compare(&self, a: ObjectMember, b: ObjectMember, text: &str) -> Ordering {
        let (left, right) = (self.node(a.key), self.node(b.key));
        if left.plain && right.plain {
            return a.prefix.cmp(&b.prefix).then_with(|| {
                self.inner(a.key, text)
                    .as_bytes()
                    .cmp(self.inner(b.key, text).as_bytes())
            });
        }
        text::compare_utf16(self.name(a, text), self.name(b, text))
    }

    /// The decoded name of a member that is being sorted.
    fn name<'a>(&'a self, member: ObjectMember, text: &'a str) -> &'a str {
        if self.node(member.key).escaped {
            &self.decoded[member.decoded.0 as usize..member.decoded.1 as usize]
        } else {
            self.inner(member.key, text)
        }
    }

    /// The JSON Pointer (RFC 6901) to what is being scanned.
    pub(crate) fn pointer_here(&self, text: &str) -> String {
        let mut pointer = String::new();
        for frame in &self.frames {
            if !frame.is_object {
                pointer.push('/');
                pointer.push_str(&frame.count.to_string());
            } else if frame.key != NO_KEY {
                push_token(&mut pointer, &self.string(frame.key, text));
            }
        }
        pointer
    }

    /// The JSON Pointer to a node of a finished tape; of a name, to its member.
    pub(crate) fn pointer_to(&self, target: NodeId, text: &str) -> String {
        let mut pointer = String::new();
        let mut container = 0;
        while container != target {
            let is_object = self.kind(container) == NodeKind::Object;
            let (mut child, mut index) = (container + 1, 0_usize);
            loop {
                let value = if is_object { child + 1 } else { child };
                let next = self.node(value).next;
                if target < next {
                    if is_object {
                        push_token(&mut pointer, &self.string(child, text));
                    } else {
                        pointer.push('/');
                        pointer.push_str(&index.to_string());
                    }
                    if target == child {
                        return pointer;
                    }
                    container = value;
                    break;
                }
                child = next;
                index += 1;
            }
        }
        pointer
    }
}

/// The first eight of `bytes[start..end]`, padded with zeros, as an integer that compares like the
/// bytes do.
fn prefix(bytes: &[u8], start: usize, end: usize) -> u64 {
    let length = end - start;
    // A name is followed by at least a quote and a colon, rarely by fewer than eight bytes.
    let Some(chunk) = bytes
        .get(start..start + 8)
        .and_then(|chunk| <[u8; 8]>::try_from(chunk).ok())
    else {
        return bytes[start..end]
            .iter()
            .take(8)
            .enumerate()
            .fold(0, |acc, (i, &b)| acc | u64::from(b) << (56 - 8 * i));
    };
    let word = u64::from_be_bytes(chunk);
    if length >= 8 {
        word
    } else {
        word & !(u64::MAX >> (8 * length))
    }
}

/// Appends one reference token, escaped as RFC 6901 section 3 says, and cut where it is absurdly
/// long.
pub(crate) fn push_token(pointer: &mut String, name: &str) {
    pointer.push('/');
    for c in name.chars().take(128) {
        match c {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            c => pointer.push(c),
        }
    }
}
