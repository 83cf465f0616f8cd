//! SSB's `lineorder` with the value domains of its specification (O'Neil et al., revision 3).

use std::io::{self, Write};

use crate::random::{Random, civil, push_number, push_padded};

const PRIORITIES: &[&str] = &["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECI", "5-LOW"];
const SHIP_MODES: &[&str] = &["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];
/// 1992-01-01 and 1998-08-02, the first and last order date.
const FIRST_DAY: i64 = 8035;
const LAST_DAY: i64 = 10_440;

/// Price of a part in cents.
fn price(part: u64) -> u64 {
    90_000 + (part / 10) % 20_001 + 100 * (part % 1000)
}

fn push_date(out: &mut Vec<u8>, day: i64) {
    let (year, month, day) = civil(day);
    push_padded(out, year, 4);
    push_padded(out, month, 2);
    push_padded(out, day, 2);
}

struct Line {
    part: u64,
    supplier: u64,
    quantity: u64,
    extended: u64,
    discount: u64,
    tax: u64,
    commit: i64,
    mode: &'static str,
}

/// Writes 1,500,000 orders per unit of scale, 1 to 7 lines each; returns rows and bytes.
pub fn write(seed: u64, scale: f64, out: &mut impl Write) -> io::Result<(u64, u64)> {
    let orders = (1_500_000.0 * scale) as u64;
    let customers = ((30_000.0 * scale) as u64).max(3);
    let parts = (200_000.0 * (1.0 + scale.max(1.0).log2().floor())) as u64;
    let suppliers = ((2000.0 * scale) as u64).max(1);
    let mut random = Random::new(seed, 2);
    let mut rows = 0;
    let mut order = 0;
    let mut lines = Vec::new();
    let bytes = crate::stream(out, |buffer| {
        // dbgen leaves gaps: 8 keys of every 32 are used.
        let key = order / 8 * 32 + order % 8 + 1;
        // A third of the customers never order.
        let customer = random.below(customers);
        let customer = customer + 1 - u64::from(customer % 3 == 2);
        let day = FIRST_DAY + random.below((LAST_DAY - FIRST_DAY + 1) as u64) as i64;
        let priority = random.pick(PRIORITIES);
        lines.clear();
        for _ in 0..=random.below(7) {
            let part = 1 + random.below(parts);
            let quantity = 1 + random.below(50);
            lines.push(Line {
                part,
                supplier: 1 + random.below(suppliers),
                quantity,
                extended: quantity * price(part),
                discount: random.below(11),
                tax: random.below(9),
                commit: day + 30 + random.below(61) as i64,
                mode: random.pick(SHIP_MODES),
            });
        }
        let total: u64 = lines.iter().map(|l| l.extended * (100 - l.discount) / 100 * (100 + l.tax) / 100).sum();
        for (number, line) in lines.iter().enumerate() {
            push_number(buffer, key);
            for value in [number as u64 + 1, customer, line.part, line.supplier] {
                buffer.push(b',');
                push_number(buffer, value);
            }
            buffer.push(b',');
            push_date(buffer, day);
            buffer.push(b',');
            buffer.extend_from_slice(priority.as_bytes());
            let revenue = line.extended * (100 - line.discount) / 100;
            let cost = 6 * price(line.part) / 10;
            for value in [0, line.quantity, line.extended, total, line.discount, revenue, cost, line.tax] {
                buffer.push(b',');
                push_number(buffer, value);
            }
            buffer.push(b',');
            push_date(buffer, line.commit);
            buffer.push(b',');
            buffer.extend_from_slice(line.mode.as_bytes());
            buffer.push(b'\n');
        }
        rows += lines.len() as u64;
        order += 1;
        order < orders
    })?;
    Ok((rows, bytes))
}

#[cfg(test)]
mod tests {
    #[test]
    fn lines_have_seventeen_fields_and_add_up() {
        let mut out = Vec::new();
        let (rows, bytes) = super::write(7, 0.001, &mut out).unwrap();
        assert_eq!(bytes, out.len() as u64);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count() as u64, rows);
        for line in text.lines() {
            let fields: Vec<&str> = line.split(',').collect();
            assert_eq!(fields.len(), 17, "{line}");
            let number = |i: usize| fields[i].parse::<u64>().unwrap();
            assert_eq!(number(12), number(9) * (100 - number(11)) / 100, "revenue: {line}");
            assert!((19_920_101..=19_980_802).contains(&number(5)), "{line}");
            assert!((1..=50).contains(&number(8)) && number(2) % 3 != 0, "{line}");
        }
        let mut again = Vec::new();
        super::write(7, 0.001, &mut again).unwrap();
        assert_eq!(text.as_bytes(), again);
    }
}
