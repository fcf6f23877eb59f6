//! A network for another partition: a TAP interface of this one, which the user gives an address or puts into a bridge.

use crate::failure::Failure;
use crate::hardware::attach_tap;
use crate::sysfs::Machine;
use bulkhead_virtqueue::{FRAME_BYTES, Network};
use rustix::fs::{OFlags, fcntl_setfl};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// The device of the driver `tun`.
const DEVICE: &str = "net/tun";

/// The other end of a TAP interface. It never waits.
#[derive(Debug)]
pub(crate) struct Tap {
    file: File,
}

impl Tap {
    /// Makes the interface, or takes one that is there.
    pub(crate) fn open(machine: &Machine, interface: &str) -> Result<Self, Failure> {
        let file = machine.open_device(DEVICE).map_err(|failure| {
            let message =
                format!("{}; TAP interfaces need the kernel module tun: load it with modprobe tun", failure.message);
            Failure::new(failure.code, message)
        })?;
        let attached = attach_tap(&file, interface);
        attached
            .map_err(|error| Failure::machine(format_args!("cannot make the TAP interface {interface}"), &error))?;
        Self::new(file)
            .map_err(|error| Failure::machine(format_args!("cannot use the TAP interface {interface}"), &error))
    }

    fn new(file: File) -> std::io::Result<Self> {
        fcntl_setfl(&file, OFlags::NONBLOCK)?;
        Ok(Self { file })
    }

    /// What to wait for.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Network for Tap {
    fn receive(&mut self, into: &mut [u8; FRAME_BYTES]) -> Option<usize> {
        // One byte more shows a frame that is longer.
        let mut frame = [0; FRAME_BYTES + 1];
        let bytes = self.file.read(&mut frame).ok().filter(|bytes| *bytes != 0)?;
        let (whole, received) = (frame.get(..bytes)?, into.get_mut(..bytes)?);
        received.copy_from_slice(whole);
        Some(bytes)
    }

    fn send(&mut self, frame: &[u8]) {
        // A full queue, or an interface that is down: the frame is lost, as in any network.
        let _ = self.file.write(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;

    /// Datagrams of a socket in place of frames of an interface.
    fn pair() -> (Tap, UnixDatagram) {
        let (tap, network) = UnixDatagram::pair().expect("sockets");
        network.set_nonblocking(true).expect("a flag");
        (Tap::new(OwnedFd::from(tap).into()).expect("a flag"), network)
    }

    #[test]
    fn frames_pass_whole_and_nobody_waits() {
        let (mut tap, network) = pair();
        let mut frame = [0; FRAME_BYTES];
        assert_eq!(tap.receive(&mut frame), None);
        for bytes in [14, 60, FRAME_BYTES] {
            assert_eq!(network.send(&vec![bytes as u8; bytes]).expect("room"), bytes);
        }
        for bytes in [14, 60, FRAME_BYTES] {
            assert_eq!(tap.receive(&mut frame), Some(bytes));
            assert_eq!(frame[..bytes], vec![bytes as u8; bytes]);
        }
        assert_eq!(tap.receive(&mut frame), None);
        tap.send(&[9; 60]);
        let mut sent = [0; 100];
        assert_eq!(network.recv(&mut sent).expect("a frame"), 60);
        assert_eq!(sent[..60], [9; 60]);
    }

    #[test]
    fn a_frame_that_is_too_long_is_dropped() {
        let (mut tap, network) = pair();
        assert_eq!(network.send(&[1; FRAME_BYTES + 1]).expect("room"), FRAME_BYTES + 1);
        assert_eq!(network.send(&[2; 60]).expect("room"), 60);
        let mut frame = [0; FRAME_BYTES];
        assert_eq!(tap.receive(&mut frame), None);
        assert_eq!((tap.receive(&mut frame), frame[0]), (Some(60), 2));
    }

    #[test]
    fn a_full_network_loses_frames_and_holds_nobody_up() {
        let (mut tap, network) = pair();
        for _ in 0..10_000 {
            tap.send(&[1; 1000]);
        }
        let arrived = std::iter::from_fn(|| network.recv(&mut [0; 1000]).ok()).count();
        assert!((1..10_000).contains(&arrived), "{arrived}");
    }
}
