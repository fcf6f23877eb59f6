//! What threads and servers are called, for who looks at an instance from outside.

use crate::Instance;
use bulkhead_kernel_abi::boot::NameRow;

/// A name as rows have it, with a zero behind it.
pub(crate) fn name(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    name.iter_mut().take(15).zip(text.bytes()).for_each(|(slot, byte)| *slot = byte);
    name
}

/// The rows of threads and of servers; none when nobody has a name.
pub(crate) fn rows(instance: &Instance<'_>, servers: usize) -> Vec<NameRow> {
    let padded = |names: &[String], count: usize| {
        let row = |number: usize| NameRow { name: name(names.get(number).map_or("", String::as_str)) };
        (0..count).map(row).collect::<Vec<_>>()
    };
    let of_threads = instance.components.iter().flat_map(|one| padded(&one.thread_names, one.threads.len()));
    let all: Vec<NameRow> = of_threads.chain(padded(&instance.server_names, servers)).collect();
    if all.iter().all(|row| row.name == [0; 16]) { Vec::new() } else { all }
}
