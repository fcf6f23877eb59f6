//! README and book hold: every listing is typed, compared, compiled or checked (the rules for authors are in
//! `docs/book/src/documentation.md`).

mod typing;

use bulkhead_book_tests::page::{Listing, Mark, listings};
use bulkhead_book_tests::{BOOK, repository};
use std::fs;

/// Pages that are typed one after the other into one shell, as their texts build on each other.
const SITTINGS: &[&[&str]] = &[
    &["demonstration.md", "two-worlds.md", "linux-as-a-task.md", "README.md"],
    &["tutorial.md", "channels.md", "health.md", "watching.md"],
    &["time.md", "report.md"],
    &["devices.md", "giving.md"],
    &["your-own-guest.md"],
    &["components.md"],
    &["your-own-scheduler.md"],
    &["flight-computer.md"],
    &["serving-others.md"],
    &["experiments.md"],
    &["porting.md"],
    &["boot-loaders.md"],
    &["documentation.md"],
];
/// Most listings of commands that may say why they are not run.
const MOST_NOT_RUN: usize = 10;
/// Words behind a fence that this test knows what to do with. A picture has none.
const LANGUAGES: &[&str] = &["", "console", "text", "toml", "rust", "c", "sh"];

/// Pages with listings: the README and the chapters of the book, apart from the reference, which is generated.
fn pages() -> Vec<(String, String)> {
    let folder = repository().join(BOOK);
    let names = fs::read_dir(&folder).expect("the book").flatten().map(|entry| entry.path());
    let mut paths: Vec<_> = names.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    paths.retain(|path| !path.ends_with("README.md") && !path.ends_with("SUMMARY.md"));
    paths.push(repository().join("README.md"));
    paths.sort();
    let name = |path: &std::path::Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), fs::read_to_string(path).expect("a page can be read"))).collect()
}

fn read(name: &str) -> Vec<Listing> {
    let text = pages().into_iter().find(|(page, _)| page == name).unwrap_or_else(|| panic!("no page is {name}")).1;
    listings(&text).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// Types one page after the other; says everything that differed.
fn type_pages(pages: &[&str]) {
    assert!(SITTINGS.contains(&pages), "{pages:?} is no sitting");
    typing::type_pages(&pages.iter().map(|page| (*page, read(page))).collect::<Vec<_>>());
}

#[test]
fn the_demonstrations_and_the_readme_hold() {
    type_pages(&["demonstration.md", "two-worlds.md", "linux-as-a-task.md", "README.md"]);
}

#[test]
fn the_tutorial_and_the_chapters_that_go_on_from_it_hold() {
    type_pages(&["tutorial.md", "channels.md", "health.md", "watching.md"]);
}

#[test]
fn the_chapters_about_time_and_reports_hold() {
    type_pages(&["time.md", "report.md"]);
}

#[test]
fn the_chapters_about_devices_hold() {
    type_pages(&["devices.md", "giving.md"]);
}

#[test]
fn the_chapter_about_guests_holds() {
    type_pages(&["your-own-guest.md"]);
}

#[test]
fn the_chapter_about_components_holds() {
    type_pages(&["components.md"]);
}

#[test]
fn the_chapter_about_schedulers_holds() {
    type_pages(&["your-own-scheduler.md"]);
}

#[test]
fn the_chapter_about_a_flight_computer_holds() {
    type_pages(&["flight-computer.md"]);
}

#[test]
fn the_chapter_about_serving_holds() {
    type_pages(&["serving-others.md"]);
}

#[test]
fn the_chapter_about_boot_loaders_holds() {
    type_pages(&["boot-loaders.md"]);
}

#[test]
fn the_chapters_without_a_system_of_their_own_hold() {
    for page in ["experiments.md", "porting.md", "documentation.md"] {
        type_pages(&[page]);
    }
}

#[test]
fn every_page_with_a_listing_is_typed() {
    let typed: Vec<&str> = SITTINGS.concat();
    for (name, text) in pages() {
        let found = listings(&text).unwrap_or_else(|why| panic!("{name}: {why}"));
        for listing in &found {
            let (line, language) = (listing.line, &listing.language);
            assert!(LANGUAGES.contains(&language.as_str()), "{name}:{line}: listings in `{language}` are not known");
            let is_picture = listing.text.contains(['─', '═', '━']);
            assert!(
                !language.is_empty() || is_picture,
                "{name}:{line}: say what language this is; `console` for commands"
            );
        }
        let is_needed = found.iter().any(|listing| !listing.language.is_empty());
        assert!(!is_needed || typed.contains(&name.as_str()), "{name} has listings and is in no sitting");
    }
}

#[test]
fn few_listings_are_not_run_and_each_says_why() {
    let mut reasons = Vec::new();
    for (name, text) in pages() {
        for listing in listings(&text).unwrap_or_else(|why| panic!("{name}: {why}")) {
            if let Some(Mark::NotRun(reason)) = listing.mark {
                reasons.push(format!("{name}:{}: {reason}", listing.line));
            }
        }
    }
    println!("{}", reasons.join("\n"));
    assert!(reasons.len() <= MOST_NOT_RUN, "{} listings are not run:\n{}", reasons.len(), reasons.join("\n"));
}
