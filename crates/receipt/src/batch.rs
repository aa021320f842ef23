//! A batch, read receipt by receipt, so that memory depends on the longest receipt and not on the
//! batch.

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

use crate::canonical::{SIGNATURE_MEMBERS, write_value};
use crate::fault::{FaultCode, Faults, FormatError};
use crate::fields::Fields;
use crate::receipt::too_large_detail;
use crate::rules::SignatureBytes;
use crate::scan::{Scanned, Scanner};
use crate::scratch::Scratch;
use crate::spki::Spki;
use crate::tape::{NO_KEY, NodeId, NodeKind, Tape};
use crate::{Algorithm, Limits};

const RECEIPTS: &str = "receipts";

/// A batch's own members, all of them good, and where its receipts are.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    pub(crate) batch_id: Cow<'a, str>,
    pub(crate) algorithm: Algorithm,
    pub(crate) signature: SignatureBytes,
    /// The receipts' positions in the body.
    pub(crate) receipts: Vec<Range<usize>>,
    /// The key that all receipts carry; none where no receipt has a well-formed one.
    pub(crate) key_pem: Option<Cow<'a, str>>,
}

/// Refuses a batch that is longer than the limit.
pub(crate) fn check_size(bytes: usize, limits: &Limits) -> Result<(), FormatError> {
    if bytes <= limits.batch_bytes_max {
        return Ok(());
    }
    let detail = format!("a batch may take {} bytes: send it in parts", limits.batch_bytes_max);
    Err(FormatError::one(String::new(), FaultCode::BatchTooLarge, detail))
}

/// Scans a batch and checks everything but its receipts' own rules.
///
/// `each` is given every receipt's index and tape (whose positions are in `text`), and may stop the
/// scan: its faults are then all there are.
pub(crate) fn read<'a>(
    text: &'a str,
    limits: &Limits,
    scratch: &mut Scratch,
    each: &mut dyn FnMut(usize, &Tape) -> ControlFlow<FormatError>,
) -> Result<Batch<'a>, FormatError> {
    check_size(text.len(), limits)?;
    let Scratch { own, tape, .. } = scratch;
    let mut outline = Outline {
        scanner: Scanner::new(text, limits.depth_max, limits.string_bytes_max),
        limits,
        receipts: Vec::new(),
        key: CommonKey::default(),
        own_bytes_left: limits.receipt_bytes_max,
    };
    outline.document(own, tape, each)?;
    outline.finish(own)
}

/// Appends the canonical bytes that a batch's signature is over: the batch without its two
/// signature members, with `receipts` (canonical, joined by commas) instead of its receipts.
pub(crate) fn write_payload(own: &Tape, text: &str, receipts: &[u8], out: &mut Vec<u8>) {
    out.push(b'{');
    let start = out.len();
    for &name in own.names(0) {
        let decoded = own.string(name, text);
        if SIGNATURE_MEMBERS.contains(&&*decoded) {
            continue;
        }
        if out.len() > start {
            out.push(b',');
        }
        write_value(own, name, text, out);
        out.push(b':');
        if decoded == RECEIPTS {
            out.push(b'[');
            out.extend_from_slice(receipts);
            out.push(b']');
        } else {
            write_value(own, name + 1, text, out);
        }
    }
    out.push(b'}');
}

/// A batch while it is scanned.
struct Outline<'s, 'a> {
    scanner: Scanner<'a>,
    limits: &'s Limits,
    receipts: Vec<Range<usize>>,
    key: CommonKey<'a>,
    /// Bytes that the batch's own members may still take.
    own_bytes_left: usize,
}

impl<'a> Outline<'_, 'a> {
    /// Scans the whole text. `own` ends up with the batch's own members and a stand-in for the
    /// receipts.
    fn document(
        &mut self,
        own: &mut Tape,
        tape: &mut Tape,
        each: &mut dyn FnMut(usize, &Tape) -> ControlFlow<FormatError>,
    ) -> Result<(), FormatError> {
        own.clear();
        let mut has_receipts = false;
        self.scanner.skip_space();
        if self.scanner.peek() != Some(b'{') {
            self.own_value(own)?;
            return Ok(self.scanner.finish()?);
        }
        self.scanner.open(own, NodeKind::Object, 0)?;
        self.scanner.space(own);
        let mut more = self.scanner.peek() != Some(b'}');
        while more {
            let start = self.scanner.pos;
            self.scanner.key(own)?;
            self.spend(own, start)?;
            self.scanner.space(own);
            let is_receipts = own
                .frames
                .last()
                .is_some_and(|frame| own.string(frame.key, self.scanner.text) == RECEIPTS);
            if is_receipts && has_receipts {
                let detail = "give the batch one member \"receipts\" (RFC 7493 section 2.3)".to_owned();
                return Err(self.scanner.fault(own, FaultCode::DuplicateMember, detail).into());
            }
            if is_receipts && self.scanner.peek() == Some(b'[') {
                has_receipts = true;
                self.receipts(own, tape, each)?;
            } else {
                self.own_value(own)?;
            }
            self.scanner.space(own);
            match self.scanner.peek() {
                Some(b',') => {
                    self.scanner.pos += 1;
                    if let Some(frame) = own.frames.last_mut() {
                        frame.key = NO_KEY;
                    }
                    self.scanner.space(own);
                }
                Some(b'}') => more = false,
                _ => return Err(self.scanner.unexpected(own, "',' or '}' after a member").into()),
            }
        }
        self.scanner.close(own)?;
        Ok(self.scanner.finish()?)
    }

    /// Scans one of the batch's own values.
    fn own_value(&mut self, own: &mut Tape) -> Result<(), FormatError> {
        let start = self.scanner.pos;
        self.scanner.stop = start + self.own_bytes_left;
        let scanned = self.scanner.value(own, 0);
        self.scanner.stop = usize::MAX;
        match scanned {
            Err(fault) if fault.code == FaultCode::ReceiptTooLarge => {
                own.frames.truncate(1);
                Err(self.own_too_large(own))
            }
            Err(fault) => Err(fault.into()),
            Ok(()) => self.spend(own, start),
        }
    }

    /// Takes what was scanned since `start` from what the batch's own members may take.
    fn spend(&mut self, own: &Tape, start: usize) -> Result<(), FormatError> {
        let spent = self.scanner.pos - start;
        self.own_bytes_left = self
            .own_bytes_left
            .checked_sub(spent)
            .ok_or_else(|| self.own_too_large(own))?;
        Ok(())
    }

    fn own_too_large(&self, own: &Tape) -> FormatError {
        let detail = format!(
            "a batch's own members may take {} bytes together",
            self.limits.receipt_bytes_max
        );
        self.scanner.fault(own, FaultCode::BatchTooLarge, detail).into()
    }

    /// Scans the array of receipts: the cursor is on its bracket.
    fn receipts(
        &mut self,
        own: &mut Tape,
        tape: &mut Tape,
        each: &mut dyn FnMut(usize, &Tape) -> ControlFlow<FormatError>,
    ) -> Result<(), FormatError> {
        self.scanner.open(own, NodeKind::Array, 0)?;
        self.scanner.space(own);
        let mut more = self.scanner.peek() != Some(b']');
        while more {
            let index = self.receipts.len();
            if index == self.limits.batch_receipts_max {
                let detail = format!("a batch may hold {index} receipts: send it in parts");
                return Err(FormatError::one(
                    "/receipts".to_owned(),
                    FaultCode::TooManyReceipts,
                    detail,
                ));
            }
            self.scanner.space(own);
            let span = self.receipt(tape).map_err(|fault| {
                let mut fault = *fault;
                fault.pointer.insert_str(0, &format!("/receipts/{index}"));
                FormatError {
                    faults: vec![fault],
                    more: false,
                }
            })?;
            self.key.meet(index, tape, self.scanner.text);
            self.receipts.push(span);
            if let ControlFlow::Break(error) = each(index, tape) {
                return Err(error);
            }
            self.scanner.space(own);
            match self.scanner.peek() {
                Some(b',') => self.scanner.pos += 1,
                Some(b']') => more = false,
                _ => {
                    if let Some(frame) = own.frames.last_mut() {
                        frame.count = crate::tape::at(index);
                    }
                    return Err(self.scanner.unexpected(own, "',' or ']' after a receipt").into());
                }
            }
        }
        Ok(self.scanner.close(own)?)
    }

    /// Scans one receipt onto a tape of its own.
    fn receipt(&mut self, tape: &mut Tape) -> Scanned<Range<usize>> {
        tape.clear();
        let (start, bytes_max) = (self.scanner.pos, self.limits.receipt_bytes_max);
        self.scanner.stop = start + bytes_max;
        // Two containers are around it: the batch and its array.
        let scanned = self.scanner.value(tape, 2);
        self.scanner.stop = usize::MAX;
        let too_large = |mut fault: Box<crate::Fault>| {
            fault.pointer.clear();
            fault.detail = too_large_detail(self.limits);
            fault
        };
        match scanned {
            Err(fault) if fault.code == FaultCode::ReceiptTooLarge => Err(too_large(fault)),
            Err(fault) => Err(fault),
            Ok(()) if self.scanner.pos - start > bytes_max => Err(too_large(self.scanner.fault(
                tape,
                FaultCode::ReceiptTooLarge,
                String::new(),
            ))),
            Ok(()) => Ok(start..self.scanner.pos),
        }
    }

    /// Checks the batch's own members.
    fn finish(self, own: &Tape) -> Result<Batch<'a>, FormatError> {
        let mut fields = Fields {
            tape: own,
            text: self.scanner.text,
            faults: Faults::of_receipt(),
        };
        if own.kind(0) != NodeKind::Object {
            fields.wrong_type("", "an object", 0);
            return Err(fields.faults.into_error());
        }
        let [batch_id, receipts, signature, algorithm, version] = own.members(
            0,
            self.scanner.text,
            ["batchId", RECEIPTS, "signature", "signatureAlgorithm", "version"],
        );
        for &id in &own.long {
            let max = self.limits.string_bytes_max;
            if crate::text::unescaped_len(own.inner(id, self.scanner.text)) > max {
                let pointer = own.pointer_to(id, self.scanner.text);
                fields.faults.push(
                    pointer,
                    FaultCode::TooLong,
                    format!("shorten the string to {max} bytes"),
                );
            }
        }
        fields.version(version);
        let batch_id = fields.string(batch_id, "/batchId");
        if batch_id.as_deref() == Some("") {
            let detail = "name the batch: its batchId must not be empty";
            fields
                .faults
                .push("/batchId".to_owned(), FaultCode::EmptyBatchId, detail);
        }
        self.check_receipts(&mut fields, receipts);
        let signature = fields.signature(signature);
        let algorithm = fields.algorithm(algorithm);
        if let (Some(spki), Some(algorithm)) = (&self.key.spki, algorithm) {
            fields.check_kind(spki.algorithm, algorithm, "/signatureAlgorithm");
        }
        let (true, Some(batch_id), Some(signature), Some(algorithm)) =
            (fields.faults.is_empty(), batch_id, signature, algorithm)
        else {
            return Err(fields.faults.into_error());
        };
        Ok(Batch {
            batch_id,
            algorithm,
            signature,
            receipts: self.receipts,
            key_pem: self.key.pem,
        })
    }

    fn check_receipts(&self, fields: &mut Fields<'_, '_>, receipts: NodeId) {
        let pointer = "/receipts".to_owned();
        if receipts == 0 {
            let detail = "add the required member \"receipts\"";
            fields.faults.push(pointer, FaultCode::MissingMember, detail);
        } else if fields.tape.kind(receipts) != NodeKind::Array {
            fields.wrong_type("/receipts", "an array of receipts", receipts);
        } else if self.receipts.is_empty() {
            fields
                .faults
                .push(pointer, FaultCode::EmptyBatch, "send at least one receipt");
        }
        if let Some(index) = self.key.other_at {
            let detail = "all receipts of a batch must carry the same client.publicKey: send a batch for each key";
            let pointer = format!("/receipts/{index}/client/publicKey");
            fields.faults.push(pointer, FaultCode::MixedKeys, detail);
        }
    }
}

/// The one key of a batch's receipts. Receipts without a well-formed key are left to their own
/// check.
#[derive(Debug, Default)]
struct CommonKey<'a> {
    /// The key's text as written: equal text is an equal key.
    written: &'a str,
    pem: Option<Cow<'a, str>>,
    spki: Option<Spki>,
    /// The first receipt that carries another key.
    other_at: Option<usize>,
}

impl<'a> CommonKey<'a> {
    fn meet(&mut self, index: usize, tape: &Tape, text: &'a str) {
        let member = |object: NodeId, name| match tape.kind(object) {
            NodeKind::Object => tape.members(object, text, [name])[0],
            _ => 0,
        };
        let client = member(0, "client");
        let key = if client == 0 { 0 } else { member(client, "publicKey") };
        if key == 0 || tape.kind(key) != NodeKind::String || self.other_at.is_some() {
            return;
        }
        let written = tape.inner(key, text);
        if self.spki.is_some() && written == self.written {
            return;
        }
        let pem = tape.string(key, text);
        let Ok(spki) = Spki::from_pem(&pem) else { return };
        match &self.spki {
            Some(common) if common.der != spki.der => self.other_at = Some(index),
            Some(_) => {}
            None => {
                *self = Self {
                    written,
                    pem: Some(pem),
                    spki: Some(spki),
                    other_at: None,
                }
            }
        }
    }
}
