//! Types pages into a shell.

use bulkhead_book_tests::page::{Listing, Mark, Typed, without_comments};
use bulkhead_book_tests::pattern::{LINES_LEFT_OUT, difference};
use bulkhead_book_tests::shell::{Beside, Outcome, Shell};
use bulkhead_book_tests::{fragment, repository};
use std::fs;
use std::time::{Duration, Instant};

/// Commands that take longer are named at the end.
const LONG: Duration = Duration::from_secs(5);

/// A command that runs beside the next listing.
struct Running {
    place: String,
    command: Typed,
    beside: Beside,
}

struct Sitting {
    shell: Shell,
    running: Option<Running>,
    /// Commands so far and what they printed.
    done: Vec<(String, String)>,
    /// Commands that took long, for those who want to make this test quicker.
    long: Vec<(Duration, String)>,
    /// What differed from the pages.
    differences: Vec<String>,
}

/// Types the listings of some pages into one shell.
///
/// # Panics
/// With everything that differed.
pub(super) fn type_pages(pages: &[(&str, Vec<Listing>)]) {
    let name = pages[0].0.trim_end_matches(".md");
    let start = Instant::now();
    let shell = Shell::start(name);
    let mut sitting = Sitting { shell, running: None, done: Vec::new(), long: Vec::new(), differences: Vec::new() };
    for (page, listings) in pages {
        for listing in listings {
            sitting.listing(&format!("{page}:{}", listing.line), page, listing);
        }
        sitting.finish();
    }
    println!("{name}: {:.1} s", start.elapsed().as_secs_f64());
    for (time, command) in &sitting.long {
        println!("{:8.1} s  {command}", time.as_secs_f64());
    }
    assert!(sitting.differences.is_empty(), "\n{}", sitting.differences.join("\n\n"));
}

impl Sitting {
    fn listing(&mut self, place: &str, page: &str, listing: &Listing) {
        let wrong = match (listing.language.as_str(), &listing.mark) {
            (_, Some(Mark::NotRun(_))) | ("", None) => None,
            ("console", mark) => {
                self.console(page, listing, mark.as_ref());
                None
            }
            (_, Some(Mark::File(path))) => self.write(path, &listing.text),
            (_, Some(Mark::Insertion(path, before))) => self.insert(path, before, &listing.text),
            ("text", Some(Mark::PartOf(command))) => self.part_of(command, &listing.text),
            (_, Some(Mark::Shows(path))) => self.shows(path, &listing.text),
            ("toml", None) => {
                Some(fragment::mistakes(&listing.text)).filter(|all| !all.is_empty()).map(|all| all.join("\n"))
            }
            (language, _) => Some(format!("nothing uses this listing in `{language}`; say into which file it goes")),
        };
        self.differences.extend(wrong.map(|wrong| format!("{place}: {wrong}")));
    }

    fn write(&mut self, path: &str, text: &str) -> Option<String> {
        let file = self.shell.copy().join(path);
        let folder = file.parent().expect("a file lies in a folder");
        fs::create_dir_all(folder).and_then(|()| fs::write(&file, text)).err().map(|error| format!("{path}: {error}"))
    }

    fn insert(&mut self, path: &str, before: &str, text: &str) -> Option<String> {
        let file = self.shell.copy().join(path);
        let old = fs::read_to_string(&file).unwrap_or_default();
        let at = old.lines().position(|line| line.trim_start().starts_with(before));
        let Some(at) = at else { return Some(format!("{path} has no line that starts with `{before}`")) };
        let mut lines: Vec<&str> = old.lines().collect();
        lines.splice(at..at, text.lines());
        self.write(path, &(lines.join("\n") + "\n"))
    }

    fn shows(&self, path: &str, text: &str) -> Option<String> {
        let file = fs::read_to_string(self.shell.copy().join(path)).unwrap_or_default();
        let (shown, found) = (without_comments(text), without_comments(&file));
        (shown != found).then(|| format!("{path} is not what is shown. It is:\n{}", found.join("\n")))
    }

    /// Each line has to come, and in this order on each console; others come between them.
    fn part_of(&self, command: &str, text: &str) -> Option<String> {
        let done = self.done.iter().rev().find(|(typed, _)| typed == command);
        let Some((_, printed)) = done else { return Some(format!("no listing before this one types `{command}`")) };
        let lines: Vec<&str> =
            [LINES_LEFT_OUT].into_iter().chain(text.lines().flat_map(|line| [line, LINES_LEFT_OUT])).collect();
        difference(&lines.join("\n"), printed).map(|wrong| format!("{wrong}`{command}` printed:\n{printed}"))
    }

    fn console(&mut self, page: &str, listing: &Listing, mark: Option<&Mark>) {
        let commands = listing.commands().unwrap_or_else(|why| panic!("{page}: {why}"));
        for typed in commands {
            let place = format!("{page}:{}", typed.line);
            match mark {
                Some(Mark::BesideNext) => {
                    self.finish();
                    let beside = self.shell.run_beside(&typed.command);
                    self.running = Some(Running { place, command: typed, beside });
                }
                Some(Mark::InRepository) => {
                    let inside = format!("( cd '{}' && {} )", repository().display(), typed.command);
                    let start = Instant::now();
                    let outcome = self.shell.run(&inside);
                    self.compare(&place, &typed, &outcome);
                    self.note(&place, &typed, start);
                }
                _ => {
                    let start = Instant::now();
                    self.command(&place, &typed);
                    self.note(&place, &typed, start);
                }
            }
        }
        if mark != Some(&Mark::BesideNext) {
            self.finish();
        }
    }

    fn note(&mut self, place: &str, typed: &Typed, start: Instant) {
        let time = start.elapsed();
        if time >= LONG {
            self.long.push((time, format!("{place}: {}", typed.command.lines().next().unwrap_or_default())));
        }
    }

    /// Types a command. Beside a running one it is typed again until it shows what it should, as a reader would, for as long as
    /// the other one runs.
    fn command(&mut self, place: &str, typed: &Typed) {
        loop {
            let beside = self.running.as_ref().map(|running| running.beside);
            let goes_on = beside.is_some_and(|beside| self.shell.still_runs(beside));
            let outcome = self.shell.run(&typed.command);
            if wrong(typed, &outcome).is_none() || !goes_on {
                self.compare(place, typed, &outcome);
                return;
            }
        }
    }

    /// Waits for what runs beside, and compares what it printed.
    fn finish(&mut self) {
        if let Some(running) = self.running.take() {
            let start = Instant::now();
            let outcome = self.shell.end_of(running.beside);
            self.compare(&running.place, &running.command, &outcome);
            self.note(&format!("{}, its rest", running.place), &running.command, start);
        }
    }

    fn compare(&mut self, place: &str, typed: &Typed, outcome: &Outcome) {
        self.done.push((typed.command.clone(), outcome.printed.clone()));
        if let Some(wrong) = wrong(typed, outcome) {
            let Outcome { code, printed } = outcome;
            self.differences
                .push(format!("{place}: $ {}\n{wrong}exit code {code}; printed:\n{printed}", typed.command));
        }
    }
}

/// What differs. A command that shows something is compared; one that shows nothing has to succeed.
fn wrong(typed: &Typed, outcome: &Outcome) -> Option<String> {
    if typed.shows_output() {
        return difference(&typed.shown, &outcome.printed);
    }
    (outcome.code != 0).then(|| "it failed\n".to_owned())
}
