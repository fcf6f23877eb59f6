//! The shell that a reader types into, in a copy of the repository.

use crate::repository;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What a copy leaves out: products and history.
const LEFT_OUT: &[&str] = &["target", ".git", ".cache"];
/// Folders of the products that hold what was compiled for guests: for their target, and of this host what that needs.
const COMPILED_FOR_GUESTS: [&str; 2] = ["aarch64-unknown-none-softfloat", "bare"];
/// Seconds after which a shell is ended. No passing test comes near.
const LIMIT_S: &str = "1200";

/// A shell in a copy of the repository. The copy is removed at the end, and what runs in the shell ends with it.
#[derive(Debug)]
pub struct Shell {
    folder: PathBuf,
    bash: Child,
    input: ChildStdin,
    answers: BufReader<ChildStdout>,
    typed: usize,
}

/// What a command did so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Exit code.
    pub code: i32,
    /// What it printed, on both streams.
    pub printed: String,
}

/// A command that runs beside others.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    number: usize,
}

impl Shell {
    /// Makes the copy and starts the shell in it. What `./x build` made is there: the tool, the guests and the parts of the Linux
    /// guest, so that nothing is downloaded, and what it compiled for guests, so that this is not compiled again. Its runs are a group of
    /// their own: `stats` and `trace` look for the only run there is.
    ///
    /// # Panics
    /// When the tool was not built, or the copy cannot be made.
    #[must_use]
    pub fn start(name: &str) -> Self {
        let products = products();
        let tool = products.join("release/bulkhead");
        assert!(tool.exists(), "{} is missing: run `./x build` first", tool.display());
        let folder = std::env::temp_dir().join(format!("bulkhead-book-{}-{name}", std::process::id()));
        let copy = folder.join("bulkhead");
        copy_tree(&repository(), &copy);
        fs::create_dir_all(copy.join("target/release")).expect("a folder for the tool");
        // No link: the tool looks for guests beside itself.
        fs::copy(&tool, copy.join("target/release/bulkhead")).expect("a copy of the tool");
        copy_tree(&products.join("guests"), &copy.join("target/guests"));
        copy_with_times(&COMPILED_FOR_GUESTS.map(|folder| products.join(folder)), &copy.join("target"));
        fs::create_dir_all(copy.join(".cache")).expect("a folder for downloads");
        symlink(repository().join(".cache/linux"), copy.join(".cache/linux")).expect("a link to downloads");
        let mut bash = Command::new("timeout")
            .args(["--kill-after=10", LIMIT_S, "bash", "--noprofile", "--norc"])
            .current_dir(&copy)
            // As in a new terminal: cargo's and the tests' own settings stay outside.
            .env_remove("BULKHEAD_GUESTS")
            .env_remove("BULKHEAD_MONITOR")
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("CARGO_MANIFEST_DIR")
            .env("BULKHEAD_RUNS", format!("book-{}-{name}", std::process::id()))
            .env("LC_ALL", "C.UTF-8")
            .env("NO_COLOR", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("bash and timeout can be started");
        let input = bash.stdin.take().expect("a pipe");
        let answers = BufReader::new(bash.stdout.take().expect("a pipe"));
        let mut shell = Self { folder, bash, input, answers, typed: 0 };
        // The tutorial defines this alias; the chapters behind it expect it.
        let outcome = shell.run("shopt -s expand_aliases; alias bulkhead=$PWD/target/release/bulkhead");
        assert_eq!(outcome, Outcome { code: 0, printed: String::new() });
        shell
    }

    /// The copy of the repository.
    #[must_use]
    pub fn copy(&self) -> PathBuf {
        self.folder.join("bulkhead")
    }

    /// Types a command and waits until it has ended.
    ///
    /// # Panics
    /// When the shell is gone.
    pub fn run(&mut self, command: &str) -> Outcome {
        let number = self.write(&format!("{{\n{command}\n}}"), "");
        let code = self.answer(number);
        Outcome { code, printed: self.printed(number) }
    }

    /// Types a command that runs beside those that are typed after it.
    ///
    /// # Panics
    /// When the shell is gone.
    pub fn run_beside(&mut self, command: &str) -> Beside {
        let number = self.write(&format!("{{\n{command}\n}}"), " &");
        assert_eq!(self.answer(number), 0);
        let noted = self.run(&format!("beside_{number}=$!"));
        assert_eq!(noted.code, 0);
        Beside { number }
    }

    /// Says whether a command that was started beside others still runs.
    pub fn still_runs(&mut self, beside: Beside) -> bool {
        self.run(&format!("kill -0 $beside_{} 2>/dev/null", beside.number)).code == 0
    }

    /// Waits until a command has ended that was started beside others.
    pub fn end_of(&mut self, beside: Beside) -> Outcome {
        let code = self.run(&format!("wait $beside_{}", beside.number)).code;
        Outcome { code, printed: self.printed(beside.number) }
    }

    fn output(&self, number: usize) -> PathBuf {
        self.folder.join(format!("output-{number}"))
    }

    fn printed(&self, number: usize) -> String {
        let bytes = fs::read(self.output(number)).expect("what a command printed can be read");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Lets the shell execute a text; it answers with number and exit code.
    fn write(&mut self, text: &str, behind: &str) -> usize {
        self.typed += 1;
        let output = self.output(self.typed);
        let line = format!("{text} >{} 2>&1 </dev/null{behind}\necho \"{} $?\"\n", output.display(), self.typed);
        self.input.write_all(line.as_bytes()).expect("the shell takes what is typed");
        self.typed
    }

    fn answer(&mut self, number: usize) -> i32 {
        let mut line = String::new();
        let bytes = self.answers.read_line(&mut line).expect("the shell answers");
        assert!(
            bytes > 0,
            "the shell ended, or {LIMIT_S} s have passed; the last command printed:\n{}",
            self.printed(number)
        );
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words.first().copied(), Some(number.to_string().as_str()), "{line}");
        words.get(1).and_then(|code| code.parse().ok()).expect("an exit code")
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Both have ended already unless a test failed.
        let _ = self.input.write_all(b"kill $(jobs -p) 2>/dev/null; exit\n");
        let _ = self.bash.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Where cargo puts products: beside the test program's own folder.
fn products() -> PathBuf {
    let program = std::env::current_exe().expect("a test knows its program");
    program.ancestors().nth(3).expect("target/PROFILE/deps/NAME").to_path_buf()
}

/// Copies folders into another one with the times of their files, by which cargo knows what is up to date.
fn copy_with_times(folders: &[PathBuf], to: &Path) {
    let copied = Command::new("cp").arg("-a").args(folders).arg(to).status();
    assert!(copied.is_ok_and(|status| status.success()), "{folders:?} cannot be copied; run `./x build` first");
}

/// Copies a folder; links are copied as the files that they lead to.
fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap_or_else(|error| panic!("{}: {error}", to.display()));
    let entries =
        fs::read_dir(from).unwrap_or_else(|error| panic!("{}: {error}; run `./x build` first", from.display()));
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if LEFT_OUT.iter().any(|left_out| name == *left_out) {
            continue;
        }
        let target = to.join(&name);
        if path.is_dir() {
            copy_tree(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
}
