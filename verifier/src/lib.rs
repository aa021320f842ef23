//! Consumes the log, checks every signature and hash, writes outcomes to the warehouse, commits.
