//! Sends datagrams to a port that sends each back (RFC 862), one after the other, and compares: a peer for tests of network drivers.
//!
//! `datagrams ADDRESS:PORT COUNT`. The sizes go through all lengths that fit a frame; each byte depends on its place and on the datagram.

use std::net::UdpSocket;
use std::process::ExitCode;
use std::time::Duration;

/// Most bytes of UDP in an Ethernet frame.
const MOST_BYTES: usize = 1472;
/// How long an answer may take: nothing is sent twice.
const LIMIT: Duration = Duration::from_secs(20);

/// The contents of a datagram.
fn contents(number: usize) -> Vec<u8> {
    let length = 1 + number * 331 % MOST_BYTES;
    (0..length).map(|place| (place * 7 + number * 13 + place / 256) as u8).collect()
}

fn run(peer: &str, count: usize) -> Result<usize, String> {
    let text = |error: std::io::Error| error.to_string();
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(text)?;
    socket.connect(peer).map_err(text)?;
    socket.set_read_timeout(Some(LIMIT)).map_err(text)?;
    let mut bytes = 0;
    for number in 0..count {
        let sent = contents(number);
        socket.send(&sent).map_err(text)?;
        let mut answer = [0; 2 * MOST_BYTES];
        let length = socket.recv(&mut answer).map_err(|error| format!("datagram {number}: {error}"))?;
        if answer.get(..length) != Some(&*sent) {
            return Err(format!("datagram {number} came back as other {length} bytes"));
        }
        bytes += length;
    }
    Ok(bytes)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [peer, count] = arguments.as_slice() else {
        eprintln!("usage: datagrams ADDRESS:PORT COUNT");
        return ExitCode::from(2);
    };
    let Ok(number) = count.parse() else {
        eprintln!("datagrams: `{count}` is no number");
        return ExitCode::from(2);
    };
    match run(peer, number) {
        Ok(bytes) => println!("datagrams: {number} came back with {bytes} bytes"),
        Err(error) => println!("datagrams: FAILED: {error}"),
    }
    ExitCode::SUCCESS
}
