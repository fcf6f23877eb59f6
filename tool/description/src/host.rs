//! What is behind the PCI functions of a system on the host: facts of runs, which no image holds.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// What is behind a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostSide {
    /// Nothing.
    Nothing,
    /// A disk.
    Disk(Disk),
    /// A network of its own, which lets in what is forwarded and nothing out.
    Ports(Vec<Forward>),
    /// A network with the other functions that name this hub.
    Hub(String),
}

/// A file that is a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its path.
    pub file: PathBuf,
    /// It is never written.
    pub read_only: bool,
}

/// A TCP port of the host's loopback that leads to a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Address on the host, of 127.0.0.0/8.
    pub address: Ipv4Addr,
    /// Port on the host.
    pub port: u16,
    /// Port of the guest.
    pub guest_port: u16,
}

impl fmt::Display for Forward {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{} -> {}", self.address, self.port, self.guest_port)
    }
}

impl Forward {
    /// Reads `127.0.0.1:8080 -> 80`. Any address: whether it is the host's own is for the caller to judge.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (host, guest) = text.split_once("->")?;
        let (address, port) = host.trim().rsplit_once(':')?;
        let number = |text: &str| text.trim().parse().ok().filter(|port| *port != 0);
        Some(Self { address: address.trim().parse().ok()?, port: number(port)?, guest_port: number(guest)? })
    }
}

#[cfg(test)]
mod tests {
    use super::Forward;

    #[test]
    fn forwards_are_read_and_written() {
        for text in ["127.0.0.1:8080 -> 80", "127.0.0.2:1 -> 65535"] {
            assert_eq!(Forward::parse(text).expect("a forward").to_string(), text);
        }
        assert_eq!(Forward::parse(" 127.0.0.1:08080->80 ").map(|one| one.port), Some(8080));
        for bad in [
            "",
            "80",
            "127.0.0.1:80",
            "127.0.0.1 -> 80",
            "127.0.0.1:0 -> 80",
            "127.0.0.1:80 -> 0",
            "::1:80 -> 80",
            "127.0.0.1:65536 -> 1",
        ] {
            assert_eq!(Forward::parse(bad), None, "{bad}");
        }
    }
}
