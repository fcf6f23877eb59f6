//! Descriptions with random times: whatever they say, the analysis ends, does not panic, and agrees with itself.
//!
//! The seed is printed; `BULKHEAD_SEED` and `BULKHEAD_CASES` replace it and the number of cases.

#[path = "../../../core/sched/tests/support/random.rs"]
mod random;
mod support;

use bulkhead_analysis::core_bounds::Verdict;
use bulkhead_analysis::steps::Steps;
use bulkhead_description::{Code, load_text};
use bulkhead_timing::suggest::{Answer, suggest};
use bulkhead_timing::{bounds, json, text};
use random::{Random, check_some};
use support::{ASSUMED, fixtures, options};

/// Replaces some of the times of a text. Most stay reasonable, a few are as small or as large as they can be written.
fn with_random_times(text: &str, random: &mut Random) -> String {
    let mut parts: Vec<String> = text.split('"').map(str::to_owned).collect();
    for part in parts.iter_mut().skip(1).step_by(2) {
        let is_time = part
            .split_once(' ')
            .is_some_and(|(number, unit)| number.parse::<u64>().is_ok() && ["ns", "us", "ms", "s"].contains(&unit));
        if is_time && random.below(3) == 0 {
            *part = match random.below(12) {
                0 => format!("{} ns", random.below(100)),
                1 => format!("{} s", 1 + random.below(100_000_000)),
                2 => format!("{} us", 1 + random.below(100)),
                3 => format!("{} min", random.below(1_000_000)),
                _ => format!("{} us", 1 + random.below(200_000)),
            };
        }
    }
    parts.join("\"")
}

#[test]
fn random_times_are_judged_without_a_panic() {
    let paths: Vec<_> = fixtures("tests/bad").into_iter().chain(fixtures("tests/good")).collect();
    let texts: Vec<_> =
        paths.iter().map(|path| std::fs::read_to_string(path).expect("a fixture can be read")).collect();
    let (mut accepted, mut refused, mut repaired) = (0, 0, 0);
    let cases = check_some("random times", 33, |random| {
        let number = random.below(paths.len() as u64) as usize;
        let text = with_random_times(&texts[number], random);
        let loaded = match load_text(&paths[number], &text, &options(), &ASSUMED) {
            Ok(loaded) => loaded,
            Err(report) => {
                assert!(report.has_errors() && !report.to_text(false).is_empty());
                refused += 1;
                return;
            }
        };
        accepted += 1;
        let all = bounds(&loaded.system, &ASSUMED);
        assert!(!text::text(&loaded.system, &loaded.spans, &all).is_empty());
        assert!(json::json(&loaded.system, &loaded.spans, &all)["cores"].is_array());
        for core in &all.cores {
            for server in &core.servers {
                let is_bad = matches!(server.verdict, Verdict::Late { .. } | Verdict::NoBound { .. });
                assert!(!is_bad, "accepted with {:?}", server.verdict);
                if let (Some(response), Some((_, period)), true) =
                    (server.response_ns, server.budget_and_period_ns, server.rule != "pibs")
                {
                    assert!(response <= period, "{response} > {period}");
                }
            }
            for vcpu in &core.vcpus {
                let windows = [1_000_000, 10_000_000, 100_000_000].map(|window| vcpu.supplied_ns(window));
                assert!(windows.is_sorted() && windows[2] <= 100_000_000, "{windows:?}");
            }
        }
        assert!(
            suggest(&loaded.system, &ASSUMED, &Steps::of_a_suggestion()).is_empty(),
            "a suggestion for what passes"
        );
        // The same system with less time per period than it asked for, or with more, is judged again by the search.
        if let Some(found) = suggestion_for_more(&text, number, &paths) {
            repaired += u64::from(found);
        }
    });
    println!("{accepted} accepted, {refused} refused, {repaired} repaired");
    assert!(accepted > cases / 20 && refused > cases / 20, "{accepted} accepted, {refused} refused");
}

/// Makes every budget four times as large and asks for budgets that fit.
fn suggestion_for_more(text: &str, number: usize, paths: &[std::path::PathBuf]) -> Option<bool> {
    let more = text.replace("budget = \"", "budget = \"4");
    let report = load_text(&paths[number], &more, &options(), &ASSUMED).err()?;
    let late = |one: &bulkhead_description::Diagnostic| one.code == Code::NotSchedulable;
    if !report.diagnostics.iter().all(late) {
        return None;
    }
    let name = format!("more-{}.toml", std::process::id());
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, more).expect("a file can be written");
    let loaded = bulkhead_description::load_unchecked(&path, &options()).expect("only time is wrong");
    let answers = suggest(&loaded.system, &ASSUMED, &Steps::of_a_suggestion());
    Some(answers.iter().any(|answer| matches!(answer, Answer::Budgets { .. })))
}
