//! Points, lines and polygons on the sphere: their areas, and what one contains of another.
//!
//! Edges are the shortest arcs between their vertices, so a polygon is what lies within them on the sphere. Doris
//! judges boundaries in the plane of degrees instead, with a tolerance; `relations` in the file `relations.rs` does the
//! same with the parts of this file.

use std::f64::consts::PI;

/// Mean radius of the earth in metres, as in S2.
pub const EARTH: f64 = 6_371_010.0;

/// Most vertices of one shape, because tests of lines against each other take the square of that time.
pub const VERTICES_MAX: usize = 10_000;

/// Distances below this angle are rounding errors of points that are equal.
const SAME: f64 = 1e-12;

/// A point as a vector of length 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    x: f64,
    y: f64,
    z: f64,
}

/// Vertices of a closed line, counterclockwise around the smaller of its two sides; the first is not repeated.
pub type Loop = Vec<Point>;

/// A shape.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// One point.
    Point(Point),
    /// At least two points, of which no neighbours are equal.
    Line(Vec<Point>),
    /// An outer loop and its holes.
    Polygon(Vec<Loop>),
    /// Polygons of which no two have more than points in common.
    MultiPolygon(Vec<Vec<Loop>>),
    /// The points around a centre; the radius is the square of the chord of its angle.
    Circle(Point, f64),
}

impl Point {
    /// Returns the point at degrees of longitude and latitude; `None` if there is none.
    pub fn at(longitude: f64, latitude: f64) -> Option<Point> {
        if !(longitude.abs() <= 180.0 && latitude.abs() <= 90.0) {
            return None;
        }
        let (theta, phi) = (PI / 180.0 * longitude, PI / 180.0 * latitude);
        Some(Point { x: theta.cos() * phi.cos(), y: theta.sin() * phi.cos(), z: phi.sin() })
    }

    /// Returns the point with these coordinates in space; `None` if its length is not 1.
    pub fn of(x: f64, y: f64, z: f64) -> Option<Point> {
        let p = Point { x, y, z };
        ((p.length() - 1.0).abs() < SAME).then_some(p)
    }

    /// Returns the coordinates in space.
    pub fn coordinates(self) -> [f64; 3] {
        [self.x, self.y, self.z]
    }

    /// Returns the degrees of longitude.
    pub fn longitude(self) -> f64 {
        180.0 / PI * (self.y + 0.0).atan2(self.x + 0.0)
    }

    /// Returns the degrees of latitude.
    pub fn latitude(self) -> f64 {
        180.0 / PI * (self.z + 0.0).atan2((self.x * self.x + self.y * self.y).sqrt())
    }

    fn cross(self, o: Point) -> Point {
        Point { x: self.y * o.z - self.z * o.y, y: self.z * o.x - self.x * o.z, z: self.x * o.y - self.y * o.x }
    }

    fn dot(self, o: Point) -> f64 {
        self.x * o.x + self.y * o.y + self.z * o.z
    }

    fn plus(self, o: Point) -> Point {
        Point { x: self.x + o.x, y: self.y + o.y, z: self.z + o.z }
    }

    fn times(self, factor: f64) -> Point {
        Point { x: self.x * factor, y: self.y * factor, z: self.z * factor }
    }

    fn length(self) -> f64 {
        self.dot(self).sqrt()
    }

    fn unit(self) -> Point {
        self.times(1.0 / self.length())
    }

    fn angle(self, o: Point) -> f64 {
        self.cross(o).length().atan2(self.dot(o))
    }

    /// Returns the square of the chord to another point.
    pub fn chord2(self, o: Point) -> f64 {
        let d = self.plus(o.times(-1.0));
        d.dot(d).min(4.0)
    }
}

/// Returns the angle in radians between two points in degrees of longitude and latitude, by the haversine formula;
/// `None` if one of them is no point.
pub fn distance(a: (f64, f64), b: (f64, f64)) -> Option<f64> {
    let valid = |(longitude, latitude): (f64, f64)| longitude.abs() <= 180.0 && latitude.abs() <= 90.0;
    if !valid(a) || !valid(b) {
        return None;
    }
    let radians = |degrees: f64| PI / 180.0 * degrees;
    let (lat1, lat2) = (radians(a.1), radians(b.1));
    let (lng1, lng2) = (radians(a.0), radians(b.0));
    let (dlat, dlng) = ((0.5 * (lat2 - lat1)).sin(), (0.5 * (lng2 - lng1)).sin());
    let x = dlat * dlat + dlng * dlng * lat1.cos() * lat2.cos();
    Some(2.0 * x.min(1.0).sqrt().asin())
}

/// Returns the angle from the line of `b` and `a` to the line of `b` and `c`, from 0 to 2 pi; `None` where `b` is one
/// of the others or opposite to it. As in Doris, the first coordinate counts as the latitude.
pub fn angle(a: Point, b: Point, c: Point) -> Option<f64> {
    let [a, b, c] = [a, b, c].map(degrees);
    if a == b || b == c {
        return None;
    }
    let opposite = |p, q| distance(p, q).is_none_or(|d| 180.0 / PI * d == 180.0);
    if opposite(a, b) || opposite(c, b) {
        return None;
    }
    let turn = bearing(b, a) - bearing(b, c);
    Some(if turn < 0.0 { turn + 2.0 * PI } else { turn })
}

fn bearing(from: (f64, f64), to: (f64, f64)) -> f64 {
    let radians = |degrees: f64| PI / 180.0 * degrees;
    let (lat1, lat2, lng) = (radians(from.0), radians(to.0), radians(to.1) - radians(from.1));
    let half = (0.5 * lng).sin();
    let x = (lat2 - lat1).sin() + lat1.sin() * lat2.cos() * 2.0 * half * half;
    (lng.sin() * lat2.cos()).atan2(x)
}

/// Returns longitude and latitude with 13 digits behind the point.
pub fn degrees(p: Point) -> (f64, f64) {
    let rounded = |v: f64| format!("{v:.13}").parse().unwrap_or(v);
    (rounded(p.longitude()), rounded(p.latitude()))
}

/// Which side of the arc from `a` to `b` the point `c` lies on: positive is left.
fn side(a: Point, b: Point, c: Point) -> f64 {
    a.cross(b).dot(c)
}

/// Edges of a loop, each from one vertex to the next.
pub fn edges(points: &[Point]) -> impl Iterator<Item = (Point, Point)> + '_ {
    points.iter().zip(points.iter().cycle().skip(1)).map(|(a, b)| (*a, *b))
}

/// Edges of all loops. Those of holes have the polygon on their left like the others, so they run backwards.
fn edges_around(loops: &[Loop]) -> impl Iterator<Item = (Point, Point)> + '_ {
    let of = |(i, points): (usize, &'_ Loop)| edges_of(points, i > 0);
    loops.iter().enumerate().flat_map(of)
}

fn edges_of(points: &[Point], backwards: bool) -> Vec<(Point, Point)> {
    edges(points).map(|(a, b)| if backwards { (b, a) } else { (a, b) }).collect()
}

/// Returns the point in which the insides of two arcs cross.
fn crossing((a, b): (Point, Point), (c, d): (Point, Point)) -> Option<Point> {
    let (n, m) = (a.cross(b), c.cross(d));
    let splits = |p: f64, q: f64| p * q < 0.0;
    if !splits(n.dot(c), n.dot(d)) || !splits(m.dot(a), m.dot(b)) {
        return None;
    }
    let x = n.cross(m);
    if x.length() == 0.0 {
        return None;
    }
    let x = x.unit();
    let x = if x.dot(a.plus(b)) > 0.0 { x } else { x.times(-1.0) };
    (x.dot(c.plus(d)) > 0.0).then_some(x)
}

/// Whether two points are one but for rounding.
pub fn is_same(p: Point, q: Point) -> bool {
    p.angle(q) < SAME
}

/// Whether a point lies on an arc.
fn is_on(p: Point, (a, b): (Point, Point)) -> bool {
    let n = a.cross(b);
    let length = n.length();
    if length < SAME {
        return p.angle(a) < SAME;
    }
    (n.dot(p) / length).abs() < SAME
        && (p.angle(a) < SAME || p.angle(b) < SAME || { n.cross(a).dot(p) > 0.0 && b.cross(n).dot(p) > 0.0 })
}

/// Whether a loop has a point on its inner side: the loop is seen from the point at all sides.
fn encloses(points: &[Point], p: Point) -> bool {
    let seen = |(a, b): (Point, Point)| p.dot(a.cross(b)).atan2(a.dot(b) - a.dot(p) * b.dot(p));
    edges(points).map(seen).sum::<f64>() > PI
}

/// Whether a polygon has a point in it; points on its boundary are on either side by chance.
pub fn is_inside(loops: &[Loop], p: Point) -> bool {
    loops.iter().filter(|points| encloses(points, p)).count() % 2 == 1
}

/// Part of an edge.
pub type Piece = (Point, Point);

/// Cuts an edge where it meets edges and vertices of a polygon.
fn pieces(edge: (Point, Point), loops: &[Loop]) -> Vec<Piece> {
    let (a, b) = edge;
    let mut cuts = vec![a];
    for around in loops.iter().flat_map(|points| edges(points)) {
        cuts.extend(crossing(edge, around));
        if is_on(around.0, edge) {
            cuts.push(around.0);
        }
    }
    cuts.push(b);
    cuts.sort_by(|p, q| a.angle(*p).total_cmp(&a.angle(*q)));
    cuts.dedup_by(|p, q| p.angle(*q) < SAME);
    cuts.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

/// Where a piece of an edge that does not cross a polygon's boundary lies.
#[derive(PartialEq)]
enum Place {
    Inside,
    Outside,
    /// On the boundary; true if the boundary has the same direction there.
    Along(bool),
}

fn place((a, b): Piece, loops: &[Loop]) -> Place {
    let middle = a.plus(b).unit();
    match edges_around(loops).find(|edge| is_on(middle, *edge)) {
        Some((c, d)) => Place::Along(a.cross(b).dot(c.cross(d)) > 0.0),
        None if is_inside(loops, middle) => Place::Inside,
        None => Place::Outside,
    }
}

/// Returns the parts of a line within a polygon. A part along the boundary is within if its direction is that of the
/// boundary, as in S2.
pub fn line_within(line: &[Point], loops: &[Loop]) -> Vec<Piece> {
    let all = line.windows(2).flat_map(|pair| pieces((pair[0], pair[1]), loops));
    all.filter(|piece| matches!(place(*piece, loops), Place::Inside | Place::Along(true))).collect()
}

/// Whether a polygon has all of a line in it.
pub fn contains_line(loops: &[Loop], line: &[Point]) -> bool {
    let mut all = line.windows(2).flat_map(|pair| pieces((pair[0], pair[1]), loops));
    all.all(|piece| matches!(place(piece, loops), Place::Inside | Place::Along(true)))
}

/// Whether a polygon has all of another in it; they may share parts of the boundary.
pub fn contains_polygon(outer: &[Loop], inner: &[Loop]) -> bool {
    let is_left = |of: &[Loop], by: &[Loop], inside: bool| {
        edges_around(of).flat_map(|edge| pieces(edge, by)).all(|piece| match place(piece, by) {
            Place::Inside => inside,
            Place::Outside => !inside,
            Place::Along(same) => same,
        })
    };
    is_left(inner, outer, true) && is_left(outer, inner, false)
}

/// Returns the area in steradians that two polygons have in common.
pub fn common_area(one: &[Loop], other: &[Loop]) -> f64 {
    let origin = one[0][0];
    // The boundary of what is common: boundaries of each within the other, and what they share only once.
    let sum = |of: &[Loop], by: &[Loop], shared: bool| -> f64 {
        let all = edges_around(of).flat_map(|edge| pieces(edge, by));
        let within = all.filter(|piece| match place(*piece, by) {
            Place::Inside => true,
            Place::Along(same) => same && shared,
            Place::Outside => false,
        });
        within.map(|(a, b)| triangle(origin, a, b)).sum()
    };
    let area = sum(one, other, true) + sum(other, one, false);
    // Triangles of an origin outside may go around the sphere.
    let area = area.rem_euclid(4.0 * PI);
    if area > 4.0 * PI - 1e-9 { 0.0 } else { area }
}

/// Whether the insides of two polygons have a point in common.
pub fn overlap(one: &[Loop], other: &[Loop]) -> bool {
    let within = |of: &[Loop], by: &[Loop]| {
        edges_around(of).flat_map(|edge| pieces(edge, by)).any(|piece| match place(piece, by) {
            Place::Inside => true,
            Place::Along(same) => same,
            Place::Outside => false,
        })
    };
    within(one, other) || within(other, one)
}

/// Area of a triangle in steradians, positive if it is counterclockwise.
fn triangle(a: Point, b: Point, c: Point) -> f64 {
    let turn = side(a, b, c);
    if turn == 0.0 {
        return 0.0;
    }
    let (sa, sb, sc) = (b.angle(c), c.angle(a), a.angle(b));
    let s = 0.5 * (sa + sb + sc);
    let lhuilier = || {
        let tans = (0.5 * s).tan() * (0.5 * (s - sa)).tan() * (0.5 * (s - sb)).tan() * (0.5 * (s - sc)).tan();
        4.0 * tans.max(0.0).sqrt().atan()
    };
    // Long thin triangles lose digits in L'Huilier's formula; the sum of their angles does not.
    let girard = || {
        let (ab, bc, ac) = (a.cross(b), b.cross(c), a.cross(c));
        (ab.angle(ac) - ab.angle(bc) + bc.angle(ac)).max(0.0)
    };
    let least = s - sa.max(sb).max(sc);
    let area = if s >= 3e-4 && least < 1e-2 * s * (s * s) * (s * s) {
        let area = girard();
        if least < s * (0.1 * area) { area } else { lhuilier() }
    } else {
        lhuilier()
    };
    if turn > 0.0 { area } else { -area }
}

fn loop_area(points: &[Point]) -> f64 {
    points.windows(2).skip(1).map(|pair| triangle(points[0], pair[0], pair[1])).sum::<f64>().abs()
}

/// Area of a shape in steradians.
pub fn area(shape: &Shape) -> f64 {
    let polygon = |loops: &[Loop]| {
        let signed = |(i, points): (usize, &Loop)| if i == 0 { loop_area(points) } else { -loop_area(points) };
        loops.iter().enumerate().map(signed).sum::<f64>()
    };
    match shape {
        Shape::Point(_) | Shape::Line(_) => 0.0,
        Shape::Polygon(loops) => polygon(loops),
        Shape::MultiPolygon(all) => all.iter().map(|loops| polygon(loops)).sum(),
        Shape::Circle(_, chord2) => 2.0 * PI * (0.5 * chord2),
    }
}

/// Returns the circle around a point; `None` if there is none.
pub fn circle(longitude: f64, latitude: f64, metres: f64) -> Option<Shape> {
    let centre = Point::at(longitude, latitude)?;
    if metres.is_nan() || metres < 0.0 {
        return None;
    }
    let chord = 2.0 * (0.5 * (metres / EARTH).min(PI)).sin();
    Some(Shape::Circle(centre, chord * chord))
}

/// Returns the radius of a circle in metres.
pub fn radius(chord2: f64) -> f64 {
    EARTH * (2.0 * (0.5 * chord2.sqrt()).asin())
}

/// Makes a line; `None` if the points are none.
pub fn line(points: &[Point]) -> Option<Shape> {
    let mut points = points.to_vec();
    points.dedup();
    (points.len() >= 2).then_some(Shape::Line(points))
}

fn closed(points: &[Point]) -> Option<Loop> {
    let mut points = points.to_vec();
    if points.first() != points.last() {
        return None;
    }
    points.dedup();
    points.pop();
    if points.len() < 3 || points.len() > VERTICES_MAX {
        return None;
    }
    for (i, p) in points.iter().enumerate() {
        if points[..i].contains(p) {
            return None;
        }
    }
    let all: Vec<_> = edges(&points).collect();
    for (i, edge) in all.iter().enumerate() {
        let apart = |j: usize| j > i + 1 && (i, j) != (0, all.len() - 1);
        if all.iter().enumerate().any(|(j, other)| apart(j) && crossing(*edge, *other).is_some()) {
            return None;
        }
    }
    // The sum of the turns at the vertices is positive for what runs around its smaller side to the left.
    let n = points.len();
    let turns = (0..n).map(|i| {
        let (a, b, c) = (points[i], points[(i + 1) % n], points[(i + 2) % n]);
        let turn = a.cross(b).angle(b.cross(c));
        if side(a, b, c) > 0.0 { turn } else { -turn }
    });
    if turns.sum::<f64>() < 0.0 {
        points.reverse();
    }
    Some(points)
}

/// Makes a polygon of its outer loop and its holes; `None` if the points are none.
pub fn polygon(rings: &[Vec<Point>]) -> Option<Vec<Loop>> {
    let mut loops: Vec<Loop> = Vec::with_capacity(rings.len());
    for ring in rings {
        let made = closed(ring)?;
        if let Some(outer) = loops.first()
            && !contains_polygon(std::slice::from_ref(outer), std::slice::from_ref(&made))
        {
            return None;
        }
        loops.push(made);
    }
    (!loops.is_empty()).then_some(loops)
}

/// Makes a shape of polygons; `None` if one of them is none. Whether they may stand together is for the caller to judge.
pub fn polygons(all: &[Vec<Vec<Point>>]) -> Option<Shape> {
    Some(Shape::MultiPolygon(all.iter().map(|rings| polygon(rings)).collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::super::forms::read_text;
    use super::*;

    fn read(text: &str) -> Shape {
        read_text(text).unwrap_or_else(|| panic!("{text}"))
    }

    /// The examples of Doris's manual.
    #[test]
    fn measures() {
        let metres = |shape: &Shape| area(shape) * EARTH * EARTH;

        let square = read("POLYGON ((0 0, 1 0, 1 1, 0 1, 0 0))");
        assert!((metres(&square) - 12364036567.076409).abs() < 1e-3, "{}", metres(&square));
        let d = distance((116.35620117, 39.939093), (116.4274406433, 39.9020987219)).unwrap();
        assert_eq!(EARTH * d, 7336.913554999592);
        assert_eq!(180.0 / PI * d, 0.0659823452409903);
        assert_eq!(distance((181.0, 0.0), (0.0, 0.0)), None);
        let p = |x, y| Point::at(x, y).unwrap();
        assert_eq!(angle(p(1.0, 0.0), p(0.0, 0.0), p(0.0, 1.0)), Some(4.71238898038469));
        assert_eq!(angle(p(0.0, 0.0), p(1.0, 0.0), p(0.0, 1.0)), Some(0.7854743216187385));
        assert_eq!(angle(p(1.0, 0.0), p(0.0, 0.0), p(1.0, 0.0)), Some(0.0));
        assert_eq!(angle(p(1.0, 0.0), p(1.0, 0.0), p(0.0, 1.0)), None);
    }

    fn loops(text: &str) -> Vec<Loop> {
        match read(text) {
            Shape::Polygon(loops) => loops,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn insides() {
        let square = loops("POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))");
        let p = |x, y| Point::at(x, y).unwrap();
        assert!(is_inside(&square, p(5.0, 5.0)));
        assert!(!is_inside(&square, p(50.0, 50.0)));
        assert!(!is_inside(&square, p(-175.0, -5.0)));
        // An arc between points of one latitude runs north of it.
        assert!(is_inside(&square, p(5.0, 10.01)));
        let ring = loops("POLYGON ((0 0,10 0,10 10,0 10,0 0),(2 2,4 2,4 4,2 4,2 2))");
        assert!(!is_inside(&ring, p(3.0, 3.0)));
        assert!(is_inside(&ring, p(5.0, 5.0)));
        // Around a pole.
        let cap = loops("POLYGON ((0 60, 90 60, 180 60, -90 60, 0 60))");
        assert!(is_inside(&cap, p(12.0, 85.0)));
        assert!(!is_inside(&cap, p(12.0, -85.0)));
    }

    #[test]
    fn polygons_within_polygons() {
        let outer = loops("POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))");
        let inner = loops("POLYGON ((2 2, 4 2, 4 4, 2 4, 2 2))");
        let beside = loops("POLYGON ((10 0, 20 0, 20 10, 10 10, 10 0))");
        let across = loops("POLYGON ((5 0, 15 0, 15 10, 5 10, 5 0))");
        let ring = loops("POLYGON ((0 0,10 0,10 10,0 10,0 0),(2 2,4 2,4 4,2 4,2 2))");
        assert!(contains_polygon(&outer, &inner) && !contains_polygon(&inner, &outer));
        assert!(contains_polygon(&outer, &outer) && contains_polygon(&ring, &ring));
        assert!(contains_polygon(&outer, &ring) && !contains_polygon(&ring, &outer));
        assert!(!contains_polygon(&ring, &inner) && !contains_polygon(&outer, &across));
        assert!(overlap(&outer, &inner) && overlap(&outer, &across) && overlap(&outer, &outer));
        assert!(!overlap(&outer, &beside) && !overlap(&ring, &inner));
        let of = |loops: &[Loop]| area(&Shape::Polygon(loops.to_vec()));
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(near(common_area(&outer, &inner), of(&inner)));
        assert!(near(common_area(&inner, &outer), of(&inner)));
        assert!(near(common_area(&outer, &outer), of(&outer)));
        assert!(near(common_area(&ring, &outer), of(&ring)));
        assert_eq!(common_area(&outer, &beside), 0.0);
        assert_eq!(common_area(&ring, &inner), 0.0);
        assert!(common_area(&outer, &across) > 0.01);
    }

    #[test]
    fn lines_within_polygons() {
        let square = loops("POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))");
        let points = |text: &str| match read(text) {
            Shape::Line(points) => points,
            other => panic!("{other:?}"),
        };
        assert!(contains_line(&square, &points("LINESTRING (1 1, 9 9)")));
        assert!(!contains_line(&square, &points("LINESTRING (1 1, 19 9)")));
        assert_eq!(line_within(&points("LINESTRING (-5 5, 15 5)"), &square).len(), 1);
        assert!(line_within(&points("LINESTRING (20 20, 30 30)"), &square).is_empty());
        assert!(line_within(&points("LINESTRING (-5 5, 0 0)"), &square).is_empty());
    }
}
