//! Converts TOML and YAML, as people write them, into JSON line by line.
//!
//! Every value keeps its line number of the original file in the JSON text, so that later errors name the line
//! that the user sees.

use saphyr::{LoadableYamlNode as _, MarkedYaml, Scalar, YamlData};
use toml::de::{DeTable, DeValue};

use crate::frame::MAX_DEPTH;
use crate::{Code, Fault, Faults, ReadError};

/// A format besides JSON in which people write documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// TOML 1.1.
    Toml,
    /// YAML 1.2; a file may have several documents.
    Yaml,
}

/// Maximum size of a hand-written file in bytes. A workload of 64 tasks has about 30 kB.
const MOST_BYTES: usize = 1 << 20;

impl Form {
    /// The format given by the file extension: `.toml`, `.yaml`, `.yml`.
    #[must_use]
    pub fn of_name(name: &std::path::Path) -> Option<Self> {
        match name.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "toml" => Some(Self::Toml),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }

    /// Converts the text to JSON in which each value keeps its line.
    ///
    /// # Errors
    /// [`ReadError::Faults`] with the line of the first syntax error.
    pub fn to_json(self, text: &[u8], source_name: &str) -> Result<Vec<u8>, ReadError> {
        let fault = |line: usize, code: Code, problem: String| {
            ReadError::Faults(Faults {
                source_name: source_name.to_owned(),
                line: line as u64,
                lines: Vec::new(),
                faults: vec![Fault {
                    code,
                    path: String::new(),
                    problem,
                    // [`Code::action`] names tools for JSON, which do not help here.
                    advice: match (code, self) {
                        (Code::Syntax, Self::Toml) => {
                            "correct the place named; https://toml.io has the rules"
                        }
                        (Code::Syntax, Self::Yaml) => {
                            "correct the place named; https://yaml.org/spec/1.2.2 has the rules"
                        }
                        _ => code.action(),
                    }
                    .to_owned(),
                }],
            })
        };
        if text.len() > MOST_BYTES {
            let problem = format!("a {} file has more than {MOST_BYTES} bytes", self.name());
            return Err(fault(1, Code::TooLarge, problem));
        }
        let text = std::str::from_utf8(text)
            .map_err(|error| fault(1, Code::Syntax, format!("not text: {error}")))?
            .trim_start_matches('\u{feff}');
        let mut json = Json::default();
        let written = match self {
            Self::Toml => json.toml(text),
            Self::Yaml => json.yaml(text),
        };
        match written {
            Ok(()) => Ok(json.text.into_bytes()),
            Err((line, problem)) => {
                let problem = format!("not {}: {problem}", self.name());
                Err(fault(line, Code::Syntax, problem))
            }
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Toml => "TOML",
            Self::Yaml => "YAML",
        }
    }
}

/// Line number and description of an error.
type Wrong = (usize, String);

/// JSON text being written, with its current line.
struct Json {
    text: String,
    line: usize,
}

impl Default for Json {
    fn default() -> Self {
        Self {
            text: String::new(),
            line: 1,
        }
    }
}

impl Json {
    /// Moves down to a line. A value whose line is above the text written so far stays on the current line:
    /// TOML allows a table to be continued further down.
    fn go_to(&mut self, line: usize) {
        while self.line < line {
            self.text.push('\n');
            self.line += 1;
        }
    }

    fn string(&mut self, text: &str) {
        // Serialising a string cannot fail.
        self.text
            .push_str(&serde_json::Value::from(text).to_string());
    }

    fn number(&mut self, value: f64, line: usize) -> Result<(), Wrong> {
        let number = serde_json::Number::from_f64(value)
            .ok_or_else(|| (line, format!("{value} is not a finite number")))?;
        self.text.push_str(&number.to_string());
        Ok(())
    }

    /// Writes a list or an object. Each part has its line and, in an object, its name.
    fn parts<T>(
        &mut self,
        [open, close]: [char; 2],
        parts: impl IntoIterator<Item = (usize, Option<String>, T)>,
        mut each: impl FnMut(&mut Self, T) -> Result<(), Wrong>,
    ) -> Result<(), Wrong> {
        self.text.push(open);
        for (i, (line, name, value)) in parts.into_iter().enumerate() {
            if i > 0 {
                self.text.push(',');
            }
            self.go_to(line);
            if let Some(name) = name {
                self.string(&name);
                self.text.push(':');
            }
            each(self, value)?;
        }
        self.text.push(close);
        Ok(())
    }

    fn toml(&mut self, text: &str) -> Result<(), Wrong> {
        let line_of = |offset: usize| 1 + text[..offset.min(text.len())].matches('\n').count();
        match DeTable::parse(text) {
            Ok(table) => self.toml_table(table.get_ref(), &line_of),
            Err(error) => {
                let line = error.span().map_or(1, |span| line_of(span.start));
                Err((line, error.message().to_owned()))
            }
        }
    }

    fn toml_table(
        &mut self,
        table: &DeTable<'_>,
        line_of: &impl Fn(usize) -> usize,
    ) -> Result<(), Wrong> {
        let mut parts: Vec<_> = table.iter().collect();
        parts.sort_by_key(|(key, _)| key.span().start);
        let parts = parts.into_iter().map(|(key, value)| {
            let name = key.get_ref().to_string();
            (line_of(key.span().start), Some(name), value)
        });
        self.parts(['{', '}'], parts, |json, value| {
            json.toml_value(value.get_ref(), line_of(value.span().start), line_of)
        })
    }

    fn toml_value(
        &mut self,
        value: &DeValue<'_>,
        line: usize,
        line_of: &impl Fn(usize) -> usize,
    ) -> Result<(), Wrong> {
        match value {
            DeValue::String(text) => self.string(text),
            DeValue::Integer(number) => {
                let parsed = i64::from_str_radix(number.as_str(), number.radix())
                    .map_err(|error| (line, format!("{number}: {error}")))?;
                self.text.push_str(&parsed.to_string());
            }
            DeValue::Float(number) => {
                let parsed: f64 = number
                    .as_str()
                    .parse()
                    .map_err(|_| (line, format!("{number} is no number")))?;
                self.number(parsed, line)?;
            }
            DeValue::Boolean(value) => self.text.push_str(&value.to_string()),
            // No field of a document is a date. Validation refuses the text later, with its position, unless
            // the field takes any text.
            DeValue::Datetime(time) => self.string(&time.to_string()),
            DeValue::Array(items) => {
                let items = items
                    .iter()
                    .map(|item| (line_of(item.span().start), None, item));
                self.parts(['[', ']'], items, |json, item| {
                    json.toml_value(item.get_ref(), line_of(item.span().start), line_of)
                })?;
            }
            DeValue::Table(table) => self.toml_table(table, line_of)?,
        }
        Ok(())
    }

    fn yaml(&mut self, text: &str) -> Result<(), Wrong> {
        refuse_deep(text)?;
        let loaded = MarkedYaml::load_from_str(text);
        let documents = loaded.map_err(|error| {
            let said = error.to_string();
            (line_in(&said), said)
        })?;
        // `---` at the end of a file begins an empty document; skip it.
        let is_empty = |node: &MarkedYaml<'_>| matches!(node.data, YamlData::Value(Scalar::Null));
        let is_one = documents.len() == 1;
        for document in documents.iter().filter(|node| is_one || !is_empty(node)) {
            self.yaml_value(document, 0)?;
        }
        Ok(())
    }

    fn yaml_value(&mut self, node: &MarkedYaml<'_>, depth: usize) -> Result<(), Wrong> {
        let line = node.span.start.line();
        if depth > MAX_DEPTH || self.text.len() > MOST_BYTES {
            return Err((line, format!("more than {MAX_DEPTH} levels, or too long")));
        }
        match &node.data {
            YamlData::Value(Scalar::Null) => self.text.push_str("null"),
            YamlData::Value(Scalar::Boolean(value)) => self.text.push_str(&value.to_string()),
            YamlData::Value(Scalar::Integer(value)) => self.text.push_str(&value.to_string()),
            YamlData::Value(Scalar::FloatingPoint(value)) => self.number(value.0, line)?,
            YamlData::Value(Scalar::String(value)) => self.string(value),
            YamlData::Sequence(items) => {
                let items = items
                    .iter()
                    .map(|item| (item.span.start.line(), None, item));
                self.parts(['[', ']'], items, |json, item| {
                    json.yaml_value(item, depth + 1)
                })?;
            }
            YamlData::Mapping(fields) => {
                let mut parts = Vec::with_capacity(fields.len());
                for (key, value) in fields {
                    let line = key.span.start.line();
                    let YamlData::Value(Scalar::String(name)) = &key.data else {
                        return Err((line, "the name of a field must be a string".to_owned()));
                    };
                    parts.push((line, Some(name.to_string()), value));
                }
                self.parts(['{', '}'], parts, |json, value| {
                    json.yaml_value(value, depth + 1)
                })?;
            }
            _ => return Err((line, "tags and bad values are not known here".to_owned())),
        }
        Ok(())
    }
}

/// Refuses text whose brackets or dashes nest deeper than allowed: the parser is recursive.
fn refuse_deep(text: &str) -> Result<(), Wrong> {
    let mut depth = 0usize;
    for (i, line) in text.lines().enumerate() {
        let dashes = line
            .split(' ')
            .take_while(|w| matches!(*w, "-" | "?" | ""))
            .filter(|w| !w.is_empty());
        for c in line.chars() {
            match c {
                '[' | '{' => depth += 1,
                ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > MAX_DEPTH {
                break;
            }
        }
        if depth > MAX_DEPTH || dashes.count() > MAX_DEPTH {
            return Err((i + 1, format!("more than {MAX_DEPTH} levels")));
        }
    }
    Ok(())
}

/// Line number in a message of the YAML parser, `... at byte 5 line 2 column 3`.
fn line_in(said: &str) -> usize {
    let after = said.split("line ").nth(1).unwrap_or_default();
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document as _, Documents, Frames, Workload};

    fn read(form: Form, text: &str) -> Result<Workload, String> {
        let json = form
            .to_json(text.as_bytes(), "w")
            .map_err(|e| e.to_string())?;
        let mut all = Documents::new(Frames::new(&json[..], "w"));
        all.next().unwrap().map_err(|e| e.to_string())
    }

    const TOML: &str = "schema = \"mt.workload/1\"\n\n[device]\nkind = \"cpu\"\nmemory_bytes = \"24GB\"\n\n\
        [[tasks]]\nid = \"a\"\nbatch_sizes = [\n  32,\n  64]\nsamples = 1e5\n\
        job = {argv = [\"python3\", \"train.py\"]}\n\n[[tasks]]\nid = \"b\"\nbatch_sizes = 16\nmodel = \"vgg16\"\n";
    const YAML: &str = "# a comment\nschema: mt.workload/1\ndevice: {kind: cpu, memory_bytes: 24GB}\ntasks:\n\
        - id: a\n  batch_sizes: [32, 64]\n  samples: 1e5\n  job: {argv: [python3, train.py]}\n\
        - id: b\n  batch_sizes: 16\n  model: vgg16\n";
    const JSON: &str = r#"{"schema":"mt.workload/1","device":{"kind":"cpu","memory_bytes":24000000000},
        "tasks":[{"id":"a","batch_sizes":[32,64],"samples":100000,"job":{"argv":["python3","train.py"]}},
        {"id":"b","batch_sizes":[16],"model":"vgg16"}]}"#;

    #[test]
    fn all_forms_say_the_same() {
        let json: Workload = Documents::new(Frames::new(JSON.as_bytes(), "w"))
            .next()
            .unwrap()
            .unwrap();
        for (form, text) in [(Form::Toml, TOML), (Form::Yaml, YAML)] {
            assert_eq!(
                read(form, text).unwrap().to_wire(),
                json.to_wire(),
                "{form:?}"
            );
        }
    }

    #[test]
    fn faults_are_told_with_the_line_of_the_file() {
        let toml = TOML.replace("batch_sizes = 16", "batch_size = 16");
        let error = read(Form::Toml, &toml).unwrap_err();
        assert!(
            error.starts_with("w:17: error E107 at $.tasks[1].batch_size"),
            "{error}"
        );
        assert!(error.contains("did you mean \"batch_sizes\"?"), "{error}");
        let yaml = YAML.replace("samples: 1e5", "samples: -1");
        let error = read(Form::Yaml, &yaml).unwrap_err();
        assert!(
            error.starts_with("w:7: error E109 at $.tasks[0].samples"),
            "{error}"
        );
        let yaml = YAML.replace("memory_bytes: 24GB", "memory_bytes: 24 apples");
        let error = read(Form::Yaml, &yaml).unwrap_err();
        assert!(
            error.starts_with("w:3: ") && error.contains("24GB"),
            "{error}"
        );
    }

    #[test]
    fn several_documents_of_yaml_are_several() {
        let second = YAML.replace("id: a", "id: c");
        let two = format!("---\n{YAML}...\n---\n{second}---\n");
        let json = Form::Yaml.to_json(two.as_bytes(), "w").unwrap();
        let all = Documents::<_, Workload>::new(Frames::new(&json[..], "w"));
        let names: Vec<String> = all
            .map(|workload| workload.unwrap().tasks[0].id.to_string())
            .collect();
        assert_eq!(names, ["a", "c"]);
        let error = two.replace("samples: 1e5", "samples: -1");
        let json = Form::Yaml.to_json(error.as_bytes(), "w").unwrap();
        let mut all = Documents::<_, Workload>::new(Frames::new(&json[..], "w"));
        let error = all.next().unwrap().unwrap_err().to_string();
        assert!(error.starts_with("w:8: "), "{error}");
    }

    #[test]
    fn what_is_not_of_the_form_is_told() {
        for (form, text, line) in [
            (Form::Toml, "a = 1\nb = = 2\n", 2),
            (Form::Toml, "a = 1\n\nb = inf\n", 3),
            (Form::Yaml, "a: 1\nb: [1, 2\nc: 3\n", 3),
            (Form::Yaml, "a: 1\n3: 4\n", 2),
        ] {
            let error = form.to_json(text.as_bytes(), "w").unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("w:{line}: error E102")),
                "{text}: {error}"
            );
        }
        let deep = format!("a: {}", "[".repeat(100_000));
        let dashes = "- ".repeat(100_000);
        let bomb = (1..40).fold("a0: &a0 [x]\n".to_owned(), |text, i| {
            format!("{text}a{i}: &a{i} [*a{}, *a{}]\n", i - 1, i - 1)
        });
        for text in [deep, dashes, bomb] {
            assert!(Form::Yaml.to_json(text.as_bytes(), "w").is_err());
        }
    }
}
