//! Scripts: step by step for one system, and their effect on a machine for many.

use super::machine::Machine;
use super::{bytes, planned, text};
use bulkhead_abi::devices::{ALL_PARTITIONS, BootDevices, DevicePlan};
use bulkhead_plan::model::System;
use bulkhead_plan::tables::Attributes;
use bulkhead_plan::{AreaKind, Plan, samples};
use zerocopy::FromBytes;

/// The scripts as they are in the image.
fn boot(plan: &Plan) -> BootDevices {
    BootDevices::read_from_prefix(bytes(plan, AreaKind::BootDevices)).unwrap().0
}

fn device_plan(plan: &Plan, partition: usize) -> DevicePlan {
    DevicePlan::read_from_prefix(bytes(plan, AreaKind::DevicePlan(partition))).unwrap().0
}

/// Pages of registers that a core's monitor maps.
fn pages(plan: &Plan, core: usize) -> Vec<u64> {
    let devices = plan.el2[core].iter().filter(|mapping| mapping.attributes == Attributes::EL2_DEVICE);
    devices.flat_map(|mapping| (mapping.input..mapping.input + mapping.bytes).step_by(4096)).collect()
}

/// Mastering off for every function that can be there, then the SMMU, then functions one by one.
#[test]
fn scripts_of_the_boot_core_come_in_their_order() {
    let plan = planned(&samples::functions());
    let boot = boot(&plan);
    let order: Vec<(u32, u32)> = boot.scripts().iter().map(|script| (script.partition, script.count)).collect();
    let expected = [(ALL_PARTITIONS, 26), (ALL_PARTITIONS, 25), (2, 11), (1, 9), (0, 6), (1, 9), (0, 10), (2, 11)];
    assert_eq!(order, expected, "root port, disk, copier, net, store, far");
    let off = text(boot.steps_of(&boot.scripts[0]));
    assert_eq!(off[..2], ["write2 0x4010008004 = 0x0", "expect2 0x4010008004 & 0x0 = 0x0"]);
    assert_eq!(off[24], "write2 0x4010080004 = 0x0", "the root port is the last one");
    let last = boot.scripts().last().unwrap();
    assert_eq!(boot.step_count, last.first + last.count, "no step is without a script");
}

#[test]
fn the_smmu_comes_up_in_these_steps() {
    let plan = planned(&samples::functions());
    let boot = boot(&plan);
    let [streams, commands, events] =
        [AreaKind::StreamTable, AreaKind::Commands, AreaKind::Events].map(|kind| plan.layout.address(kind).0);
    let expected = [
        "expect4 0x9050000 & 0x1a = 0x1a",
        "expect4 0x9050004 & 0x30 = 0x10",
        "expect4 0x9050014 & 0x14 = 0x14",
        "write4 0x9050020 = 0x0",
        "wait4 0x9050024 & 0xffffffff = 0x0",
        "write4 0x9050050 = 0x0",
        "wait4 0x9050054 & 0xffffffff = 0x0",
        "write4 0x9050028 = 0xd75",
        "write4 0x905002c = 0x0",
        &format!("write8 0x9050080 = {:#x}", 1 << 62 | streams),
        "write4 0x9050088 = 0x9",
        &format!("write8 0x9050090 = {:#x}", commands | 4),
        "write4 0x9050098 = 0x0",
        "write4 0x905009c = 0x0",
        &format!("write8 0x90500a0 = {:#x}", events | 8),
        "write4 0x90600a8 = 0x0",
        "write4 0x90600ac = 0x0",
        "write4 0x9050020 = 0x8",
        "wait4 0x9050024 & 0xffffffff = 0x8",
        "write4 0x9050098 = 0x3",
        "wait4 0x905009c & 0x7f0fffff = 0x3",
        "write4 0x9050020 = 0xc",
        "wait4 0x9050024 & 0xffffffff = 0xc",
        "write4 0x9050020 = 0xd",
        "wait4 0x9050024 & 0xffffffff = 0xd",
    ];
    assert_eq!(text(boot.steps_of(&boot.scripts[1])), expected);
}

#[test]
fn functions_and_the_root_port_are_readied_in_these_steps() {
    let boot = boot(&planned(&samples::functions()));
    let disk = [
        "expect4 0x4010008000 & 0xffffffff = 0x10421af4",
        "expect4 0x4010008008 & 0xffffff00 = 0x1000000",
        "expect2 0x4010008004 & 0x7 = 0x0",
        "write4 0x4010008014 = 0x1010c000",
        "write4 0x4010008020 = 0x10100000",
        "write4 0x4010008024 = 0x0",
        "write2 0x4010008004 = 0x402",
        "write1 0x10100014 = 0x0",
        "wait1 0x10100014 & 0xff = 0x0",
    ];
    assert_eq!(text(boot.steps_of(&boot.scripts[3])), disk);
    let port = [
        "expect1 0x401008000e & 0x7f = 0x1",
        "write4 0x4010080018 = 0x10100",
        "write2 0x4010100004 = 0x0",
        "expect2 0x4010100004 & 0x0 = 0x0",
        "write2 0x401008001c = 0xf0",
        "write4 0x4010080030 = 0xffff",
        "write4 0x4010080020 = 0x10201020",
        "write4 0x4010080024 = 0xfff0",
        "write4 0x4010080028 = 0xffffffff",
        "write4 0x401008002c = 0x0",
        "write2 0x4010080004 = 0x406",
    ];
    assert_eq!(text(boot.steps_of(&boot.scripts[2])), port);
    let far = [
        "expect4 0x4010100000 & 0xffffffff = 0x10411af4",
        "expect4 0x4010100008 & 0xffffff00 = 0x2000000",
        "expect2 0x4010100004 & 0x7 = 0x0",
        "wait2 0x40101000ae & 0x20 = 0x0",
        "update2 0x40101000ac & 0x8000 = 0x8000",
        "delay 6250000",
        "wait4 0x4010100000 & 0xffffffff = 0x10411af4",
        "write4 0x4010100014 = 0x10204000",
        "write4 0x4010100020 = 0x10200000",
        "write4 0x4010100024 = 0x0",
        "write2 0x4010100004 = 0x402",
    ];
    assert_eq!(text(boot.steps_of(&boot.scripts[7])), far);
}

/// All functions of a partition are silent before the first one is reset.
#[test]
fn an_owner_silences_resets_and_places_its_functions() {
    let plan = device_plan(&planned(&samples::functions()), 0);
    assert_eq!(plan.silence_count, 4);
    let expected = [
        "update2 0x4010010004 & 0x406 = 0x402",
        "wait2 0x4010010004 & 0x4 = 0x0",
        "update2 0x4010030004 & 0x406 = 0x402",
        "wait2 0x4010030004 & 0x4 = 0x0",
        "write4 0x4010010010 = 0x10000000",
        "write4 0x401001001c = 0x1010e000",
        "write2 0x4010010004 = 0x402",
        "wait2 0x401003008a & 0x20 = 0x0",
        "update2 0x4010030088 & 0x8000 = 0x8000",
        "delay 6250000",
        "wait4 0x4010030000 & 0xffffffff = 0x101b36",
        "write4 0x4010030010 = 0x10108000",
        "write4 0x4010030014 = 0x0",
        "write2 0x4010030004 = 0x402",
    ];
    assert_eq!(text(plan.quiesce()), expected);
    let linux = device_plan(&planned(&samples::functions()), 1);
    assert_eq!(text(linux.quiesce())[4..6], ["write1 0x10100014 = 0x0", "wait1 0x10100014 & 0xff = 0x0"]);
}

/// Boots a system on a machine that its firmware left on, and restarts each partition while its guest has everything on.
pub(super) fn boots_and_restarts(system: &System, plan: &Plan) {
    let mut machine = Machine::new(system);
    machine.pages = pages(plan, 0);
    let boot = boot(plan);
    for (index, script) in boot.scripts().iter().enumerate() {
        assert!(machine.run(boot.steps_of(script)), "script {index}");
        // Behind a port that passes nothing on, the bus number comes first.
        machine.check_behind(index >= 2);
    }
    let is_at_its_places = |machine: &Machine, index: usize| {
        let function = &machine.functions[index];
        for (register, bar) in plan.places.of(index).iter().enumerate().filter(|(_, bar)| bar.bytes != 0) {
            assert_eq!(function.place(register), bar.physical.0, "function {index}, register {register}");
        }
        assert_eq!(function.get(4, 2), 0x402);
        assert_eq!(function.get(0x20, 4) & 0xf, 0);
    };
    (0..system.functions.len()).for_each(|index| is_at_its_places(&machine, index));
    for (partition, planned) in plan.partitions.iter().enumerate() {
        let Some(devices) = &planned.devices else { continue };
        let core = plan.core_uses.iter().position(|core_use| core_use.runs(partition)).unwrap();
        let own: Vec<usize> =
            (0..system.functions.len()).filter(|index| system.functions[*index].partition == partition).collect();
        for index in &own {
            machine.functions[*index].bytes[4] = 6;
            machine.functions[*index].bytes[5] = 0;
            machine.functions[*index].virtio_status = 0xf;
        }
        machine.pages = pages(plan, core);
        let (silence, rest) = devices.quiesce().split_at(devices.silence_count as usize);
        assert!(machine.run(silence));
        machine.check();
        assert!(machine.run(rest));
        machine.check();
        own.iter().for_each(|index| is_at_its_places(&machine, *index));
        for index in own {
            let model = &system.board.pci.as_ref().unwrap().models[system.functions[index].model];
            let is_reset = machine.functions[index].virtio_status == 0;
            assert_eq!(is_reset, model.reset != bulkhead_plan::model::PciReset::None, "{}", model.name);
        }
    }
}

#[test]
fn the_sample_boots_and_restarts() {
    let system = samples::functions();
    boots_and_restarts(&system, &planned(&system));
}

/// A function that is not the one that was meant stops its own script and no other one.
#[test]
fn a_missing_function_fails_its_own_script() {
    let system = samples::functions();
    let plan = planned(&system);
    let boot = boot(&plan);
    let mut machine = Machine::new(&system);
    machine.pages = pages(&plan, 0);
    machine.functions[1].bytes[0] = 0xff;
    let results: Vec<bool> = boot.scripts().iter().map(|script| machine.run(boot.steps_of(script))).collect();
    assert_eq!(results, [true, true, true, true, false, true, true, true], "the copier is another one");
    machine.check();
    for register in [(0, 0x0d40_1018), (4, 0x0273_0008), (0x14, 0x71)] {
        let mut machine = Machine::new(&system);
        machine.pages = pages(&plan, 0);
        assert!(machine.run(boot.steps_of(&boot.scripts[0])));
        machine.smmu.insert(register.0, register.1);
        assert!(!machine.run(boot.steps_of(&boot.scripts[1])), "an SMMU without {register:x?}");
    }
}
