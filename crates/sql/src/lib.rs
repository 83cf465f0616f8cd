//! The meaning of SQL over DataFusion: [`charter`] (MySQL's and Doris's rules for names, types and operators) and
//! [`functions`]. Statements are read by `dipper-dialect`.

pub mod charter;
mod class;
pub mod functions;
mod metadata;
