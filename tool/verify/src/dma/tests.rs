//! The model of the hardware against scripts as `devices.md` sections 3 and 4 describe them, and against each with one thing wrong.

use super::machine::{Machine, Scope, base_addresses, is_in_place};
use super::plans::{Devices, Function};
use super::registers::{pci, smmu};
use bulkhead_abi::devices::{
    Bar, DeviceFunction, HEADER_WORDS, MAX_BARS, STEP_DELAY, STEP_EXPECT, STEP_UPDATE, STEP_WAIT, STEP_WRITE, Step,
};
use bulkhead_abi::{GuestAddress, PhysicalAddress};
use std::collections::BTreeMap;

const ECAM: u64 = 0x40_1000_0000;
const SMMU: u64 = 0x0905_0000;
const PORT: u64 = ECAM + (9 << 15);
const QUEUE: u64 = 0x4100_0000;

/// A virtio function with a wide base address 4.
fn function(stream: u32, physical: u64) -> Function {
    let mut header = [0; HEADER_WORDS];
    let mut bars = [Bar::default(); MAX_BARS];
    (header[0], header[2], header[8]) = (0x1042_1af4, 0x0180_0001, 0x2800_000c);
    // Common registers, at the front of base address 4.
    (header[13], header[16], header[17]) = (0x40, 0x0110_0009, 4);
    bars[4] = Bar { guest: GuestAddress(0x2800_0000), physical: PhysicalAddress(physical), bytes: 0x4000 };
    let configuration = PhysicalAddress(ECAM + u64::from(stream) * 4096);
    Function {
        partition: 0,
        index: 0,
        plan: DeviceFunction { configuration, stream, device_control: 0x48, header, bars },
    }
}

fn devices() -> Devices {
    let functions = vec![function(0x08, 0x1000_0000), Function { partition: 1, ..function(0x100, 0x1010_0000) }];
    Devices { plans: BTreeMap::new(), functions, boot: None, ecam: ECAM }
}

const fn step(operation: u16, width: u16, address: u64, mask: u64, value: u64) -> Step {
    let limit = if operation == STEP_WAIT { 1000 } else { 0 };
    Step { operation, width, limit, address: PhysicalAddress(address), mask, value }
}

const fn write(width: u16, address: u64, value: u64) -> Step {
    step(STEP_WRITE, width, address, 0, value)
}

const fn wait(width: u16, address: u64, mask: u64, value: u64) -> Step {
    step(STEP_WAIT, width, address, mask, value)
}

/// Everything of the boot core for these two functions and a port.
fn boot() -> Vec<Step> {
    let pages = [ECAM + 0x8000, ECAM + 0x10_0000, PORT];
    let mut steps: Vec<Step> = pages.iter().map(|page| write(2, page + pci::COMMAND, 0)).collect();
    steps.extend(pages.map(|page| wait(2, page + pci::COMMAND, pci::MASTER, 0)));
    let at = |offset| SMMU + offset;
    let facts = smmu::IDR0_S1P | smmu::IDR0_AARCH64 | smmu::IDR0_COHACC;
    steps.extend([
        step(STEP_EXPECT, 4, at(smmu::IDR0), facts, facts),
        write(4, at(smmu::CR0), 0),
        wait(4, at(smmu::CR0ACK), 0xf, 0),
        write(4, at(smmu::IRQ_CTRL), 0),
        write(4, at(smmu::CR1), smmu::CR1_VALUE),
        write(4, at(smmu::CR2), 0),
        write(8, at(smmu::STRTAB_BASE), 0x4101_0000 | smmu::HINT),
        write(4, at(smmu::STRTAB_BASE_CFG), 9),
        write(8, at(smmu::CMDQ_BASE), QUEUE | 4 | smmu::HINT),
        write(4, at(smmu::CMDQ_PROD), 0),
        write(4, at(smmu::CMDQ_CONS), 0),
        write(8, at(smmu::EVENTQ_BASE), 0x4200_0000 | 8 | smmu::HINT),
        write(4, at(smmu::EVENTQ_PROD), 0),
        write(4, at(smmu::EVENTQ_CONS), 0),
        write(4, at(smmu::CR0), smmu::CMDQEN),
        wait(4, at(smmu::CR0ACK), 0xf, smmu::CMDQEN),
        write(4, at(smmu::CMDQ_PROD), 3),
        wait(4, at(smmu::CMDQ_CONS), 0x7f0f_ffff, 3),
        write(4, at(smmu::CR0), 0xc),
        write(4, at(smmu::CR0), 0xd),
        wait(4, at(smmu::CR0ACK), 0xf, 0xd),
        step(STEP_EXPECT, 1, PORT + pci::HEADER_TYPE, 0x7f, 1),
        write(4, PORT + pci::BUS_NUMBERS, 0x0001_0100),
        write(4, PORT + 0x20, 0x1010_1010),
        write(2, PORT + pci::COMMAND, 0x406),
    ]);
    steps.extend(bring_up(ECAM + 0x8000, 0x1000_0000));
    steps.extend(bring_up(ECAM + 0x10_0000, 0x1010_0000));
    steps
}

fn bring_up(page: u64, physical: u64) -> [Step; 5] {
    [
        step(STEP_EXPECT, 4, page, 0xffff_ffff, 0x1042_1af4),
        step(STEP_EXPECT, 4, page + pci::CLASS, 0xffff_ff00, 0x0180_0000),
        write(4, page + 0x20, physical),
        write(4, page + 0x24, 0),
        write(2, page + pci::COMMAND, pci::MEMORY | pci::SILENT),
    ]
}

/// What a partition does with the first function before it starts again.
fn quiesce() -> Vec<Step> {
    let page = ECAM + 0x8000;
    let [.., low, high, command] = bring_up(page, 0x1000_0000);
    vec![
        step(STEP_UPDATE, 2, page + pci::COMMAND, pci::MEMORY | pci::MASTER | pci::SILENT, pci::MEMORY | pci::SILENT),
        wait(2, page + pci::COMMAND, pci::MASTER, 0),
        write(1, 0x1000_0014, 0),
        wait(1, 0x1000_0014, 0xff, 0),
        step(STEP_DELAY, 0, 0, 0, 100),
        low,
        high,
        command,
    ]
}

const COMMANDS: [[u64; 2]; 3] = [smmu::CFGI_ALL, smmu::TLBI_NSNH_ALL, smmu::SYNC];

fn queue(base: u64, index: u64) -> Option<[u64; 2]> {
    COMMANDS.get(index as usize).copied().filter(|_| base & !smmu::HINT & !0x1f == QUEUE)
}

/// Executes a boot script; the first thing that is wrong with it.
fn run_boot(steps: &[Step]) -> Result<(), String> {
    let devices = devices();
    let mut machine = Machine::new(&devices, SMMU, &queue);
    steps.iter().try_for_each(|step| machine.execute(step, Scope::All))?;
    let states: Vec<_> = devices.functions.iter().map(|function| machine.state(function)).collect();
    let ends = |state: &super::machine::State, function: &Function| {
        state.command == Some(0x402) && is_in_place(function, &state.bars) && state.identity == [true; 2]
    };
    let all = states.iter().zip(&devices.functions).all(|(state, function)| ends(state, function));
    let on = machine.acknowledged == 0xd && machine.register(smmu::CR0) == 0xd && machine.forgotten == [true; 2];
    if all && on { Ok(()) } else { Err(String::from("ends elsewhere")) }
}

fn run_quiesce(steps: &[Step]) -> Result<(), String> {
    let devices = devices();
    let none = |_: u64, _: u64| None;
    let mut machine = Machine::new(&devices, SMMU, &none);
    let bars = |function: &Function| base_addresses(function).map(|bar| bar.unwrap_or(0));
    devices.functions.iter().for_each(|function| machine.is_driven(function, bars(function)));
    steps.iter().try_for_each(|step| machine.execute(step, Scope::Partition(0)))?;
    let state = machine.state(&devices.functions[0]);
    let good = state.command == Some(0x402) && is_in_place(&devices.functions[0], &state.bars) && state.is_reset;
    if good { Ok(()) } else { Err(String::from("ends elsewhere")) }
}

/// A script without one step, with one more, or with one changed.
fn with(steps: &[Step], change: impl FnOnce(&mut Vec<Step>)) -> Vec<Step> {
    let mut steps = steps.to_vec();
    change(&mut steps);
    steps
}

fn place(steps: &[Step], operation: u16, address: u64, value: u64) -> usize {
    let is_it = |step: &Step| (step.operation, step.address.0, step.value) == (operation, address, value);
    steps.iter().position(is_it).expect("the script has the step")
}

#[test]
fn scripts_of_the_design_end_where_they_should() {
    assert_eq!(run_boot(&boot()), Ok(()));
    assert_eq!(run_quiesce(&quiesce()), Ok(()));
}

#[test]
fn no_step_of_the_boot_core_can_be_left_out() {
    let steps = boot();
    // Waits for what the model has at once, registers that are zero as they are, steps that are judged by what they expect.
    let may = |step: &Step| {
        let register = step.address.0.wrapping_sub(SMMU);
        let is_judged_elsewhere = [
            smmu::IDR0,
            smmu::CR1,
            smmu::CR2,
            smmu::IRQ_CTRL,
            smmu::STRTAB_BASE,
            smmu::STRTAB_BASE_CFG,
            smmu::EVENTQ_BASE,
            smmu::EVENTQ_PROD,
            smmu::EVENTQ_CONS,
        ];
        let is_of_port = (PORT..PORT + 4096).contains(&step.address.0);
        // The first is not needed for the second; an upper half that is zero; what the model has at once.
        let between = [(smmu::CR0, 0xc), (smmu::CR0ACK, smmu::CMDQEN)].contains(&(register, step.value));
        let is_behind_port = step.address.0 == ECAM + 0x10_0004 && step.value == 0;
        is_judged_elsewhere.contains(&register)
            || is_of_port
            || between
            || is_behind_port
            || step.address.0 % 4096 == 0x24 && step.value == 0
    };
    for (index, left_out) in steps.iter().enumerate().filter(|(_, step)| !may(step)) {
        let rest = with(&steps, |steps| {
            steps.remove(index);
        });
        assert!(run_boot(&rest).is_err(), "without step {index}: {left_out:x?}");
    }
}

#[test]
fn no_step_of_a_partition_can_be_left_out() {
    let steps = quiesce();
    // The delay, and base addresses that a reset by status leaves, may go.
    for index in [0, 1, 2, 3] {
        let rest = with(&steps, |steps| {
            steps.remove(index);
        });
        assert!(run_quiesce(&rest).is_err(), "without step {index}");
    }
}

/// Runs a changed script; gives why it is refused.
fn refusal(script: Result<(), String>) -> String {
    script.expect_err("it must be refused")
}

#[test]
fn changed_boot_scripts_are_refused() {
    let steps = boot();
    let on = place(&steps, STEP_WRITE, SMMU + smmu::CR0, 0xd);
    let last = with(&steps, |steps| {
        let step = steps.remove(on);
        steps.push(step);
    });
    assert!(refusal(run_boot(&last)).contains("there is 0xc"), "a port is set up before the SMMU translates");
    let port = with(&steps, |steps| {
        let at = place(steps, STEP_WRITE, PORT + pci::COMMAND, 0x406);
        let step = steps.remove(at);
        steps.insert(on, step);
    });
    assert!(refusal(run_boot(&port)).contains("no plan names"), "a port masters the bus before the SMMU translates");
    let master = |value: u64| {
        let at = place(&steps, STEP_WRITE, ECAM + 0x8004, 0x402);
        with(&steps, |steps| steps[at].value = value)
    };
    assert!(refusal(run_boot(&master(0x406))).contains("master the bus"));
    assert_eq!(refusal(run_boot(&master(0x002))), "ends elsewhere");
    let unread = with(&steps, |steps| {
        steps.remove(3);
    });
    assert!(refusal(run_boot(&unread)).contains("may be a master of the bus"), "mastering off without reading it back");
    let cases: [(Step, &str); 8] = [
        (write(4, SMMU + smmu::CR0, 0xc), "after it was switched on"),
        (write(4, SMMU + 0x44, 0), "after it was switched on"),
        (write(2, ECAM + 0x8000 + 0x50, 0x10), "no script needs"),
        (write(4, ECAM + 0x8000 + 0x3c, 0), "no script needs"),
        (write(4, 0x0800_0000, 0), "not its own"),
        (wait(4, 0x4000_0000, 1, 1), "not its own"),
        (write(1, 0x1000_0014, 1), "no reset"),
        (write(4, SMMU - 4, 0), "not its own"),
    ];
    for (step, why) in cases {
        let longer = with(&steps, |steps| steps.push(step));
        assert!(refusal(run_boot(&longer)).contains(why), "{step:x?}: {}", refusal(run_boot(&longer)));
    }
    let early = with(&steps, |steps| steps.insert(0, write(4, SMMU + smmu::CR1, smmu::CR1_VALUE)));
    assert!(refusal(run_boot(&early)).contains("may be a master of the bus"));
    let unknown = with(&steps, |steps| {
        let at = place(steps, STEP_WRITE, SMMU + smmu::CMDQ_PROD, 3);
        steps[at].value = 4;
    });
    assert!(refusal(run_boot(&unknown)).contains("command 3"), "a fourth command");
    let impostor = with(&steps, |steps| {
        let at = place(steps, STEP_EXPECT, ECAM + 0x8000, 0x1042_1af4);
        steps[at].value = 0x1041_1af4;
    });
    assert!(refusal(run_boot(&impostor)).contains("looks at"), "another identity than the header's");
    let elsewhere = with(&steps, |steps| {
        let at = place(steps, STEP_WRITE, ECAM + 0x8020, 0x1000_0000);
        steps[at].value = 0x1010_0000;
    });
    assert!(refusal(run_boot(&elsewhere)).contains("answer elsewhere"), "a base address over a foreign one");
}

#[test]
fn changed_scripts_of_partitions_are_refused() {
    let steps = quiesce();
    let cases: [(Step, &str); 6] = [
        (write(2, ECAM + 0x10_0004, 0), "not its own"),
        (write(1, 0x1010_0014, 0), "not its own"),
        (write(4, SMMU + smmu::CR0, 0), "writes to the SMMU"),
        (wait(4, SMMU + smmu::CR0ACK, 1, 1), "looks at the SMMU"),
        (write(2, PORT + pci::COMMAND, 0), "not its own"),
        (write(2, ECAM + 0x8004, 0x406), "master the bus"),
    ];
    for (step, why) in cases {
        for index in 0..=steps.len() {
            let longer = with(&steps, |steps| steps.insert(index, step));
            assert!(refusal(run_quiesce(&longer)).contains(why), "{step:x?} at {index}");
        }
    }
    // By function-level reset, after which base addresses are gone.
    let page = ECAM + 0x8000;
    let reset = |end: &[Step]| {
        let mut steps = vec![steps[0], steps[1], wait(2, page + 0x4a, 0x20, 0), write(2, page + 0x48, pci::RESET)];
        steps.push(wait(4, page, 0xffff_ffff, 0x1042_1af4));
        steps.extend_from_slice(end);
        run_quiesce(&steps)
    };
    assert_eq!(reset(&steps[5..]), Ok(()));
    assert!(refusal(reset(&steps[7..])).contains("answer elsewhere"));
    assert_eq!(refusal(reset(&steps[5..7])), "ends elsewhere");
}
