//! Bytes from a MySQL client: packets, frames, logins, commands, parameters. The first two bytes choose how the rest is
//! cut and whether it is compressed; however it is cut, the same payloads must come out.
#![no_main]

use dipper_mysql::read_packets;
use libfuzzer_sys::fuzz_target;

const PAYLOAD_BYTES_MAX: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let [step, compression, rest @ ..] = bytes else { return };
    let whole = read_packets(rest, rest.len(), PAYLOAD_BYTES_MAX, *compression);
    let pieces = read_packets(rest, usize::from(*step), PAYLOAD_BYTES_MAX, *compression);
    assert_eq!(whole, pieces);
});
