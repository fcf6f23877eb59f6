//! Places whose reason is not in the code itself: assembly, barriers, writes of system registers, atomic orderings, inline attributes.
//!
//! A reader sees what each of them does and not what breaks without it, so each needs a comment: on its line, or directly above the
//! statement, block, function or group of attributes that it belongs to. A run of statements of one kind shares the comment
//! above the first. Doc comments (they say what) and SAFETY comments (they say why it is allowed) are no reasons, nor is the
//! name of a register.

use crate::source::{Source, test_items};

/// A place without its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Line, from 1.
    pub line: usize,
    /// What stands there.
    pub kind: &'static str,
}

/// Fewest words of a comment that gives a reason; less is a name.
const FEWEST_WORDS: usize = 4;

/// What is looked for in Rust, by the text that gives it away. Barriers and register writes form runs together.
const RUST: &[(&str, &[&str])] = &[
    ("assembly", &["asm!("]),
    ("system register or barrier", &["write_register!(", "clear_registers!(", "isb()", "barrier()", "fence("]),
    ("atomic ordering", &["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"]),
    ("inline attribute", &["#[inline", "#[cold"]),
];

/// Instructions of assembly that need a reason wherever they are.
const INSTRUCTIONS: &[&str] =
    &["msr", "dsb", "dmb", "isb", "tlbi", "ic", "dc", "eret", "hvc", "smc", "wfe", "wfi", "sev"];

/// Returns the places of a Rust file without their reason; tests are left out.
#[must_use]
pub fn rust(text: &str) -> Vec<Site> {
    let source = Source::new(text);
    let (masked, commentless) = (source.code(), source.without_comments());
    let lines = Lines {
        code: masked.lines().map(str::trim).collect(),
        comments: text.lines().zip(commentless.lines()).map(|(line, rest)| comment(line, rest)).collect(),
    };
    let tests: Vec<_> = test_items(&masked)
        .into_iter()
        .map(|range| line_of(&masked, range.start)..line_of(&masked, range.end))
        .collect();
    let mut found = Vec::new();
    for (at, code) in lines.code.iter().enumerate() {
        let is_definition = code.starts_with("use ") || code.starts_with("macro_rules!");
        if is_definition || tests.iter().any(|range| range.contains(&at)) {
            continue;
        }
        for (kind, marks) in RUST {
            if is_site(code, marks) && !lines.has_reason(at, marks) {
                found.push(Site { line: at + 1, kind });
            }
        }
    }
    found
}

fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].bytes().filter(|byte| *byte == b'\n').count()
}

/// The comment of a line: where it begins to differ from the line without comments.
fn comment<'a>(line: &'a str, without: &str) -> &'a str {
    let start = line.bytes().zip(without.bytes()).position(|(one, other)| one != other);
    start.and_then(|start| line.get(start..)).unwrap_or("")
}

/// A mark begins at the beginning of a word; `fn isb()` is no barrier.
fn is_site(code: &str, marks: &[&str]) -> bool {
    marks.iter().any(|mark| {
        code.match_indices(mark).any(|(at, _)| {
            let before = &code[..at];
            !before.ends_with("fn ") && !before.ends_with(|one: char| one.is_alphanumeric() || one == '_')
        })
    })
}

/// A file by lines: code without comments and literals, trimmed, and comments.
struct Lines<'a> {
    code: Vec<&'a str>,
    comments: Vec<&'a str>,
}

impl Lines<'_> {
    /// The block of comments that ends at a line gives a reason before it speaks of safety.
    fn block_gives_reason(&self, end: usize) -> bool {
        let is_comment = |at: &usize| self.is_comment(*at);
        let start = (0..=end).rev().take_while(is_comment).last().unwrap_or(end);
        let block: Vec<&str> =
            self.comments[start..=end].iter().copied().filter(|line| !is_documentation(line)).collect();
        gives_reason(block.join(" ").split("SAFETY:").next().unwrap_or_default())
    }

    fn is_comment(&self, at: usize) -> bool {
        self.code[at].is_empty() && !self.comments[at].is_empty()
    }

    /// Goes up from a place over what belongs to it: the rest of its statement, earlier ones of its run, its block's opening and the
    /// attributes and documentation of its function.
    fn has_reason(&self, site: usize, marks: &[&str]) -> bool {
        if gives_reason(self.comments[site]) {
            return true;
        }
        let is_attribute = |code: &str| code.starts_with("#[");
        let mut above_function = is_attribute(self.code[site]) || self.code[site].contains("fn ");
        for at in (0..site).rev() {
            let code = self.code[at];
            if self.is_comment(at) {
                if self.block_gives_reason(at) {
                    return true;
                }
                continue;
            }
            let goes_on = if above_function {
                is_attribute(code)
            } else {
                above_function = code.contains("fn ") && code.ends_with('{');
                let is_open = !code.ends_with([';', '}']) || code == "}};";
                !code.is_empty() && (is_open || is_site(code, marks))
            };
            if !goes_on {
                return false;
            }
            if is_site(code, marks) && gives_reason(self.comments[at]) && !code.ends_with('{') {
                return false;
            }
        }
        false
    }
}

fn is_documentation(comment: &str) -> bool {
    comment.starts_with("///") || comment.starts_with("//!")
}

fn gives_reason(comment: &str) -> bool {
    let words = comment.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic));
    words.count() >= FEWEST_WORDS
}

/// Returns the places of an assembly file without their reason: instructions of [`INSTRUCTIONS`], and blocks (from a label, a macro's
/// head or an aligned vector to the next one) in which no comment says anything.
#[must_use]
pub fn assembly(text: &str) -> Vec<Site> {
    let lines: Vec<(&str, &str)> = text.lines().map(|line| line.split_once("//").unwrap_or((line, ""))).collect();
    let lines: Vec<(&str, &str)> = lines.into_iter().map(|(code, comment)| (code.trim(), comment.trim())).collect();
    let mut found = Vec::new();
    for (at, (code, _)) in lines.iter().enumerate() {
        let instruction =
            code.split_once(':').map_or(*code, |(_, rest)| rest).split_whitespace().next().unwrap_or_default();
        if INSTRUCTIONS.contains(&instruction) && !line_has_reason(&lines[..=at]) {
            found.push(Site { line: at + 1, kind: "instruction" });
        }
    }
    let starts: Vec<usize> = (0..lines.len()).filter(|at| starts_block(lines[*at].0)).collect();
    for (index, start) in starts.iter().enumerate() {
        // What stands above the head belongs to it, and not to the block before.
        let end = starts.get(index + 1).map_or(lines.len(), |next| next - leading(&lines[..*next]));
        let begin = start - leading(&lines[..*start]);
        let has_code = lines[*start + 1..end].iter().any(|(code, _)| !code.is_empty() && !code.starts_with('.'));
        if has_code && !lines[begin..end].iter().any(|(_, comment)| gives_reason(comment)) {
            found.push(Site { line: start + 1, kind: "block" });
        }
    }
    found.sort_by_key(|site| site.line);
    found
}

/// Lines of comments and directives directly above.
fn leading(above: &[(&str, &str)]) -> usize {
    let belongs =
        |(code, comment): &&(&str, &str)| code.starts_with(".globl") || (code.is_empty() && !comment.is_empty());
    above.iter().rev().take_while(belongs).count()
}

/// Labels with names, macros and vectors start a block; numbers are places within one.
fn starts_block(code: &str) -> bool {
    let is_label = code.ends_with(':') && code.starts_with(|one: char| one.is_alphabetic());
    is_label || code.starts_with(".macro") || code == ".balign 128"
}

/// The last of these lines has a comment, or belongs to a run of lines, without a branch or a blank between, whose first has one
/// above it.
fn line_has_reason(lines: &[(&str, &str)]) -> bool {
    let Some(((_, own), above)) = lines.split_last() else { return false };
    if gives_reason(own) {
        return true;
    }
    for (at, (code, _)) in above.iter().enumerate().rev() {
        if code.is_empty() {
            let is_comment = |line: &&(&str, &str)| line.0.is_empty() && !line.1.is_empty();
            let block: Vec<&str> = above[..=at].iter().rev().take_while(is_comment).map(|line| line.1).collect();
            return gives_reason(&block.join(" "));
        }
        let instruction = code.split_whitespace().next().unwrap_or_default();
        let ends_run = instruction.starts_with('b') && !instruction.starts_with("bic")
            || instruction.starts_with("cb")
            || instruction == "ret";
        if ends_run || starts_block(code) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(sites: &[Site]) -> Vec<usize> {
        sites.iter().map(|site| site.line).collect()
    }

    #[test]
    fn a_comment_on_or_above_counts_and_a_name_does_not() {
        let text = "fn a() {\n    write_register!(\"x\", 1); // ICC_PMR_EL1\n\n    // Without it the guest would see y.\n    write_register!(\"y\", 1);\n    isb();\n    other();\n    isb();\n    b.load(Acquire); // sees what the writer wrote before\n}\n";
        assert_eq!(lines(&rust(text)), [2, 8]);
    }

    #[test]
    fn safety_and_documentation_are_no_reasons() {
        let text = "/// Says what the function does here.\n#[inline]\nfn a() {\n    // SAFETY: a barrier changes no state at all.\n    unsafe { asm!(\"isb\") };\n}\n\n// Two instructions: a call would cost more.\n#[inline]\nfn b() {\n    // The new map must be in force before it is used.\n    // SAFETY: none needed.\n    unsafe { asm!(\"isb\") };\n}\n";
        assert_eq!(lines(&rust(text)), [2, 5]);
    }

    #[test]
    fn a_barrier_counts_whoever_owns_the_machine() {
        let text = "fn a() {\n    self.machine.barrier();\n    x = 1;\n    machine.barrier();\n    y = 2;\n    self.barrier(); // the writes above come first\n}\nfn barrier() {}\n";
        assert_eq!(lines(&rust(text)), [2, 4]);
    }

    #[test]
    fn a_function_shares_its_comment_with_its_first_run_only() {
        let text = "// The reason for all of it.\nfn a() {\n    isb();\n    let x = 1;\n    isb();\n}\nfn isb() {}\n#[cfg(test)]\nmod tests {\n    fn b() { isb(); }\n}\n";
        assert_eq!(lines(&rust(text)), [5]);
    }

    #[test]
    fn a_reason_in_assembly_may_have_several_lines() {
        let text = "first:\n    // The map must be there before it is\n    // used.\n    msr ttbr0_el2, x0\n    cbz x1, first\n\n    // Two words.\n    isb\n";
        assert_eq!(lines(&assembly(text)), [8]);
    }

    #[test]
    fn assembly_blocks_and_instructions_need_reasons() {
        let text = "// The head of the file.\n\nfirst:\n    mov x0, x1\n    ret\n// Why the second is there.\nsecond:\n    msr vbar_el2, x0 // exceptions go there from here on\n    b third\n    isb\n    // The map must be there before it is used.\n    ldr x0, =1\n    msr ttbr0_el2, x0\n";
        let found = assembly(text);
        assert_eq!(lines(&found), [3, 10]);
        assert_eq!((found[0].kind, found[1].kind), ("block", "instruction"));
    }
}
