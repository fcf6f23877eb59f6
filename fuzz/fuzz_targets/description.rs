//! Any text as a system description. Its guests are the seeds of the corpus, so start it in this folder.
#![no_main]

#[path = "../../tool/description/tests/support/attack.rs"]
mod attack;

use bulkhead_description::Options;
use std::path::Path;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let options = Options { guests: Some("corpus/description".into()), board: None };
    attack::description(Path::new("corpus/description/system.toml"), text, &options);
});
