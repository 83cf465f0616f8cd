//! Objects written and read again.

mod damage;
mod interop;
pub(crate) mod make;
mod roundtrip;
