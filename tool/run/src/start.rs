//! Why no monitor started: a machine that stays silent is asked where its boot core is.
//!
//! The boot code refuses to start by standing in a loop, because it has no map, no stack and no device by which it could say more
//! (`arch/src/el2/boot.s`). On a board that is all there is to see. Here the program counter, the level and RAM say the rest. All of
//! it is facts: how long the machine took decides only when it is asked.

use crate::console::readable;
use crate::error::RunError;
use crate::observer::Observer;
use crate::qmp::Qmp;
use crate::ram::Ram;
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::image::{ARM64_IMAGE_HEADER_BYTES, ARM64_IMAGE_PLACE_OFFSET};
use serde_json::json;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Time between two questions, and before the first one: most machines have started by then.
const INTERVAL: Duration = Duration::from_millis(500);
/// Lines of the serial line that a message shows.
const LINES: usize = 8;
/// U-Boot waits for commands behind this.
const PROMPT: &[u8] = b"=> ";
/// `wfe` and a branch to it.
const STAND: [u8; 8] = [0x5f, 0x20, 0x03, 0xd5, 0xff, 0xff, 0xff, 0x17];
const EL2: u64 = 2;

/// What a machine without a running monitor is asked for.
pub(crate) struct StartWatch {
    next: Instant,
    has_boot_loader: bool,
    has_started: bool,
}

impl StartWatch {
    /// Watches a machine that starts now.
    pub(crate) fn new(has_boot_loader: bool) -> Self {
        Self { next: Instant::now() + INTERVAL, has_boot_loader, has_started: false }
    }

    /// States whether there is still a reason to ask; `has_started` looks at RAM.
    pub(crate) fn is_over(&mut self, has_started: impl FnOnce() -> bool) -> bool {
        self.has_started = self.has_started || has_started();
        self.has_started
    }

    /// Finds out, now and then, whether no monitor will start.
    pub(crate) fn ask(
        &mut self,
        qmp: &mut Qmp,
        observer: &Observer,
        image: &File,
        serial: &[u8],
    ) -> Result<(), RunError> {
        if Instant::now() < self.next {
            return Ok(());
        }
        self.next = Instant::now() + INTERVAL;
        if self.has_boot_loader && serial.ends_with(PROMPT) {
            return Err(refused("the boot loader did not start the image and waits for commands", serial));
        }
        // A machine that does not answer this is found by who asks for something.
        let arguments = json!({ "command-line": "info registers", "cpu-index": 0 });
        let answer = qmp.execute_with("human-monitor-command", arguments).unwrap_or_default();
        let text = answer.as_str().unwrap_or_default();
        let (Some(counter), Some(state)) = (register(text, " PC="), register(text, "PSTATE=")) else { return Ok(()) };
        let Some(stands_at) = standing_place(observer.ram(), counter) else { return Ok(()) };
        let image = contents(image).map_err(RunError::host("cannot read the image again"))?;
        match reason(observer, &image, stands_at, state >> 2 & 3) {
            Some(reason) => Err(refused(&reason, serial)),
            None => Ok(()),
        }
    }
}

fn contents(file: &File) -> std::io::Result<Vec<u8>> {
    let bytes = usize::try_from(file.metadata()?.len()).map_err(std::io::Error::other)?;
    let mut contents = vec![0; bytes];
    file.read_exact_at(&mut contents, 0)?;
    Ok(contents)
}

/// Makes the error of a machine in which no monitor started.
pub(crate) fn refused(reason: &str, serial: &[u8]) -> RunError {
    let lines: Vec<String> =
        serial.split(|byte| *byte == b'\n').map(readable).filter(|line| !line.is_empty()).collect();
    let latest = lines.len().saturating_sub(LINES);
    RunError::NotStarted { reason: reason.to_owned(), serial: lines.into_iter().skip(latest).collect() }
}

/// Finds the value of a register in what QEMU prints of all.
fn register(text: &str, name: &str) -> Option<u64> {
    let (_, rest) = text.split_once(name)?;
    let digits = rest.split(|character: char| !character.is_ascii_hexdigit()).next()?;
    u64::from_str_radix(digits, 16).ok()
}

fn holds(ram: &Ram, address: u64, bytes: &[u8]) -> bool {
    let mut found = vec![0; bytes.len()];
    ram.copy_at(PhysicalAddress(address), &mut found) && found == bytes
}

/// Where the loop is in which a program counter is, if it is such a loop.
fn standing_place(ram: &Ram, counter: u64) -> Option<u64> {
    [Some(counter), counter.checked_sub(4)].into_iter().flatten().find(|place| holds(ram, *place, &STAND))
}

/// Says why the boot code of this image stands, if it is that which does.
fn reason(observer: &Observer, image: &[u8], stands_at: u64, level: u64) -> Option<String> {
    let (ram, header) = (observer.ram(), &observer.plan().header);
    let text = image.get(..usize::try_from(header.text_bytes).ok()?)?;
    let offset = 4 * text.windows(STAND.len()).step_by(4).position(|words| words == STAND)? as u64;
    let entered = stands_at.checked_sub(offset)?;
    if !holds(ram, entered, image.get(..ARM64_IMAGE_HEADER_BYTES)?) {
        return None;
    }
    let start = header.image_start.0;
    if entered != start {
        let place = image.get(ARM64_IMAGE_PLACE_OFFSET..ARM64_IMAGE_PLACE_OFFSET + 8)?;
        let place = u64::from_le_bytes(place.try_into().ok()?);
        return Some(format!(
            "the image was entered at {entered:#x} and runs at {start:#x} alone (`load_address` of the board file). A boot loader \
             that follows the arm64 boot protocol, such as U-Boot's `booti`, puts it {place:#x} bytes behind the start of RAM, as \
             its first bytes say; `go` leaves it where it was read"
        ));
    }
    if level != EL2 {
        return Some(format!(
            "the image was entered at EL{level} and needs EL2; on QEMU's `virt` that is `virtualization=on` in `machine`"
        ));
    }
    let whole = image.get(..usize::try_from(header.image_bytes).ok()?)?;
    let mut loaded = vec![0; whole.len()];
    let is_there = ram.copy_at(header.image_start, &mut loaded);
    if let Some(offset) = whole.iter().zip(&loaded).position(|(built, loaded)| built != loaded).filter(|_| is_there) {
        let address = start + offset as u64;
        return Some(format!(
            "the image is not whole in RAM: the byte at {address:#x} is another than in the file. Something wrote there, or the boot \
             loader did not read all of it"
        ));
    }
    Some(
        "the core that was entered is none of those that the image is for; compare `mpidr` in the board file"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::register;

    #[test]
    fn registers_are_found_in_what_qemu_prints() {
        // Of 7.2, and with the line that newer ones begin with.
        let text =
            " PC=0000000040200174 X00=0000000000000004\r\nX29=0 SP=0\r\nPSTATE=600003c9 -ZC- EL2h    FPU disabled\r\n";
        for text in [text.to_owned(), format!("\r\nCPU#0\r\n{text}")] {
            assert_eq!(register(&text, " PC="), Some(0x4020_0174));
            assert_eq!(register(&text, "PSTATE="), Some(0x6000_03c9));
        }
        for damaged in ["", " PC=", " PC=x", " PC=11112222333344445"] {
            assert_eq!(register(damaged, " PC="), None, "{damaged:?}");
        }
    }
}
