//! Objects written and read again.

mod damage;
mod foreign;
mod interop;
pub(crate) mod make;
mod remote;
mod roundtrip;
