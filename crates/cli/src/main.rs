//! The dipper binary.
fn main() {}
