//! JSON Schema of the system description and of board files, for editors.

use crate::board::{BOARD_VERSION, BoardFile};
use crate::description::{DESCRIPTION_VERSION, Description};
use crate::kernel::{KERNEL_FILE_VERSION, KernelFile};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// What a name is: a letter or digit, then letters, digits, `-` and `_`, at most 31 bytes in all.
pub(crate) const NAME: &str = "^[A-Za-z0-9][A-Za-z0-9_-]{0,30}$";

/// Returns the schema of `system.toml`, which `schemas/system.schema.json` holds.
#[must_use]
pub fn description() -> Value {
    schema::<Description>("system", "Bulkhead system description", DESCRIPTION_VERSION)
}

/// Returns the schema of a board file, which `schemas/board.schema.json` holds.
#[must_use]
pub fn board() -> Value {
    schema::<BoardFile>("board", "Bulkhead board file", BOARD_VERSION)
}

/// Returns the schema of the description of an instance of the kernel, which `schemas/kernel.schema.json` holds.
#[must_use]
pub fn kernel() -> Value {
    schema::<KernelFile>("kernel", "Bulkhead description of an instance of the real-time kernel", KERNEL_FILE_VERSION)
}

fn schema<T: schemars::JsonSchema>(name: &str, title: &str, version: u64) -> Value {
    let generator = SchemaSettings::draft07().into_generator();
    let mut value = generator.into_root_schema_for::<T>().to_value();
    without_null(&mut value);
    // The project has no address in the network; a name is enough to tell schemas apart.
    value["$id"] = Value::from(format!("urn:bulkhead:schema:{name}:{version}"));
    value["title"] = Value::from(title);
    value["properties"]["version"] = json!({ "const": version, "description": "Version of the format." });
    value
}

/// Removes `null` as a choice: TOML has none, an optional key is left out.
fn without_null(value: &mut Value) {
    if let Value::Object(object) = value {
        if let Some(Value::Array(types)) = object.get_mut("type") {
            types.retain(|one| one != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                object.insert(String::from("type"), only);
            }
        }
        if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
            choices.retain(|one| one != &json!({ "type": "null" }));
            if choices.len() == 1
                && let Some(Value::Object(only)) = choices.pop()
            {
                object.remove("anyOf");
                // A reference next to other words is ignored in draft 7, so it is wrapped.
                if only.contains_key("$ref") && !object.is_empty() {
                    object.insert(String::from("allOf"), Value::Array(vec![Value::Object(only)]));
                } else {
                    object.extend(only);
                }
            }
        }
        object.values_mut().for_each(without_null);
    } else if let Value::Array(items) = value {
        items.iter_mut().for_each(without_null);
    }
}
