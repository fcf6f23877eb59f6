//! Descriptions of instances as files, which descriptions of systems name.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Descriptions of instances in a folder of their own, which goes with them.
pub struct Files(PathBuf);

impl Files {
    /// Writes them, by their names.
    ///
    /// # Panics
    /// When a file cannot be written.
    #[must_use]
    pub fn new(folder: &str, texts: &[(&str, &str)]) -> Self {
        // Tests run beside one another.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("bulkhead-described-{}-{number}-{folder}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory for the description");
        let files = Self(directory);
        for (name, text) in texts {
            std::fs::write(files.path(name), text).expect("the description is written");
        }
        files
    }

    /// The path of one.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.kernel.toml"))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // A left-over directory harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
