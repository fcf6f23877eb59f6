//! The initial RAM file system as a `newc` archive (Linux `Documentation/driver-api/early-userspace/buffer-format.rst`).
//!
//! Everything that could differ between two builds is fixed: owner root, time zero, inode numbers in order of entry, and
//! entries in the order of their names.

use std::collections::BTreeMap;
use std::fmt;

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Directory,
    File { executable: bool, contents: Vec<u8> },
    CharacterDevice { major: u32, minor: u32 },
}

/// A path that cannot stand in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPath {
    path: String,
    why: &'static str,
}

impl fmt::Display for BadPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}` cannot be a path in the archive: {}", self.path, self.why)
    }
}

impl std::error::Error for BadPath {}

/// An archive being put together; [`Archive::to_bytes`] gives the file.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    entries: BTreeMap<String, Entry>,
}

const MODE_DIRECTORY: u32 = 0o040_755;
const MODE_FILE: u32 = 0o100_644;
const MODE_PROGRAM: u32 = 0o100_755;
const MODE_CHARACTER_DEVICE: u32 = 0o020_600;
/// Name of the entry that ends an archive.
const TRAILER: &str = "TRAILER!!!";
/// Names and contents start at multiples of this many bytes.
const ALIGNMENT_BYTES: usize = 4;

impl Archive {
    /// An archive with nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a directory and the directories above it.
    ///
    /// # Errors
    /// The path is absolute, empty, or has a component that is empty, `.` or `..`, or a file stands where a directory must be.
    pub fn directory(&mut self, path: &str) -> Result<(), BadPath> {
        check(path)?;
        for (end, _) in path.match_indices('/').chain([(path.len(), "")]) {
            let above = &path[..end];
            let entry = self.entries.entry(above.to_owned()).or_insert(Entry::Directory);
            if *entry != Entry::Directory {
                return Err(BadPath { path: path.to_owned(), why: "a file has the name of one of its directories" });
            }
        }
        Ok(())
    }

    /// Adds a file, executable by all when `executable`, and the directories above it.
    ///
    /// # Errors
    /// As [`Archive::directory`], or the path is taken.
    pub fn file(&mut self, path: &str, executable: bool, contents: Vec<u8>) -> Result<(), BadPath> {
        self.leaf(path, Entry::File { executable, contents })
    }

    /// Adds a character device, mode 0600, and the directories above it.
    ///
    /// # Errors
    /// As [`Archive::file`].
    pub fn character_device(&mut self, path: &str, major: u32, minor: u32) -> Result<(), BadPath> {
        self.leaf(path, Entry::CharacterDevice { major, minor })
    }

    fn leaf(&mut self, path: &str, entry: Entry) -> Result<(), BadPath> {
        check(path)?;
        if let Some((above, _)) = path.rsplit_once('/') {
            self.directory(above)?;
        }
        if self.entries.contains_key(path) {
            return Err(BadPath { path: path.to_owned(), why: "another entry has this path" });
        }
        self.entries.insert(path.to_owned(), entry);
        Ok(())
    }

    /// The archive as bytes, entries sorted by name, so that a directory precedes what is in it.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (inode, (path, entry)) in (1_u32..).zip(&self.entries) {
            let (mode, device, contents): (u32, (u32, u32), &[u8]) = match entry {
                Entry::Directory => (MODE_DIRECTORY, (0, 0), &[]),
                Entry::File { executable: true, contents } => (MODE_PROGRAM, (0, 0), contents),
                Entry::File { executable: false, contents } => (MODE_FILE, (0, 0), contents),
                Entry::CharacterDevice { major, minor } => (MODE_CHARACTER_DEVICE, (*major, *minor), &[]),
            };
            write_entry(&mut bytes, inode, mode, device, path, contents);
        }
        write_entry(&mut bytes, 0, 0, (0, 0), TRAILER, &[]);
        bytes
    }
}

fn check(path: &str) -> Result<(), BadPath> {
    let bad = |why| Err(BadPath { path: path.to_owned(), why });
    if path == TRAILER {
        return bad("this name ends an archive");
    }
    if path.split('/').any(|component| matches!(component, "" | "." | "..")) {
        return bad("it must be relative, without empty, `.` or `..` components");
    }
    if path.contains('\0') {
        return bad("it has a zero byte");
    }
    Ok(())
}

/// One header of 13 hexadecimal fields of 8 digits, the name with its zero, the contents; both padded.
fn write_entry(bytes: &mut Vec<u8>, inode: u32, mode: u32, device: (u32, u32), path: &str, contents: &[u8]) {
    let links = if mode == MODE_DIRECTORY { 2 } else { 1 };
    let (owner, group, time, check) = (0, 0, 0, 0);
    let (file_system_major, file_system_minor) = (0, 0);
    let size = u32::try_from(contents.len()).expect("a file of a RAM file system is smaller than 4 GiB");
    let name_bytes = u32::try_from(path.len() + 1).expect("a path is shorter than 4 GiB");
    bytes.extend_from_slice(b"070701");
    let fields = [
        inode,
        mode,
        owner,
        group,
        links,
        time,
        size,
        file_system_major,
        file_system_minor,
        device.0,
        device.1,
        name_bytes,
        check,
    ];
    for field in fields {
        bytes.extend_from_slice(format!("{field:08X}").as_bytes());
    }
    bytes.extend_from_slice(path.as_bytes());
    bytes.push(0);
    pad(bytes);
    bytes.extend_from_slice(contents);
    pad(bytes);
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT_BYTES), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Archive {
        let mut archive = Archive::new();
        archive.file("init", true, b"#!/bin/sh\n".to_vec()).unwrap();
        archive.character_device("dev/console", 5, 1).unwrap();
        archive
    }

    #[test]
    fn entries_are_sorted_padded_and_ended() {
        let bytes = small().to_bytes();
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(bytes.len() % ALIGNMENT_BYTES, 0);
        assert_eq!(text.matches("070701").count(), 4, "dev, dev/console, init, trailer");
        let positions = ["dev\0", "dev/console\0", "init\0", "TRAILER!!!\0"].map(|name| text.find(name).unwrap());
        assert!(positions.is_sorted(), "{positions:?}");
    }

    #[test]
    fn header_fields_are_those_of_the_format() {
        let mut archive = Archive::new();
        archive.file("a", true, b"xyz".to_vec()).unwrap();
        let expected = concat!(
            "070701", "00000001", "000081ED", "00000000", "00000000", "00000001", "00000000", "00000003", "00000000",
            "00000000", "00000000", "00000000", "00000002", "00000000", "a\0", "xyz\0"
        );
        assert!(archive.to_bytes().starts_with(expected.as_bytes()));
    }

    #[test]
    fn a_device_carries_its_number_and_no_contents() {
        let bytes = small().to_bytes();
        let header = &bytes[112 + 4..][..110];
        assert_eq!(&header[14..22], b"00002180", "character device, mode 0600");
        assert_eq!(&header[78..94], b"0000000500000001");
    }

    #[test]
    fn the_order_of_adding_does_not_show() {
        let mut archive = Archive::new();
        archive.character_device("dev/console", 5, 1).unwrap();
        archive.file("init", true, b"#!/bin/sh\n".to_vec()).unwrap();
        assert_eq!(archive.to_bytes(), small().to_bytes());
    }

    #[test]
    fn bad_paths_are_refused() {
        for path in ["", "/init", "a//b", "../b", "a/.", "TRAILER!!!", "a\0b"] {
            assert!(Archive::new().file(path, false, Vec::new()).is_err(), "{path:?}");
        }
        let mut archive = small();
        assert!(archive.file("init", false, Vec::new()).is_err(), "taken");
        assert!(archive.file("init/below", false, Vec::new()).is_err(), "below a file");
    }
}
