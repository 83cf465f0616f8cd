//! The texts of floating-point numbers, as Doris writes them: with a sign and at least two digits of the exponent, and
//! with the words `NaN` and `Infinity`, which readers of text and drivers know.

/// Returns the shortest digits that read back, with an exponent from 1e16 and below 0.0001.
pub fn double(n: f64) -> String {
    if !n.is_finite() {
        return if n.is_nan() {
            "NaN"
        } else if n > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .into();
    }
    match format!("{n:e}").split_once('e') {
        Some((digits, exponent)) => with_exponent(digits, exponent, 16, || n.to_string()),
        None => n.to_string(),
    }
}

/// Returns seven digits, with an exponent from 1e7 and below 0.0001.
pub fn float(n: f32) -> String {
    if !n.is_finite() {
        return double(f64::from(n));
    }
    let text = format!("{n:.6e}");
    let Some((digits, exponent)) = text.split_once('e') else { return n.to_string() };
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    let plain = || {
        let places = usize::try_from(6 - exponent.parse::<i32>().unwrap_or(0)).unwrap_or(0);
        let text = format!("{n:.places$}");
        match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
            false => text,
        }
    };
    with_exponent(digits, exponent, 7, plain)
}

/// Writes digits and an exponent as C does. Numbers from 0.0001 to below ten to the power of `most` are written plainly.
fn with_exponent(digits: &str, exponent: &str, most: i32, plain: impl Fn() -> String) -> String {
    match exponent.parse::<i32>() {
        Ok(exponent) if (-4..most).contains(&exponent) => plain(),
        Ok(exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        Err(_) => plain(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_stand_where_doris_has_them() {
        for (n, s) in [
            (1.0, "1"),
            (0.1, "0.1"),
            (-2.5, "-2.5"),
            (1e15, "1000000000000000"),
            (1e16, "1e+16"),
            (-1.5e300, "-1.5e+300"),
            (0.0001, "0.0001"),
            (1e-5, "1e-05"),
            (-0.0, "-0"),
            (0.0, "0"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double(n), s);
        }
        for (n, s) in [
            (1_234_567.5, "1234568"),
            (1e10, "1e+10"),
            (9_999_999.5, "1e+07"),
            (0.1, "0.1"),
            (-0.0, "-0"),
            (16_777_216.0, "1.677722e+07"),
            (1e-5, "1e-05"),
            (0.000_123_456_79, "0.0001234568"),
            (100.0, "100"),
            (f32::MAX, "3.402823e+38"),
        ] {
            assert_eq!(float(n), s);
        }
    }
}
