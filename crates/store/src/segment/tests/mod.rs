//! Tests that write objects and read them again.

mod column_tests;
mod damage;
mod foreign;
mod interop;
pub(crate) mod make;
mod remote;
mod roundtrip;
