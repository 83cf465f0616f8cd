//! Kernels of operators over Arrow arrays.
//!
//! | module | question it answers |
//! |---|---|
//! | [`aggregate`] | how are rows grouped by their keys, and what do aggregates keep of each group? |
//! | [`bloom`] | may a set have a key, by its hash? |
//! | [`numbers`] | what is the sum, the greatest, the least of an array's values? |
//!
//! The kernels say how many bytes they hold. Whoever runs them asks for that memory, and decides what happens when there
//! is none.
//!
//! This crate must not know plans, sessions, files, SQL or DataFusion.

pub mod aggregate;
pub mod bloom;
pub mod numbers;
