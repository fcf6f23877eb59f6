//! Guest files that fixtures name with `guest:`, made by the tests so that no binary is in the repository.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod kernel;

use bulkhead_description::Options;
use std::path::PathBuf;
use std::sync::OnceLock;

const MACHINE_AARCH64: u16 = 183;
const MACHINE_X86_64: u16 = 62;
const TYPE_RELOCATABLE: u16 = 1;
const TYPE_EXECUTABLE: u16 = 2;
const SEGMENT_LOAD: u32 = 1;
const SEGMENT_INTERPRETER: u32 = 3;
const READ_EXECUTE: u32 = 5;
const READ_WRITE: u32 = 6;
const RAM: u64 = 0x4000_0000;
const PAYLOAD: u64 = 0x0e02_0000;

/// Options with a directory that holds every guest file of the fixtures.
pub(crate) fn options() -> Options {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("guests-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("kernel")).expect("the test directory can be made");
        for (name, bytes) in files().into_iter().chain(kernel::files()) {
            std::fs::write(directory.join(name), bytes).expect("a guest file can be written");
        }
        directory
    });
    Options { guests: Some(directory.clone()), board: None }
}

/// Every guest file.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let code = || Segment::new(RAM, READ_EXECUTE, 16);
    let elf = |segments: Vec<Segment>| Elf { segments, ..Elf::default() };
    let cut = |bytes: Vec<u8>| bytes[..bytes.len() - 8].to_vec();
    vec![
        ("tiny.bin", b"sixteen bytes...".to_vec()),
        ("empty.bin", Vec::new()),
        ("disk.img", vec![0; 4096]),
        ("files.cpio", b"070701 an archive of files, none of which serves a device".to_vec()),
        ("Image", linux_image(0, 0x20_0000, 0b1010)),
        ("Image.big-endian", linux_image(0, 0x20_0000, 0b1011)),
        ("Image.damaged", linux_image(0x40_0000, 0x20_0000, 0b1010)),
        ("Image.gz", vec![0x1f, 0x8b, 8, 0]),
        ("tiny.elf", elf(vec![code(), Segment::new(RAM + 0x1000, READ_WRITE, 8).with_memory(0x100)]).bytes()),
        ("cut.elf", cut(elf(vec![code()]).bytes())),
        ("x86.elf", Elf { machine: MACHINE_X86_64, ..elf(vec![code()]) }.bytes()),
        ("arm32.elf", Elf { class: 1, ..elf(vec![code()]) }.bytes()),
        ("object.elf", Elf { kind: TYPE_RELOCATABLE, ..elf(vec![code()]) }.bytes()),
        ("dynamic.elf", elf(vec![Segment { kind: SEGMENT_INTERPRETER, ..code() }, code()]).bytes()),
        ("nothing-loaded.elf", elf(vec![Segment { kind: 4, ..code() }]).bytes()),
        ("far.elf", elf(vec![code(), Segment::new(0x5000_0000, READ_WRITE, 8)]).bytes()),
        ("lost.elf", elf(vec![Segment::new(RAM, READ_WRITE, 16)]).bytes()),
        ("big.elf", elf(vec![code(), Segment::new(RAM + 0x1000, READ_WRITE, 8).with_memory(0x1_0000)]).bytes()),
        ("overlapping.elf", elf(vec![code(), Segment::new(RAM + 8, READ_WRITE, 16)]).bytes()),
        ("many.elf", elf((0..12).map(|index| Segment::new(RAM + index * 0x1000, READ_EXECUTE, 8)).collect()).bytes()),
        ("extra.dtbo", overlay("/")),
        ("lost.dtbo", overlay("/no-such-node")),
        ("cut.dtbo", cut(overlay("/"))),
        ("payload.elf", payload(0xd503_201f)),
        // fmov x0, d0
        ("payload-float.elf", payload(0x9e66_0000)),
    ]
}

/// A payload of the secure world whose first instruction is this one.
fn payload(instruction: u32) -> Vec<u8> {
    let segments = vec![
        Segment::new(PAYLOAD, READ_EXECUTE, 16),
        Segment::new(PAYLOAD + 0x1000, READ_WRITE, 8).with_memory(0x2000),
    ];
    let start = 64 + 56 * segments.len();
    let mut bytes = Elf { entry: PAYLOAD, segments, ..Elf::default() }.bytes();
    bytes[start..start + 4].copy_from_slice(&instruction.to_le_bytes());
    bytes
}

/// An arm64 Image: only its header matters.
fn linux_image(text_offset: u64, image_bytes: u64, flags: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[8..16].copy_from_slice(&text_offset.to_le_bytes());
    bytes[16..24].copy_from_slice(&image_bytes.to_le_bytes());
    bytes[24..32].copy_from_slice(&flags.to_le_bytes());
    bytes[56..60].copy_from_slice(b"ARMd");
    bytes
}

/// A segment of an ELF file.
#[derive(Clone)]
struct Segment {
    kind: u32,
    flags: u32,
    address: u64,
    file_bytes: usize,
    memory_bytes: u64,
}

impl Segment {
    fn new(address: u64, flags: u32, file_bytes: usize) -> Self {
        Self { kind: SEGMENT_LOAD, flags, address, file_bytes, memory_bytes: file_bytes as u64 }
    }

    fn with_memory(self, memory_bytes: u64) -> Self {
        Self { memory_bytes, ..self }
    }
}

/// An ELF file; its entry point is the start of RAM unless it says another one.
struct Elf {
    class: u8,
    kind: u16,
    machine: u16,
    entry: u64,
    segments: Vec<Segment>,
}

impl Default for Elf {
    fn default() -> Self {
        Self { class: 2, kind: TYPE_EXECUTABLE, machine: MACHINE_AARCH64, entry: RAM, segments: Vec::new() }
    }
}

impl Elf {
    fn bytes(&self) -> Vec<u8> {
        const HEADER_BYTES: u64 = 64;
        const PROGRAM_HEADER_BYTES: u64 = 56;
        if self.class == 1 {
            return self.bytes_32();
        }
        let mut bytes = vec![0x7f, b'E', b'L', b'F', self.class, 1, 1];
        bytes.resize(16, 0);
        bytes.extend(self.kind.to_le_bytes());
        bytes.extend(self.machine.to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(self.entry.to_le_bytes());
        bytes.extend(HEADER_BYTES.to_le_bytes());
        bytes.extend(0u64.to_le_bytes());
        bytes.extend(0u32.to_le_bytes());
        let sizes = [HEADER_BYTES as u16, PROGRAM_HEADER_BYTES as u16, self.segments.len() as u16, 64, 0, 0];
        bytes.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
        let mut offset = HEADER_BYTES + PROGRAM_HEADER_BYTES * self.segments.len() as u64;
        for segment in &self.segments {
            bytes.extend(segment.kind.to_le_bytes());
            bytes.extend(segment.flags.to_le_bytes());
            for word in [offset, segment.address, segment.address, segment.file_bytes as u64, segment.memory_bytes, 8] {
                bytes.extend(word.to_le_bytes());
            }
            offset += segment.file_bytes as u64;
        }
        bytes.resize(usize::try_from(offset).expect("a small file"), 0);
        bytes
    }

    /// The head of a 32-bit file with one program header.
    fn bytes_32(&self) -> Vec<u8> {
        let mut bytes = vec![0x7f, b'E', b'L', b'F', 1, 1, 1];
        bytes.resize(16, 0);
        bytes.extend(self.kind.to_le_bytes());
        bytes.extend(self.machine.to_le_bytes());
        for word in [1u32, 0x4000_0000, 52, 0, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([52u16, 32, 1, 40, 0, 0].iter().flat_map(|size| size.to_le_bytes()));
        bytes.resize(52 + 32, 0);
        bytes
    }
}

/// A device-tree overlay that adds an empty property to the node at `target`.
fn overlay(target: &str) -> Vec<u8> {
    const BEGIN: u32 = 1;
    const END: u32 = 2;
    const PROPERTY: u32 = 3;
    let strings = b"target-path\0bulkhead,test\0";
    let mut tree: Vec<u8> = Vec::new();
    let word = |tree: &mut Vec<u8>, number: u32| tree.extend(number.to_be_bytes());
    let text = |tree: &mut Vec<u8>, text: &str| {
        tree.extend(text.as_bytes());
        tree.push(0);
        tree.resize(tree.len().next_multiple_of(4), 0);
    };
    word(&mut tree, BEGIN);
    text(&mut tree, "");
    word(&mut tree, BEGIN);
    text(&mut tree, "fragment@0");
    [PROPERTY, target.len() as u32 + 1, 0].into_iter().for_each(|number| word(&mut tree, number));
    text(&mut tree, target);
    word(&mut tree, BEGIN);
    text(&mut tree, "__overlay__");
    [PROPERTY, 0, 12, END, END].into_iter().for_each(|number| word(&mut tree, number));
    [END, 9].into_iter().for_each(|number| word(&mut tree, number));
    let (header, reserved) = (40u32, 16u32);
    let structure = header + reserved;
    let strings_at = structure + tree.len() as u32;
    let mut bytes = Vec::new();
    for number in [
        0xd00d_feed,
        strings_at + strings.len() as u32,
        structure,
        strings_at,
        header,
        17,
        16,
        0,
        strings.len() as u32,
        tree.len() as u32,
    ] {
        word(&mut bytes, number);
    }
    bytes.extend([0; 16]);
    bytes.extend(tree);
    bytes.extend(strings);
    bytes
}
