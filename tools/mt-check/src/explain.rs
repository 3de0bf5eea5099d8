use std::fmt::Write;

use cli::Failure;
use doc::Code;

/// The manual page of an error code written as `E201`, `e201` or `201`, or of all codes.
pub fn page(code: &str) -> Result<String, Failure> {
    if code == "all" {
        return Ok(doc::error_reference());
    }
    let digits = code.trim_start_matches(['E', 'e']);
    let found = digits.parse().ok().and_then(Code::from_number);
    let Some(code) = found else {
        let known: Vec<String> = Code::ALL.iter().map(ToString::to_string).collect();
        return Err(Failure::Usage(format!(
            "{code:?} is not an error code; the codes are {}",
            known.join(", ")
        )));
    };
    let mut page = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        page,
        "{code}: {}\n\n{}\n\nWhat to do: {}",
        code.title(),
        code.cause(),
        code.action()
    );
    Ok(page)
}
