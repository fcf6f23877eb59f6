//! Being the back end of a virtio device of another partition: its requests become reads and writes of a file, its frames those of a
//! TAP interface.
//!
//! The protocol is `bulkhead_virtqueue`'s; here is what waits and rings. The front's memory is read and written by that crate alone, never by a system
//! call, so data is copied once more than it had to be. A device can be served by one process; when that ends, or this partition
//! restarts, the front waits, and another process continues where it was.

use crate::arguments::{Backing, ServeOptions};
use crate::disk::FileDisk;
use crate::failure::{Failure, USAGE};
use crate::port::BackEnd;
use crate::sysfs::{InterruptSwitch, Machine};
use crate::tap::Tap;
use bulkhead_channel::MappedBytes;
use bulkhead_guest_abi::guest::GUEST_POOL;
use bulkhead_virtqueue::{Block, IDENTITY_BYTES, LOOK_NS, Net, Step, Window};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Steps until the front is interrupted, although there is more to do.
const STEPS: u32 = 64;
/// Longest wait between two looks: a notification beyond the front's limit is lost.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: LOOK_NS.cast_signed() };

/// Most lines about a front at once, and how long it takes until there may be one more: what a front does wrong is its own choice, and so is
/// how often.
const LINES: u32 = 32;
const LINE_EACH: Duration = Duration::from_secs(1);

/// A device with what is behind it.
trait Service {
    fn step(&mut self, window: &Window<MappedBytes<'_>>) -> Step;
    /// Takes the interrupt that is due, if one is.
    fn take_interrupt(&mut self) -> bool;
    /// What to wait for besides notifications.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}

struct DiskService {
    block: Block,
    disk: FileDisk,
}

impl Service for DiskService {
    fn step(&mut self, window: &Window<MappedBytes<'_>>) -> Step {
        self.block.step(window, &mut self.disk)
    }

    fn take_interrupt(&mut self) -> bool {
        let is_due = self.block.interrupt_is_due();
        self.block.interrupt_was_sent();
        is_due
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

struct NetService {
    net: Net,
    tap: Tap,
}

impl Service for NetService {
    fn step(&mut self, window: &Window<MappedBytes<'_>>) -> Step {
        self.net.step(window, &mut self.tap)
    }

    fn take_interrupt(&mut self) -> bool {
        let is_due = self.net.interrupt_is_due();
        self.net.interrupt_was_sent();
        is_due
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.net.is_hungry().then(|| self.tap.descriptor())
    }
}

/// Serves a device until nothing was asked for the timeout.
pub(crate) fn serve(machine: &Machine, options: &ServeOptions, output: &mut dyn Write) -> Result<(), Failure> {
    let back = BackEnd::find(machine, &options.name)?;
    let _lock = back.lock()?;
    let mapping = back.map_window()?;
    let window = mapping.bytes().and_then(|bytes| Window::new(bytes, GUEST_POOL.0));
    let window = window.ok_or_else(|| {
        Failure::new(
            crate::failure::MACHINE,
            format!("{} has no pool: it is of another version of Bulkhead", options.name),
        )
    })?;
    let reports = Reports::new(output, Instant::now());
    let mut loop_of = Loop { bell: Bell::new(machine, &back), back: &back, window, timeout: options.timeout, reports };
    match &options.backing {
        Backing::File { path, is_read_only } if !back.is_net() => {
            let mut identity = [0; IDENTITY_BYTES];
            identity.iter_mut().zip(options.name.bytes()).for_each(|(to, from)| *to = from);
            let disk = FileDisk::open(path, *is_read_only)?;
            loop_of.run(&mut DiskService { block: Block::new(*is_read_only, identity), disk })
        }
        Backing::Tap(interface) if back.is_net() => {
            loop_of.run(&mut NetService { net: Net::new(), tap: Tap::open(machine, interface)? })
        }
        Backing::File { .. } => {
            Err(Failure::new(USAGE, format!("{} is a network card: serve it with --tap INTERFACE", options.name)))
        }
        Backing::Tap(_) => Err(Failure::new(USAGE, format!("{} is a disk: serve it with its FILE", options.name))),
    }
}

/// Serving, until there is an end to it.
struct Loop<'a> {
    back: &'a BackEnd,
    bell: Bell<'a>,
    window: Window<MappedBytes<'a>>,
    timeout: Option<Duration>,
    reports: Reports<'a>,
}

impl Loop<'_> {
    fn run(&mut self, service: &mut impl Service) -> Result<(), Failure> {
        let mut last = Instant::now();
        loop {
            let worked = self.work(service);
            if service.take_interrupt() {
                self.back.doorbells().ring();
            }
            if worked {
                last = Instant::now();
            } else if self.timeout.is_some_and(|timeout| last.elapsed() >= timeout) {
                return Ok(());
            } else {
                self.bell.wait(service.descriptor())?;
            }
        }
    }

    /// Does some steps; returns whether there may be more to do.
    fn work(&mut self, service: &mut impl Service) -> bool {
        for steps in 0..STEPS {
            match service.step(&self.window) {
                Step::Idle => return steps != 0,
                Step::Worked => {}
                Step::Stopped { queue, fault } => {
                    let name = self.back.name();
                    let text =
                        format_args!("queue {queue} of {name} has stopped until its driver starts again: {fault}");
                    self.reports.say(text, Instant::now());
                }
            }
        }
        true
    }
}

/// What is said of a front. It neither fills the place where that goes, nor ends this program when that is full or gone.
struct Reports<'a> {
    output: &'a mut dyn Write,
    /// Lines that may be said at this moment, and since when there was one more.
    left: u32,
    since: Instant,
    unsaid: u64,
}

impl<'a> Reports<'a> {
    fn new(output: &'a mut dyn Write, now: Instant) -> Self {
        Self { output, left: LINES, since: now, unsaid: 0 }
    }

    fn say(&mut self, text: std::fmt::Arguments<'_>, now: Instant) {
        while self.left < LINES && now.saturating_duration_since(self.since) >= LINE_EACH {
            (self.left, self.since) = (self.left + 1, self.since + LINE_EACH);
        }
        if self.left == LINES {
            self.since = now;
        }
        let Some(left) = self.left.checked_sub(1) else {
            self.unsaid += 1;
            return;
        };
        self.left = left;
        let unsaid = std::mem::take(&mut self.unsaid);
        let more =
            if unsaid == 0 { String::new() } else { format!(" ({unsaid} lines before this one were not printed)") };
        let _ = writeln!(self.output, "{text}{more}").and_then(|()| self.output.flush());
    }
}

/// Notifications of the front.
struct Bell<'a> {
    back: &'a BackEnd,
    uio: Option<(File, InterruptSwitch)>,
    /// The driver has masked the interrupt since it was let through.
    is_masked: bool,
}

impl<'a> Bell<'a> {
    /// Prepares waiting; without the driver the rings are looked into each [`LOOK`], as they are in any case.
    fn new(machine: &Machine, back: &'a BackEnd) -> Self {
        let open = || Ok::<_, Failure>((machine.open_uio(back.function())?, back.function().interrupt_switch()?));
        let uio = open().map_err(|failure| eprintln!("bulkheadctl: polling, because {failure}")).ok();
        back.doorbells().unmask();
        Self { back, uio, is_masked: true }
    }

    /// Waits for a notification, for the other descriptor, or until it is time to look.
    fn wait(&mut self, other: Option<BorrowedFd<'_>>) -> Result<(), Failure> {
        let describe = |error: &std::io::Error| Failure::machine("cannot wait for the front", error);
        if let Some((_, switch)) = self.uio.as_ref()
            && self.is_masked
        {
            // One that came while the line was masked keeps its level, so unmasking delivers it.
            switch.unmask()?;
            self.is_masked = false;
        }
        let mut descriptors: Vec<PollFd<'_>> =
            self.uio.iter().map(|(uio, _)| PollFd::new(uio, PollFlags::IN)).collect();
        descriptors.extend(other.map(|other| PollFd::from_borrowed_fd(other, PollFlags::IN)));
        match poll(&mut descriptors, Some(&LOOK)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(describe(&error.into())),
        }
        let is_rung = self.uio.is_some() && descriptors.first().is_some_and(|first| !first.revents().is_empty());
        drop(descriptors);
        if is_rung && let Some((uio, _)) = self.uio.as_mut() {
            uio.read_exact(&mut [0; 4]).map_err(|error| describe(&error))?;
            self.is_masked = true;
            self.back.doorbells().take();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A front that is wrong as often as it can gets 32 lines at once, and one each second afterwards.
    #[test]
    fn a_flood_of_reports_is_cut_short() {
        let start = Instant::now();
        let mut output = Vec::new();
        let mut reports = Reports::new(&mut output, start);
        let mut say = |seconds, times| {
            (0..times).for_each(|number| reports.say(format_args!("{seconds}: {number}"), start + seconds * LINE_EACH));
        };
        // Silence before it gives no more at once.
        say(100, 1000);
        say(103, 1000);
        say(104, 1);
        say(1000, 33);
        let text = String::from_utf8(output).expect("it is text");
        let lines: Vec<&str> = text.lines().collect();
        let of = |seconds: &str| lines.iter().filter(|line| line.starts_with(seconds)).count() as u32;
        assert_eq!([of("100: "), of("103: "), of("104: "), of("1000: ")], [LINES, 3, 1, LINES]);
        assert_eq!(lines.iter().filter(|line| line.contains("not printed")).count(), 2);
        assert!(lines.contains(&"103: 0 (968 lines before this one were not printed)"), "{text}");
        assert!(lines.contains(&"104: 0 (997 lines before this one were not printed)"), "{text}");
    }
}
