//! The JSON Schema says what the checker says: an editor with the schema shows no mistake that is none and none of form less.
//!
//! The validator here knows just the words that the generated schema uses and refuses others, so it cannot pass by ignoring
//! one.

mod support;

use bulkhead_description::schema;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use toml::de::{DeTable, DeValue};

/// Codes of mistakes of form that a schema can express.
const FORM: &[&str] = &["BH0003", "BH0004", "BH0005", "BH0006", "BH0007"];

fn to_json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Integer(number) => {
            let magnitude = u64::from_str_radix(number.as_str(), number.radix());
            magnitude.map_or_else(|_| Value::from(-1), Value::from)
        }
        DeValue::Boolean(state) => Value::from(*state),
        DeValue::Array(items) => items.iter().map(|item| to_json(item.get_ref())).collect(),
        DeValue::Table(table) => table_to_json(table),
        other => Value::from(other.type_str()),
    }
}

fn table_to_json(table: &DeTable<'_>) -> Value {
    let members = table.iter().map(|(key, value)| (key.get_ref().to_string(), to_json(value.get_ref())));
    Value::Object(members.collect::<Map<_, _>>())
}

/// Returns the first mistake of a value, or `None`.
fn mistake(value: &Value, schema: &Value, root: &Value) -> Option<String> {
    let Some(words) = schema.as_object() else { return (schema != &json!(true)).then(|| String::from("refused")) };
    words.iter().find_map(|(word, rule)| match word.as_str() {
        "$schema" | "$id" | "title" | "description" | "definitions" | "examples" | "default" | "format" => None,
        "$ref" => mistake(value, root.pointer(rule.as_str()?.strip_prefix('#')?).expect("a definition"), root),
        "type" => (!has_type(value, rule)).then(|| format!("{value} is not {rule}")),
        "const" => (value != rule).then(|| format!("{value} is not {rule}")),
        "enum" => (!rule.as_array()?.contains(value)).then(|| format!("{value} is none of {rule}")),
        "minimum" => value
            .as_f64()
            .filter(|number| *number < rule.as_f64().unwrap_or(0.0))
            .map(|_| format!("{value} is too small")),
        "maximum" => value
            .as_f64()
            .filter(|number| *number > rule.as_f64().unwrap_or(0.0))
            .map(|_| format!("{value} is too large")),
        // Other patterns are about quantities, which the checker reports as mistakes of content.
        "pattern" if rule == "^[A-Za-z0-9][A-Za-z0-9_-]{0,30}$" => {
            let name = value.as_str()?;
            let is_name = name.starts_with(|letter: char| letter.is_ascii_alphanumeric())
                && name.len() <= 31
                && name.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_'));
            (!is_name).then(|| format!("{value} is no name"))
        }
        "pattern" => None,
        "minItems" => {
            (value.as_array()?.len() < rule.as_u64()? as usize).then(|| format!("{value} has too few entries"))
        }
        "maxItems" => {
            (value.as_array()?.len() > rule.as_u64()? as usize).then(|| format!("{value} has too many entries"))
        }
        "items" => value.as_array()?.iter().find_map(|item| mistake(item, rule, root)),
        "required" => rule
            .as_array()?
            .iter()
            .find(|key| value.as_object().is_some_and(|object| !object.contains_key(key.as_str().unwrap_or(""))))
            .map(|key| format!("{key} is missing")),
        "properties" => {
            rule.as_object()?.iter().find_map(|(key, rule)| value.get(key).and_then(|value| mistake(value, rule, root)))
        }
        "additionalProperties" if rule.is_object() => {
            value.as_object()?.values().find_map(|value| mistake(value, rule, root))
        }
        "additionalProperties" => {
            assert_eq!(rule, &json!(false));
            let known = words.get("properties").and_then(Value::as_object);
            value
                .as_object()?
                .keys()
                .find(|key| !known.is_some_and(|known| known.contains_key(*key)))
                .map(|key| format!("{key} is unknown"))
        }
        "allOf" => rule.as_array()?.iter().find_map(|one| mistake(value, one, root)),
        "anyOf" | "oneOf" => {
            let fitting = rule.as_array()?.iter().filter(|one| mistake(value, one, root).is_none()).count();
            (fitting == 0).then(|| format!("{value} fits none of {rule}"))
        }
        other => panic!("the validator does not know the word `{other}`"),
    })
}

fn has_type(value: &Value, rule: &Value) -> bool {
    match rule.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("boolean") => value.is_boolean(),
        other => panic!("type {other:?} is not used: TOML has no null, and every choice is spelt out"),
    }
}

fn fixtures() -> Vec<PathBuf> {
    let entries = ["tests/good", "tests/bad"]
        .into_iter()
        .flat_map(|directory| std::fs::read_dir(directory).expect("a directory"));
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|one| one == "toml"))
        .collect();
    paths.sort();
    paths
}

#[test]
fn schema_and_checker_agree_about_form() {
    let schema = schema::description();
    let mut refused = 0;
    for path in fixtures() {
        let text = std::fs::read_to_string(&path).expect("a fixture can be read");
        let Ok(root) = DeTable::parse(&text) else { continue };
        let found = mistake(&table_to_json(root.get_ref()), &schema, &schema);
        let report = match bulkhead_description::load_unchecked(&path, &support::options()) {
            Ok(loaded) => loaded.warnings,
            Err(report) => report,
        };
        // The form of a board file is that of another schema.
        let files = report.diagnostics.iter().map(|one| one.labels.first().map(|label| label.span.file));
        let is_of_board = files.map(|file| file.is_some_and(|file| report.sources.get(file).name.contains("boards/")));
        let mut forms = report.diagnostics.iter().zip(is_of_board).filter(|(_, is_of_board)| !is_of_board);
        let is_form = forms.any(|(one, _)| FORM.contains(&one.code.name()));
        // A bare number is reported with its missing unit, which says more; a schema can only call it a wrong type.
        let is_bare_quantity = report.diagnostics.iter().any(|one| one.code.name() == "BH0008");
        // Of what is out of range a schema says some, and never more than the checker.
        assert!(
            found.is_some() == is_form || is_bare_quantity || (found.is_some() && report.has_errors()),
            "{}: schema says {found:?}, checker says\n{}",
            path.display(),
            report.to_text(false)
        );
        refused += usize::from(found.is_some());
    }
    assert!(refused >= FORM.len(), "only {refused} fixtures have mistakes of form");
}

/// A schema says no more than the checker, and it says what is wrong with the form.
#[test]
fn the_schema_of_instances_and_their_checker_agree_about_form() {
    let schema = schema::kernel();
    let mut refused = 0;
    for folder in ["tests/kernels/good", "tests/kernels/bad"] {
        for entry in std::fs::read_dir(folder).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a fixture can be read");
            let Ok(root) = DeTable::parse(&text) else { continue };
            let found = mistake(&table_to_json(root.get_ref()), &schema, &schema);
            let report = match bulkhead_description::kernel::load_native(&path, &support::options()) {
                Ok(laid) => laid.warnings,
                Err(report) => report,
            };
            let is_form = report.diagnostics.iter().any(|one| FORM.contains(&one.code.name()));
            assert!(found.is_none() || report.has_errors(), "{}: the schema says {found:?}", path.display());
            assert!(found.is_some() || !is_form, "{}: {}", path.display(), report.to_text(false));
            refused += usize::from(found.is_some());
        }
    }
    assert!(refused >= 4, "only {refused} fixtures have mistakes of form");
}

#[test]
fn built_in_boards_fit_the_schema() {
    let schema = schema::board();
    for (name, text) in bulkhead_description::board::BUILT_IN.files {
        let root = DeTable::parse(text).expect("TOML");
        assert_eq!(mistake(&table_to_json(root.get_ref()), &schema, &schema), None, "{name}");
    }
}

#[test]
fn every_key_is_described() {
    for (what, schema) in [("system", schema::description()), ("board", schema::board()), ("kernel", schema::kernel())]
    {
        let root_keys = schema["properties"].as_object().expect("keys").len();
        assert!(root_keys >= 6, "{what}: {root_keys} keys");
        let definitions = schema["definitions"].as_object().expect("definitions");
        for table in definitions.values().chain([&schema]) {
            for (key, rule) in table.get("properties").and_then(Value::as_object).into_iter().flatten() {
                let text = rule["description"].as_str().unwrap_or_else(|| panic!("{what}: `{key}` has no description"));
                assert!(text.ends_with(['.', ':', ')']), "{what}: `{key}`: {text}");
            }
        }
        assert!(!schema.to_string().contains("null"), "{what}: TOML has no null");
    }
}

#[test]
fn schemas_name_their_version() {
    assert_eq!(schema::description()["properties"]["version"]["const"], 1);
    assert_eq!(schema::board()["properties"]["version"]["const"], 2);
    assert_eq!(schema::kernel()["properties"]["version"]["const"], 1);
}

/// Ranges of numbers and names are in the schema, so that an editor shows them.
#[test]
fn what_is_out_of_range_is_shown_by_an_editor() {
    let schema = schema::description();
    for code in ["BH0009", "BH0201", "BH0203", "BH0508", "BH0509", "BH0510", "BH0602", "BH0605", "BH0708", "BH0712"] {
        let found = fixtures().into_iter().filter(|path| {
            let text = std::fs::read_to_string(path).expect("a fixture can be read");
            let is_about_it = text.lines().next().is_some_and(|line| line.contains(code));
            let root = DeTable::parse(&text);
            is_about_it && root.is_ok_and(|root| mistake(&table_to_json(root.get_ref()), &schema, &schema).is_some())
        });
        assert!(found.count() > 0, "{code}");
    }
}

/// The files that editors read are what `bulkhead schema` prints. `BULKHEAD_UPDATE_SNAPSHOTS=1` writes them again.
#[test]
fn the_schemas_in_the_repository_are_those_of_the_tool() {
    for (name, version, schema) in
        [("system", 1, schema::description()), ("board", 2, schema::board()), ("kernel", 1, schema::kernel())]
    {
        let path = format!("../../schemas/{name}.schema.json");
        let text = format!("{schema:#}\n");
        if std::env::var_os("BULKHEAD_UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&path, &text).expect("a schema can be written");
        }
        assert!(std::fs::read_to_string(&path).is_ok_and(|file| file == text), "{path} is another one");
        assert_eq!(schema["$id"], format!("urn:bulkhead:schema:{name}:{version}"));
    }
}

/// taplo and VS Code read the schema's place in the first line.
#[test]
fn every_example_names_its_schema_in_the_first_line() {
    let mut folders = vec![PathBuf::from("../../systems"), PathBuf::from("../../boards")];
    let mut examples = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "toml") {
                let text = std::fs::read_to_string(&path).expect("an example");
                let name = match bulkhead_description::kernel::is_kernel_file(&path) {
                    true => "kernel",
                    false if folder.ends_with("boards") => "board",
                    false => "system",
                };
                let schema = text.lines().next().and_then(|line| line.strip_prefix("#:schema "));
                let schema = schema.unwrap_or_else(|| panic!("{}: the first line names no schema", path.display()));
                assert!(schema.ends_with(&format!("/{name}.schema.json")), "{}: {schema}", path.display());
                assert!(folder.join(schema).is_file(), "{}: there is no {schema}", path.display());
                examples += 1;
            }
        }
    }
    assert!(examples >= 15, "{examples} examples");
}
