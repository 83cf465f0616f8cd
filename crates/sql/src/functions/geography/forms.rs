//! Shapes as text and as bytes.

use super::sphere::{Loop, Point, Shape, VERTICES_MAX, degrees, line, polygon, polygons, radius};

/// Writes a number with 12 digits, as C's `%.12g`.
fn write_number(out: &mut String, v: f64) {
    use std::fmt::Write;
    if v == 0.0 {
        out.push_str(if v.is_sign_negative() { "-0" } else { "0" });
        return;
    }
    let text = format!("{v:.11e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..12).contains(&exponent) {
        let fixed = format!("{v:.*}", (11 - exponent) as usize);
        let fixed = if fixed.contains('.') { fixed.trim_end_matches('0').trim_end_matches('.') } else { &fixed };
        out.push_str(fixed);
    } else {
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{digits}e{sign}{:02}", exponent.abs());
    }
}

fn write_point(out: &mut String, p: Point) {
    write_number(out, p.longitude());
    out.push(' ');
    write_number(out, p.latitude());
}

fn write_list<T>(out: &mut String, items: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut String, T)) {
    out.push('(');
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write(out, item);
    }
    out.push(')');
}

fn write_loops(out: &mut String, loops: &[Loop]) {
    write_list(out, loops, |out, points| {
        write_list(out, points.iter().chain(points.first()), |out, p| write_point(out, *p));
    });
}

/// Writes the well-known text of a shape.
pub fn write_text(out: &mut String, shape: &Shape) {
    match shape {
        Shape::Point(p) => {
            out.push_str("POINT ");
            write_list(out, [*p], write_point);
        }
        Shape::Line(points) => {
            out.push_str("LINESTRING ");
            write_list(out, points, |out, p| write_point(out, *p));
        }
        Shape::Polygon(loops) => {
            out.push_str("POLYGON ");
            write_loops(out, loops);
        }
        Shape::MultiPolygon(all) => {
            out.push_str("MULTIPOLYGON ");
            write_list(out, all, |out, loops| write_loops(out, loops));
        }
        Shape::Circle(centre, chord2) => {
            out.push_str("CIRCLE ((");
            write_point(out, *centre);
            out.push_str("), ");
            write_number(out, radius(*chord2));
            out.push(')');
        }
    }
}

/// Reads well-known text.
struct Text<'a> {
    rest: &'a str,
    points: usize,
}

impl<'a> Text<'a> {
    fn is_next(&mut self, c: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn number(&mut self) -> Option<f64> {
        self.rest = self.rest.trim_start();
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E');
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest;
        number.parse().ok()
    }

    fn point(&mut self) -> Option<Point> {
        self.points += 1;
        if self.points > VERTICES_MAX {
            return None;
        }
        Point::at(self.number()?, self.number()?)
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        if !self.is_next('(') {
            return None;
        }
        let mut items = vec![item(self)?];
        while self.is_next(',') {
            items.push(item(self)?);
        }
        self.is_next(')').then_some(items)
    }

    fn points(&mut self) -> Option<Vec<Point>> {
        self.list(Self::point)
    }

    fn shape(&mut self) -> Option<Shape> {
        let word = self.word().to_ascii_uppercase();
        Some(match word.as_str() {
            "POINT" => match self.points()?.as_slice() {
                [one] => Shape::Point(*one),
                _ => return None,
            },
            "LINESTRING" => line(&self.points()?)?,
            "POLYGON" => Shape::Polygon(polygon(&self.list(Self::points)?)?),
            "MULTIPOLYGON" => polygons(&self.list(|text| text.list(Self::points))?)?,
            _ => return None,
        })
    }
}

/// Reads well-known text: a point, a line, a polygon or several. `None` if the text is something else, and for shapes
/// that are none, such as polygons whose lines cross. Several polygons are not judged together.
pub fn read_text(text: &str) -> Option<Shape> {
    let mut reader = Text { rest: text, points: 0 };
    let shape = reader.shape()?;
    reader.rest.trim().is_empty().then_some(shape)
}

/// Kinds of shapes in the binary forms.
mod kind {
    pub const POINT: u8 = 1;
    pub const LINE: u8 = 2;
    pub const POLYGON: u8 = 3;
    pub const MULTI_POLYGON: u8 = 6;
    pub const CIRCLE: u8 = 8;
}

/// Reads well-known binary.
struct Bytes<'a> {
    rest: &'a [u8],
    points: usize,
}

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    fn number(&mut self, little: bool) -> Option<f64> {
        let bytes = self.take()?;
        Some(if little { f64::from_le_bytes(bytes) } else { f64::from_be_bytes(bytes) })
    }

    fn count(&mut self, little: bool) -> Option<usize> {
        let bytes = self.take()?;
        let count = if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) };
        usize::try_from(count).ok()
    }

    fn point(&mut self, little: bool) -> Option<Point> {
        self.points += 1;
        if self.points > VERTICES_MAX {
            return None;
        }
        Point::at(self.number(little)?, self.number(little)?)
    }

    fn many<T>(&mut self, little: bool, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.count(little)?;
        // Each item has at least four bytes, so a false count ends with the bytes.
        (0..count).map(|_| item(self)).collect()
    }

    fn rings(&mut self, little: bool) -> Option<Vec<Vec<Point>>> {
        self.many(little, |bytes| bytes.many(little, |bytes| bytes.point(little)))
    }

    fn head(&mut self) -> Option<(bool, usize)> {
        let little = match self.take()? {
            [0] => false,
            [1] => true,
            _ => return None,
        };
        Some((little, self.count(little)?))
    }

    fn shape(&mut self) -> Option<Shape> {
        let (little, kind) = self.head()?;
        match u8::try_from(kind).ok()? {
            kind::POINT => self.point(little).map(Shape::Point),
            kind::LINE => line(&self.many(little, |bytes| bytes.point(little))?),
            kind::POLYGON => Some(Shape::Polygon(polygon(&self.rings(little)?)?)),
            kind::MULTI_POLYGON => {
                let all = self.many(little, |bytes| match bytes.head()? {
                    (little, 3) => bytes.rings(little),
                    _ => None,
                })?;
                polygons(&all)
            }
            _ => None,
        }
    }
}

/// Reads well-known binary in hexadecimal digits, which may follow `x` or `\x`.
pub fn read_binary(text: &[u8]) -> Option<Shape> {
    let digits = text.strip_prefix(b"\\x").or_else(|| text.strip_prefix(b"x")).unwrap_or(text);
    let value = |digit: u8| char::from(digit).to_digit(16).map(|v| v as u8);
    if digits.len() % 2 == 1 {
        return None;
    }
    let bytes =
        digits.chunks(2).map(|pair| Some(value(pair[0])? << 4 | value(pair[1])?)).collect::<Option<Vec<_>>>()?;
    let mut reader = Bytes { rest: &bytes, points: 0 };
    let shape = reader.shape()?;
    reader.rest.is_empty().then_some(shape)
}

/// Writes well-known binary in hexadecimal digits behind `\x`; nothing for circles, which it does not know.
pub fn write_binary(out: &mut String, shape: &Shape) {
    use std::fmt::Write;
    fn head(bytes: &mut Vec<u8>, kind: u8) {
        bytes.push(1);
        bytes.extend(u32::from(kind).to_le_bytes());
    }
    fn point(bytes: &mut Vec<u8>, p: Point) {
        let (longitude, latitude) = degrees(p);
        bytes.extend(longitude.to_le_bytes());
        bytes.extend(latitude.to_le_bytes());
    }
    fn count(bytes: &mut Vec<u8>, count: usize) {
        bytes.extend((count as u32).to_le_bytes());
    }
    fn rings(bytes: &mut Vec<u8>, loops: &[Loop]) {
        count(bytes, loops.len());
        for points in loops {
            count(bytes, points.len() + 1);
            points.iter().chain(points.first()).for_each(|p| point(bytes, *p));
        }
    }
    let mut bytes = Vec::new();
    match shape {
        Shape::Point(p) => {
            head(&mut bytes, kind::POINT);
            point(&mut bytes, *p);
        }
        Shape::Line(points) => {
            head(&mut bytes, kind::LINE);
            count(&mut bytes, points.len());
            points.iter().for_each(|p| point(&mut bytes, *p));
        }
        Shape::Polygon(loops) => {
            head(&mut bytes, kind::POLYGON);
            rings(&mut bytes, loops);
        }
        Shape::MultiPolygon(all) => {
            head(&mut bytes, kind::MULTI_POLYGON);
            count(&mut bytes, all.len());
            for loops in all {
                head(&mut bytes, kind::POLYGON);
                rings(&mut bytes, loops);
            }
        }
        Shape::Circle(..) => return,
    }
    out.push_str("\\x");
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
}

/// Returns a shape as the bytes that functions hand on: 0, the kind, then numbers of eight bytes and counts of four.
pub fn to_bytes(shape: &Shape) -> Vec<u8> {
    fn point(out: &mut Vec<u8>, p: &Point) {
        p.coordinates().iter().for_each(|v| out.extend(v.to_le_bytes()));
    }
    fn list<T>(out: &mut Vec<u8>, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
        out.extend((items.len() as u32).to_le_bytes());
        items.iter().for_each(|item| write(out, item));
    }
    let loops = |out: &mut Vec<u8>, loops: &Vec<Loop>| list(out, loops, |out, points| list(out, points, point));
    let mut out = vec![0];
    match shape {
        Shape::Point(p) => {
            out.push(kind::POINT);
            point(&mut out, p);
        }
        Shape::Line(points) => {
            out.push(kind::LINE);
            list(&mut out, points, point);
        }
        Shape::Polygon(rings) => {
            out.push(kind::POLYGON);
            loops(&mut out, rings);
        }
        Shape::MultiPolygon(all) => {
            out.push(kind::MULTI_POLYGON);
            list(&mut out, all, loops);
        }
        Shape::Circle(centre, chord2) => {
            out.push(kind::CIRCLE);
            point(&mut out, centre);
            out.extend(chord2.to_le_bytes());
        }
    }
    out
}

/// Reads what [`to_bytes`] wrote; `None` for other bytes.
pub fn from_bytes(bytes: &[u8]) -> Option<Shape> {
    fn point(bytes: &mut Bytes<'_>) -> Option<Point> {
        Point::of(bytes.number(true)?, bytes.number(true)?, bytes.number(true)?)
    }
    fn points(bytes: &mut Bytes<'_>, least: usize) -> Option<Vec<Point>> {
        bytes.many(true, point).filter(|points| points.len() >= least)
    }
    fn loops(bytes: &mut Bytes<'_>) -> Option<Vec<Loop>> {
        bytes.many(true, |bytes| points(bytes, 3)).filter(|loops| !loops.is_empty())
    }
    let (&[0, kind], rest) = bytes.split_first_chunk()? else { return None };
    let mut bytes = Bytes { rest, points: 0 };
    let shape = match kind {
        kind::POINT => Shape::Point(point(&mut bytes)?),
        kind::LINE => Shape::Line(points(&mut bytes, 2)?),
        kind::POLYGON => Shape::Polygon(loops(&mut bytes)?),
        kind::MULTI_POLYGON => Shape::MultiPolygon(bytes.many(true, loops).filter(|all| !all.is_empty())?),
        kind::CIRCLE => {
            let (centre, chord2) = (point(&mut bytes)?, bytes.number(true)?);
            (0.0..=4.0).contains(&chord2).then_some(Shape::Circle(centre, chord2))?
        }
        _ => return None,
    };
    bytes.rest.is_empty().then_some(shape)
}

#[cfg(test)]
mod tests {
    use super::super::sphere::circle;
    use super::*;

    fn text_of(shape: &Shape) -> String {
        let mut out = String::new();
        write_text(&mut out, shape);
        out
    }

    fn read(text: &str) -> Shape {
        read_text(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn texts() {
        for (text, shown) in [
            ("POINT (24.7 56.7)", "POINT (24.7 56.7)"),
            (" point( -180 90 ) ", "POINT (0 90)"),
            ("LINESTRING (1 1,2 2, 2 2)", "LINESTRING (1 1, 2 2)"),
            ("POLYGON((0 0,10 0,10 10,0 10,0 0))", "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))"),
            // Clockwise loops are turned.
            ("POLYGON((0 0,0 10,10 10,10 0,0 0))", "POLYGON ((10 0, 10 10, 0 10, 0 0, 10 0))"),
            (
                "POLYGON((0 0,10 0,10 10,0 10,0 0),(2 2,4 2,4 4,2 4,2 2))",
                "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0), (2 2, 4 2, 4 4, 2 4, 2 2))",
            ),
            (
                "MULTIPOLYGON(((0 0,1 0,1 1,0 0)),((5 5,6 5,6 6,5 5)))",
                "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), ((5 5, 6 5, 6 6, 5 5)))",
            ),
        ] {
            let shape = read(text);
            if !text.contains("-180") {
                assert_eq!(text_of(&shape), shown, "{text}");
            }
            assert_eq!(from_bytes(&to_bytes(&shape)), Some(shape), "{text}");
        }
        for text in [
            "",
            "POINT",
            "POINT ()",
            "POINT (1)",
            "POINT (1 2 3)",
            "POINT (181 0)",
            "POINT (0 91)",
            "POINT (1 2) x",
            "LINESTRING (1 1)",
            "LINESTRING (1 1, 1 1)",
            "POLYGON ((0 0, 1 0, 1 1))",
            "POLYGON ((0 0, 1 0, 0 0))",
            "POLYGON ((0 0, 10 10, 10 0, 0 10, 0 0))",
            "POLYGON ((0 0, 1 0, 1 1, 0 0), (5 5, 6 5, 6 6, 5 5))",
            "CIRCLE ((1 2), 3)",
            "POINT (nan 1)",
        ] {
            assert_eq!(read_text(text), None, "{text}");
        }
        assert_eq!(text_of(&circle(111.0, 64.0, 10000.0).unwrap()), "CIRCLE ((111 64), 10000)");
        assert_eq!(circle(0.0, 0.0, -1.0), None);
    }

    #[test]
    fn binaries() {
        let mut out = String::new();
        write_binary(&mut out, &read("POINT (24.7 56.7)"));
        assert_eq!(out, "\\x01010000003333333333b338409a99999999594c40");
        assert_eq!(read_binary(out.as_bytes()).map(|shape| text_of(&shape)).as_deref(), Some("POINT (24.7 56.7)"));
        for text in [
            "LINESTRING (1 1, 2 2)",
            "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))",
            "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), ((5 5, 6 5, 6 6, 5 5)))",
        ] {
            let mut out = String::new();
            write_binary(&mut out, &read(text));
            assert_eq!(read_binary(&out.as_bytes()[1..]).map(|shape| text_of(&shape)).as_deref(), Some(text));
        }
        for text in ["", "x", "0", "zz", "0101000000", "01030000000100000000000000", "0103000000ffffffff"] {
            assert_eq!(read_binary(text.as_bytes()), None, "{text}");
        }
        assert_eq!(from_bytes(&[0, 1]), None);
        assert_eq!(from_bytes(&[0, 3, 0, 0, 0, 0]), None);
        assert_eq!(from_bytes(b"POINT (1 1)"), None);
    }
}
