//! What a new word costs: the files that name single budget rules.
//!
//! A rule is a word (`core/words`), a policy (`core/sched`), and what follows from it: how a plan holds it, what the planner
//! and the verifier demand of it, what the analysis promises. Each of these is one file, so that somebody who adds a rule finds all
//! places by the compiler and the list in CONTRIBUTING.md. Everything else asks questions that every rule answers.

use bulkhead_ledger::code_lines::without_tests;
use bulkhead_ledger::source::Source;
use bulkhead_ledger::{files, page};
use bulkhead_words::{Rule, Word};
use std::collections::BTreeMap;

/// Most files that name one rule.
const MOST_FILES: usize = 9;
/// Code of the product. Samples, guests and experiments choose a rule as descriptions do, and do not know what it is.
const PRODUCT: &[&str] = &["core", "arch", "monitor", "sdk", "tool"];
const NOT_THE_PRODUCT: &[&str] = &["core/plan/src/samples.rs", "tool/demo/", "monitor/src/tests/"];

/// States whether a text of code has this name as a word of its own.
fn has_identifier(code: &str, name: &str) -> bool {
    let is_part = |one: char| one.is_alphanumeric() || one == '_';
    code.match_indices(name)
        .any(|(start, _)| !code[..start].ends_with(is_part) && !code[start + name.len()..].starts_with(is_part))
}

/// Files that name each limited rule, as an identifier or as the whole of a literal.
fn files_by_rule() -> BTreeMap<&'static str, Vec<String>> {
    let mut found = BTreeMap::new();
    let sources = files(PRODUCT, &[".rs"]);
    let product = sources.iter().filter(|(path, _)| {
        path.contains("/src/") && !NOT_THE_PRODUCT.iter().any(|left_out| path.starts_with(left_out))
    });
    for (path, text) in product {
        let kept = without_tests(text);
        let code = Source::new(&kept).code();
        let literals = Source::new(&kept).without_comments();
        for rule in Rule::ALL.iter().filter(|rule| **rule != Rule::Unlimited) {
            if has_identifier(&code, &format!("{rule:?}")) || literals.contains(&format!("\"{}\"", rule.name())) {
                found.entry(rule.name()).or_insert_with(Vec::new).push(path.clone());
            }
        }
    }
    found
}

#[test]
fn a_budget_rule_is_named_in_few_files_and_each_is_listed() {
    let guide = page::read("CONTRIBUTING.md");
    let found = files_by_rule();
    assert_eq!(found.len(), Rule::ALL.len() - 1, "every limited rule is named somewhere: {found:?}");
    for (rule, paths) in &found {
        println!("{rule}: {} files\n  {}", paths.len(), paths.join("\n  "));
        assert!(paths.len() > 4, "{rule}: {paths:?} cannot be all; were the folders moved?");
        assert!(
            paths.len() <= MOST_FILES,
            "{} files name the rule {rule}, at most {MOST_FILES} may: ask the rule instead, by a method where it is defined",
            paths.len()
        );
        for path in paths.iter().filter(|path| !path.starts_with("core/sched/src/budget/")) {
            assert!(guide.contains(&format!("`{path}`")), "{path} names {rule} and is not in CONTRIBUTING.md");
        }
    }
}
