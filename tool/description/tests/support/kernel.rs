//! A kernel that is none, and programs of components, made by the tests.

use bulkhead_component::typed::{Name, Value, signature};
use bulkhead_kernel_abi::KERNEL_ABI_VERSION;
use bulkhead_kernel_abi::image::{
    ACCOUNTS_SIGNATURE, COMPONENT_MAGIC, COMPONENT_TEXT, COUNTS, ComponentHead, DEVICE_SIGNATURE, DMA_SIGNATURE,
    EXPORTS, Function, IMPORTS, KERNEL_HALF, LIMIT_SIGNATURE, LOAD, Port, PortUse, function_name,
};
use elf::{Segment, elf};
use zerocopy::IntoBytes;

#[path = "../../../verify-instance/tests/support/elf.rs"]
mod elf;

const READ: u32 = 4;
const READ_WRITE: u32 = 6;
const READ_EXECUTE: u32 = 5;
const ALL: u32 = 7;
/// Constants of a program: behind the first word those that say slots.
const CONSTANTS: u64 = COMPONENT_TEXT + 0x1000;

/// An interface with types.
mod first {
    bulkhead_component::value! {
        /// What was measured.
        pub struct Reading {
            /// In millikelvin.
            value: u32,
            /// When.
            at_ticks: u64,
        }
    }
}

/// Its next version: the same names and as many words, but the value may be below zero.
mod second {
    bulkhead_component::value! {
        /// What was measured.
        pub struct Reading {
            /// In millidegrees Celsius.
            value: i32,
            /// When.
            at_ticks: u64,
        }
    }
}

/// Functions `measured`, which has a type of the interface, and `switch_off`, which has none of it, as one version of it has them.
const fn thermometer(reading: &Name) -> [(&'static str, u64); 2] {
    [("measured", signature(&[u8::NAME], reading)), ("switch_off", signature(&[bool::NAME], &<()>::NAME))]
}

pub(crate) const FIRST: [(&str, u64); 2] = thermometer(&first::Reading::NAME);
pub(crate) const SECOND: [(&str, u64); 2] = thermometer(&second::Reading::NAME);

/// The files, by the names that fixtures give them.
pub(crate) fn files() -> Vec<(&'static str, Vec<u8>)> {
    let text = COMPONENT_TEXT;
    let head = |version: u32| ComponentHead { magic: COMPONENT_MAGIC, abi_version: version, reserved: 0 };
    let current = head(KERNEL_ABI_VERSION);
    let with = |segments: &[Segment<'_>]| elf(text + 16, segments, &[]);
    let data = |address: u64| (address, READ_WRITE, &[1_u8][..], 8);
    vec![
        ("kernel/kernel.elf", kernel()),
        ("kernel/traced.elf", kernel()),
        ("kernel/plain.elf", program(&[], &[])),
        ("kernel/caller.elf", program(&[], &[("report", 1)])),
        ("kernel/callee.elf", program(&[("write", 1), ("read", 2)], &[])),
        ("kernel/boiler.elf", program(&FIRST, &[])),
        ("kernel/panel.elf", program(&[], &FIRST)),
        ("kernel/newer-panel.elf", program(&[], &SECOND)),
        ("kernel/both.elf", program(&[("enter", 1)], &[("next", 1)])),
        (
            "kernel/limiter.elf",
            program(&[("notify", 0)], &[("ways", 0), ("way_0", LIMIT_SIGNATURE), ("way_1", LIMIT_SIGNATURE)]),
        ),
        ("kernel/watcher.elf", program(&[], &[("used", ACCOUNTS_SIGNATURE)])),
        ("kernel/driver.elf", program(&[], &[("events", 0), ("done", 0)])),
        ("kernel/clock.elf", program(&[], &[("events", 0), ("done", 0), ("clock", DEVICE_SIGNATURE)])),
        (
            "kernel/card.elf",
            program(&[], &[("card", DEVICE_SIGNATURE), ("configuration", DEVICE_SIGNATURE), ("memory", DMA_SIGNATURE)]),
        ),
        (
            "kernel/scheduler.elf",
            program(&[("give_way", 1), ("notify", 0)], &[("scheduler", 0), ("threads", 0), ("ways", 0)]),
        ),
        ("kernel/tasks.elf", program(&[], &[("give_way", 1), ("notify", 0), ("claim", 0), ("events", 0)])),
        ("kernel/leaf.elf", program(&[], &[("give_way", 1)])),
        ("kernel/shell.elf", program(&[], &[("jobs", 0), ("worker", 0), ("rest", 0), ("made", 0)])),
        (
            "kernel/courier.elf",
            program(
                &[],
                &[
                    ("out", PortUse::QueuingSource.signature()),
                    ("commands", PortUse::QueuingDestination.signature()),
                    ("arrived", 0),
                    ("bell", 0),
                ],
            ),
        ),
        ("kernel/computing.elf", computing()),
        ("kernel/twice.elf", program(&[("write", 1), ("write", 1)], &[])),
        ("kernel/writable-text.elf", with(&[(text, ALL, current.as_bytes(), 64)])),
        ("kernel/overlap.elf", with(&[(text, READ_EXECUTE, current.as_bytes(), 0x1800), data(text + 0x1000)])),
        ("kernel/outside.elf", elf(LOAD, &[(LOAD, READ_EXECUTE, current.as_bytes(), 64)], &[])),
        ("kernel/old.elf", with(&[(text, READ_EXECUTE, head(KERNEL_ABI_VERSION + 1).as_bytes(), 64)])),
        ("kernel/headless.elf", with(&[(text, READ_EXECUTE, &[0; 64], 64)])),
        (
            "kernel/counts-text.elf",
            elf(text + 16, &[(text, READ_EXECUTE, current.as_bytes(), 64)], &[(COUNTS, &count_in_text())]),
        ),
        ("kernel/torn.elf", elf(text + 16, &[(text, READ_EXECUTE, current.as_bytes(), 64)], &[(EXPORTS, &[0; 5])])),
    ]
}

/// A number for the host that would be in the program's text.
fn count_in_text() -> Vec<u8> {
    Function { name: function_name("laps"), signature: 0, address: COMPONENT_TEXT + 16 }.as_bytes().to_vec()
}

/// The kernel's text: the header of an arm64 Image, without its length.
fn text() -> Vec<u8> {
    let mut text = vec![0; 4096];
    for (place, value) in [(8, LOAD & 0x1f_ffff), (24, 2), (56, u64::from(u32::from_le_bytes(*b"ARM\x64")))] {
        text[place..place + 8].copy_from_slice(&value.to_le_bytes());
    }
    text
}

/// The kernel that instances of these tests have.
pub(crate) fn expected_kernel() -> bulkhead_verify_instance::Expected {
    bulkhead_verify_instance::Expected::of(&text(), 5 * 4096)
}

/// Text, constants, an empty page, two pages of data.
fn kernel() -> Vec<u8> {
    let (base, text) = (KERNEL_HALF + LOAD, text());
    let segments = [
        (base, READ_EXECUTE, text.as_slice(), 4096),
        (base + 0x1000, READ, &[7][..], 1),
        (base + 0x3000, READ_WRITE, &[][..], 0x2000),
    ];
    elf(base, &segments, &[])
}

/// A program with an instruction that uses a floating-point register, fmov x0, d0, behind its head.
fn computing() -> Vec<u8> {
    let head = ComponentHead { magic: COMPONENT_MAGIC, abi_version: KERNEL_ABI_VERSION, reserved: 0 };
    let text = [head.as_bytes(), &0x9e66_0000_u32.to_le_bytes()].concat();
    elf(COMPONENT_TEXT + 16, &[(COMPONENT_TEXT, READ_EXECUTE, &text, 64)], &[])
}

/// A program that exports and calls these functions: names and signatures.
fn program(exports: &[(&str, u64)], imports: &[(&str, u64)]) -> Vec<u8> {
    let head = ComponentHead { magic: COMPONENT_MAGIC, abi_version: KERNEL_ABI_VERSION, reserved: 0 };
    let row = |(name, signature): &(&str, u64), address: u64| {
        Function { name: function_name(name), signature: *signature, address }.as_bytes().to_vec()
    };
    let exported: Vec<u8> = exports.iter().flat_map(|function| row(function, COMPONENT_TEXT + 16)).collect();
    // A word each, or what there is to say of a port.
    let bytes = |signature: u64| PortUse::of_signature(signature).map_or(8, |_| size_of::<Port>() as u64);
    let places = imports.iter().scan(CONSTANTS + 8, |next, (_, signature)| {
        let place = *next;
        *next += bytes(*signature);
        Some(place)
    });
    let called: Vec<u8> = imports.iter().zip(places).flat_map(|(function, place)| row(function, place)).collect();
    let segments = [
        (COMPONENT_TEXT, READ_EXECUTE, head.as_bytes(), 64),
        (CONSTANTS, READ, &[0x11; 8][..], 128),
        (CONSTANTS + 0x1000, READ_WRITE, &[1][..], 8),
    ];
    elf(COMPONENT_TEXT + 16, &segments, &[(EXPORTS, &exported), (IMPORTS, &called)])
}
