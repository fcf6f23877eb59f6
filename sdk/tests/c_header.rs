//! The C header says what the Rust crates say: sizes, offsets and constants, and the same ports (QV-51, QV-53).
//!
//! The host's C compiler judges the layouts; a C program that includes the header is one end of a channel whose other end
//! is `bulkhead-channel`.

use bulkhead_abi::{console, hypercall, plan, status};
use bulkhead_channel::{
    Corruption, Geometry, QueuingReader, QueuingWriter, ReceiveError, SampleError, SamplingReader, SamplingWriter,
    SendError, SharedMemory,
};
use bulkhead_guest_abi::{channel, guest};
use std::{
    fmt::Write as _,
    fs,
    mem::offset_of,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
};

fn c_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("c")
}

fn temporary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Runs the host's C compiler (`$CC`, else `cc`); returns its messages when it refuses.
fn compile(arguments: &[&str]) -> Result<(), String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let output = Command::new(&compiler)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(c_folder())
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("cannot start the host's C compiler `{compiler}`: {error}"));
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// One `_Static_assert` per fact.
struct Facts(String);

impl Facts {
    fn equal(&mut self, c: &str, rust: u64) {
        writeln!(self.0, "_Static_assert({c} == UINT64_C({rust:#x}), \"{c} is {rust:#x} in Rust\");")
            .expect("a string grows");
    }
}

macro_rules! layout {
    ($facts:ident, $c:literal, $rust:ty, $($field:ident),+ $(,)?) => {
        $facts.equal(concat!("sizeof(struct ", $c, ")"), size_of::<$rust>() as u64);
        $($facts.equal(concat!("offsetof(struct ", $c, ", ", stringify!($field), ")"), offset_of!($rust, $field) as u64);)+
    };
}

macro_rules! constants {
    ($facts:ident, $($c:literal = $rust:expr),+ $(,)?) => {
        $($facts.equal(concat!("(uint64_t)BULKHEAD_", $c), u64::from($rust));)+
    };
}

fn facts() -> String {
    let mut facts = Facts("#include \"bulkhead.h\"\n".into());
    layout!(
        facts,
        "bulkhead_port_information",
        plan::PortInformation,
        name,
        window,
        window_bytes,
        direction,
        kind,
        message_bytes,
        slots,
        doorbell,
        interrupt
    );
    layout!(
        facts,
        "bulkhead_guest_information",
        guest::GuestInformation,
        magic,
        abi_version,
        partition,
        name,
        counter_hz,
        gicd,
        gicr,
        uart,
        console,
        console_bytes,
        ram,
        ram_bytes,
        vcpu_count,
        port_count,
        arguments,
        ports
    );
    layout!(facts, "bulkhead_console_header", console::ConsoleHeader, magic, capacity, written, reserved);
    layout!(
        facts,
        "bulkhead_writer_header",
        channel::WriterHeader,
        magic,
        kind,
        message_bytes,
        slots,
        latest_pair,
        pair_slots,
        epoch,
        written,
        acknowledged,
        padding
    );
    layout!(facts, "bulkhead_reader_page", channel::ReaderPage, magic, read, reading_pair, epoch);
    layout!(facts, "bulkhead_slot_header", channel::SlotHeader, sequence, time_ticks, bytes, crc);
    for (field, offset) in [
        ("state", offset_of!(status::StatusPage, state)),
        ("reason", offset_of!(status::StatusPage, reason)),
        ("generation", offset_of!(status::StatusPage, generation)),
        ("restarts", offset_of!(status::StatusPage, restarts)),
    ] {
        facts.equal(&format!("offsetof(struct bulkhead_peer_status, {field})"), offset as u64);
    }
    constants!(
        facts,
        "ABI_VERSION" = bulkhead_abi::ABI_VERSION,
        "NAME_BYTES" = bulkhead_abi::NAME_BYTES as u64,
        "MAX_PORTS" = guest::MAX_PORTS as u64,
        "GUEST_INFORMATION" = guest::GUEST_INFORMATION.0,
        "GUEST_CONSOLE" = guest::GUEST_CONSOLE.0,
        "GUEST_CHANNELS" = guest::GUEST_CHANNELS.0,
        "GUEST_MAGIC" = guest::GUEST_MAGIC,
        "CONSOLE_MAGIC" = console::CONSOLE_MAGIC,
        "WRITER_MAGIC" = channel::WRITER_MAGIC,
        "READER_MAGIC" = channel::READER_MAGIC,
        "DIRECTION_SOURCE" = guest::DIRECTION_SOURCE,
        "DIRECTION_DESTINATION" = guest::DIRECTION_DESTINATION,
        "PORT_SAMPLING" = channel::PORT_SAMPLING,
        "PORT_QUEUING" = channel::PORT_QUEUING,
        "SAMPLING_SLOTS" = channel::SAMPLING_SLOTS,
        "CHANNEL_STATUS_OFFSET" = channel::CHANNEL_STATUS_OFFSET,
        "CHANNEL_READER_OFFSET" = channel::CHANNEL_READER_OFFSET,
        "CHANNEL_WRITER_OFFSET" = channel::CHANNEL_WRITER_OFFSET,
        "SLOTS_OFFSET" = channel::SLOTS_OFFSET,
        "CONSOLE_HEADER_BYTES" = console::CONSOLE_HEADER_BYTES,
        "CALL_VERSION" = hypercall::CALL_VERSION,
        "CALL_HEARTBEAT" = hypercall::CALL_HEARTBEAT,
        "CALL_DOORBELL" = hypercall::CALL_DOORBELL,
        "CALL_PARTITION_STATUS" = hypercall::CALL_PARTITION_STATUS,
        "CALL_PARTITION_SUSPEND" = hypercall::CALL_PARTITION_SUSPEND,
        "CALL_PARTITION_RESUME" = hypercall::CALL_PARTITION_RESUME,
        "CALL_PARTITION_RESTART" = hypercall::CALL_PARTITION_RESTART,
        "SUCCESS" = hypercall::SUCCESS,
        "LIMITED" = hypercall::LIMITED,
        "NOT_SUPPORTED" = hypercall::NOT_SUPPORTED,
        "INVALID_PARAMETERS" = hypercall::INVALID_PARAMETERS,
        "DENIED" = hypercall::DENIED,
        "STATE_INITIAL" = status::STATE_INITIAL,
        "STATE_RUNNING" = status::STATE_RUNNING,
        "STATE_SUSPENDED" = status::STATE_SUSPENDED,
        "STATE_OFF" = status::STATE_OFF,
        "STATE_RESTARTING" = status::STATE_RESTARTING,
        "STATE_STOPPED" = status::STATE_STOPPED,
    );
    facts.0
}

fn check_facts(name: &str, facts: &str) -> Result<(), String> {
    let source = temporary(name);
    fs::write(&source, facts).expect("cargo's temporary directory is writable");
    compile(&["-fsyntax-only", &source.display().to_string()])
}

#[test]
fn layouts_and_constants_agree() {
    if let Err(messages) = check_facts("facts.c", &facts()) {
        panic!("sdk/c/bulkhead.h differs from the Rust crates:\n{messages}");
    }
}

#[test]
fn a_difference_would_be_found() {
    let wrong = facts().replace(
        "sizeof(struct bulkhead_slot_header) == UINT64_C(0x18)",
        "sizeof(struct bulkhead_slot_header) == UINT64_C(0x20)",
    );
    let messages = check_facts("wrong.c", &wrong).expect_err("a wrong size is refused");
    assert!(messages.contains("bulkhead_slot_header"), "{messages}");
}

/// A window of a channel, handed to the C program as a file.
struct Channel {
    words: Vec<AtomicU64>,
    geometry: Geometry,
    file: PathBuf,
    peer: PathBuf,
}

const SOURCE: u32 = guest::DIRECTION_SOURCE;
const DESTINATION: u32 = guest::DIRECTION_DESTINATION;

impl Channel {
    fn new(name: &str, geometry: Geometry) -> Self {
        let peer = temporary(&format!("{name}-peer"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peer.c");
        if let Err(messages) = compile(&[&source.display().to_string(), "-o", &peer.display().to_string()]) {
            panic!("tests/peer.c does not compile:\n{messages}");
        }
        let count = geometry.window_bytes() as usize / 8;
        let words = std::iter::repeat_with(|| AtomicU64::new(0)).take(count).collect();
        Self { words, geometry, file: temporary(&format!("{name}-window")), peer }
    }

    fn memory(&self) -> &[AtomicU64] {
        &self.words
    }

    /// Lets the C program be one end for a while; returns its lines without the opening's.
    fn c(&self, direction: u32, now_ticks: u64, commands: &[&str]) -> Vec<String> {
        let bytes: Vec<u8> = self.words.iter().flat_map(|word| word.load(Ordering::SeqCst).to_le_bytes()).collect();
        fs::write(&self.file, bytes).expect("cargo's temporary directory is writable");
        let facts = [direction, self.geometry.kind(), self.geometry.message_bytes(), self.geometry.slots()];
        let output = Command::new(&self.peer)
            .arg(&self.file)
            .args(facts.map(|fact| fact.to_string()))
            .arg(now_ticks.to_string())
            .args(commands)
            .output()
            .expect("the peer starts");
        assert!(output.status.success(), "{output:?}");
        let bytes = fs::read(&self.file).expect("the peer keeps the file");
        for (word, chunk) in self.words.iter().zip(bytes.chunks_exact(8)) {
            word.store(u64::from_le_bytes(chunk.try_into().expect("chunks of 8")), Ordering::SeqCst);
        }
        let mut lines: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
        assert_eq!(lines.remove(0), "0", "the port opens");
        lines
    }
}

#[test]
fn rust_reads_what_c_samples() {
    let channel = Channel::new("sample-from-c", Geometry::sampling(40).expect("in range"));
    let mut reader = SamplingReader::open(channel.memory(), channel.geometry).expect("opens");
    let mut buffer = [0; 40];
    assert_eq!(reader.read(&mut buffer), Err(SampleError::PeerClosed));
    assert_eq!(channel.c(SOURCE, 77, &["+first", "+second value"]), ["0", "0"]);
    let sample = reader.read(&mut buffer).expect("a value");
    assert_eq!((sample.message.sequence, sample.message.time_ticks, sample.is_new), (2, 77, true));
    assert_eq!(sample.message.payload, b"second value");
    assert_eq!(
        channel.c(SOURCE, 99, &["+a", "+b", "+", "+this text is longer than the forty bytes of the port"]),
        ["0", "0", "-2", "-2"]
    );
    let sample = reader.read(&mut buffer).expect("a value of the resumed source");
    assert_eq!((sample.message.sequence, sample.message.payload), (4, &b"b"[..]));
    assert!(!reader.read(&mut buffer).expect("the same").is_new);
}

#[test]
fn c_reads_what_rust_samples() {
    let channel = Channel::new("sample-to-c", Geometry::sampling(40).expect("in range"));
    assert_eq!(channel.c(DESTINATION, 0, &["-"]), ["-5"], "closed");
    let mut writer = SamplingWriter::open(channel.memory(), channel.geometry, 5).expect("opens");
    assert_eq!(channel.c(DESTINATION, 0, &["-"]), ["-4"], "no value");
    let _ = writer.write(b"one", 6).expect("fits");
    let _ = writer.write(b"exactly eight bytes and a bit", 7).expect("fits");
    assert_eq!(
        channel.c(DESTINATION, 0, &["-", "-"]),
        ["0 2 1 exactly eight bytes and a bit", "0 2 0 exactly eight bytes and a bit"]
    );
    for word in &channel.words[1024 + 8..] {
        word.fetch_xor(1 << 40, Ordering::SeqCst);
    }
    assert_eq!(channel.c(DESTINATION, 0, &["-"]), ["-7"], "every slot damaged");
}

#[test]
fn rust_receives_what_c_sends() {
    let channel = Channel::new("queue-from-c", Geometry::queuing(16, 3).expect("in range"));
    let mut buffer = [0; 16];
    assert_eq!(channel.c(SOURCE, 5, &["+a", "+b", "+c", "+d"]), ["0", "0", "0", "-3"], "full after three");
    let mut reader = QueuingReader::open(channel.memory(), channel.geometry).expect("opens");
    for expected in [b"a", b"b"] {
        assert_eq!(reader.receive(&mut buffer).expect("a message").payload, expected);
    }
    assert_eq!(channel.c(SOURCE, 6, &["+d", "+e", "+f"]), ["0", "0", "-3"]);
    for (sequence, expected) in [(3, b"c"), (4, b"d"), (5, b"e")] {
        let message = reader.receive(&mut buffer).expect("a message");
        assert_eq!((message.sequence, message.payload), (sequence, &expected[..]));
    }
    assert_eq!(reader.receive(&mut buffer), Err(ReceiveError::Empty));
}

#[test]
fn c_receives_what_rust_sends_and_drops_rubbish() {
    let channel = Channel::new("queue-to-c", Geometry::queuing(16, 3).expect("in range"));
    let mut writer = QueuingWriter::open(channel.memory(), channel.geometry, 9).expect("opens");
    for payload in [&b"one"[..], b"two", b"three"] {
        let _ = writer.send(payload, 10).expect("room");
    }
    assert_eq!(writer.send(b"four", 10), Err(SendError::Full));
    assert_eq!(channel.c(DESTINATION, 0, &["-", "-"]), ["0 1 1 one", "0 2 1 two"]);
    let _ = writer.send(b"four", 11).expect("the C side has made room");
    // Payload of message 3, in slot 2: 64 bytes a slot.
    channel.words[1024 + 8 + 2 * 8 + 3].fetch_xor(1, Ordering::SeqCst);
    assert_eq!(channel.c(DESTINATION, 0, &["-", "-", "-"]), ["-7", "0 4 1 four", "-4"]);
}

#[test]
fn both_notice_a_restarted_source_alike() {
    let channel = Channel::new("restart", Geometry::queuing(16, 3).expect("in range"));
    let mut writer = QueuingWriter::open(channel.memory(), channel.geometry, 1).expect("opens");
    let _ = writer.send(b"old", 1).expect("room");
    assert_eq!(channel.c(DESTINATION, 0, &["-"]), ["0 1 1 old"]);
    // The source's partition is restarted: its pages are cleared, and C opens the port with the epoch that is echoed.
    channel.words[1024..].iter().for_each(|word| word.store(0, Ordering::SeqCst));
    assert_eq!(channel.c(SOURCE, 1, &["+new"]), ["0"]);
    assert_eq!(channel.c(DESTINATION, 0, &["-", "-"]), ["-6", "0 1 1 new"]);
    let mut reader = QueuingReader::open(channel.memory(), channel.geometry).expect("opens");
    channel.words[1024].store(7, Ordering::SeqCst);
    assert_eq!(reader.receive(&mut [0; 16]), Err(ReceiveError::Corrupt(Corruption::Magic)));
    assert_eq!(channel.c(DESTINATION, 0, &["-"]), ["-7"]);
    assert_eq!(channel.memory().words() as u64 * 8, channel.geometry.window_bytes());
}
