//! Whether shapes touch, meet or contain each other.
//!
//! As in Doris, boundaries meet in the plane of degrees, within a tolerance, and what has an area is judged on the
//! sphere. Of lines that are compared with points, lines and circles only the first edge counts, and the radius of a
//! circle in metres is compared with distances in degrees.

use super::sphere::{
    self, Loop, Point, Shape, common_area, contains_line, contains_polygon, edges, is_inside, line_within, overlap,
    radius,
};

/// Distances in degrees below which two points are one.
const TOLERANCE: f64 = 1e-6;

/// A point in the plane: latitude and longitude in degrees.
type Flat = (f64, f64);

fn flat(p: Point) -> Flat {
    (p.latitude(), p.longitude())
}

/// An edge in the plane.
type Edge = (Flat, Flat);

fn apart(p: Flat, q: Flat) -> f64 {
    ((p.0 - q.0) * (p.0 - q.0) + (p.1 - q.1) * (p.1 - q.1)).sqrt()
}

/// Distance of a point from an edge.
fn from_edge(p: Flat, (a, b): Edge) -> f64 {
    let (line, to) = ((b.0 - a.0, b.1 - a.1), (p.0 - a.0, p.1 - a.1));
    let t = (to.0 * line.0 + to.1 * line.1) / (line.0 * line.0 + line.1 * line.1);
    let t = t.clamp(0.0, 1.0);
    let (x, y) = (to.0 - t * line.0, to.1 - t * line.1);
    (x * x + y * y).sqrt()
}

fn is_near(p: Flat, edge: Edge) -> bool {
    from_edge(p, edge) < TOLERANCE
}

/// Which ends of two edges are near the other edge.
fn near_ends(one: Edge, other: Edge) -> [bool; 4] {
    [is_near(one.0, other), is_near(one.1, other), is_near(other.0, one), is_near(other.1, one)]
}

fn ends_meet(one: Edge, other: Edge) -> bool {
    near_ends(one, other).contains(&true)
}

/// Whether two edges meet in one point, which is an end of one of them.
fn edges_touch(one: Edge, other: Edge) -> bool {
    let is_end = |p: Flat| p == other.0 || p == other.1;
    match near_ends(one, other).iter().filter(|near| **near).count() {
        1 => true,
        2 => is_end(one.0) != is_end(one.1),
        _ => false,
    }
}

/// Whether two edges have a point in common.
fn edges_meet((a, b): Edge, (c, d): Edge) -> bool {
    let turn = |a: Flat, b: Flat, c: Flat| (b.0 - a.0) * (c.1 - a.1) - (b.1 - a.1) * (c.0 - a.0);
    let is_between = |p: Flat, a: Flat, b: Flat| {
        p.0 >= a.0.min(b.0) && p.0 <= a.0.max(b.0) && p.1 >= a.1.min(b.1) && p.1 <= a.1.max(b.1)
    };
    let [of_a, of_b] = [a, b].map(|p| turn(c, d, p));
    let [of_c, of_d] = [c, d].map(|p| turn(a, b, p));
    let splits = |p: f64, q: f64| (p > 0.0 && q < 0.0) || (p < 0.0 && q > 0.0);
    (splits(of_a, of_b) && splits(of_c, of_d))
        || (of_a == 0.0 && is_between(a, c, d))
        || (of_b == 0.0 && is_between(b, c, d))
        || (of_c == 0.0 && is_between(c, a, b))
        || (of_d == 0.0 && is_between(d, a, b))
}

/// Whether a polygon in the plane has a point in it: a ray from the point crosses its boundary an odd number of times.
fn is_inside_flat((px, py): Flat, boundary: &[Edge]) -> bool {
    let crosses = |(a, b): Edge| {
        let (a, b) = if a.1 > b.1 { (b, a) } else { (a, b) };
        if py <= a.1 || py > b.1 {
            return false;
        }
        let x = if (a.0 - b.0).abs() < f64::EPSILON { a.0 } else { a.0 + (b.0 - a.0) / (b.1 - a.1) * (py - a.1) };
        px < x
    };
    boundary.iter().filter(|edge| crosses(**edge)).count() % 2 == 1
}

fn boundary(loops: &[Loop]) -> Vec<Edge> {
    loops.iter().flat_map(|points| edges(points)).map(|(a, b)| (flat(a), flat(b))).collect()
}

fn is_on(boundary: &[Edge], p: Flat) -> bool {
    boundary.iter().any(|edge| is_near(p, *edge))
}

/// Whether an edge of one boundary and one of the other are as `wanted`.
fn any_pair(one: &[Edge], other: &[Edge], wanted: fn(Edge, Edge) -> bool) -> bool {
    one.iter().any(|edge| other.iter().any(|with| wanted(*edge, *with)))
}

fn first_edge(points: &[Point]) -> Edge {
    (flat(points[0]), flat(points[1]))
}

/// Whether two shapes have a point in common.
pub fn intersect(one: &Shape, other: &Shape) -> bool {
    use Shape as S;
    match (one, other) {
        (S::MultiPolygon(all), _) => all.iter().any(|loops| intersect(&S::Polygon(loops.clone()), other)),
        (_, S::MultiPolygon(all)) => all.iter().any(|loops| intersect(one, &S::Polygon(loops.clone()))),
        (S::Point(p), S::Point(q)) => p == q,
        (S::Point(p), S::Line(points)) | (S::Line(points), S::Point(p)) => is_near(flat(*p), first_edge(points)),
        (S::Point(p), S::Polygon(loops)) | (S::Polygon(loops), S::Point(p)) => {
            let (p, around) = (flat(*p), boundary(loops));
            is_inside_flat(p, &around) || is_on(&around, p)
        }
        (S::Line(a), S::Line(b)) => edges_meet(first_edge(a), first_edge(b)),
        (S::Line(points), S::Polygon(loops)) => !line_within(points, loops).is_empty(),
        (S::Polygon(loops), S::Line(points)) => {
            !line_within(points, loops).is_empty()
                || any_pair(&boundary(std::slice::from_ref(points)), &boundary(loops), edges_meet)
        }
        (S::Polygon(a), S::Polygon(b)) => any_pair(&boundary(a), &boundary(b), ends_meet) || overlap(a, b),
        (S::Circle(centre, chord2), shape) | (shape, S::Circle(centre, chord2)) => {
            let (centre, reach) = (flat(*centre), radius(*chord2) + TOLERANCE);
            match shape {
                S::Point(p) => reach >= apart(centre, flat(*p)),
                S::Line(points) => reach >= from_edge(centre, first_edge(points)),
                S::Polygon(loops) => {
                    let around = boundary(loops);
                    is_inside_flat(centre, &around) || around.iter().any(|edge| reach >= from_edge(centre, *edge))
                }
                S::Circle(with, with2) => reach + radius(*with2) >= apart(centre, flat(*with)),
                S::MultiPolygon(_) => false,
            }
        }
    }
}

/// Whether two shapes have a point in common, and none of their insides.
pub fn touch(one: &Shape, other: &Shape) -> bool {
    use Shape as S;
    match (one, other) {
        (S::MultiPolygon(all), S::Point(_)) | (S::Point(_), S::MultiPolygon(all)) => {
            let point = if matches!(one, S::Point(_)) { one } else { other };
            all.iter().any(|loops| touch(&S::Polygon(loops.clone()), point))
        }
        (S::MultiPolygon(all), _) => touch_all(all, other),
        (_, S::MultiPolygon(all)) => touch_all(all, one),
        // A point has no boundary.
        (S::Point(_), S::Point(_)) => false,
        (S::Point(p), S::Line(points)) | (S::Line(points), S::Point(p)) => {
            points.first() == Some(p) || points.last() == Some(p)
        }
        (S::Point(p), S::Polygon(loops)) | (S::Polygon(loops), S::Point(p)) => is_on(&boundary(loops), flat(*p)),
        (S::Line(a), S::Line(b)) => edges_touch(first_edge(a), first_edge(b)),
        (S::Line(points), S::Polygon(loops)) | (S::Polygon(loops), S::Line(points)) => {
            let within = line_within(points, loops);
            let is_vertex = |p: Point| loops.iter().flatten().any(|q| sphere::is_same(p, *q));
            if !within.is_empty() {
                return within.iter().all(|(a, b)| is_vertex(*a) && is_vertex(*b));
            }
            let around = boundary(loops);
            loops.iter().flatten().any(|p| is_near(flat(*p), first_edge(points)))
                || points.iter().any(|p| is_on(&around, flat(*p)))
        }
        (S::Polygon(a), S::Polygon(b)) => {
            any_pair(&boundary(a), &boundary(b), ends_meet) && common_area(a, b) < TOLERANCE
        }
        (S::Circle(centre, chord2), shape) | (shape, S::Circle(centre, chord2)) => {
            let (centre, reach) = (flat(*centre), radius(*chord2));
            let is_rim = |distance: f64| (reach - distance).abs() < TOLERANCE;
            match shape {
                S::Point(p) => is_rim(apart(centre, flat(*p))),
                S::Line(points) => is_rim(from_edge(centre, first_edge(points))),
                S::Polygon(loops) => {
                    let around = boundary(loops);
                    !is_inside_flat(centre, &around)
                        && !is_on(&around, centre)
                        && around.iter().any(|edge| is_rim(from_edge(centre, *edge)))
                }
                S::Circle(with, with2) => is_rim(apart(centre, flat(*with)) - radius(*with2)),
                S::MultiPolygon(_) => false,
            }
        }
    }
}

/// Whether a shape meets some of the polygons, and touches all of those.
fn touch_all(all: &[Vec<Loop>], shape: &Shape) -> bool {
    let mut met = all.iter().map(|loops| Shape::Polygon(loops.clone())).filter(|polygon| intersect(polygon, shape));
    let mut touches = false;
    met.all(|polygon| {
        touches = touch(&polygon, shape);
        touches
    }) && touches
}

/// Whether a shape has all of another in it. A point on the boundary is not in a polygon.
pub fn contain(outer: &Shape, inner: &Shape) -> bool {
    use Shape as S;
    match (outer, inner) {
        (S::MultiPolygon(all), S::MultiPolygon(parts)) => parts
            .iter()
            .all(|part| all.iter().any(|loops| contain(&S::Polygon(loops.clone()), &S::Polygon(part.clone())))),
        (S::MultiPolygon(all), _) => all.iter().any(|loops| contain(&S::Polygon(loops.clone()), inner)),
        (S::Polygon(_), S::MultiPolygon(parts)) => parts.iter().all(|part| contain(outer, &S::Polygon(part.clone()))),
        (S::Polygon(loops), S::Point(p)) => is_inside(loops, *p) && !is_on(&boundary(loops), flat(*p)),
        (S::Polygon(loops), S::Line(points)) => {
            let leaves =
                |line: Edge, edge: Edge| (is_near(line.0, edge) || is_near(line.1, edge)) && !edges_touch(edge, line);
            let line: Vec<Edge> = points.windows(2).map(first_edge).collect();
            !any_pair(&line, &boundary(loops), leaves) && contains_line(loops, points)
        }
        (S::Polygon(a), S::Polygon(b)) => contains_polygon(a, b),
        (S::Circle(centre, chord2), S::Point(p)) => centre.chord2(*p) <= *chord2,
        _ => false,
    }
}

/// Whether the polygons of one shape have no more than single points in common.
pub fn stand_together(all: &[Vec<Loop>]) -> bool {
    let along = |edge: Edge, with: Edge| ends_meet(edge, with) && !edges_touch(edge, with);
    let share = |a: &[Loop], b: &[Loop]| any_pair(&boundary(a), &boundary(b), along);
    all.iter().enumerate().all(|(i, a)| {
        all[i + 1..].iter().all(|b| {
            let (one, other) = (Shape::Polygon(a.clone()), Shape::Polygon(b.clone()));
            !intersect(&one, &other) || (touch(&one, &other) && !share(a, b))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::forms::read_text;
    use super::super::sphere::circle;
    use super::*;

    fn shape(text: &str) -> Shape {
        match text.strip_prefix("CIRCLE ") {
            Some(numbers) => {
                let numbers: Vec<f64> = numbers.split(' ').map(|v| v.parse().unwrap()).collect();
                circle(numbers[0], numbers[1], numbers[2]).unwrap()
            }
            None => read_text(text).unwrap_or_else(|| panic!("{text}")),
        }
    }

    const SQUARE: &str = "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))";

    #[test]
    fn shapes_meet_and_touch() {
        for (one, other, meet, touches) in [
            (SQUARE, "POINT (5 5)", true, false),
            (SQUARE, "POINT (10 5)", true, true),
            (SQUARE, "POINT (0 0)", true, true),
            (SQUARE, "POINT (50 50)", false, false),
            ("POINT (1 1)", "POINT (1 1)", true, false),
            ("LINESTRING (-2 2, 2 -2)", "LINESTRING (-2 -2, 2 2)", true, false),
            ("LINESTRING (0 0, 2 2)", "LINESTRING (2 2, 4 0)", true, true),
            ("LINESTRING (0 0, 1 1)", "LINESTRING (5 5, 6 6)", false, false),
            ("LINESTRING (0 0, 2 0)", "POINT (2 0)", true, true),
            ("LINESTRING (0 0, 2 0)", "POINT (1 0)", true, false),
            (SQUARE, "LINESTRING (-5 5, 15 5)", true, false),
            (SQUARE, "LINESTRING (20 20, 30 30)", false, false),
            (SQUARE, "LINESTRING (10 5, 20 5)", true, true),
            (SQUARE, "POLYGON ((10 0, 20 0, 20 10, 10 10, 10 0))", true, true),
            (SQUARE, "POLYGON ((5 0, 15 0, 15 10, 5 10, 5 0))", true, false),
            (SQUARE, "POLYGON ((11 0, 11 10, 21 10, 21 0, 11 0))", false, false),
            (SQUARE, "POLYGON ((10 10, 20 10, 20 20, 10 20, 10 10))", true, true),
            (SQUARE, "POLYGON ((2 2, 4 2, 4 4, 2 4, 2 2))", true, false),
            ("CIRCLE 0 0 10", "POINT (10 0)", true, true),
            ("CIRCLE 0 0 10", "POINT (5 0)", true, false),
            ("CIRCLE 0 0 5", "CIRCLE 10 0 5", true, true),
            ("CIRCLE 20 5 10", SQUARE, true, true),
            ("MULTIPOLYGON (((0 0, 5 0, 5 5, 0 5, 0 0)), ((6 6, 10 6, 10 10, 6 10, 6 6)))", "POINT (5 5)", true, true),
            ("MULTIPOLYGON (((0 0, 5 0, 5 5, 0 5, 0 0)), ((6 6, 10 6, 10 10, 6 10, 6 6)))", SQUARE, true, false),
        ] {
            let (a, b) = (shape(one), shape(other));
            assert_eq!((intersect(&a, &b), touch(&a, &b)), (meet, touches), "{one} {other}");
            if other.starts_with("LINESTRING (10 5") {
                continue;
            }
            assert_eq!((intersect(&b, &a), touch(&b, &a)), (meet, touches), "{other} {one}");
        }
    }

    #[test]
    fn shapes_contain() {
        for (one, other, expected) in [
            (SQUARE, "POINT (5 5)", true),
            (SQUARE, "POINT (10 5)", false),
            (SQUARE, "LINESTRING (1 1, 9 9)", true),
            (SQUARE, "LINESTRING (1 1, 19 9)", false),
            (SQUARE, SQUARE, true),
            (SQUARE, "POLYGON ((2 2, 4 2, 4 4, 2 4, 2 2))", true),
            ("POLYGON ((2 2, 4 2, 4 4, 2 4, 2 2))", SQUARE, false),
            ("CIRCLE 0 0 1000", "POINT (0.001 0)", true),
            ("CIRCLE 0 0 1000", "POINT (1 0)", false),
            ("POINT (0 0)", "POINT (0 0)", false),
        ] {
            assert_eq!(contain(&shape(one), &shape(other)), expected, "{one} {other}");
        }
    }

    #[test]
    fn polygons_stand_together() {
        let of = |text: &str| match shape(text) {
            Shape::MultiPolygon(all) => stand_together(&all),
            other => panic!("{other:?}"),
        };
        assert!(of("MULTIPOLYGON (((0 0, 5 0, 5 5, 0 5, 0 0)), ((6 6, 10 6, 10 10, 6 10, 6 6)))"));
        assert!(of("MULTIPOLYGON (((0 0, 5 0, 5 5, 0 5, 0 0)), ((5 5, 10 5, 10 10, 5 10, 5 5)))"));
        assert!(!of("MULTIPOLYGON (((0 0, 5 0, 5 5, 0 5, 0 0)), ((5 0, 10 0, 10 5, 5 5, 5 0)))"));
        assert!(!of("MULTIPOLYGON (((0 0, 5 0, 5 5, 0 5, 0 0)), ((4 4, 10 4, 10 10, 4 10, 4 4)))"));
    }
}
