//! IP addresses: the types IPV4 and IPV6 in Arrow, and their texts.
//!
//! An address is its bytes, the highest first, so bytes are ordered as addresses are. No other type of columns has bytes
//! of these lengths: bytes of a fixed length that come from files are read as BINARY.

use std::net::{Ipv4Addr, Ipv6Addr};

use arrow_schema::DataType;

/// Bytes of an IPv4 address.
pub const V4_BYTES: usize = 4;

/// Bytes of an IPv6 address.
pub const V6_BYTES: usize = 16;

/// The Arrow type of IPV4.
pub const IPV4: DataType = DataType::FixedSizeBinary(V4_BYTES as i32);

/// The Arrow type of IPV6.
pub const IPV6: DataType = DataType::FixedSizeBinary(V6_BYTES as i32);

/// Whether this is the Arrow type of IPV4 or IPV6.
pub fn is_address(t: &DataType) -> bool {
    *t == IPV4 || *t == IPV6
}

/// Whether values of a type are addresses, or contain addresses.
pub fn holds_address(t: &DataType) -> bool {
    match t {
        DataType::List(item) | DataType::Map(item, _) => holds_address(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_address(field.data_type())),
        other => is_address(other),
    }
}

/// Reads four numbers up to 255, each of at most four digits; leading zeros are ignored.
pub fn parse_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; V4_BYTES];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if !(1..=4).contains(&part.len()) || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse::<u16>().ok().and_then(|n| u8::try_from(n).ok())?;
    }
    parts.next().is_none().then(|| octets.into())
}

/// Reads groups of hexadecimal digits, the last two of which may be written as an IPv4 address.
pub fn parse_v6(text: &str) -> Option<Ipv6Addr> {
    match text.rsplit_once(':') {
        Some((front, last)) if last.contains('.') => {
            let [a, b, c, d] = parse_v4(last)?.octets().map(u16::from);
            format!("{front}:{:x}:{:x}", a << 8 | b, c << 8 | d).parse().ok()
        }
        _ => text.parse().ok(),
    }
}

/// Reads a text as an address of a type, with blanks around it; `None` for other texts and types.
pub fn parse(text: &str, t: &DataType) -> Option<Vec<u8>> {
    let text = text.trim();
    match t {
        t if *t == IPV4 => parse_v4(text).map(|address| address.octets().to_vec()),
        t if *t == IPV6 => parse_v6(text).map(|address| address.octets().to_vec()),
        _ => None,
    }
}

/// Returns the usual notation of the bytes of an address; of an IPv6 address with an IPv4 address at the end, if the
/// other bytes say that it is one.
pub fn shown(bytes: &[u8]) -> String {
    match *bytes {
        [a, b, c, d] => Ipv4Addr::new(a, b, c, d).to_string(),
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] if (a, b) != (0, 0) => {
            format!("::{}", Ipv4Addr::new(a, b, c, d))
        }
        _ => {
            <[u8; V6_BYTES]>::try_from(bytes).map_or_else(|_| String::new(), |bytes| Ipv6Addr::from(bytes).to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_written() {
        for (text, t, expected) in [
            ("10.77.3.41", IPV4, Some("10.77.3.41")),
            (" 010.001.00.200 ", IPV4, Some("10.1.0.200")),
            ("255.255.255.255", IPV4, Some("255.255.255.255")),
            ("1.2.3.256", IPV4, None),
            ("1.2.3", IPV4, None),
            ("::1", IPV4, None),
            ("", IPV4, None),
            ("::", IPV6, Some("::")),
            ("::FFFF:9.8.7.6", IPV6, Some("::ffff:9.8.7.6")),
            ("2001:DB8:0:0:1:0:0:1", IPV6, Some("2001:db8::1:0:0:1")),
            ("::1:2", IPV6, Some("::0.1.0.2")),
            ("1.2.3.4", IPV6, None),
            ("1::2::3", IPV6, None),
            ("::1", DataType::Utf8, None),
        ] {
            assert_eq!(parse(text, &t).map(|bytes| shown(&bytes)).as_deref(), expected, "{text}");
        }
        assert!(parse("9.1.1.1", &IPV4) < parse("10.0.0.1", &IPV4));
    }
}
