//! Results of `./x bench`, from `target/bench/*.json`.
//!
//! They are read field by field and leniently: a result of a newer tool, or one whose run failed, is shown as far as it is
//! understood. A file that is no result at all is an error that names it, because leaving it out silently would hide it.

use serde_json::Value;
use std::path::Path;

/// A result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Experiment {
    /// Name, as in `./x bench NAME`.
    pub name: String,
    /// What it is.
    pub what: String,
    /// How it was measured.
    pub how: String,
    /// The verdict: `met` or another word.
    pub verdict: String,
    /// How long it was allowed to take, such as `short`.
    pub length: String,
    /// Command that repeats it.
    pub command: String,
    /// Why it failed.
    pub error: Option<String>,
    /// Numbers.
    pub cells: Vec<Number>,
    /// What decides besides the numbers.
    pub claims: Vec<(bool, String)>,
    /// Curves.
    pub series: Vec<Series>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// A number beside the seed's and the model's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Number {
    /// What it is.
    pub label: String,
    /// Its unit.
    pub unit: String,
    /// The seed's.
    pub published: Option<f64>,
    /// The model's.
    pub model: Option<f64>,
    /// Ours.
    pub ours: Option<f64>,
    /// It is close enough to the model; none if it is not judged.
    pub holds: Option<bool>,
}

/// A curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// What the horizontal axis is.
    pub x: String,
    /// What the vertical axis is.
    pub y: String,
    /// Points.
    pub points: Vec<(f64, f64)>,
}

impl Experiment {
    /// Reads a result.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        let list = |key: &str| value[key].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut cells: Vec<_> = list("cells").iter().map(number).collect();
        if cells.is_empty() && value["ours"].is_number() {
            cells.push(number(value));
        }
        Some(Self {
            name: value["name"].as_str()?.to_owned(),
            what: text(value, "what"),
            how: text(value, "how"),
            verdict: text(value, "verdict"),
            length: text(value, "length"),
            command: text(value, "command"),
            error: value["error"].as_str().map(str::to_owned),
            cells,
            claims: list("claims").iter().map(|claim| (claim["holds"] == true, text(claim, "text"))).collect(),
            series: list("series").iter().map(series).collect(),
            notes: list("notes").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    }

    /// Reads all results of a directory, by name.
    ///
    /// # Errors
    /// When the directory or a result in it cannot be read.
    pub fn read_all(directory: &Path) -> Result<Vec<Self>, String> {
        let place = directory.display();
        let entries = std::fs::read_dir(directory).map_err(|cause| {
            format!("cannot read the results of experiments in {place}: {cause}; `./x bench` makes them")
        })?;
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(|cause| format!("cannot read {place}: {cause}"))?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let value = bulkhead_files::read::bytes(&path, bulkhead_files::read::RESULT)
                .map_err(|cause| cause.to_string())
                .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).map_err(|cause| cause.to_string()))
                .map_err(|cause| format!("{}: {cause}; delete it or run its experiment again", path.display()))?;
            let unnamed = || format!("{} has no `name`, so it is no result of `./x bench`", path.display());
            found.push(Self::from_json(&value).ok_or_else(unnamed)?);
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn number(value: &Value) -> Number {
    let judged = value["tolerance_percent"].is_number();
    Number {
        label: text(value, "label"),
        unit: text(value, "unit"),
        published: value["published"].as_f64(),
        model: value["model"].as_f64(),
        ours: value["ours"].as_f64(),
        holds: value["holds"].as_bool().filter(|_| judged),
    }
}

fn series(value: &Value) -> Series {
    let point = |point: &Value| Some((point[0].as_f64()?, point[1].as_f64()?));
    Series {
        name: text(value, "name"),
        x: text(value, "x"),
        y: text(value, "y"),
        points: value["points"].as_array().into_iter().flatten().filter_map(point).collect(),
    }
}
