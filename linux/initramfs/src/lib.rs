//! Packs the Linux guest from the files of distribution packages.
//!
//! Two jobs: [`archive`] writes the initial RAM file system that `/init` lives in, and [`kernel`] turns the distribution's
//! `vmlinuz` into the raw `Image` that the arm64 boot protocol wants. Both are pure functions from bytes to bytes, so the
//! same packages give the same guest bit for bit; the process around them (`main.rs`) reads, compresses and writes files.
//!
//! The rejected alternative is the `cpio` program: it is one more package to install, it writes inode numbers and times of
//! the build machine into the archive, and it cannot add a device node without root.
#![forbid(unsafe_code)]

pub mod archive;
pub mod kernel;
