//! Writes files that appear whole or not at all, several of them together.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Why nothing was written.
#[derive(Debug)]
pub struct WriteError {
    /// Which of the files could not be.
    pub path: PathBuf,
    /// Why.
    pub cause: io::Error,
}

/// Most links that are followed, as in Linux.
const MOST_LINKS: usize = 40;

/// A file under way.
struct Draft<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    /// The file itself, at the end of all links.
    target: PathBuf,
    /// A device, which has no other name that it could be renamed from.
    is_device: bool,
    temporary: PathBuf,
    /// Another name of the file that was there before.
    backup: PathBuf,
}

/// Writes one file.
///
/// # Errors
/// When it cannot be written; then it is as before.
pub fn whole(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    together(&[(path, bytes)])
}

/// Sees whether a file could be written now, and leaves everything as it is: for a command that works for long before it writes.
///
/// # Errors
/// As [`whole`].
pub fn probe(path: &Path) -> io::Result<()> {
    // What was begun and is not finished disappears.
    Stream::create(path).map(drop)
}

/// Writes several files: all or none. A link is followed; a device is written through; a directory and a pipe are refused.
///
/// # Errors
/// When one of them cannot be written; then all regular files are as before.
pub fn together(files: &[(&Path, &[u8])]) -> Result<(), WriteError> {
    let mut drafts = Vec::new();
    for (path, bytes) in files {
        drafts.push(draft(path, bytes).map_err(|cause| WriteError { path: path.to_path_buf(), cause })?);
    }
    let result = publish(&drafts);
    for draft in &drafts {
        // Of what succeeded nothing is left under these names; of the rest the first error is worth reporting.
        let _ = fs::remove_file(&draft.temporary);
        let _ = fs::remove_file(&draft.backup);
    }
    result
}

/// A file that is written piece by piece and appears when it is finished; a device gets the pieces at once.
#[derive(Debug)]
pub struct Stream {
    file: BufWriter<File>,
    target: PathBuf,
    /// `None` for a device, and when the file has its name.
    temporary: Option<PathBuf>,
}

impl Stream {
    /// Begins a file.
    ///
    /// # Errors
    /// As [`whole`].
    pub fn create(path: &Path) -> io::Result<Self> {
        let Draft { target, is_device, temporary, .. } = draft(path, &[])?;
        let (file, temporary) = match is_device {
            true => (OpenOptions::new().write(true).open(&target)?, None),
            false => (OpenOptions::new().write(true).create_new(true).open(&temporary)?, Some(temporary)),
        };
        Ok(Self { file: BufWriter::new(file), target, temporary })
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// When the rest cannot be written; then nothing appears.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        if let Some(temporary) = &self.temporary {
            self.file.get_ref().sync_all()?;
            fs::rename(temporary, &self.target)?;
        }
        self.temporary = None;
        Ok(())
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}

fn draft<'a>(path: &'a Path, bytes: &'a [u8]) -> io::Result<Draft<'a>> {
    let target = end_of_links(path)?;
    let is_device = match fs::metadata(&target) {
        Ok(metadata) if metadata.is_file() => false,
        Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(metadata) if is_device(&metadata) => true,
        Ok(_) => return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe or a socket; name a file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    let (temporary, backup) = (beside(&target, "partial"), beside(&target, "before"));
    Ok(Draft { path, bytes, target, is_device, temporary, backup })
}

#[cfg(unix)]
fn is_device(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    metadata.file_type().is_char_device() || metadata.file_type().is_block_device()
}

/// Follows links, also to a file that does not exist yet.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&target) {
            // A relative link starts where the link is; joining an absolute one replaces all.
            Ok(next) => target = target.parent().unwrap_or(Path::new("")).join(next),
            Err(_) => return Ok(target),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "too many links lead from one to the next"))
}

/// Files that were begun in this process.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// A name in the same directory. Two commands at once, or two threads of one, use different ones.
fn beside(target: &Path, ending: &str) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_os_string();
    // Only that no number comes twice matters.
    let number = BEGUN.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{}-{number}.{ending}", std::process::id()));
    target.with_file_name(name)
}

fn publish(drafts: &[Draft<'_>]) -> Result<(), WriteError> {
    let failed = |draft: &Draft<'_>, cause| WriteError { path: draft.path.to_path_buf(), cause };
    for draft in drafts.iter().filter(|draft| !draft.is_device) {
        prepare(draft).map_err(|cause| failed(draft, cause))?;
    }
    // What cannot be taken back comes after all that can fail for want of space.
    for draft in drafts.iter().filter(|draft| draft.is_device) {
        let through = || OpenOptions::new().write(true).open(&draft.target)?.write_all(draft.bytes);
        through().map_err(|cause| failed(draft, cause))?;
    }
    let files: Vec<&Draft<'_>> = drafts.iter().filter(|draft| !draft.is_device).collect();
    for (done, draft) in files.iter().enumerate() {
        if let Err(cause) = fs::rename(&draft.temporary, &draft.target) {
            files.iter().take(done).for_each(|draft| take_back(draft));
            return Err(failed(draft, cause));
        }
    }
    Ok(())
}

/// Writes the temporary file and gives the one that is there another name, from which it could come back.
fn prepare(draft: &Draft<'_>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(&draft.temporary)?;
    file.write_all(draft.bytes)?;
    if let Ok(before) = File::open(&draft.target).and_then(|before| before.metadata()) {
        file.set_permissions(before.permissions())?;
        // Some file systems have no hard links; there an error between two renames leaves the first of them done.
        let _ = fs::hard_link(&draft.target, &draft.backup);
    }
    file.sync_all()
}

/// Makes a file as it was before.
fn take_back(draft: &Draft<'_>) {
    if fs::rename(&draft.backup, &draft.target).is_err() {
        let _ = fs::remove_file(&draft.target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_write_one_file_do_not_meet() {
        let folder = std::env::temp_dir().join(format!("bulkhead-write-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("one");
        let write = |byte: u8| (0..50).for_each(|_| whole(&path, &[byte; 4096]).expect("written"));
        std::thread::scope(|scope| (0..4).for_each(|byte| drop(scope.spawn(move || write(byte)))));
        let bytes = fs::read(&path).expect("it is there");
        assert!(bytes.len() == 4096 && bytes.iter().all(|byte| Some(byte) == bytes.first()), "one of them, whole");
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1, "nothing else is left");
        assert!(probe(&folder).is_err() && probe(&path).is_ok(), "as it would be written");
        fs::remove_dir_all(folder).expect("removed");
    }
}
