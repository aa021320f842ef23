//! A block's encoded rows, which can be cut between any two of them without copying.

use std::ops::Range;

use bytes::Bytes;

/// Rows are handed to the warehouse in pieces of about this size, so that no single buffer grows without need.
const PIECE_BYTES: usize = 1 << 20;

/// Where a row's receipt stands in its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// Which record of the block.
    pub record: u32,
    /// Which receipt of the record.
    pub index: u16,
}

/// One row's bytes: always whole in one piece.
#[derive(Debug, Clone, Copy)]
struct Place {
    piece: u32,
    start: u32,
    end: u32,
    source: Source,
}

/// Rows of one table, in the order of their block.
#[derive(Debug, Default)]
pub struct Rows {
    pieces: Vec<Bytes>,
    places: Vec<Place>,
}

impl Rows {
    /// How many rows there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<Bytes> {
        self.pieces.clone()
    }

    /// Where a row came from.
    #[must_use]
    pub fn source(&self, row: usize) -> Source {
        self.places[row].source
    }

    /// Some of them, in pieces of whole rows.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Vec<Bytes> {
        let [first, .., last] = &self.places[range.clone()] else {
            return self.places[range].iter().map(|place| self.row(place)).collect();
        };
        let pieces = first.piece..=last.piece;
        pieces
            .map(|number| {
                let piece = &self.pieces[number as usize];
                let start = if number == first.piece { first.start as usize } else { 0 };
                let end = if number == last.piece {
                    last.end as usize
                } else {
                    piece.len()
                };
                piece.slice(start..end)
            })
            .collect()
    }

    /// All of them, in as few runs as the limits allow. A row that is over `bytes_max` by itself is a run of its own.
    #[must_use]
    pub fn runs(&self, rows_max: u64, bytes_max: u64) -> Vec<Range<usize>> {
        let mut runs = Vec::new();
        let (mut start, mut bytes) = (0, 0);
        for (row, place) in self.places.iter().enumerate() {
            let size = u64::from(place.end - place.start);
            let full = (row - start) as u64 >= rows_max || bytes + size > bytes_max;
            if row > start && full {
                runs.push(start..row);
                (start, bytes) = (row, 0);
            }
            bytes += size;
        }
        if start < self.places.len() {
            runs.push(start..self.places.len());
        }
        runs
    }

    /// Only those whose source passes.
    #[must_use]
    pub fn retained(&self, mut keep: impl FnMut(Source) -> bool) -> Self {
        let mut kept = RowsBuilder::default();
        for place in self.places.iter().filter(|place| keep(place.source)) {
            kept.push(&self.row(place), place.source);
        }
        kept.finish()
    }

    /// Adds others behind them.
    pub fn append(&mut self, others: Self) {
        let pieces = u32::try_from(self.pieces.len()).unwrap_or(u32::MAX);
        self.pieces.extend(others.pieces);
        self.places.extend(others.places.into_iter().map(|place| Place {
            piece: place.piece + pieces,
            ..place
        }));
    }

    fn row(&self, place: &Place) -> Bytes {
        self.pieces[place.piece as usize].slice(place.start as usize..place.end as usize)
    }
}

/// Rows put together into pieces.
#[derive(Default)]
pub struct RowsBuilder {
    rows: Rows,
    open: Vec<u8>,
}

impl RowsBuilder {
    /// Adds a row.
    pub fn push(&mut self, row: &[u8], source: Source) {
        if self.open.capacity() == 0 {
            self.open.reserve(PIECE_BYTES);
        }
        // Both fit: a piece is closed at one MiB, and a row is at most a record and what stands beside it.
        let at = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let start = at(self.open.len());
        self.open.extend_from_slice(row);
        self.rows.places.push(Place {
            piece: at(self.rows.pieces.len()),
            start,
            end: at(self.open.len()),
            source,
        });
        if self.open.len() >= PIECE_BYTES {
            self.rows.pieces.push(std::mem::take(&mut self.open).into());
        }
    }

    /// The rows.
    #[must_use]
    pub fn finish(mut self) -> Rows {
        if !self.open.is_empty() {
            self.rows.pieces.push(self.open.into());
        }
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::{Rows, RowsBuilder, Source};

    fn rows(sizes: &[usize]) -> Rows {
        let mut builder = RowsBuilder::default();
        for (number, &size) in sizes.iter().enumerate() {
            let record = u32::try_from(number).unwrap_or(u32::MAX);
            builder.push(&vec![number.to_le_bytes()[0]; size], Source { record, index: 0 });
        }
        builder.finish()
    }

    #[test]
    fn every_slice_is_the_bytes_of_its_rows() {
        let sizes = [10, 600_000, 500_000, 1, 2_000_000, 7, 300_000];
        let rows = rows(&sizes);
        assert_eq!(rows.all().concat().len(), sizes.iter().sum::<usize>());
        for start in 0..=sizes.len() {
            for end in start..=sizes.len() {
                let expected: Vec<u8> = (start..end)
                    .flat_map(|number| vec![number.to_le_bytes()[0]; sizes[number]])
                    .collect();
                assert!(rows.slice(start..end).concat() == expected, "{start}..{end}");
            }
        }
        let mut odd = rows.retained(|source| source.record % 2 == 1);
        assert_eq!((odd.count(), odd.all().concat().len()), (3, 600_008));
        assert_eq!(odd.source(1).record, 3);
        let even = rows.retained(|source| source.record % 2 == 0);
        let both = [odd.all().concat(), even.all().concat()].concat();
        odd.append(even);
        assert_eq!((odd.count(), odd.source(3).record), (7, 0));
        assert!(odd.slice(0..7).concat() == both && odd.slice(3..4).concat() == [0; 10]);
    }

    #[test]
    fn runs_keep_to_the_limits_and_leave_nothing_out() {
        let rows = rows(&[5, 5, 5, 50, 5, 5]);
        assert_eq!(rows.runs(u64::MAX, u64::MAX).first(), Some(&(0..6)));
        assert_eq!(rows.runs(2, u64::MAX), [0..2, 2..4, 4..6]);
        assert_eq!(rows.runs(u64::MAX, 10), [0..2, 2..3, 3..4, 4..6]);
        assert_eq!(rows.runs(1, 1).len(), 6);
        assert!(Rows::default().runs(1, 1).is_empty());
    }
}
