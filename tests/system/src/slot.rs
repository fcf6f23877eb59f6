//! Places for machines: two at once on this host, whatever number of test threads and test programs want one.
//!
//! A machine of several cores keeps more than one host core busy, and a starved emulator makes tests slow rather than
//! wrong. The locks are files, so that two test programs share them and a killed one leaves nothing locked. A test that keeps a
//! machine must not start another one: the place for which it waits may be its own.

use std::cell::Cell;
use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Machines at once.
const SLOTS: usize = 2;

thread_local! {
    /// Places that this test holds.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// A place for one machine; free again when dropped.
#[derive(Debug)]
pub struct Slot {
    _lock: File,
}

impl Drop for Slot {
    fn drop(&mut self) {
        HELD.set(HELD.get().saturating_sub(1));
    }
}

impl Slot {
    /// Waits for a free place.
    ///
    /// # Panics
    /// When the directory of the test program cannot hold lock files, and when the test holds a place already: the one for which
    /// it would wait may be its own.
    #[must_use]
    pub fn take() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        assert_eq!(HELD.get(), 0, "a test that keeps a machine must not start another one");
        let files: Vec<File> = (0..SLOTS).map(open).collect();
        let free = files.iter().position(|file| file.try_lock().is_ok());
        let chosen = free.unwrap_or_else(|| {
            let chosen = NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS;
            files[chosen].lock().expect("a lock file can be locked");
            chosen
        });
        let lock = files.into_iter().nth(chosen).expect("the chosen slot exists");
        HELD.set(1);
        Self { _lock: lock }
    }
}

fn open(slot: usize) -> File {
    let program = std::env::current_exe().expect("a test knows its program");
    let path = program.with_file_name(format!("bulkhead-machine-{slot}.lock"));
    File::options().create(true).append(true).open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
