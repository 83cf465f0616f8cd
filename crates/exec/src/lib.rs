//! Execution of plans: scans, rules over plans, and how running statements affect one another.
//!
//! | module | question it answers |
//! |---|---|
//! | [`scan`] | how are text and Parquet files scanned inside a DataFusion plan? |
//! | [`native`] | how are native tables scanned? |
//! | [`shape`], [`stored`] | how do rows of a query become rows of a table? |
//! | [`rules`] | which of DataFusion's plans are changed, and why? |
//! | [`joins`] | which side of a join is collected for all workers? |
//! | [`join_filter`] | which rows of a join's probe side does a scan leave out? |
//! | [`aggregate`] | how does GROUP BY run? |
//! | [`planner`] | how do wide select lists run? |
//! | [`shared`] | which common table expressions run once for all places that read them? |
//! | [`coop`] | how does a statement give way, and end when nobody wants it any more? |
//! | [`on_cpu`] | how does work run on other threads? |
//! | [`io`] | what does a statement read from remote stores? |
//! | [`budget`], [`spill`] | how much memory is there, and what happens to what does not fit? |
//! | [`profile`] | where did the time of statements and loads go? |
//! | [`cost`], [`quota`], [`hours`] | how long will a plan run, and what may the statements of a user take? |
//! | [`sleep`], [`user_locks`] | how do SLEEP and GET_LOCK wait? |
//!
//! Invariant: each rule keeps the rows of a plan; a test beside it shows rows that are wrong without the rule.
//!
//! This crate must not know sessions, catalogs, HTTP and MySQL; all that it knows of users are the limits of their
//! statements.

pub mod aggregate;
pub mod budget;
pub mod coop;
pub mod cost;
pub mod hours;
pub mod io;
pub mod join_filter;
pub mod joins;
pub mod native;
pub mod on_cpu;
pub mod planner;
pub mod profile;
pub mod quota;
pub mod rules;
pub mod scan;
pub mod shape;
pub mod shared;
pub mod sleep;
pub mod spill;
pub mod stored;
mod untold;
pub mod user_locks;
