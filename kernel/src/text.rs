//! What is printed, and by whom (CH-61; `docs/design-records/0067-who-printed-a-line.md`).
//!
//! Components share one console, and any of them may print what looks like a line of another one or of the kernel. So the kernel says who prints. In a ring
//! that is an entry in front of each text, which no component can write; the reader keeps a line of each component apart and puts names in front. On a UART, where a
//! person reads, each line begins with `[NAME] `, a line inside one `print` with `| `, and who prints in the middle of another one's line begins a new one. The
//! kernel's own lines have no bracket.
//!
//! A ring overwrites its oldest entries. A component that prints without end would take the others' place before anybody has read them, so each has a share of the
//! ring that is its own for some time, and may take what is left over as long as there is some ([`PrintRoom`]). A UART loses nothing: who prints there takes the time for it.

use bulkhead_arch::kernel::{KERNEL_WRITER, KernelMachine};
use bulkhead_kernel_abi::boot::ComponentRow;
use bulkhead_kernel_abi::{MAX_COMPONENTS, PRINT_BYTES};

/// Digits of a word.
const DIGITS: u32 = 16;
/// Parts of a second for which what was printed stays at least.
const WINDOWS_PER_SECOND: u64 = 50;
/// Lines that one `print` may continue on a UART; more line ends become `?`. Each has something in front, and nobody looks for interrupts meanwhile.
const MOST_CONTINUED: u32 = 4;
/// The one control character above the others of ASCII; what is above it is none of ASCII.
const DELETE: u8 = 0x7f;
/// Room that a line of the kernel asks for: more than it has bytes.
const LINE_ENTRIES: u32 = 192;
/// Entries of the longest `print`, and of the one that says whose it is.
const PRINT_ENTRIES: u32 = PRINT_BYTES as u32 + 1;

/// Who may print how much of a ring in a stretch of time.
///
/// All together print at most half of its entries in one stretch, so what is printed in one is there until the next one ends. A quarter of that is shared out equally,
/// to each component and one for the kernel's lines and one for all processes; the rest is for who comes first. A share has room for one `print`, and the kernel's for
/// one line, however many components there are: otherwise the first who comes would silence all others.
#[derive(Clone, Debug)]
struct PrintRoom {
    window_ticks: u64,
    began_ticks: u64,
    most: u32,
    share: u32,
    kernel_share: u32,
    /// Entries that are used or that somebody has a right to.
    spoken: u32,
    used: [u32; MAX_COMPONENTS + 2],
    users: u32,
}

impl PrintRoom {
    /// Room in a ring of this number of entries for these components of the host's; a ring without entries is a UART, which has room for all.
    fn new(entries: u64, components: usize, counter_hz: u64) -> Self {
        let most = u32::try_from(entries / 2).unwrap_or(u32::MAX);
        let users = components.min(MAX_COMPONENTS).saturating_add(2) as u32;
        let share = (most / 4).checked_div(users).unwrap_or(0).max(PRINT_ENTRIES);
        let kernel_share = share.max(LINE_ENTRIES);
        let window_ticks = counter_hz / WINDOWS_PER_SECOND;
        let used = [0; MAX_COMPONENTS + 2];
        let mut this = Self { window_ticks, began_ticks: 0, most, share, kernel_share, spoken: 0, used, users };
        this.begin(0);
        this
    }

    /// A stretch of time begins, in which nobody has printed yet.
    fn begin(&mut self, now_ticks: u64) {
        self.began_ticks = now_ticks;
        self.used = [0; MAX_COMPONENTS + 2];
        self.spoken = self.share.saturating_mul(self.users.saturating_sub(1)).saturating_add(self.kernel_share);
    }

    /// Takes room for a writer; false when there is none, and then nothing is taken.
    fn take(&mut self, writer: u16, entries: u32, now_ticks: u64) -> bool {
        if self.most == 0 {
            return true;
        }
        if now_ticks.saturating_sub(self.began_ticks) >= self.window_ticks {
            self.begin(now_ticks);
        }
        // The last two are the kernel's and that of all processes.
        let last = self.users.saturating_sub(1);
        let (place, share) = match writer {
            KERNEL_WRITER => (last, self.kernel_share),
            _ => (u32::from(writer).min(last.saturating_sub(1)), self.share),
        };
        let Some(used) = self.used.get_mut(place as usize) else { return false };
        let after = used.saturating_add(entries);
        let more = after.max(share).saturating_sub((*used).max(share));
        let spoken = self.spoken.saturating_add(more);
        if spoken > self.most {
            return false;
        }
        (*used, self.spoken) = (after, spoken);
        true
    }
}

/// The console's text.
#[derive(Debug)]
pub(crate) struct Text<'a> {
    /// Who the components are.
    rows: &'a [ComponentRow],
    room: PrintRoom,
    is_ring: bool,
    /// On a UART: who printed last, and whether the line is not at its end.
    last: u16,
    is_within_line: bool,
}

impl<'a> Text<'a> {
    /// The rows of components, for all of the kernel.
    pub(crate) fn components(&self) -> &'a [ComponentRow] {
        self.rows
    }

    pub(crate) fn new(rows: &'a [ComponentRow], entries: u64, counter_hz: u64) -> Self {
        let room = PrintRoom::new(entries, rows.len(), counter_hz);
        Self { rows, room, is_ring: entries != 0, last: KERNEL_WRITER, is_within_line: false }
    }

    /// Prints what a component says; false when there is no room for it, and then nothing was printed.
    pub(crate) fn print<M: KernelMachine>(
        &mut self,
        machine: &mut M,
        component: u16,
        text: &[u8],
        now_ticks: u64,
    ) -> bool {
        let entries = (text.len() as u32).saturating_add(1);
        if !self.room.take(component, entries, now_ticks) {
            return false;
        }
        self.begin(machine, component);
        if self.is_ring {
            machine.write_console(text);
        } else {
            self.print_lines(machine, component, text);
        }
        true
    }

    /// Prints a line of the kernel: words, each with a number behind it. False when there is no room.
    pub(crate) fn print_numbers<M: KernelMachine>(
        &mut self,
        machine: &mut M,
        words: &[(&str, u64)],
        now_ticks: u64,
    ) -> bool {
        if !self.room.take(KERNEL_WRITER, LINE_ENTRIES, now_ticks) {
            return false;
        }
        self.begin(machine, KERNEL_WRITER);
        for (word, number) in words {
            machine.write_console(word.as_bytes());
            write_hexadecimal(machine, *number);
        }
        machine.write_console(b"\n");
        true
    }

    /// Says who prints; on a UART nobody continues another one's line.
    fn begin<M: KernelMachine>(&mut self, machine: &mut M, writer: u16) {
        if self.is_ring {
            machine.write_writer(writer);
        } else if self.is_within_line && self.last != writer {
            machine.write_console(b"\n");
            self.is_within_line = false;
        }
        self.last = writer;
    }

    fn print_lines<M: KernelMachine>(&mut self, machine: &mut M, component: u16, text: &[u8]) {
        let Some((last, others)) = text.split_last() else { return };
        if !self.is_within_line && text.first() != Some(&b'\n') {
            self.write_name(machine, component);
        }
        self.is_within_line = *last != b'\n';
        // As a whole where it is one line; what is in front of the first of other bytes as well, so that none is looked at twice.
        let is_plain = |byte: &u8| matches!(*byte, b' '..DELETE);
        let plain = match others.iter().position(|byte| !is_plain(byte)) {
            None if shown(*last, true) == *last => return machine.write_console(text),
            plain => plain.unwrap_or(others.len()),
        };
        let Some((before, rest)) = text.split_at_checked(plain) else { return };
        machine.write_console(before);
        self.is_within_line = print_continued(machine, rest) != b'\n';
    }

    fn write_name<M: KernelMachine>(&self, machine: &mut M, component: u16) {
        machine.write_console(b"[");
        match self.rows.get(usize::from(component)) {
            // Where it lies: nobody looks for interrupts meanwhile.
            Some(row) => machine.write_console(row.name.split(|byte| *byte == 0).next().unwrap_or(&[])),
            None => {
                machine.write_console(b"process ");
                // Of 64 components two digits tell it.
                let digit = |number: u16| b'0'.wrapping_add((number % 10) as u8);
                machine.write_console(&[digit(component / 10), digit(component)]);
            }
        }
        machine.write_console(b"] ");
    }
}

/// Prints what may have line ends and controls, in the middle of a line; returns the last byte as it is shown.
fn print_continued<M: KernelMachine>(machine: &mut M, text: &[u8]) -> u8 {
    let mut bytes = [0; LINES_BYTES];
    let (mut places, mut continued, mut before) = (bytes.iter_mut(), 0_u32, 0);
    let mut push = |byte: u8| {
        if let Some(place) = places.next() {
            *place = byte;
        }
    };
    for byte in text {
        let byte = shown(*byte, continued < MOST_CONTINUED);
        if before == b'\n' && byte != b'\n' {
            push(b'|');
            push(b' ');
            continued = continued.saturating_add(1);
        }
        push(byte);
        before = byte;
    }
    let used = LINES_BYTES.saturating_sub(places.len());
    machine.write_console(bytes.get(..used).unwrap_or(&[]));
    before
}

/// What one `print` comes to on a UART, but for the name.
const LINES_BYTES: usize = PRINT_BYTES + 2 * MOST_CONTINUED as usize;

/// Text that is put together.
struct Lines {
    bytes: [u8; LINES_BYTES],
    used: usize,
}

impl Lines {
    const fn new() -> Self {
        Self { bytes: [0; LINES_BYTES], used: 0 }
    }

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.used) {
            *place = byte;
            self.used = self.used.wrapping_add(1);
        }
    }

    fn text(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or(&[])
    }
}

/// A byte as a UART is sent it. What a terminal may not show but obey becomes `?`: it could go back to where the name is. Ends of lines, of which some may be, and tabs do no harm. Above
/// ASCII are controls as well (ECMA-48, 5.3: 0x80 to 0x9f, where 0x9b is what ESC and `[` are), as bytes or, behind 0xc2, in UTF-8; which of them a terminal takes, nobody here knows,
/// so it is sent none of these bytes.
const fn shown(byte: u8, may_end: bool) -> u8 {
    match byte {
        b' '..DELETE | b'\t' => byte,
        b'\n' if may_end => byte,
        _ => b'?',
    }
}

/// Prints a number in hexadecimal, without leading zeros.
fn write_hexadecimal<M: KernelMachine>(machine: &mut M, number: u64) {
    let mut digits = Lines::new();
    digits.push(b'0');
    digits.push(b'x');
    let leading = (number.leading_zeros() / 4).min(DIGITS.saturating_sub(1));
    for digit in leading..DIGITS {
        let shift = DIGITS.saturating_sub(1).saturating_sub(digit).saturating_mul(4);
        let value = number.wrapping_shr(shift) as u8 & 0xf;
        digits.push(if value < 10 { b'0'.wrapping_add(value) } else { (b'a' - 10).wrapping_add(value) });
    }
    machine.write_console(digits.text());
}

#[cfg(test)]
mod tests {
    use super::{LINE_ENTRIES, PRINT_ENTRIES, PrintRoom};
    use bulkhead_arch::kernel::KERNEL_WRITER;
    use bulkhead_kernel_abi::MAX_COMPONENTS;

    /// CH-61: one that prints without end leaves each other one a whole `print`, and the kernel a line, however many there are.
    #[test]
    fn a_share_has_room_for_what_its_owner_prints_at_once() {
        for components in 1..=MAX_COMPONENTS {
            let mut room = PrintRoom::new(1 << 14, components, 62_500_000);
            for window in 0..3 {
                let now = window * 62_500_000;
                while room.take(0, PRINT_ENTRIES, now) {}
                while room.take(0, 1, now) {}
                for other in 1..components as u16 {
                    assert!(room.take(other, PRINT_ENTRIES, now), "component {other} of {components}");
                }
                assert!(room.take(components as u16, PRINT_ENTRIES, now), "a process beside {components}");
                assert!(room.take(KERNEL_WRITER, LINE_ENTRIES, now), "the kernel beside {components}");
                assert!(room.spoken <= room.most);
                assert!(room.used.iter().sum::<u32>() <= room.most);
            }
        }
    }
}
