//! The program `bulkhead-bench`, which `./x bench` calls after it has built what is measured.
#![forbid(unsafe_code)]

use bulkhead_bench::{BenchArguments, bench};
use bulkhead_files::output;
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    output::result(bench(&BenchArguments::parse()))
}
