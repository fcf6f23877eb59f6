//! Disks of guests: made as a user makes them, by `./x disk`, and judged by the programs of e2fsprogs, which knows nothing of Bulkhead.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A file in the image of a disk: its path, its bytes, whether it is a program.
pub type Entry<'a> = (&'a str, &'a [u8], bool);

/// The file of a disk with an ext4 file system; gone with this value.
#[derive(Debug)]
pub struct Disk {
    directory: PathBuf,
}

impl Disk {
    /// Makes a disk of this size (`64M`) that holds these files.
    ///
    /// # Panics
    /// When `./x disk` makes none.
    #[must_use]
    pub fn with(size: &str, files: &[Entry<'_>]) -> Self {
        let disk = Self::place();
        let contents = disk.directory.join("contents");
        create(&contents);
        for (path, bytes, is_program) in files {
            let file = contents.join(path);
            create(file.parent().expect("a file is in a directory"));
            std::fs::write(&file, bytes).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            if *is_program {
                run(Command::new("chmod").arg("+x").arg(&file));
            }
        }
        let x = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../x");
        run(Command::new(x).arg("disk").arg(&contents).arg(disk.path()).arg(size));
        disk
    }

    /// A place of its own.
    fn place() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { directory: std::env::temp_dir().join(format!("bulkhead-disk-{}-{number}", std::process::id())) }
    }

    /// A disk with these bytes.
    ///
    /// # Panics
    /// When the file cannot be written.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let disk = Self::place();
        create(&disk.directory);
        std::fs::write(disk.path(), bytes).unwrap_or_else(|error| panic!("{}: {error}", disk.path().display()));
        disk
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join("disk.img")
    }

    /// Fails the test unless the file system is whole: nothing to replay, nothing to repair.
    ///
    /// # Panics
    /// With what e2fsck says.
    pub fn assert_whole(&self) {
        run(e2fsprogs("e2fsck").arg("-fn").arg(self.path()));
    }

    /// Repairs the file system as a boot after a power cut does, and returns whether there was something to do.
    ///
    /// # Panics
    /// When that is beyond what e2fsck does without being asked.
    pub fn repair(&self) -> bool {
        let output = e2fsprogs("e2fsck").args(["-f", "-p"]).arg(self.path()).output().expect("e2fsck runs");
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output));
        output.status.code() == Some(1)
    }

    /// Bytes of a file in the file system.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn read(&self, path: &str) -> Vec<u8> {
        let copy = self.directory.join("copy");
        run(e2fsprogs("debugfs").arg("-R").arg(format!("dump {path} {}", copy.display())).arg(self.path()));
        std::fs::read(&copy).unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What stays is among the temporary files.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A program that may lie outside the path, as all of sbin.
fn e2fsprogs(program: &str) -> Command {
    let of_debian = Path::new("/usr/sbin").join(program);
    Command::new(if of_debian.exists() { of_debian } else { PathBuf::from(program) })
}

fn create(directory: &Path) {
    std::fs::create_dir_all(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", text(&output));
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}
