//! Writes what the assembly is made of from `core/world`, so that offsets, constants and lists of registers are in one place, and
//! links the target binary by `secure-monitor.ld`.

use bulkhead_arm::psci::{Error, Function};
use bulkhead_world::context::{self, REGISTERS, Register};
use bulkhead_world::control::{self, NON_SECURE_RESET, ResetValue};
use bulkhead_world::cores::{self, CoresPlan, Start, StateLine};
use bulkhead_world::flash::{self, WorldPlan, secure_ram};
use bulkhead_world::interrupts;
use std::fmt::Write;
use std::mem::offset_of;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=secure-monitor.ld");
    let output = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for (name, is_multi) in [("dual.s", false), ("multi.s", true)] {
        let output = output.join(name);
        std::fs::write(&output, assembly(is_multi))
            .unwrap_or_else(|why| panic!("cannot write {}: {why}", output.display()));
    }
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        let directory = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
        println!("cargo::rustc-link-arg-bins=-T{directory}/secure-monitor.ld");
        println!("cargo::rustc-link-arg-bins=-zmax-page-size=16");
    }
}

fn assembly(is_multi: bool) -> String {
    let mut text = format!(".equ MULTI, {}\n", u8::from(is_multi));
    for (name, value) in constants().into_iter().chain(of_cores()) {
        let _ = writeln!(text, ".equ {name}, {value:#x}");
    }
    macro_of(&mut text, "SAVE_REGISTERS", save);
    macro_of(&mut text, "LOAD_REGISTERS", load);
    macro_of(&mut text, "RESET_NON_SECURE", reset);
    text
}

fn constants() -> [(&'static str, u64); 20] {
    let head = std::mem::offset_of!(flash::Head, counter_hz);
    let from = std::mem::offset_of!(flash::Head, payload_from);
    let bytes = std::mem::offset_of!(flash::Head, payload_bytes);
    [
        ("SECURE_OFFSET", context::SECURE_OFFSET as u64),
        ("CONTEXTS", secure_ram::CONTEXTS),
        ("STATE", secure_ram::STATE),
        ("PLAN", secure_ram::PLAN),
        ("FLASH_PLAN", flash::PLAN),
        ("PLAN_BYTES", flash::PLAN_BYTES),
        ("PLAN_COUNTER_HZ", head as u64),
        ("PLAN_PAYLOAD", from as u64),
        ("PLAN_PAYLOAD_BYTES", bytes as u64),
        ("CRC_RESIDUE", u64::from(flash::CRC_RESIDUE)),
        ("SECURE_CONSOLE", flash::SECURE_CONSOLE),
        ("SCR_SECURE", control::SCR_SECURE),
        ("SCR_NON_SECURE", control::SCR_NON_SECURE),
        ("SCTLR_EL3_VALUE", control::SCTLR_EL3),
        ("SCTLR_EL1_RESET", context::Context::SCTLR_RESET),
        ("MDCR_EL3_VALUE", control::MDCR_EL3),
        ("SPSR_SECURE", control::SPSR_SECURE),
        ("SRE_HIGH", control::SRE_HIGH),
        ("SECURE_GROUP", context::Context::SECURE_GROUP),
        ("EXCEPTION_CLASS_REGISTER", control::EXCEPTION_CLASS_REGISTER),
    ]
}

/// What only `multi` uses.
fn of_cores() -> [(&'static str, u64); 32] {
    let minus = |error: Error| error.answer();
    let plan = |offset: usize| offset as u64;
    let cores = offset_of!(WorldPlan, cores);
    let cpu_off = Function::CpuOff.id();
    let ends = [cpu_off, Function::SystemOff.id(), Function::SystemReset.id()];
    [
        ("MOST_CORES", cores::MOST_CORES as u64),
        ("CORE_SHIFT", context::CORE_BYTES.trailing_zeros().into()),
        ("LINE_SHIFT", cores::LINE_BYTES.trailing_zeros().into()),
        ("LINE_TURN", plan(offset_of!(StateLine, turn))),
        ("LINE_STARTS", plan(offset_of!(StateLine, starts))),
        ("START_BYTES", size_of::<Start>() as u64),
        ("START_SHIFT", size_of::<Start>().trailing_zeros().into()),
        ("START_ENTRY", plan(offset_of!(Start, entry))),
        ("ELR_OFFSET", plan(offset_of!(context::Context, elr_el3))),
        ("PLAN_CALLER_LEVEL", plan(cores + offset_of!(CoresPlan, caller_level))),
        ("PLAN_WINDOW", plan(offset_of!(WorldPlan, window))),
        ("PLAN_CORES", plan(cores + offset_of!(CoresPlan, count))),
        ("PLAN_KICKS", plan(cores + offset_of!(CoresPlan, kicks))),
        ("PLAN_WATCH_LEAST", plan(cores + offset_of!(CoresPlan, watch_least_ticks))),
        ("PLAN_WATCH_MOST", plan(cores + offset_of!(CoresPlan, watch_most_ticks))),
        ("PRIORITY_MASK", context::Context::PRIORITY_MASK),
        ("ACTIVE_PRIORITIES", control::ACTIVE_PRIORITIES.into()),
        ("KICK", cores::KICK.into()),
        ("KICKED_VECTOR", cores::KICKED_VECTOR),
        ("KICKED_STATE", cores::KICKED_STATE),
        ("EVENT", interrupts::EVENT.into()),
        ("EVENT_TO_BOOT_CORE", u64::from(interrupts::EVENT) << 24 | 1),
        ("CALL_KICK", cores::CALL_KICK),
        ("CALL_WATCH", cores::CALL_WATCH),
        ("CPU_ON", Function::CpuOn.id()),
        ("CPU_OFF", cpu_off),
        ("SYSTEM_RESET", Function::SystemReset.id()),
        ("ENDS", ends.iter().map(|id| 1 << (id - cpu_off)).sum()),
        ("INVALID_PARAMETERS", minus(Error::InvalidParameters)),
        ("INVALID_ADDRESS", minus(Error::InvalidAddress)),
        ("ALREADY_ON", minus(Error::AlreadyOn)),
        ("ON_PENDING", minus(Error::OnPending)),
    ]
}

fn macro_of(text: &mut String, name: &str, body: fn(&mut String)) {
    let _ = writeln!(text, ".macro {name}");
    body(text);
    let _ = writeln!(text, ".endm");
}

/// Calls `each` with a pair of neighbours, or the last one alone, and its offset in the context.
fn pairs(mut each: impl FnMut(usize, &Register, Option<&Register>)) {
    for (index, pair) in REGISTERS.chunks(2).enumerate() {
        each(context::REGISTERS_OFFSET + 16 * index, &pair[0], pair.get(1));
    }
}

fn save(text: &mut String) {
    pairs(|offset, first, second| {
        let _ = writeln!(text, "    mrs x1, {}", first.operand);
        let _ = match second {
            Some(second) => writeln!(text, "    mrs x2, {}\n    stp x1, x2, [sp, #{offset}]", second.operand),
            None => writeln!(text, "    str x1, [sp, #{offset}]"),
        };
    });
}

fn load(text: &mut String) {
    pairs(|offset, first, second| {
        let _ = match second {
            Some(second) => writeln!(
                text,
                "    ldp x1, x2, [sp, #{offset}]\n    msr {}, x1\n    msr {}, x2",
                first.operand, second.operand
            ),
            None => writeln!(text, "    ldr x1, [sp, #{offset}]\n    msr {}, x1", first.operand),
        };
    });
}

fn reset(text: &mut String) {
    for (index, (register, value)) in NON_SECURE_RESET.iter().enumerate() {
        if index == 1 {
            let _ = writeln!(text, "    isb");
        }
        let _ = match value {
            ResetValue::Constant(0) => writeln!(text, "    msr {}, xzr", register.operand),
            ResetValue::Constant(value) => {
                writeln!(text, "    CONSTANT x2, {value:#x}\n    msr {}, x2", register.operand)
            }
            ResetValue::Copy(from) => writeln!(text, "    mrs x2, {from}\n    msr {}, x2", register.operand),
        };
    }
}
