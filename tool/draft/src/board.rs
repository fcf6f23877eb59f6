//! Writes the facts of a tree as a board file.

use crate::address::Extent;
use crate::controller::FRAME_BYTES;
use crate::cores::{EXPECTED_TIMERS, Psci};
use crate::devices::Device;
use crate::facts::Facts;
use crate::kinds::Dma;
use crate::memory::{Reserved, load_address};
use crate::text::{Text, Value, decimal, hex, in_words, quoted, ranges, strings};
use bulkhead_arm::Intid;
use bulkhead_description::board::BOARD_VERSION;
use bulkhead_description::unit::format_size;

/// Comments of one kind at most.
const MOST_SENTENCES: usize = 200;
/// Spare interrupts that a test takes at most.
const MOST_STAND_INS: usize = 48;

/// Writes the board file; `origin` says in a few words which tree it is.
#[must_use]
pub(crate) fn write(facts: &Facts, origin: &str) -> Text {
    let mut text = Text::default();
    let (reserved, outside) = facts.reserved();
    head(&mut text, facts, origin);
    firmware(&mut text, facts);
    memory(&mut text, facts, &reserved);
    cores(&mut text, facts);
    controller(&mut text, facts, &reserved);
    reservations(&mut text, facts, &reserved, &outside);
    uarts(&mut text, facts);
    others(&mut text, facts);
    devices(&mut text, facts);
    left_out(&mut text, facts);
    text
}

fn head(text: &mut Text, facts: &Facts, origin: &str) {
    let model = facts.model.as_deref().unwrap_or("no model");
    text.comment(&format!("Draft of a board file, made by `bulkhead board draft` from {origin}: {model}."));
    text.line("#");
    text.comment(
        "A device tree says what an operating system asks for, which is less than a hypervisor must know. A value that begins \
         with TODO is still to be found out, and `bulkhead board check` refuses it by name. Everything else comes from the nodes \
         that the comments name; compare it with the manual of the board, since nothing else can.",
    );
    text.gap();
    text.known("version", BOARD_VERSION.to_string());
    text.known("name", quoted(&facts.name()));
}

/// Sentences of a list, each as a comment. A board has a few; a hostile tree could have a hundred thousand.
fn sentences(text: &mut Text, list: &[String]) {
    for sentence in list.iter().take(MOST_SENTENCES) {
        text.comment(&format!("{sentence}."));
    }
    let more = list.len().saturating_sub(MOST_SENTENCES);
    if more > 0 {
        text.comment(&format!("{more} more."));
    }
}

fn firmware(text: &mut Text, facts: &Facts) {
    text.key(
        "enters_at",
        &Value::todo(
            "\"el2\" or \"el1\", the exception level at which firmware enters an image; Linux prints it when it boots there \
             (\"All CPU(s) started at EL2\")",
            "\"el2\"",
        ),
    );
    match facts.psci {
        Psci::Smc => text.known("psci", "\"smc\""),
        Psci::Hvc => text.known("psci", "\"hvc\""),
        Psci::None(why) => {
            let method = facts.cores.other_method.as_ref().map(|method| format!(" (enable-method `{method}`)"));
            text.comment(&format!("{why}{}.", method.unwrap_or_default()));
            text.known("psci", "\"none\"");
        }
    }
}

fn bank(extent: Extent) -> String {
    format!("{{ address = {}, size = {} }}", hex(extent.start()), quoted(&format_size(extent.bytes())))
}

fn banks(extents: &[Extent]) -> String {
    let list: Vec<String> = extents.iter().copied().map(bank).collect();
    format!("[{}]", list.join(", "))
}

fn memory(text: &mut Text, facts: &Facts, reserved: &[Reserved]) {
    let memory = &facts.memory;
    sentences(text, &memory.remarks);
    let known: Vec<Extent> = memory.banks.iter().map(|(bank, _)| *bank).collect();
    let stand_ins = facts.stand_in_banks(reserved);
    let stand_in = Some(&stand_ins).filter(|banks| !banks.is_empty()).map(|stand_ins| banks(stand_ins));
    let first = match (known.first(), &memory.start) {
        (None, None) => None,
        // Where the tree says that RAM begins, unless it says that registers are there.
        (None, Some((start, _))) => stand_ins.first().filter(|bank| bank.start() == *start),
        (first, _) => first,
    };
    let address = first.and_then(|first| load_address(first.start(), first.end(), reserved));
    match (known.as_slice(), &memory.start, &memory.overlap) {
        ([], _, Some(overlap)) => {
            text.comment(&format!("Banks of RAM overlap: {overlap}."));
            let sentence = "the banks of RAM as [{ address = .., size = \"..\" }]: in the tree they overlap, see the board's manual";
            text.key("memory", &Value::todo_with_room(sentence, stand_in));
        }
        ([], Some((start, node)), None) => {
            text.comment(&format!("{node}: begins at {start:#x}; a boot loader fills the size in."));
            let sentence = format!(
                "the banks of RAM as [{{ address = {}, size = \"..\" }}]: the tree leaves the size to a boot loader; that of the \
                 running board has it (/sys/firmware/fdt under Linux)",
                hex(*start)
            );
            text.key("memory", &Value::todo_with_room(sentence, stand_in));
        }
        ([], None, None) => {
            let sentence = "the banks of RAM as [{ address = .., size = \"..\" }]: the tree leaves them to a boot loader; that of the \
                            running board has them (/sys/firmware/fdt under Linux)";
            text.key("memory", &Value::todo_with_room(sentence, stand_in));
        }
        (known, ..) => {
            let mut nodes: Vec<&str> = memory.banks.iter().map(|(_, node)| node.as_str()).collect();
            nodes.dedup();
            text.comment(&format!("{}.", nodes.join(", ")));
            text.known("memory", banks(known));
        }
    }
    match address {
        Some(address) => {
            text.comment("Proposed: the first 2 MiB of the first bank that are above page 0 and not reserved. Ask the boot loader.");
            text.known("load_address", hex(address));
        }
        None => {
            let first = stand_ins.first().and_then(|first| load_address(first.start(), first.end(), reserved));
            let sentence = "where the boot loader puts an image: a multiple of 2 MiB in the first bank of RAM that is not reserved";
            text.key("load_address", &Value::todo(sentence, hex(first.unwrap_or(0x20_0000))));
        }
    }
    match facts.cores.address_bits() {
        (bits, true) => {
            text.comment("By the type of the cores.");
            text.known("physical_address_bits", bits.to_string());
        }
        (_, false) => {
            let least = facts.stand_in_bits(if known.is_empty() { &stand_ins } else { &known });
            let sentence =
                "ID_AA64MMFR0_EL1.PARange of the cores: 0 means 32, then 36, 40, 42, 44, and 5 means 48 bits";
            text.key("physical_address_bits", &Value::todo(sentence, least.to_string()));
        }
    }
}

fn cores(text: &mut Text, facts: &Facts) {
    let cores = &facts.cores;
    sentences(text, &cores.remarks);
    if cores.cores.is_empty() {
        let sentence =
            "the cores as [{ kind = \"cortex-a53\", mpidr = [..] }]: the tree has no /cpus with readable nodes";
        text.key("cores", &Value::todo(sentence, "[{ kind = \"cortex-a72\", mpidr = [0] }]"));
    } else {
        text.comment("/cpus, by MPIDR.");
        text.line("cores = [");
        for group in cores.cores.chunk_by(|one, next| one.kind == next.kind) {
            let is_small = group.iter().all(|core| core.mpidr < 0x100);
            let number = |mpidr: u64| if is_small { mpidr.to_string() } else { hex(mpidr) };
            let list: Vec<String> = group.iter().map(|core| number(core.mpidr)).collect();
            let kind = group.first().map_or("", |core| core.kind.as_str());
            text.line(&format!("    {{ kind = {}, mpidr = [{}] }},", quoted(kind), list.join(", ")));
        }
        text.line("]");
    }
    let timer = &facts.timer;
    let frequency = "the frequency of the counter in Hz: CNTFRQ_EL0, which firmware sets (Linux prints it: \"arch_timer: .. running at ..\")";
    match (&timer.path, timer.counter_hz) {
        (Some(path), Some(frequency)) => {
            text.comment(&format!("{path}."));
            text.known("counter_hz", decimal(u64::from(frequency)));
        }
        (Some(_), None) => text.key("counter_hz", &Value::todo(frequency, "24_000_000")),
        (None, _) => {
            let sentence = format!("{frequency}; the tree has no node of kind arm,armv8-timer");
            text.key("counter_hz", &Value::todo(sentence, "24_000_000"));
        }
    }
    if timer.is_unset {
        text.comment("The tree says that firmware leaves the registers of the counter as they are after reset: CNTFRQ_EL0 may be 0.");
    }
    match timer.interrupts {
        Some(EXPECTED_TIMERS) => {}
        Some([physical, virtual_, hypervisor]) => {
            text.comment("Private interrupts of the timer, which are not the usual ones.");
            text.known(
                "timer",
                format!("{{ el1_physical = {physical}, el1_virtual = {virtual_}, el2_physical = {hypervisor} }}"),
            );
        }
        None => {
            let [physical, virtual_, hypervisor] = EXPECTED_TIMERS;
            let usual =
                format!("{{ el1_physical = {physical}, el1_virtual = {virtual_}, el2_physical = {hypervisor} }}");
            let sentence = format!("the INTIDs of the timers, which the tree does not tell; usual are {usual}");
            text.key("timer", &Value::todo(sentence, usual));
        }
    }
}

fn controller(text: &mut Text, facts: &Facts, reserved: &[Reserved]) {
    let gic = &facts.controller;
    text.gap();
    if !gic.path.is_empty() {
        text.comment(&format!("{}.", gic.path));
    }
    sentences(text, &gic.remarks);
    text.line("[interrupt_controller]");
    if gic.version == 0 {
        text.comment("0: it is no GIC that is known.");
    }
    text.known("version", gic.version.to_string());
    match gic.distributor {
        Some(distributor) => text.known("distributor", hex(distributor.start())),
        None => {
            let mut banks: Vec<Extent> = facts.memory.banks.iter().map(|(bank, _)| *bank).collect();
            banks.extend(facts.stand_in_banks(reserved));
            let stand_in = facts.stand_in_distributor(&banks).map(hex);
            text.key("distributor", &Value::todo_with_room("the address of the distributor", stand_in));
        }
    }
    if gic.version == 3 {
        if gic.redistributors.is_empty() {
            let sentence = "the regions of redistributors as [{ address = .., size = \"..\" }]: the tree has none";
            text.key("redistributors", &Value::todo(sentence, "[]"));
        } else {
            text.known("redistributors", banks(&gic.redistributors));
        }
        if let Some(stride) = gic.stride {
            text.known("redistributor_stride", hex(stride));
        }
        let frames: u64 = gic.redistributors.iter().map(|region| region.bytes() / FRAME_BYTES).sum();
        let cores = facts.cores.cores.len() as u64;
        if gic.stride.is_none() && frames >= cores.saturating_mul(2) {
            text.comment(&format!(
                "There is room for {frames} frames of 128 KiB and there are {cores} cores. If it is a GICv4 (GICR_TYPER.VLPIS), a frame \
                 has 256 KiB: `redistributor_stride`."
            ));
        }
    }
    text.key(
        "security_states",
        &Value::todo("1 if GICD_CTLR.DS (bit 6) is 1 when EL2 reads it, else 2, as usual with firmware at EL3", "2"),
    );
    let least = facts.least_shared();
    text.key(
        "shared_interrupts",
        &Value::todo(
            format!(
                "32 times GICD_TYPER.ITLinesNumber (bits 4:0); at least {least}, by the interrupts that nodes name"
            ),
            least.to_string(),
        ),
    );
    let sentence = "ICH_VTR_EL2.ListRegs (bits 4:0) and 1; the manual of the core says it as well";
    text.key("list_registers", &Value::todo(sentence, "4"));
    let used = ranges(facts.shared.iter().copied());
    text.comment(&format!("INTIDs of shared interrupts that nodes name, switched off or not: {}.", in_words(&used)));
    text.comment(&format!("Between them no node names {}.", in_words(&ranges(facts.gaps()))));
    if facts.unknown_interrupts > 0 {
        text.comment(&format!(
            "{} nodes have interrupts that come through other controllers, whose lines to this one the tree does not tell.",
            facts.unknown_interrupts
        ));
    }
    let first = Intid::FIRST_SHARED;
    let free = (first..first.saturating_add(least)).filter(|intid| !facts.shared.contains(intid));
    let spare: Vec<String> = ranges(free.take(MOST_STAND_INS))
        .iter()
        .map(|(first, last)| format!("{{ first = {first}, last = {last} }}"))
        .collect();
    text.key(
        "spare",
        &Value::todo(
            "shared interrupts that no device raises, as [{ first = .., last = .. }]: those that neither a node nor the manual names",
            format!("[{}]", spare.join(", ")),
        ),
    );
}

fn reservations(text: &mut Text, facts: &Facts, reserved: &[Reserved], outside: &[String]) {
    for list in [facts.reservations.wishes.as_slice(), outside] {
        if !list.is_empty() {
            text.gap();
            sentences(text, list);
        }
    }
    let mut seen = std::collections::BTreeMap::new();
    for region in reserved {
        let count: &mut u32 = seen.entry(region.name.clone()).or_default();
        let name = if *count == 0 { region.name.clone() } else { format!("{}-{count}", region.name) };
        *count = count.saturating_add(1);
        text.gap();
        text.comment(&format!("{}.", region.source));
        text.line("[[reserved]]");
        text.known("name", quoted(&name));
        extent(text, region.pages);
    }
}

fn extent(text: &mut Text, extent: Extent) {
    text.known("address", hex(extent.start()));
    text.known("size", quoted(&format_size(extent.bytes())));
}

/// From which nodes something comes, and what of its interrupts could not be written.
fn nodes(text: &mut Text, device: &Device) {
    text.gap();
    text.comment(&format!("{}.", device.nodes.join(", ")));
    for unknown in &device.unknown {
        text.comment(&format!("An interrupt of it is not known: {unknown}."));
    }
}

fn uarts(text: &mut Text, facts: &Facts) {
    let uarts = &facts.devices.uarts;
    let console = uarts.iter().find(|uart| uart.is_console);
    let is_alone = |uart: &&Device| {
        let all = || uarts.iter().chain(&facts.devices.devices).filter(|other| other.name != uart.name);
        let intid = uart.interrupts.first().map(|(intid, _)| *intid);
        !all().any(|other| other.all_interrupts().any(|other| Some(other) == intid))
    };
    let monitors = console.filter(|uart| uart.uart == Some("pl011")).filter(is_alone);
    if monitors.is_none() {
        text.gap();
        let why = "so none is proposed for the monitor: no console input.";
        text.comment(&match console {
            Some(uart) if uart.uart == Some("pl011") => {
                format!("Another device has the interrupt of the console, {why}")
            }
            Some(_) => format!("The console of the tree (/chosen, stdout-path) is no PL011, {why}"),
            None => format!("No UART below is the console of the tree (/chosen, stdout-path), {why}"),
        });
    }
    for uart in uarts {
        nodes(text, uart);
        text.line("[[uart]]");
        text.known("name", quoted(&uart.name));
        text.known("kind", quoted(uart.uart.unwrap_or_default()));
        text.known("address", hex(uart.registers.start()));
        if let Some((intid, _)) = uart.interrupts.first() {
            text.known("interrupt", intid.to_string());
        }
        if let Some(frequency) = uart.clock_hz {
            text.known("clock_hz", decimal(u64::from(frequency)));
        }
        if monitors.is_some_and(|other| other.name == uart.name) {
            text.comment("The console of the tree (/chosen, stdout-path).");
            text.known("monitor", "true");
        } else if uart.uart != Some("pl011") {
            text.known("compatible", strings(&uart.compatible));
        }
    }
}

fn others(text: &mut Text, facts: &Facts) {
    for (key, list) in [("smmu", &facts.devices.smmus), ("pci", &facts.devices.bridges)] {
        for device in list {
            nodes(text, device);
            text.line(&format!("[[{key}]]"));
            text.known("name", quoted(&device.name));
            extent(text, device.registers);
        }
    }
}

fn devices(text: &mut Text, facts: &Facts) {
    let devices = &facts.devices.devices;
    if devices.iter().any(|device| device.dma != Dma::None) {
        text.gap();
        text.comment(
            "`dma = true` marks what reads and writes memory by itself; with `assumed` behind it nothing in the tree says that it does \
             not. `dma_confinable = false`: no SMMU that is known stands in front of it.",
        );
    }
    for device in devices {
        nodes(text, device);
        text.line("[[device]]");
        text.known("name", quoted(&device.name));
        if device.more > 0 {
            text.known("count", device.more.saturating_add(1).to_string());
        }
        extent(text, device.registers);
        if !device.interrupts.is_empty() {
            let trigger = |edge: bool| if edge { "edge" } else { "level" };
            let list: Vec<String> = device
                .interrupts
                .iter()
                .map(|(intid, edge)| format!("{{ intid = {intid}, trigger = \"{}\" }}", trigger(*edge)))
                .collect();
            text.known("interrupts", format!("[{}]", list.join(", ")));
        }
        if !device.compatible.is_empty() {
            text.known("compatible", strings(&device.compatible));
        }
        if let Some(frequency) = device.clock_hz {
            text.known("clock_hz", decimal(u64::from(frequency)));
        }
        if device.dma != Dma::None {
            text.known("dma", if device.dma == Dma::Assumed { "true # assumed" } else { "true" });
            if !device.confinable {
                text.known("dma_confinable", "false");
            }
        }
    }
}

fn left_out(text: &mut Text, facts: &Facts) {
    let all = &facts.devices;
    if all.disabled > 0 {
        text.gap();
        text.comment(&format!("{} nodes with registers are switched off (`status`) and not listed.", all.disabled));
    }
    if !all.left_out.is_empty() {
        text.gap();
        text.comment("Not listed either:");
        sentences(text, &all.left_out);
    }
}
