//! Values of a placeholder as people write them: lists, ranges, and values that contain commas.

/// Maximum number of values, so that a typing error in a range (`1..100000000`) is refused before it fills memory.
pub(crate) const MOST: usize = 100_000;

/// The values of the text after `NAME=`, or a description of the error.
///
/// Commas separate values, except inside brackets, inside quotes around a whole value, and after a backslash. A range,
/// `FIRST..LAST` or `FIRST..LAST:STEP`, stands for all its numbers.
pub(crate) fn values(text: &str) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for item in items(text)? {
        match item {
            Item::Quoted(value) => all.push(value),
            Item::Plain(value) if value.is_empty() => {
                return Err(
                    "a value is missing; give NAME=VALUE,VALUE,... (\"\" is an empty one)"
                        .to_owned(),
                );
            }
            Item::Plain(value) => match range(&value)? {
                Some(numbers) => all.extend(numbers),
                None => all.push(value),
            },
        }
        if all.len() > MOST {
            return Err(format!("it has more than {MOST} values"));
        }
    }
    Ok(all)
}

#[derive(Debug)]
enum Item {
    Plain(String),
    /// A value in quotes or with escaped characters, which is never a range.
    Quoted(String),
}

const BRACKETS: [(char, char); 3] = [('[', ']'), ('(', ')'), ('{', '}')];

fn items(text: &str) -> Result<Vec<Item>, String> {
    let mut all = Vec::new();
    let mut rest = text.trim_start();
    loop {
        let (item, after) = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => quoted(&rest[1..], quote)?,
            _ => plain(rest)?,
        };
        all.push(item);
        match after {
            Some(after) => rest = after.trim_start(),
            None => return Ok(all),
        }
    }
}

/// A value in quotes, and the rest of the text after its comma.
fn quoted(text: &str, quote: char) -> Result<(Item, Option<&str>), String> {
    let mut value = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && chars.peek().is_some_and(|(_, next)| *next == quote) {
            value.extend(chars.next().map(|(_, next)| next));
            continue;
        }
        if c != quote {
            value.push(c);
            continue;
        }
        let after = text[at + 1..].trim_start();
        return match after.strip_prefix(',') {
            Some(after) => Ok((Item::Quoted(value), Some(after))),
            None if after.is_empty() => Ok((Item::Quoted(value), None)),
            None => Err(format!(
                "behind the quote of {value:?} only a comma may follow, not {after:?}"
            )),
        };
    }
    Err(format!(
        "a quote is not closed; a value that begins with one is written \\{quote}..."
    ))
}

/// A value without quotes, and the rest of the text after its comma.
fn plain(text: &str) -> Result<(Item, Option<&str>), String> {
    let mut value = String::new();
    let mut open = Vec::new();
    let mut inner = None;
    let mut escaped = false;
    let mut chars = text.char_indices().peekable();
    let finish = |value: String, escaped| match escaped {
        true => Item::Quoted(value),
        false => Item::Plain(value.trim_end().to_owned()),
    };
    while let Some((at, c)) = chars.next() {
        // Other backslashes are literal, as in C:\temp.
        if c == '\\'
            && chars
                .peek()
                .is_some_and(|(_, next)| ",[](){}\"'".contains(*next))
            && inner.is_none()
        {
            value.extend(chars.next().map(|(_, next)| next));
            escaped = true;
            continue;
        }
        let closes = BRACKETS.iter().find(|(first, _)| *first == c);
        match (inner, closes) {
            (Some(quote), _) if c == quote => inner = None,
            (Some(_), _) => {}
            (None, Some((_, close))) => open.push(*close),
            (None, None) if open.last() == Some(&c) => {
                open.pop();
            }
            (None, None) if c == '"' && !open.is_empty() => inner = Some(c),
            (None, None) if c == ',' && open.is_empty() => {
                return Ok((finish(value, escaped), Some(&text[at + 1..])));
            }
            _ => {}
        }
        value.push(c);
    }
    match open.pop() {
        None => Ok((finish(value, escaped), None)),
        Some(close) => Err(format!(
            "{close} is missing; a bracket that is never closed is written \\[ or put in quotes"
        )),
    }
}

/// The numbers of a range; `None`: the text is no range.
fn range(text: &str) -> Result<Option<Vec<String>>, String> {
    let Some((first, rest)) = text.split_once("..") else {
        return Ok(None);
    };
    let is_number = |text: &str| text.parse::<f64>().is_ok();
    let (last, step) = match rest.split_once(':') {
        Some((last, step)) => (last, Some(step)),
        None => (rest, None),
    };
    // A path (../data, a/../b), or dots that nobody would read as a range.
    let names = first.is_empty() || last.is_empty() || text.contains('/');
    if names && !is_number(first) && !is_number(last) {
        return Ok(None);
    }
    let advice = "a range has whole numbers (1..9) or steps (0.1..0.5:0.1); list other values, and put one that contains .. in quotes";
    let wrong = |why: &str| format!("{why}; {advice}");
    let number = |text: &str| {
        Decimal::parse(text).ok_or_else(|| wrong(&format!("{text:?} is no number of a range")))
    };
    let (from, to) = (number(first)?, number(last)?);
    let by = match step {
        Some(step) => number(step)?,
        None if from.places > 0 || to.places > 0 => {
            return Err(wrong(&format!("{text} has no steps, {text}:STEP")));
        }
        None => Decimal {
            digits: 1,
            places: 0,
        },
    };
    let places = from.places.max(to.places).max(by.places);
    let scaled = [&from, &to, &by].map(|number| number.scaled(places));
    let [Some(start), Some(end), Some(step)] = scaled else {
        return Err(wrong("its numbers are too long"));
    };
    if step == 0 || (end - start).signum() * step.signum() < 0 {
        return Err(wrong(&format!(
            "{first} does not reach {last} in steps of {}; a range that descends is written 9..1:-1",
            by.text(by.places, 0)
        )));
    }
    let count = (end - start) / step;
    if count >= MOST as i128 {
        return Err(wrong(&format!("it has more than {MOST} numbers")));
    }
    // Leading zeros are part of names such as seed-01.
    let padded = [first, last].iter().any(|text| has_zeros(text));
    let width = if padded {
        let digits = |text: &str| {
            text.trim_start_matches(['-', '+'])
                .split('.')
                .next()
                .map_or(0, str::len)
        };
        digits(first).max(digits(last))
    } else {
        0
    };
    if width > Decimal::LONGEST as usize {
        return Err(wrong("its numbers are too long"));
    }
    let shown = from.places.max(by.places);
    let drop = 10_i128.pow(places - shown);
    let numbers = (0..=count).map(|n| Decimal {
        digits: (start + n * step) / drop,
        places: shown,
    });
    Ok(Some(
        numbers.map(|number| number.text(shown, width)).collect(),
    ))
}

fn has_zeros(text: &str) -> bool {
    let digits = text.trim_start_matches(['-', '+']);
    digits.starts_with('0') && digits.chars().nth(1).is_some_and(|c| c.is_ascii_digit())
}

/// A decimal number, `digits / 10^places`, so that steps of 0.1 do not add up to 0.30000000000000004.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Decimal {
    digits: i128,
    places: u32,
}

impl Decimal {
    /// Maximum number of digits, so that sums of scaled numbers fit.
    const LONGEST: u32 = 18;

    fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let unsigned = mantissa.strip_prefix(['-', '+']).unwrap_or(mantissa);
        let (whole, part) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let all = format!("{whole}{part}");
        if all.is_empty() || !all.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let digits: i128 = all.parse().ok()?;
        let sign = if mantissa.starts_with('-') { -1 } else { 1 };
        let places = i32::try_from(part.len()).ok()?.checked_sub(exponent)?;
        let power = 10_i128.checked_pow(u32::try_from(-places).unwrap_or(0))?;
        let number = Self {
            digits: sign * digits.checked_mul(power)?,
            places: u32::try_from(places).unwrap_or(0),
        };
        let fits =
            number.places <= Self::LONGEST && number.digits.abs() < 10_i128.pow(Self::LONGEST);
        fits.then_some(number)
    }

    /// The number as an integer with this many decimal places; `None` on overflow.
    fn scaled(self, places: u32) -> Option<i128> {
        let scale = 10_i128.checked_pow(places.checked_sub(self.places)?)?;
        self.digits.checked_mul(scale)
    }

    fn text(self, places: u32, width: usize) -> String {
        let scale = 10_i128.pow(places);
        let sign = if self.digits < 0 { "-" } else { "" };
        let whole = self.digits.abs() / scale;
        let part = self.digits.abs() % scale;
        match places as usize {
            0 => format!("{sign}{whole:0>width$}"),
            places => format!("{sign}{whole:0>width$}.{part:0>places$}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_people_mean() {
        for (text, wanted) in [
            ("0.1,0.01", "0.1|0.01"),
            ("a, b ,c", "a|b|c"),
            ("[64,64],[128,128]", "[64,64]|[128,128]"),
            ("(1,[2,3]),x", "(1,[2,3])|x"),
            (
                r#"{"a":1,"b":"x,}"},{"a":2}"#,
                r#"{"a":1,"b":"x,}"}|{"a":2}"#,
            ),
            (r#""0.9,0.999",'0.9,0.99'"#, "0.9,0.999|0.9,0.99"),
            (r"0.9\,0.999,1", "0.9,0.999|1"),
            (r#"a\[,"say \"x\"","""#, r#"a[|say "x"|"#),
            (r"C:\temp,it's,:)", r"C:\temp|it's|:)"),
            ("1..3,7", "1|2|3|7"),
            ("01..03", "01|02|03"),
            ("08..11", "08|09|10|11"),
            ("9..11", "9|10|11"),
            ("-2..1", "-2|-1|0|1"),
            ("1..9:4", "1|5|9"),
            ("1..8:4", "1|5"),
            ("3..1:-1", "3|2|1"),
            ("0.1..0.5:0.1", "0.1|0.2|0.3|0.4|0.5"),
            ("0..1:0.25", "0.00|0.25|0.50|0.75|1.00"),
            ("1e-4..3e-4:1e-4", "0.0001|0.0002|0.0003"),
            ("-0.5..0.5:0.5", "-0.5|0.0|0.5"),
            ("../a,a/../b,..", "../a|a/../b|.."),
            (r#""0.1..0.5""#, "0.1..0.5"),
            ("main", "main"),
        ] {
            let got = values(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(got.join("|"), wanted, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_advice() {
        let long = format!("{}1..3", "0".repeat(70_000));
        for (text, why) in [
            (&*long, "too long"),
            ("0.1..0.5", "0.1..0.5:STEP"),
            ("1e-4..1e-2", "steps"),
            ("1...5", "steps"),
            ("1..x", "no number"),
            ("a..e", "no number"),
            ("1..5..2", "no number"),
            ("1..", "no number"),
            ("5..1", "descends"),
            ("1..5:-1", "descends"),
            ("1..5:0", "descends"),
            ("1..9999999", "more than 100000"),
            ("1..99999999999999999999", "no number"),
            ("1,,2", "missing"),
            ("", "missing"),
            ("1,", "missing"),
            ("[1,2", "] is missing"),
            ("\"a", "not closed"),
            ("\"a\"b", "only a comma"),
        ] {
            let error = values(text).map(|v| v.join("|")).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
