//! Says hello on the UART in more lines than its FIFO holds, and repeats what is typed, until as many lines were typed as its argument says.
#![no_std]
#![no_main]

use bulkhead_component::{Code, call, packed, println};

bulkhead_component::entry!(main);

bulkhead_component::import! {
    /// A line for the UART; its answer is the number of a code.
    fn write(length, first, second, third, fourth, fifth, sixth);
    /// What was typed, seven bytes at most.
    fn typed();
}

bulkhead_component::slots! {
    /// Where the driver says that something was typed.
    input;
}

/// Bytes of a line that the driver takes.
const LINE_BYTES: usize = 48;

/// Has a text written; its answer.
fn put(text: &[u8]) -> Result<Code, Code> {
    let [first, second, third, fourth, fifth, sixth, _] = packed(text);
    write(text.len() as u64, first, second, third, fourth, fifth, sixth)
        .map(|number| Code::from_number(number).unwrap_or(Code::BadCall))
}

fn main(last: u64) {
    println!("empty: {:?}, too long: {:?}", put(b""), put(&[b'x'; LINE_BYTES + 1]));
    for _ in 0..4 {
        if put(b"terminal: a line that is longer than a FIFO is\n") != Ok(Code::Ok) {
            println!("terminal: no room");
        }
    }
    let (mut line, mut length, mut lines) = ([0_u8; LINE_BYTES], 2, 0);
    line[..2].copy_from_slice(b"> ");
    while lines < last {
        let _ = call::receive(input(), 0);
        while let Ok(piece @ 1..) = typed() {
            let [count, bytes @ ..] = piece.to_le_bytes();
            for byte in bytes.into_iter().take(count.into()) {
                if let Some(place) = line.get_mut(length) {
                    (*place, length) = (byte, length + 1);
                }
                if byte == b'\n' {
                    let _ = put(line.get(..length).unwrap_or_default());
                    (length, lines) = (2, lines + 1);
                }
            }
        }
    }
}
