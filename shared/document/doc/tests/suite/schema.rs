//! Whether a value fits a JSON Schema, for the keywords that ours use.
//!
//! A validator of the whole standard doubled what the tests of this workspace have to compile, for one call. An
//! unknown keyword is a panic here, so no keyword can be ignored unnoticed.

use serde_json::Value;

/// Keywords that do not affect validity.
const ANNOTATIONS: [&str; 8] = [
    "$comment",
    "$defs",
    "$schema",
    "default",
    "description",
    "format",
    "title",
    "required",
];

/// Whether `value` fits `schema`, a part of the document `root`.
pub fn fits(root: &Value, schema: &Value, value: &Value) -> bool {
    let Some(keywords) = schema.as_object() else {
        return schema
            .as_bool()
            .expect("a schema is an object or a truth value");
    };
    let required = keywords.get("required").and_then(Value::as_array);
    let has_all = required.into_iter().flatten().all(|name| {
        let name = name.as_str().expect("names of properties");
        value.as_object().is_none_or(|o| o.contains_key(name))
    });
    has_all
        && keywords
            .iter()
            .filter(|(keyword, _)| !ANNOTATIONS.contains(&keyword.as_str()))
            .all(|(keyword, rule)| keyword_holds(root, keywords, keyword, rule, value))
}

fn keyword_holds(
    root: &Value,
    keywords: &serde_json::Map<String, Value>,
    keyword: &str,
    rule: &Value,
    value: &Value,
) -> bool {
    let rules = || rule.as_array().expect("a list of schemas");
    let items = value.as_array();
    let count = |want: fn(u64, u64) -> bool| {
        items.is_none_or(|items| want(items.len() as u64, rule.as_u64().expect("a count")))
    };
    let within = |holds: fn(f64, f64) -> bool| {
        let bound = rule.as_f64().expect("a number");
        value.as_f64().is_none_or(|v| holds(v, bound))
    };
    let known = keywords.get("properties").and_then(Value::as_object);
    let leading = keywords.get("prefixItems").and_then(Value::as_array);
    match keyword {
        "type" => match rule {
            Value::Array(names) => names.iter().any(|name| has_type(name, value)),
            name => has_type(name, value),
        },
        "const" => rule == value,
        "minimum" => within(|v, bound| v >= bound),
        "exclusiveMinimum" => within(|v, bound| v > bound),
        "maximum" => within(|v, bound| v <= bound),
        "exclusiveMaximum" => within(|v, bound| v < bound),
        "pattern" => value.as_str().is_none_or(|text| {
            let pattern = regex::Regex::new(rule.as_str().expect("a pattern"));
            pattern.expect("a sound pattern").is_match(text)
        }),
        "propertyNames" => value.as_object().is_none_or(|fields| {
            let mut names = fields.keys();
            names.all(|name| fits(root, rule, &Value::from(name.as_str())))
        }),
        // Every schema that has it describes events: fields of all events, and one of several kinds.
        "unevaluatedProperties" => value.as_object().is_none_or(|fields| {
            let kinds = keywords["oneOf"].as_array().expect("kinds of events");
            let kind = kinds.iter().find(|kind| fits(root, kind, value));
            let known =
                |part: Option<&Value>, name: &str| part.is_some_and(|p| p.get(name).is_some());
            let mut names = fields.keys();
            rule == &Value::Bool(false)
                && names.all(|name| {
                    known(keywords.get("properties"), name)
                        || known(kind.and_then(|kind| kind.get("properties")), name)
                })
        }),
        "$ref" => {
            let pointer = rule.as_str().and_then(|r| r.strip_prefix('#'));
            let target = pointer.and_then(|p| root.pointer(p));
            fits(root, target.expect("a reference into the document"), value)
        }
        "anyOf" => rules().iter().any(|rule| fits(root, rule, value)),
        "oneOf" => {
            rules()
                .iter()
                .filter(|rule| fits(root, rule, value))
                .count()
                == 1
        }
        "minItems" => count(|length, least| length >= least),
        "maxItems" => count(|length, most| length <= most),
        "prefixItems" => items.is_none_or(|items| {
            items
                .iter()
                .zip(rules())
                .all(|(item, rule)| fits(root, rule, item))
        }),
        "items" => items.is_none_or(|items| {
            let rest = items.iter().skip(leading.map_or(0, Vec::len));
            rest.into_iter().all(|item| fits(root, rule, item))
        }),
        "properties" => value.as_object().is_none_or(|fields| {
            let rules = rule.as_object().expect("schemas by name");
            fields
                .iter()
                .all(|(name, field)| rules.get(name).is_none_or(|rule| fits(root, rule, field)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|fields| {
            let others = fields
                .iter()
                .filter(|(name, _)| known.is_none_or(|k| !k.contains_key(*name)));
            others.into_iter().all(|(_, field)| fits(root, rule, field))
        }),
        unknown => panic!("the keyword {unknown} is not known; add it here"),
    }
}

fn has_type(name: &Value, value: &Value) -> bool {
    match name.as_str().expect("the name of a type") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("{other} is not a type"),
    }
}

#[test]
fn what_does_not_fit_is_told_from_what_does() {
    let schema = serde_json::json!({
        "type": "object", "required": ["a"], "additionalProperties": false,
        "properties": {
            "a": {"$ref": "#/$defs/count"},
            "b": {"anyOf": [{"const": "x"}, {"type": ["number", "null"]}]},
            "c": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
            "d": {"oneOf": [{"type": "integer"}, {"type": "number"}]},
            "f": {"exclusiveMinimum": 0, "exclusiveMaximum": 1},
            "g": {"maximum": 2},
            "h": {"propertyNames": {"pattern": "^[1-9]$"}},
            "i": {"properties": {"x": {}}, "oneOf": [
                {"properties": {"k": {"const": 1}, "y": {}}, "required": ["k"]},
                {"properties": {"k": {"const": 2}, "z": {}}, "required": ["k"]}],
                "unevaluatedProperties": false}},
        "$defs": {"count": {"type": "integer", "minimum": 1}}});
    let ok = |text: &str| fits(&schema, &schema, &serde_json::from_str(text).unwrap());
    for right in [
        r#"{"a":1}"#,
        r#"{"a":2,"b":"x","c":["y"],"d":1.5}"#,
        r#"{"a":1,"b":null}"#,
        r#"{"a":1,"f":0.5,"g":2,"h":{"1":0},"i":{"k":2,"x":0,"z":0}}"#,
    ] {
        assert!(ok(right), "{right}");
    }
    for wrong in [
        "[]",
        "{}",
        r#"{"a":0}"#,
        r#"{"a":1.5}"#,
        r#"{"a":1,"b":"y"}"#,
        r#"{"a":1,"c":[]}"#,
        r#"{"a":1,"c":["x","y","z"]}"#,
        r#"{"a":1,"c":[1]}"#,
        r#"{"a":1,"d":1}"#,
        r#"{"a":1,"e":1}"#,
        r#"{"a":1,"f":0}"#,
        r#"{"a":1,"f":1}"#,
        r#"{"a":1,"g":2.5}"#,
        r#"{"a":1,"h":{"0":0}}"#,
        r#"{"a":1,"i":{"k":2,"y":0}}"#,
        r#"{"a":1,"i":{"k":2,"w":0}}"#,
    ] {
        assert!(!ok(wrong), "{wrong}");
    }
}
