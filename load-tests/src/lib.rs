//! Load generator with an exact end-to-end check, and fault drills.
