//! GROUP BY by the kernel of `dipper-operators`, in place of DataFusion's partial and final aggregate.
//!
//! | module | what it does |
//! |---|---|
//! | `rule` | which aggregates of a plan are replaced, and the session's settings for that |
//! | `exec` | the plan node |
//! | `run` | reads the input, spills, merges partitions, makes batches of groups |
//!
//! DataFusion's two aggregates hash and keep each group twice, and exchange rows by their hash between them. Here one
//! node groups all rows. One task for each partition of the input groups that partition's rows; then the streams of the
//! output take partitions of the hash from one queue.

mod exec;
mod rule;
mod run;
#[cfg(test)]
mod tests;

pub use exec::RadixAggregateExec;
pub use rule::{AggregationSettings, GroupByRadix};
