//! IP addresses as texts, numbers and bytes.

use std::net::Ipv4Addr;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, FixedSizeBinaryArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, exec_err};
use dipper_base::address::{self, IPV4, IPV6, V4_BYTES, V6_BYTES, is_address, parse_v4, parse_v6, shown};

use super::args::{Args, Col};
use super::func::{Def, Ret, def};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("ipv4_string_to_num", &[], (1, 1), Ret::Int, |a| numbers_of(a, Else::Error)),
    def("ipv4_string_to_num_or_null", &["inet_aton"], (1, 1), Ret::Int, |a| numbers_of(a, Else::Null)),
    def("ipv4_string_to_num_or_default", &[], (1, 1), Ret::Int, |a| numbers_of(a, Else::Zero)),
    def("ipv4_num_to_string", &["inet_ntoa"], (1, 1), Ret::Text, |a| {
        let n = a.int(0)?;
        a.texts(|i, out| {
            out.push_str(&Ipv4Addr::from(u32::try_from(n.at(i)?).ok()?).to_string());
            Some(())
        })
    }),
    def("is_ipv4_string", &["is_ipv4"], (1, 1), Ret::Bool, |a| {
        let s = a.text(0)?;
        a.bools(|i| Some(parse_v4(s.at(i)?).is_some()))
    }),
    def("is_ipv6_string", &["is_ipv6"], (1, 1), Ret::Bool, |a| {
        let s = a.text(0)?;
        a.bools(|i| Some(parse_v6(s.at(i)?).is_some()))
    }),
    def("ipv6_string_to_num", &[], (1, 1), Ret::Bytes, |a| bytes_of(a, Else::Error)),
    def("ipv6_string_to_num_or_null", &["inet6_aton"], (1, 1), Ret::Bytes, |a| bytes_of(a, Else::Null)),
    def("ipv6_string_to_num_or_default", &[], (1, 1), Ret::Bytes, |a| bytes_of(a, Else::Zero)),
    def("ipv6_num_to_string", &["inet6_ntoa"], (1, 1), Ret::Text, |a| {
        let s = octets(a, 0)?;
        a.texts(|i, out| {
            let given = s.at(i)?;
            if given.is_empty() {
                return None;
            }
            // Missing bytes at the end are 0.
            let mut bytes = [0; LENGTH];
            bytes.get_mut(..given.len())?.copy_from_slice(given);
            out.push_str(&shown(&bytes));
            Some(())
        })
    }),
    def("is_ipv4_compat", &[], (1, 1), Ret::Bool, |a| {
        is_kind(a, |bytes| bytes[..12] == [0; 12] && bytes[12..] != [0; 4])
    }),
    def("is_ipv4_mapped", &[], (1, 1), Ret::Bool, |a| is_kind(a, is_mapped)),
    def("to_ipv4", &[], (1, 1), Ret::By(|_| Ok(IPV4)), |a| addresses_of(a, Else::Error)),
    def("to_ipv4_or_null", &[], (1, 1), Ret::By(|_| Ok(IPV4)), |a| addresses_of(a, Else::Null)),
    def("to_ipv4_or_default", &[], (1, 1), Ret::By(|_| Ok(IPV4)), |a| addresses_of(a, Else::Zero)),
    def("to_ipv6", &[], (1, 1), Ret::By(|_| Ok(IPV6)), |a| addresses_of(a, Else::Error)),
    def("to_ipv6_or_null", &[], (1, 1), Ret::By(|_| Ok(IPV6)), |a| addresses_of(a, Else::Null)),
    def("to_ipv6_or_default", &[], (1, 1), Ret::By(|_| Ok(IPV6)), |a| addresses_of(a, Else::Zero)),
    def("ipv4_to_ipv6", &[], (1, 1), Ret::By(|_| Ok(IPV6)), |a| {
        let s = a.text(0)?;
        built(a, |i| Some(parse_v4(s.at(i)?)?.to_ipv6_mapped().octets().to_vec()))
    }),
    def("ipv6_from_uint128_string_or_null", &[], (1, 1), Ret::By(|_| Ok(IPV6)), |a| {
        let s = a.text(0)?;
        built(a, |i| Some(s.at(i)?.parse::<u128>().ok()?.to_be_bytes().to_vec()))
    }),
    def("ipv4_cidr_to_range", &[], (2, 2), Ret::By(|_| Ok(DataType::Struct(range_fields(&IPV4)))), |a| {
        range(a, &IPV4, 32, |text| Some(u128::from(u32::from(parse_v4(text)?))))
    }),
    def("ipv6_cidr_to_range", &[], (2, 2), Ret::By(|_| Ok(DataType::Struct(range_fields(&IPV6)))), |a| {
        range(a, &IPV6, 128, |text| parse_any(text).map(u128::from_be_bytes))
    }),
    def("cut_ipv6", &[], (3, 3), Ret::Text, cut),
    def("is_ip_address_in_range", &[], (2, 2), Ret::Bool, in_range),
];

/// Bytes of an IPv6 address, the highest first.
const LENGTH: usize = V6_BYTES;

type Bytes = [u8; LENGTH];

/// The result for NULL and for a text that is not an address.
#[derive(Clone, Copy, PartialEq)]
enum Else {
    Error,
    Null,
    Zero,
}

/// Reads an IPv6 address, or an IPv4 address mapped to one.
fn parse_any(text: &str) -> Option<Bytes> {
    let address = parse_v4(text).map(|v4| v4.to_ipv6_mapped()).or_else(|| parse_v6(text))?;
    Some(address.octets())
}

fn is_mapped(bytes: &Bytes) -> bool {
    bytes[..10] == [0; 10] && bytes[10..12] == [0xff; 2]
}

/// Fails with the first text of a column that `parse` rejects, or with its first NULL.
fn refuse<T>(a: &Args, what: &str, parse: fn(&str) -> Option<T>) -> Result<()> {
    let s = a.text(0)?;
    for i in 0..a.rows {
        match s.at(i) {
            None => {
                return exec_err!("{}: expected an {what} address, found NULL; {}_or_null takes it", a.name, a.name);
            }
            Some(text) if parse(text).is_none() => {
                return exec_err!(
                    "{}: expected an {what} address, found '{text}'; {}_or_null takes it",
                    a.name,
                    a.name
                );
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Returns argument `k` as bytes: those of addresses, not of their texts.
fn octets(a: &Args, k: usize) -> Result<Col<BinaryViewArray>> {
    let raw = a.raw(k);
    match is_address(raw.array.data_type()) {
        true => Ok(Col { array: raw.array.as_fixed_size_binary().iter().collect(), one: raw.one }),
        false => a.bytes(k),
    }
}

/// Builds a column of addresses of the type that was announced.
fn built(a: &Args, f: impl FnMut(usize) -> Option<Vec<u8>>) -> Result<ArrayRef> {
    let width = if a.ret == IPV4 { V4_BYTES } else { V6_BYTES };
    Ok(Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size((0..a.rows).map(f), width as i32)?))
}

fn addresses_of(a: &Args, otherwise: Else) -> Result<ArrayRef> {
    let is_v4 = a.ret == IPV4;
    match (otherwise == Else::Error, is_v4) {
        (true, true) => refuse(a, "IPv4", parse_v4)?,
        (true, false) => refuse(a, "IPv6", parse_v6)?,
        (false, _) => {}
    }
    let s = a.text(0)?;
    let zero = || (otherwise == Else::Zero).then(|| vec![0; if is_v4 { V4_BYTES } else { V6_BYTES }]);
    built(a, |i| s.at(i).and_then(|text| address::parse(text, &a.ret)).or_else(zero))
}

fn range_fields(t: &DataType) -> Fields {
    ["min", "max"].map(|name| Field::new(name, t.clone(), true)).to_vec().into()
}

/// Returns the least and the largest address that begin with the same bits as an address.
fn range(a: &Args, t: &DataType, bits: u32, parse: fn(&str) -> Option<u128>) -> Result<ArrayRef> {
    let (s, counts) = (a.text(0)?, a.int(1)?);
    if let Some(bad) = counts.array.iter().flatten().find(|n| !(0..=i64::from(bits)).contains(n)) {
        return exec_err!("{}: expected a number of bits from 0 to {bits}, found {bad}", a.name);
    }
    let mut ends = [Vec::with_capacity(a.rows), Vec::with_capacity(a.rows)];
    for i in 0..a.rows {
        let (Some(text), Some(count)) = (s.at(i), counts.at(i)) else {
            ends.iter_mut().for_each(|end| end.push(None));
            continue;
        };
        let Some(address) = parse(text) else {
            return exec_err!("{}: expected an address, found '{text}'", a.name);
        };
        let free = bits - count as u32;
        let free = 1_u128.checked_shl(free).map_or(u128::MAX, |end| end - 1);
        for (end, value) in ends.iter_mut().zip([address & !free, address | free]) {
            end.push(Some(value.to_be_bytes()[LENGTH - bits as usize / 8..].to_vec()));
        }
    }
    let nulls: NullBuffer = ends[0].iter().map(Option::is_some).collect();
    let width = (bits / 8) as i32;
    let [min, max] = ends.map(|end| FixedSizeBinaryArray::try_from_sparse_iter_with_size(end.into_iter(), width));
    let columns: Vec<ArrayRef> = vec![Arc::new(min?), Arc::new(max?)];
    Ok(Arc::new(StructArray::try_new(range_fields(t), columns, Some(nulls))?))
}

fn numbers_of(a: &Args, otherwise: Else) -> Result<ArrayRef> {
    if otherwise == Else::Error {
        refuse(a, "IPv4", parse_v4)?;
    }
    let s = a.text(0)?;
    a.ints(|i| match s.at(i).and_then(parse_v4) {
        Some(address) => Some(u32::from(address).into()),
        None => (otherwise == Else::Zero).then_some(0),
    })
}

fn bytes_of(a: &Args, otherwise: Else) -> Result<ArrayRef> {
    if otherwise == Else::Error {
        refuse(a, "IPv6", parse_any)?;
    }
    let s = a.text(0)?;
    a.binaries(|i| match s.at(i).and_then(parse_any) {
        Some(bytes) => Some(bytes.to_vec()),
        None => (otherwise == Else::Zero).then(|| vec![0; LENGTH]),
    })
}

/// Whether the bytes are an address of a kind.
fn is_kind(a: &Args, kind: impl Fn(&Bytes) -> bool) -> Result<ArrayRef> {
    let s = octets(a, 0)?;
    a.bools(|i| Some(<&Bytes>::try_from(s.at(i)?).is_ok_and(&kind)))
}

/// `CUT_IPV6(address, n, m)`: the address with its last `n` bytes set to 0, or its last `m` bytes if it maps an IPv4
/// address.
fn cut(a: &Args) -> Result<ArrayRef> {
    let (s, of_v6, of_v4) = (a.text(0)?, a.int(1)?, a.int(2)?);
    for counts in [&of_v6, &of_v4] {
        if let Some(bad) = counts.array.iter().flatten().find(|n| !(0..=LENGTH as i64).contains(n)) {
            return exec_err!("{}: expected a number of bytes from 0 to {LENGTH}, found {bad}", a.name);
        }
    }
    a.texts(|i, out| {
        let (mut bytes, of_v6, of_v4) = (parse_any(s.at(i)?)?, of_v6.at(i)?, of_v4.at(i)?);
        let count = if is_mapped(&bytes) { of_v4 } else { of_v6 };
        bytes[LENGTH - count as usize..].fill(0);
        out.push_str(&shown(&bytes));
        Some(())
    })
}

/// Reads an address of either kind as a number of 128 bits, of which IPv4 uses the highest 32. The flag says that it is
/// IPv4.
fn left_aligned(text: &str) -> Option<(bool, u128)> {
    match parse_v4(text) {
        Some(v4) => Some((true, u128::from(u32::from(v4)) << 96)),
        None => parse_v6(text).map(|v6| (false, v6.into())),
    }
}

/// `IS_IP_ADDRESS_IN_RANGE(address, 'network/bits')`; no address is in a range of the other kind, or in an empty text.
fn in_range(a: &Args) -> Result<ArrayRef> {
    let (addresses, ranges) = (a.text(0)?, a.text(1)?);
    let mut bad = None;
    let range = |text: &str| {
        let (network, bits) = text.split_once('/')?;
        let (is_v4, network) = left_aligned(network)?;
        let bits = Some(bits).filter(|bits| bits.bytes().all(|b| b.is_ascii_digit()))?.parse::<u32>().ok()?;
        (bits <= if is_v4 { 32 } else { 128 }).then_some((is_v4, network, bits))
    };
    let out = a.bools(|i| {
        let (address, text) = (addresses.at(i)?, ranges.at(i)?);
        if text.is_empty() {
            return Some(false);
        }
        let (Some((is_v4, address)), Some((of_v4, network, bits))) = (left_aligned(address), range(text)) else {
            bad = Some(format!("'{address}' and '{text}'"));
            return None;
        };
        let same = (address ^ network).checked_shr(128 - bits).unwrap_or(0) == 0;
        Some(is_v4 == of_v4 && same)
    })?;
    match bad {
        Some(found) => {
            exec_err!(
                "{}: expected an address and a range such as '127.0.0.1' and '127.0.0.0/8', found {found}",
                a.name
            )
        }
        None => Ok(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_in_the_usual_notation() {
        let show = |text: &str| parse_any(text).map(|bytes| shown(&bytes));
        for (text, expected) in [
            ("::", Some("::")),
            ("::1", Some("::1")),
            ("::1:2", Some("::0.1.0.2")),
            ("010.001.00.200", Some("::ffff:10.1.0.200")),
            ("::ffff:9.8.7.6", Some("::ffff:9.8.7.6")),
            ("2001:DB8:0:0:1:0:0:1", Some("2001:db8::1:0:0:1")),
            ("1:2:3:4:5:6:077.1.2.3", Some("1:2:3:4:5:6:4d01:203")),
            ("1.2.3", None),
            ("1.2.3.256", None),
            ("1.2.3.4 ", None),
            ("1::2::3", None),
            ("", None),
        ] {
            assert_eq!(show(text).as_deref(), expected, "{text}");
        }
    }
}
