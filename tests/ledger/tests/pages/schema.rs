//! Tables of keys from the JSON Schema, which is made from the types that the tool reads.

use super::generated;
use bulkhead_ledger::table::{cell, head, row};
use serde_json::Value;

/// The chapter about `system.toml`.
pub(super) fn system() -> String {
    let title = "# Keys of the system description\n\n";
    let from = generated("`tool/description/src/description.rs` (`bulkhead schema system` prints the JSON Schema)");
    format!("{title}{from}{QUANTITIES}{}", chapters(&bulkhead_description::schema::description()))
}

/// The chapter about instances of the real-time kernel.
pub(super) fn kernel() -> String {
    let title = "# Keys of an instance of the kernel\n\n";
    let from = generated("`tool/description/src/kernel/file.rs` (`bulkhead schema kernel` prints the JSON Schema)");
    format!("{title}{from}{QUANTITIES}{}", chapters(&bulkhead_description::schema::kernel()))
}

/// The chapter about board files.
pub(super) fn board() -> String {
    let from = generated("`tool/description/src/board.rs` (`bulkhead schema board` prints the JSON Schema)");
    format!("# Keys of a board file\n\n{from}{}", chapters(&bulkhead_description::schema::board()))
}

const QUANTITIES: &str = "Sizes and times are texts with a unit, such as `\"4 MiB\"` and `\"10 ms\"`. A number without a unit is refused, with a suggestion.\n";

fn chapters(schema: &Value) -> String {
    let mut text = table("The file", schema);
    let definitions = schema["definitions"].as_object().into_iter().flatten();
    for (name, definition) in definitions {
        text += &match definition {
            _ if definition["properties"].is_object() => table(name, definition),
            _ if definition["oneOf"].is_array() => words(name, definition),
            _ => other(name, definition),
        };
    }
    text
}

fn description(value: &Value) -> String {
    cell(value["description"].as_str().unwrap_or_default())
}

fn table(name: &str, schema: &Value) -> String {
    let mut text =
        format!("\n## {name}\n\n{}\n\n{}", description(schema), head(&["key", "value", "required", "meaning"]));
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        let needed = if required.contains(&key.as_str()) { "yes" } else { "no" };
        text += &row(&[&format!("`{key}`"), &kind(value), needed, &description(value)]);
    }
    text
}

fn words(name: &str, schema: &Value) -> String {
    let mut text = format!("\n## {name}\n\n{}\n\n{}", description(schema), head(&["word", "meaning"]));
    for choice in schema["oneOf"].as_array().into_iter().flatten() {
        text += &row(&[&format!("`\"{}\"`", choice["const"].as_str().unwrap_or("?")), &description(choice)]);
    }
    text
}

fn other(name: &str, schema: &Value) -> String {
    let mut text = format!("\n## {name}\n\n{}\n", description(schema));
    for choice in schema["anyOf"].as_array().into_iter().flatten() {
        text += &format!("\n- {}: {}", kind(choice), description(choice));
    }
    if schema["anyOf"].is_array() { text + "\n" } else { text }
}

/// Words for the kind of a value, with links to the tables that say more.
fn kind(value: &Value) -> String {
    if let Some(name) = value["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(only) = value["allOf"].as_array().and_then(|all| all.first()) {
        return kind(only);
    }
    if !value["const"].is_null() {
        return format!("`{}`", value["const"]);
    }
    match value["type"].as_str() {
        Some("array") => format!("list of {}", kind(&value["items"])),
        Some("integer") => "number".to_owned(),
        Some("boolean") => "`true` or `false`".to_owned(),
        Some("string") => "text".to_owned(),
        _ => "see above".to_owned(),
    }
}
