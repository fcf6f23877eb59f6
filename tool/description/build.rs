//! Makes the list of built-in board files from `boards.toml`.
use std::fmt::Write as _;
use std::path::Path;

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo says it");
    let (boards, list) = (Path::new(&here).join("../../boards"), Path::new(&here).join("boards.toml"));
    println!("cargo::rerun-if-changed={}", list.display());
    let text = std::fs::read_to_string(&list).expect("boards.toml can be read");
    let table: toml::Table = text.parse().expect("boards.toml is TOML");
    let names = table["files"].as_array().expect("`files` is a list").iter();
    let names: Vec<&str> = names.map(|name| name.as_str().expect("a name is text")).collect();
    let default = table["default"].as_str().expect("`default` is text");
    assert!(names.contains(&default), "`default` of boards.toml is none of its `files`");
    let mut code = String::from(
        "/// The list, generated from `boards.toml`.\npub const BUILT_IN: BuiltIn = BuiltIn {\n    files: &[\n",
    );
    for name in names {
        let file = boards.join(format!("{name}.toml"));
        println!("cargo::rerun-if-changed={}", file.display());
        writeln!(code, "        ({name:?}, include_str!({:?})),", file.display().to_string()).expect("memory");
    }
    writeln!(code, "    ],\n    default: {default:?},\n}};").expect("memory");
    let out = Path::new(&std::env::var("OUT_DIR").expect("cargo says it")).join("built_in.rs");
    std::fs::write(out, code).expect("the list can be written");
}
