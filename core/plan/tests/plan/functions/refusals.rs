//! Functions that the planner refuses, each with words that help.

use super::monitor;
use bulkhead_abi::PhysicalAddress;
use bulkhead_plan::model::{Bank, HealthPolicy, InterruptMode, PciHost, PciModel, PciReset, Reach, SmmuStage, System};
use bulkhead_plan::{plan, samples};

fn refused(change: impl FnOnce(&mut System)) -> String {
    let mut system = samples::functions();
    change(&mut system);
    plan(&system, &monitor(&system)).expect_err("must be refused").to_string()
}

fn refused_host(change: impl FnOnce(&mut PciHost)) -> String {
    refused(|system| change(system.board.pci.as_mut().unwrap()))
}

fn refused_model(index: usize, change: impl FnOnce(&mut PciModel)) -> String {
    refused_host(|host| change(&mut host.models[index]))
}

#[track_caller]
fn says(error: &str, words: &str) {
    assert!(error.contains(words), "{error}");
}

#[test]
fn boards_that_cannot_have_them() {
    says(&refused(|system| system.board.pci = None), "no PCI host bridge");
    says(&refused(|system| system.secure = samples::hybrid().secure), "exclude each other");
    says(&refused_host(|host| host.window.bytes = 0x1234), "whole pages");
    says(&refused_host(|host| host.window.start.0 = 0xffff_f000), "below 4 GiB");
    says(&refused_host(|host| host.window.bytes = 0x10_0000), "what is behind all PCI functions");
    says(&refused_host(|host| host.configuration.0 += 0x1000), "1 MiB");
    says(&refused_host(|host| host.smmu.as_mut().unwrap().address.0 += 0x1000), "64 KiB");
    says(&refused_host(|host| host.slots.push(32)), "beyond 31");
    says(&refused_host(|host| host.wait_limit = 0), "no time to answer");
}

#[test]
fn places_that_are_not_there_or_anothers() {
    says(&refused(|system| system.functions[0].model = 9), "a model or a partition");
    says(&refused(|system| system.functions[0].partition = 9), "a model or a partition");
    says(&refused(|system| system.functions[0].device = 13), "no place for functions");
    says(&refused(|system| system.functions[0].device = 16), "no place for functions");
    says(&refused(|system| system.functions[4].device = 1), "no place for functions");
    says(&refused(|system| system.functions[4].bus = 2), "no place for functions");
    says(&refused_host(|host| host.root_port = None), "no place for functions");
    says(&refused(|system| system.functions[2] = system.functions[0].clone()), "another function has its slot");
    says(&refused(|system| system.functions[0].interrupt = 37), "not that of its slot");
    says(&refused_host(|host| host.first_interrupt = 36), "not that of its slot");
    // QV-12: one owner for a line.
    says(&refused(|system| system.functions[2] = samples::function("net", 1, 1, (0, 10))), "its line is that of");
    says(&refused(|system| system.board.spare_interrupts.push(36)), "a spare interrupt");
    says(&refused(|system| system.board.devices[0].interrupts[0].intid = 36), "another device's");
    says(&refused(|system| system.functions[0].model = 4), "not that of its model");
}

#[test]
fn models_that_cannot_be() {
    says(&refused_model(0, |model| model.configuration[0x40 / 4] |= 0x4000), "does not end");
    says(&refused_model(0, |model| model.configuration[0x40 / 4] |= 0x2000), "in front of offset 0x40");
    says(&refused_model(0, |model| model.configuration[3] = 1 << 16), "a bridge");
    says(&refused_model(0, |model| model.bars[4].bytes = 0x3000), "a bad size");
    says(&refused_model(0, |model| model.bars[5].bytes = 0x1000), "upper half");
    says(&refused_model(0, |model| model.bars[5] = model.bars[4]), "upper half");
    says(&refused_model(2, |model| model.reset = PciReset::FunctionLevel { capability: 0x60 }), "reset the function");
    says(&refused_model(2, |model| model.configuration[0x84 / 4] = 0), "reset the function");
    says(&refused_model(0, |model| model.reset = PciReset::Virtio { bar: 1, offset: 0 }), "status register");
    says(&refused_model(0, |model| model.reset = PciReset::Virtio { bar: 4, offset: 0x4000 }), "status register");
    says(&refused_model(3, |model| model.bars[0].bytes = 1 << 27 << 1), "what a partition sees");
}

/// QV-10: what a function reaches is what something confines it to.
#[test]
fn reaches_that_nothing_enforces() {
    says(&refused_model(0, |model| model.is_confined = false), "what its DMA reaches");
    says(&refused_host(|host| host.smmu = None), "what its DMA reaches");
    says(&refused(|system| system.functions[0].reach = Reach::Everything), "what its DMA reaches");
    says(&refused_host(|host| host.smmu.as_mut().unwrap().stage = SmmuStage::Two), "only stage 1");
    let regions = |pieces: &[(u64, u64)]| {
        let bank = |(start, bytes): &(u64, u64)| Bank { start: PhysicalAddress(*start), bytes: *bytes };
        let regions = Reach::Regions(pieces.iter().map(bank).collect());
        refused(|system| system.functions[1].reach = regions)
    };
    says(&regions(&[]), "no region");
    says(&regions(&[(0x4000_0000, 0)]), "whole pages of its partition's RAM");
    says(&regions(&[(0x4000_0800, 0x1000)]), "whole pages");
    says(&regions(&[(0x403f_f000, 0x2000)]), "whole pages of its partition's RAM");
    says(&regions(&[(0x3fff_f000, 0x2000)]), "whole pages of its partition's RAM");
    says(&regions(&[(0x4000_1000, 0x2000), (0x4000_0000, 0x2000)]), "overlap");
}

#[test]
fn partitions_that_cannot_look_or_have_too_many() {
    let error = refused(|system| {
        system.partitions[0].mode = InterruptMode::Direct;
        system.partitions[0].device_events.look_ns = Some(1_000_000);
    });
    says(&error, "cannot look at events");
    let error = refused(|system| {
        // Lines 36 and 37 together have six slots.
        for function in &mut system.functions {
            function.partition = 1;
        }
        for slot in [3, 4, 7, 8] {
            system.functions.push(samples::function("more", 0, 1, (0, slot)));
        }
        system.functions[1].reach = Reach::Partition;
    });
    says(&error, "PCI functions with those of its channels");
    let error = refused(|system| {
        system.functions = (1..=12).map(|slot| samples::function("one", 0, 0, (0, slot))).collect();
    });
    says(&error, "12 PCI functions");
}

/// What nothing puts back into its first state would go on with what the partition before it began.
#[test]
fn functions_without_a_reset_in_partitions_that_start_again() {
    let health = HealthPolicy::Restart { max: 1, within_ns: 1_000_000, backoff_ns: 0 };
    says(&refused(|system| system.partitions[0].health = health), "nothing resets it");
    says(&refused(|system| system.partitions[1].manages = true), "nothing resets it");
    let mut system = samples::functions();
    system.partitions[0].manages = true;
    assert!(plan(&system, &monitor(&system)).is_ok(), "nobody else restarts it");
}

/// A script of more steps than the monitor takes is refused before anything is laid out.
#[test]
fn scripts_that_are_too_long() {
    let error = refused(|system| {
        system.partitions = (0..4).map(|index| samples::native(&format!("p{index}"), &[index])).collect();
        system.channels.clear();
        system.board.pci.as_mut().unwrap().slots = (1..=15).chain(17..=31).collect();
        let slots = (1..=15).chain(17..=30);
        system.functions = slots.map(|slot| samples::function("one", 0, slot as usize % 4, (0, slot))).collect();
    });
    says(&error, "scripts of PCI functions");
}
