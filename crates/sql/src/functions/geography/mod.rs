//! Functions of geography. A shape is BINARY, which functions of this family make and read.

mod forms;
mod relations;
mod sphere;

use std::f64::consts::PI;

use arrow::array::{ArrayRef, BinaryViewArray};
use datafusion::common::{Result, not_impl_err};

use self::forms::{from_bytes, read_binary, read_text, to_bytes, write_binary, write_text};
use self::sphere::{EARTH, Point, Shape, VERTICES_MAX};
use super::args::{Args, Col};
use super::func::{Def, Ret, def};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("st_point", &[], (2, 2), Ret::Bytes, |a| {
        let (x, y) = (a.double(0)?, a.double(1)?);
        a.binaries(|i| Some(to_bytes(&Shape::Point(Point::at(x.at(i)?, y.at(i)?)?))))
    }),
    def("st_circle", &[], (3, 3), Ret::Bytes, |a| {
        let (x, y, metres) = (a.double(0)?, a.double(1)?, a.double(2)?);
        a.binaries(|i| Some(to_bytes(&sphere::circle(x.at(i)?, y.at(i)?, metres.at(i)?)?)))
    }),
    def("st_geometryfromtext", &["st_geomfromtext"], (1, 1), Ret::Bytes, |a| from_text(a, |_| true)),
    def("st_linefromtext", &["st_linestringfromtext"], (1, 1), Ret::Bytes, |a| {
        from_text(a, |shape| matches!(shape, Shape::Line(_)))
    }),
    def("st_polygon", &["st_polyfromtext", "st_polygonfromtext"], (1, 1), Ret::Bytes, |a| {
        from_text(a, |shape| matches!(shape, Shape::Polygon(_)))
    }),
    def("st_geometryfromwkb", &["st_geomfromwkb"], (1, 1), Ret::Bytes, |a| {
        let s = a.bytes(0)?;
        refuse_large(a, (0..a.rows).map(|i| s.at(i).map_or(0, |bytes| bytes.len() / DIGITS_OF_VERTEX)))?;
        a.binaries(|i| read_binary(s.at(i)?).filter(stands).map(|shape| to_bytes(&shape)))
    }),
    def("st_astext", &["st_aswkt"], (1, 1), Ret::Text, |a| written(a, write_text)),
    def("st_asbinary", &[], (1, 1), Ret::Text, |a| written(a, write_binary)),
    def("st_x", &[], (1, 1), Ret::Double, |a| coordinate(a, |(longitude, _)| longitude)),
    def("st_y", &[], (1, 1), Ret::Double, |a| coordinate(a, |(_, latitude)| latitude)),
    def("st_distance_sphere", &[], (4, 4), Ret::Double, |a| between(a, |angle| EARTH * angle)),
    def("st_angle_sphere", &[], (4, 4), Ret::Double, |a| between(a, |angle| 180.0 / PI * angle)),
    def("st_angle", &[], (3, 3), Ret::Double, |a| {
        let (x, y, z) = (a.bytes(0)?, a.bytes(1)?, a.bytes(2)?);
        a.doubles(|i| sphere::angle(point(&x, i)?, point(&y, i)?, point(&z, i)?))
    }),
    def("st_azimuth", &[], (2, 2), Ret::Double, |a| {
        let (x, y) = (a.bytes(0)?, a.bytes(1)?);
        a.doubles(|i| sphere::angle(Point::at(0.0, 90.0)?, point(&x, i)?, point(&y, i)?))
    }),
    def("st_area_square_meters", &[], (1, 1), Ret::Double, |a| area(a, EARTH)),
    def("st_area_square_km", &[], (1, 1), Ret::Double, |a| area(a, 0.001 * EARTH)),
    def("st_contains", &[], (2, 2), Ret::Bool, |a| compared(a, relations::contain)),
    def("st_intersects", &[], (2, 2), Ret::Bool, |a| compared(a, relations::intersect)),
    def("st_disjoint", &[], (2, 2), Ret::Bool, |a| compared(a, |one, other| !relations::intersect(one, other))),
    def("st_touches", &[], (2, 2), Ret::Bool, |a| compared(a, relations::touch)),
];

/// Whether the polygons of a shape may stand together in one.
fn stands(shape: &Shape) -> bool {
    match shape {
        Shape::MultiPolygon(all) => relations::stand_together(all),
        _ => true,
    }
}

/// Hexadecimal digits of a vertex in well-known binary.
const DIGITS_OF_VERTEX: usize = 32;

/// Refuses shapes by the number of their vertices.
fn refuse_large(a: &Args, mut vertices: impl Iterator<Item = usize>) -> Result<()> {
    match vertices.any(|vertices| vertices >= VERTICES_MAX) {
        true => not_impl_err!("{}: shapes of more than {VERTICES_MAX} vertices are not supported", a.name),
        false => Ok(()),
    }
}

fn from_text(a: &Args, wanted: fn(&Shape) -> bool) -> Result<ArrayRef> {
    let s = a.text(0)?;
    refuse_large(a, (0..a.rows).map(|i| s.at(i).map_or(0, |text| text.bytes().filter(|b| *b == b',').count())))?;
    a.binaries(|i| {
        let shape = read_text(s.at(i)?).filter(|shape| wanted(shape) && stands(shape))?;
        Some(to_bytes(&shape))
    })
}

/// The shapes of a column; the bytes of a shape are read again only when they differ from those of the row before.
struct Shapes<'a> {
    column: &'a Col<BinaryViewArray>,
    last: Option<(&'a [u8], Option<Shape>)>,
}

impl<'a> Shapes<'a> {
    fn of(column: &'a Col<BinaryViewArray>) -> Self {
        Shapes { column, last: None }
    }

    /// Returns the shape of row `i`; `None` for NULL and for bytes that are no shape.
    fn at(&mut self, i: usize) -> Option<&Shape> {
        let bytes = self.column.at(i)?;
        if self.last.as_ref().is_none_or(|(last, _)| *last != bytes) {
            self.last = Some((bytes, from_bytes(bytes)));
        }
        self.last.as_ref()?.1.as_ref()
    }
}

fn point(column: &Col<BinaryViewArray>, i: usize) -> Option<Point> {
    match from_bytes(column.at(i)?)? {
        Shape::Point(p) => Some(p),
        _ => None,
    }
}

fn written(a: &Args, write: fn(&mut String, &Shape)) -> Result<ArrayRef> {
    let s = a.bytes(0)?;
    let mut shapes = Shapes::of(&s);
    a.texts(|i, out| {
        write(out, shapes.at(i)?);
        Some(())
    })
}

fn coordinate(a: &Args, of: fn((f64, f64)) -> f64) -> Result<ArrayRef> {
    let s = a.bytes(0)?;
    a.doubles(|i| Some(of(sphere::degrees(point(&s, i)?))))
}

/// A measure of the angle between two points, each given by its longitude and latitude.
fn between(a: &Args, measure: fn(f64) -> f64) -> Result<ArrayRef> {
    let [x1, y1, x2, y2] = [a.double(0)?, a.double(1)?, a.double(2)?, a.double(3)?];
    a.doubles(|i| sphere::distance((x1.at(i)?, y1.at(i)?), (x2.at(i)?, y2.at(i)?)).map(measure))
}

fn area(a: &Args, radius: f64) -> Result<ArrayRef> {
    let s = a.bytes(0)?;
    let mut shapes = Shapes::of(&s);
    a.doubles(|i| Some(sphere::area(shapes.at(i)?) * radius * radius))
}

fn compared(a: &Args, compare: fn(&Shape, &Shape) -> bool) -> Result<ArrayRef> {
    let (x, y) = (a.bytes(0)?, a.bytes(1)?);
    let (mut one, mut other) = (Shapes::of(&x), Shapes::of(&y));
    let mut ended = Ok(());
    let out = a.bools(|i| {
        // Polygons of many vertices take long to compare.
        ended = super::still_wanted();
        ended.is_ok().then(|| Some(compare(one.at(i)?, other.at(i)?)))?
    })?;
    ended.map(|()| out)
}
