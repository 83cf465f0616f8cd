//! Objects written and read again.

mod make;
mod roundtrip;
