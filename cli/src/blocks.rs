//! Documents by the block: read in order, worked on in parallel, written in order, and never more
//! than a block in memory.

use rayon::prelude::*;

use crate::failure::CommandFailure;
use crate::input::Document;

/// A block is closed when its documents reach this size, in bytes.
const BLOCK_BYTES_MAX: usize = 32 << 20;

/// Gathers up to `documents_max` documents (fewer if they are large) and hands each block to
/// `each`.
///
/// # Errors
/// The input's or `each`'s failure; what stood before it was handed over.
pub fn for_each_block(
    documents: impl Iterator<Item = Result<Document, CommandFailure>>,
    documents_max: usize,
    mut each: impl FnMut(Vec<Document>) -> Result<(), CommandFailure>,
) -> Result<(), CommandFailure> {
    let mut block = Vec::new();
    let mut bytes = 0;
    for document in documents {
        let document = match document {
            Ok(document) => document,
            Err(failure) => {
                each(block)?;
                return Err(failure);
            }
        };
        bytes += document.bytes.as_ref().map_or(0, Vec::len);
        block.push(document);
        if block.len() >= documents_max || bytes >= BLOCK_BYTES_MAX {
            each(std::mem::take(&mut block))?;
            bytes = 0;
        }
    }
    if block.is_empty() { Ok(()) } else { each(block) }
}

/// Works on documents in parallel and hands the results to `each` in the documents' order.
///
/// # Errors
/// The input's or `each`'s failure.
pub fn map_in_order<T: Send>(
    documents: impl Iterator<Item = Result<Document, CommandFailure>>,
    work: impl Fn(Document) -> T + Sync,
    mut each: impl FnMut(T) -> Result<(), CommandFailure>,
) -> Result<(), CommandFailure> {
    for_each_block(documents, 512, |block| {
        let done: Vec<T> = block.into_par_iter().map(&work).collect();
        done.into_iter().try_for_each(&mut each)
    })
}
