//! The Star Schema Benchmark: its five tables with the value domains and row counts of its generator, dbgen.
//!
//! Values are uniform where dbgen's are, from our own random numbers. Two decisions: parts number 200,000 x
//! floor(1 + log2 SF) as the specification says, and `lo_partkey` reaches all of them (one fork of dbgen stops at the
//! natural logarithm); below scale 1 every table shrinks with the scale, which dbgen does not offer.

use std::io::{self, Write};

use crate::parallel::{self, Until};
use crate::random::{Random, civil, push_number, push_padded};

const PRIORITIES: &[&str] = &["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECI", "5-LOW"];
const SHIP_MODES: &[&str] = &["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];
const SEGMENTS: &[&str] = &["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"];
const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];
/// Nation and index of its region; the position decides the phone's country code.
const NATIONS: [(&str, usize); 25] = [
    ("ALGERIA", 0),
    ("ARGENTINA", 1),
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("EGYPT", 4),
    ("ETHIOPIA", 0),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("INDIA", 2),
    ("INDONESIA", 2),
    ("IRAN", 4),
    ("IRAQ", 4),
    ("JAPAN", 2),
    ("JORDAN", 4),
    ("KENYA", 0),
    ("MOROCCO", 0),
    ("MOZAMBIQUE", 0),
    ("PERU", 1),
    ("CHINA", 2),
    ("ROMANIA", 3),
    ("SAUDI ARABIA", 4),
    ("VIETNAM", 2),
    ("RUSSIA", 3),
    ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
];
/// The 92 colours that parts are named after.
const COLOURS: &str = "almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood burnished \
    chartreuse chiffon chocolate coral cornflower cornsilk cream cyan dark deep dim dodger drab firebrick floral forest \
    frosted gainsboro ghost goldenrod green grey honeydew hot indian ivory khaki lace lavender lawn lemon light lime \
    linen magenta maroon medium metallic midnight mint misty moccasin navajo navy olive orange orchid pale papaya peach \
    peru pink plum powder puff purple red rose rosy royal saddle salmon sandy seashell sienna sky slate smoke snow \
    spring steel tan thistle tomato turquoise violet wheat white yellow";
/// Sizes, finishes and metals of a part's type; sizes and shapes of its container.
const TYPES: [&[&str]; 3] = [
    &["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"],
    &["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"],
    &["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"],
];
const CONTAINERS: [&[&str]; 2] =
    [&["SM", "LG", "MED", "JUMBO", "WRAP"], &["CASE", "BOX", "BAG", "JAR", "PACK", "PKG", "CAN", "DRUM"]];
const ALPHABET: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ,";
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const HOLIDAYS: [(u64, u64); 10] =
    [(12, 24), (1, 1), (2, 20), (4, 20), (5, 20), (7, 20), (8, 20), (9, 20), (10, 20), (11, 20)];
/// 1992-01-01 and 1998-08-02, the first and last order date.
const FIRST_DAY: i64 = 8035;
const LAST_DAY: i64 = 10_440;
/// Days in `dates`: to 1998-12-30, one short of seven years, as dbgen has it.
const DAYS: u64 = 2556;

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Table {
    /// Order lines: 6,000,000 a unit of scale.
    Lineorder,
    /// 30,000 a unit of scale.
    Customer,
    /// 2,000 a unit of scale.
    Supplier,
    /// 200,000 x floor(1 + log2 scale).
    Part,
    /// 2,556 days.
    Dates,
}

/// What stands between and behind fields.
#[derive(Clone, Copy)]
pub struct Style {
    /// Between fields.
    pub separator: u8,
    /// Also behind the last field, as dbgen writes it.
    pub trailing: bool,
}

/// dbgen's: `a|b|c|`.
pub const DBGEN: Style = Style { separator: b'|', trailing: true };

/// Rows of the tables that keys point into.
struct Sizes {
    customers: u64,
    suppliers: u64,
    parts: u64,
}

impl Sizes {
    fn new(scale: f64) -> Self {
        let parts = if scale < 1.0 { scale } else { 1.0 + scale.log2().floor() };
        let rows = |base: f64, scale: f64| ((base * scale).round() as u64).max(3);
        Sizes { customers: rows(30_000.0, scale), suppliers: rows(2000.0, scale), parts: rows(200_000.0, parts) }
    }
}

/// Fields of one line.
struct Line<'a> {
    out: &'a mut Vec<u8>,
    style: Style,
    first: bool,
}

impl<'a> Line<'a> {
    fn new(out: &'a mut Vec<u8>, style: Style) -> Self {
        Line { out, style, first: true }
    }

    fn field(&mut self) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.first) {
            self.out.push(self.style.separator);
        }
        self.out
    }

    fn numbers(&mut self, values: &[u64]) {
        values.iter().for_each(|&value| push_number(self.field(), value));
    }

    fn text(&mut self, value: &str) {
        self.field().extend_from_slice(value.as_bytes());
    }

    fn date(&mut self, day: i64) {
        let (year, month, day) = civil(day);
        push_number(self.field(), year * 10_000 + month * 100 + day);
    }

    fn end(self) {
        if self.style.trailing {
            self.out.push(self.style.separator);
        }
        self.out.push(b'\n');
    }
}

/// Price of a part in cents.
fn price(part: u64) -> u64 {
    90_000 + (part / 10) % 20_001 + 100 * (part % 1000)
}

/// Writes a table; returns rows and bytes. The number of threads does not change them.
pub fn write(
    seed: u64,
    table: Table,
    scale: f64,
    style: Style,
    threads: usize,
    out: &mut impl Write,
) -> io::Result<(u64, u64)> {
    let sizes = Sizes::new(scale);
    let units = match table {
        Table::Lineorder => ((1_500_000.0 * scale).round() as u64).max(1),
        Table::Customer => sizes.customers,
        Table::Supplier => sizes.suppliers,
        Table::Part => sizes.parts,
        Table::Dates => DAYS,
    };
    parallel::write(out, Until::Units(units), threads, |block, units, buffer| {
        let mut random = Random::new(seed, (block + 1) << 8 | (table as u64 + 32));
        for unit in block * parallel::BLOCK..block * parallel::BLOCK + units {
            match table {
                Table::Lineorder => push_order(buffer, style, &mut random, &sizes, unit),
                Table::Customer | Table::Supplier => push_company(buffer, style, &mut random, table, unit + 1),
                Table::Part => push_part(buffer, style, &mut random, unit + 1),
                Table::Dates => push_day(buffer, style, unit),
            }
        }
    })
}

/// Writes the parts of a table for key look-ups: `p_partkey` counts from 1, and number 5 is called `blush chiffon`.
pub fn write_row_part(seed: u64, rows: u64, threads: usize, out: &mut impl Write) -> io::Result<(u64, u64)> {
    parallel::write(out, Until::Units(rows), threads, |block, units, buffer| {
        let mut random = Random::new(seed, (block + 1) << 8 | 40);
        for unit in block * parallel::BLOCK..block * parallel::BLOCK + units {
            push_part(buffer, Style { trailing: false, ..DBGEN }, &mut random, unit + 1);
        }
    })
}

fn push_order(out: &mut Vec<u8>, style: Style, random: &mut Random, sizes: &Sizes, order: u64) {
    struct Item {
        part: u64,
        supplier: u64,
        quantity: u64,
        extended: u64,
        discount: u64,
        tax: u64,
        commit: i64,
        mode: &'static str,
    }
    // dbgen leaves gaps: 8 keys of every 32 are used.
    let order = order + 1;
    let key = order / 8 * 32 + order % 8;
    // A third of the customers never order: keys that 3 divides go to the next one, the last to the one before.
    let customer = 1 + random.below(sizes.customers);
    let customer = match customer % 3 {
        0 if customer == sizes.customers => customer - 1,
        0 => customer + 1,
        _ => customer,
    };
    let day = FIRST_DAY + random.below((LAST_DAY - FIRST_DAY + 1) as u64) as i64;
    let priority = random.pick(PRIORITIES);
    let count = 1 + random.below(7) as usize;
    let items: [Item; 7] = std::array::from_fn(|_| {
        let part = 1 + random.below(sizes.parts);
        let quantity = 1 + random.below(50);
        Item {
            part,
            supplier: 1 + random.below(sizes.suppliers),
            quantity,
            extended: quantity * price(part),
            discount: random.below(11),
            tax: random.below(9),
            commit: day + 30 + random.below(61) as i64,
            mode: random.pick(SHIP_MODES),
        }
    });
    let items = &items[..count];
    let total: u64 = items.iter().map(|l| l.extended * (100 - l.discount) / 100 * (100 + l.tax) / 100).sum();
    for (number, item) in items.iter().enumerate() {
        let mut line = Line::new(out, style);
        line.numbers(&[key, number as u64 + 1, customer, item.part, item.supplier]);
        line.date(day);
        line.text(priority);
        let revenue = item.extended * (100 - item.discount) / 100;
        let cost = 6 * price(item.part) / 10;
        line.numbers(&[0, item.quantity, item.extended, total, item.discount, revenue, cost, item.tax]);
        line.date(item.commit);
        line.text(item.mode);
        line.end();
    }
}

/// A customer or a supplier.
fn push_company(out: &mut Vec<u8>, style: Style, random: &mut Random, table: Table, key: u64) {
    let mut line = Line::new(out, style);
    line.numbers(&[key]);
    let name = line.field();
    name.extend_from_slice(if table == Table::Customer { b"Customer#" } else { b"Supplier#" });
    push_padded(name, key, 9);
    let address = line.field();
    for _ in 0..6 + random.below(19) {
        address.push(ALPHABET[random.below(64) as usize]);
    }
    let number = random.below(25);
    let (nation, region) = NATIONS[number as usize];
    // Nine characters of the nation, padded, and a digit.
    let city = line.field();
    city.extend(nation.bytes().chain([b' '; 9]).take(9));
    city.push(b'0' + random.below(10) as u8);
    line.text(nation);
    line.text(REGIONS[region]);
    let phone = line.field();
    push_number(phone, 10 + number);
    for (from, below) in [(100, 900), (100, 900), (1000, 9000)] {
        phone.push(b'-');
        push_number(phone, from + random.below(below));
    }
    if table == Table::Customer {
        line.text(random.pick(SEGMENTS));
    }
    line.end();
}

fn push_part(out: &mut Vec<u8>, style: Style, random: &mut Random, key: u64) {
    let mut line = Line::new(out, style);
    line.numbers(&[key]);
    // Three different colours: the part's, and the two of its name.
    let mut colours = COLOURS.split_whitespace().collect::<Vec<_>>();
    let [colour, first, second] =
        std::array::from_fn(|_| colours.swap_remove(random.below(colours.len() as u64) as usize));
    let (first, second) = if key == 5 { ("blush", "chiffon") } else { (first, second) };
    line.text(first);
    line.out.push(b' ');
    line.out.extend_from_slice(second.as_bytes());
    let (maker, category, brand) = (1 + random.below(5), 1 + random.below(5), 1 + random.below(40));
    for (last, digits) in [[maker, 0, 0], [maker, category, 0], [maker, category, brand]].iter().enumerate() {
        line.text("MFGR#");
        digits[..=last].iter().for_each(|&digit| push_number(line.out, digit));
    }
    line.text(colour);
    push_choice(line.field(), random, &TYPES);
    line.numbers(&[1 + random.below(50)]);
    push_choice(line.field(), random, &CONTAINERS);
    line.end();
}

/// One word of each list, with blanks between.
fn push_choice(out: &mut Vec<u8>, random: &mut Random, lists: &[&[&str]]) {
    for (at, list) in lists.iter().enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(random.pick(list).as_bytes());
    }
}

fn push_day(out: &mut Vec<u8>, style: Style, index: u64) {
    let day = FIRST_DAY + index as i64;
    let (year, month, of_month) = civil(day);
    // 1970-01-01 was a Thursday. dbgen counts one on, so 1992-01-01, a Wednesday, is called Thursday and is day 5.
    let of_week = (day + 5).rem_euclid(7) as u64 + 1;
    let of_year = (1..).find(|&n| civil(day - n).0 != year).unwrap_or(1) as u64;
    let season = match month {
        1..=3 => "Winter",
        4 => "Spring",
        5..=8 => "Summer",
        9 | 10 => "Fall",
        _ => "Christmas",
    };
    let name = MONTHS[month as usize - 1];
    let mut line = Line::new(out, style);
    line.date(day);
    line.text(&format!("{name} {of_month}, {year}"));
    line.text(WEEKDAYS[of_week as usize - 1]);
    line.text(name);
    line.numbers(&[year, year * 100 + month]);
    line.text(&format!("{}{year}", &name[..3]));
    line.numbers(&[of_week, of_month, of_year, month, of_year / 7 + 1]);
    line.text(season);
    let flags =
        [of_week == 7, civil(day + 1).1 != month, HOLIDAYS.contains(&(month, of_month)), (2..=6).contains(&of_week)];
    line.numbers(&flags.map(u64::from));
    line.end();
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    fn rows(table: Table, scale: f64) -> Vec<Vec<String>> {
        let mut out = Vec::new();
        let (rows, bytes) = write(7, table, scale, DBGEN, 2, &mut out).unwrap();
        assert_eq!(bytes, out.len() as u64);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count() as u64, rows);
        text.lines().map(|line| line.strip_suffix('|').unwrap().split('|').map(str::to_string).collect()).collect()
    }

    #[test]
    fn lines_have_seventeen_fields_and_add_up() {
        let mut orders: HashMap<String, (u64, u64)> = HashMap::new();
        for fields in rows(Table::Lineorder, 0.01) {
            assert_eq!(fields.len(), 17, "{fields:?}");
            let number = |i: usize| fields[i].parse::<u64>().unwrap();
            let revenue = number(9) * (100 - number(11)) / 100;
            assert_eq!(number(12), revenue, "{fields:?}");
            assert_eq!(number(9), number(8) * price(number(3)));
            assert_eq!(number(13), price(number(3)) * 6 / 10);
            assert!((19_920_101..=19_980_802).contains(&number(5)), "{fields:?}");
            assert!((1..=50).contains(&number(8)) && number(2) % 3 != 0 && number(2) <= 300, "{fields:?}");
            let order = orders.entry(fields[0].clone()).or_insert((0, number(10)));
            order.0 += revenue * (100 + number(14)) / 100;
        }
        assert_eq!(orders.len(), 15_000);
        assert!(orders.values().all(|(sum, total)| sum == total));
    }

    #[test]
    fn sizes_are_official() {
        for (scale, parts) in [(1.0, 200_000), (2.0, 400_000), (10.0, 800_000), (100.0, 1_400_000), (1000.0, 2_000_000)]
        {
            let sizes = Sizes::new(scale);
            assert_eq!(sizes.parts, parts);
            assert_eq!((sizes.customers, sizes.suppliers), ((30_000.0 * scale) as u64, (2000.0 * scale) as u64));
        }
        let lines = rows(Table::Lineorder, 0.1).len();
        assert!((598_000..602_000).contains(&lines), "{lines}");
    }

    #[test]
    fn values_are_those_of_the_specification() {
        let customers = rows(Table::Customer, 1.0);
        assert_eq!(customers.len(), 30_000);
        let distinct =
            |rows: &[Vec<String>], column: usize| rows.iter().map(|r| r[column].clone()).collect::<HashSet<_>>();
        assert_eq!([3, 4, 5, 7].map(|column| distinct(&customers, column).len()), [250, 25, 5, 5]);
        assert!(customers.iter().any(|r| r[3] == "UNITED KI1" && r[4] == "UNITED KINGDOM" && r[5] == "EUROPE"));
        assert!(customers.iter().any(|r| r[3] == "PERU     9" && r[6].starts_with("27-")));
        let parts = rows(Table::Part, 0.5);
        assert_eq!([2, 3, 4, 5, 6, 7, 8].map(|column| distinct(&parts, column).len()), [5, 25, 1000, 92, 150, 50, 40]);
        assert!(
            parts
                .iter()
                .all(|r| r[4].starts_with(&r[3]) && r[3].starts_with(&r[2]) && !r[1].contains(&format!("{} ", r[5])))
        );
        assert_eq!(parts[4][..2], ["5", "blush chiffon"]);
        assert_eq!(rows(Table::Supplier, 1.0)[0].len(), 7);
    }

    #[test]
    fn dates_are_dbgens() {
        let dates = rows(Table::Dates, 3.0);
        assert_eq!(dates.len(), 2556);
        let line = |at: usize| dates[at].join("|");
        assert_eq!(line(0), "19920101|January 1, 1992|Thursday|January|1992|199201|Jan1992|5|1|1|1|1|Winter|0|0|1|1");
        assert_eq!(
            line(59),
            "19920229|February 29, 1992|Sunday|February|1992|199202|Feb1992|1|29|60|2|9|Winter|0|1|0|0"
        );
        assert_eq!(dates[2555][0], "19981230");
    }
}
