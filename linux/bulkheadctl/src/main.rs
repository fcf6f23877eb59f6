//! `bulkheadctl`: see the library's head, or `bulkheadctl --help`.

use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let mut output = io::BufWriter::new(io::stdout().lock());
    let outcome = bulkheadctl::run(arguments, &mut output);
    let flushed = output.flush();
    match (outcome, flushed) {
        (Ok(()), Ok(())) => ExitCode::SUCCESS,
        // The reader of the output has gone: not an error of ours.
        (Ok(()), Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        (Ok(()), Err(error)) => {
            eprintln!("bulkheadctl: cannot write the output: {error}");
            ExitCode::FAILURE
        }
        (Err(failure), _) => {
            eprintln!("bulkheadctl: {}", failure.message);
            ExitCode::from(failure.code)
        }
    }
}
