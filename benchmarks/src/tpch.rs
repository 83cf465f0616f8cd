//! TPC-H's eight tables as dbgen writes them, by the crate `tpchgen`: fields between `|`, one behind the last too.

use std::fmt::Display;
use std::io::{self, Write};
use std::thread;

use clap::ValueEnum;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};

/// The tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Table {
    Region,
    Nation,
    Supplier,
    Customer,
    Part,
    Partsupp,
    Orders,
    Lineitem,
}

impl Table {
    /// Returns the rows of part `part`, from 1, of `parts`, as lines.
    fn lines(self, scale: f64, part: i32, parts: i32) -> Vec<u8> {
        match self {
            Table::Region => lines(RegionGenerator::new(scale, part, parts).iter()),
            Table::Nation => lines(NationGenerator::new(scale, part, parts).iter()),
            Table::Supplier => lines(SupplierGenerator::new(scale, part, parts).iter()),
            Table::Customer => lines(CustomerGenerator::new(scale, part, parts).iter()),
            Table::Part => lines(PartGenerator::new(scale, part, parts).iter()),
            Table::Partsupp => lines(PartSuppGenerator::new(scale, part, parts).iter()),
            Table::Orders => lines(OrderGenerator::new(scale, part, parts).iter()),
            Table::Lineitem => lines(LineItemGenerator::new(scale, part, parts).iter()),
        }
    }

    /// Returns into how many parts the table is cut. The two smallest tables are whole in every part.
    fn parts(self, scale: f64) -> i32 {
        match self {
            Table::Region | Table::Nation => 1,
            _ => (scale * 16.0).ceil().max(1.0) as i32,
        }
    }
}

fn lines(rows: impl Iterator<Item = impl Display>) -> Vec<u8> {
    let mut out = Vec::new();
    for row in rows {
        writeln!(out, "{row}").expect("a Vec takes all bytes");
    }
    out
}

/// Writes a table, `threads` parts at a time; returns lines and bytes written. The bytes are the same for every number
/// of threads.
pub fn write(table: Table, scale: f64, threads: usize, out: &mut impl Write) -> io::Result<(u64, u64)> {
    let parts = table.parts(scale);
    let (mut rows, mut bytes) = (0, 0);
    for first in (1..=parts).step_by(threads.max(1)) {
        let wave = first..=parts.min(first + threads.max(1) as i32 - 1);
        let buffers: Vec<Vec<u8>> = thread::scope(|scope| {
            let makers: Vec<_> = wave.map(|part| scope.spawn(move || table.lines(scale, part, parts))).collect();
            makers.into_iter().map(|maker| maker.join().expect("a generator does not panic")).collect()
        });
        for buffer in buffers {
            out.write_all(&buffer)?;
            rows += buffer.iter().filter(|&&byte| byte == b'\n').count() as u64;
            bytes += buffer.len() as u64;
        }
    }
    Ok((rows, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(table: Table, threads: usize) -> (u64, String) {
        let mut out = Vec::new();
        let (rows, bytes) = write(table, 0.01, threads, &mut out).unwrap();
        assert_eq!(bytes, out.len() as u64);
        (rows, String::from_utf8(out).unwrap())
    }

    #[test]
    fn row_counts_are_those_of_dbgen() {
        let rows = Table::value_variants().iter().map(|&table| written(table, 2).0).collect::<Vec<_>>();
        assert_eq!(rows, [5, 25, 100, 1500, 2000, 8000, 15_000, 60_175]);
    }

    #[test]
    fn threads_do_not_change_the_bytes() {
        for &table in Table::value_variants() {
            assert_eq!(written(table, 1), written(table, 3), "{table:?}");
        }
    }

    #[test]
    fn lines_are_those_of_dbgen() {
        let (_, nations) = written(Table::Nation, 1);
        assert!(nations.starts_with("0|ALGERIA|0| haggle. carefully final deposits detect slyly agai|\n"), "{nations}");
        let (_, orders) = written(Table::Orders, 1);
        assert!(orders.lines().all(|line| line.ends_with('|') && line.matches('|').count() == 9));
    }
}
