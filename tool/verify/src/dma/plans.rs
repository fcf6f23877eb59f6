//! The device plans and the boot core's scripts as structures, with everything in them that can be judged alone.

use crate::code::Code;
use crate::finding::Findings;
use crate::fronts;
use crate::image::{Contents, PAGE, Partition, View, in_plan};
use bulkhead_abi::devices::{
    ALL_PARTITIONS, BOOT_DEVICES_MAGIC, Bar, BootDevices, BootScript, DEVICE_PLAN_MAGIC, DeviceFunction, DevicePlan,
    MAX_BOOT_SCRIPTS, MAX_BOOT_STEPS, MAX_STEPS, STEP_DELAY, STEP_EXPECT, STEP_UPDATE, STEP_WAIT, STEP_WRITE, Step,
};
use bulkhead_abi::plan::{PCI_DEVICE, WINDOW_VIRTIO};
use bulkhead_abi::{Part, PhysicalAddress};
use std::collections::BTreeMap;
use std::ops::Range;
use zerocopy::IntoBytes;

/// Bytes of a function's configuration space (PCI Express base specification, 7.2.2: ECAM).
const CONFIGURATION_BYTES: u64 = 4096;
/// StreamIDs that the stream table has: two buses.
const STREAMS: u32 = 512;

/// A device on some partition's bus.
#[derive(Clone)]
pub(crate) struct Function {
    pub(crate) partition: usize,
    /// Its index on the partition's virtual bus.
    pub(crate) index: usize,
    pub(crate) plan: DeviceFunction,
}

impl Function {
    /// Its page of configuration space.
    pub(crate) fn configuration(&self) -> Range<u64> {
        let start = self.plan.configuration.0;
        start..start.saturating_add(CONFIGURATION_BYTES)
    }

    /// Its base address registers that have something behind them.
    pub(crate) fn bars(&self) -> impl Iterator<Item = (usize, &Bar)> {
        self.plan.bars.iter().enumerate().filter(|(_, bar)| bar.bytes != 0)
    }

    /// How findings call it.
    pub(crate) fn name(&self) -> String {
        format!("function {} of partition {} (stream {:#x})", self.index, self.partition, self.plan.stream)
    }
}

/// All that an image says about devices.
pub(crate) struct Devices {
    /// By partition: where its plan is, and the plan.
    pub(crate) plans: BTreeMap<usize, (PhysicalAddress, DevicePlan)>,
    pub(crate) functions: Vec<Function>,
    /// Where the scripts of the boot core are, and they.
    pub(crate) boot: Option<(PhysicalAddress, BootDevices)>,
    /// Configuration space of bus 0, as its functions say.
    pub(crate) ecam: u64,
}

impl Devices {
    /// The function whose configuration space holds an address.
    pub(crate) fn at(&self, address: u64) -> Option<&Function> {
        self.functions.iter().find(|function| function.configuration().contains(&address))
    }

    /// The configuration spaces of all streams.
    pub(crate) fn configuration(&self) -> Range<u64> {
        self.ecam..self.ecam.saturating_add(u64::from(STREAMS) * CONFIGURATION_BYTES)
    }

    /// Reads what the plans name and judges each by itself.
    pub(crate) fn read(view: &View<'_>, contents: &Contents, findings: &mut Findings) -> Self {
        let mut devices = Self { plans: BTreeMap::new(), functions: Vec::new(), boot: None, ecam: 0 };
        let names = contents.vcpus().any(|vcpu| vcpu.plan.devices.0 | vcpu.plan.boot_devices.0 != 0);
        findings.require(!names || view.header.part == Part::Devices as u32, Code::Part, || {
            String::from("there are device plans or scripts, which the part of the monitor in this image does not obey")
        });
        for partition in &contents.partitions {
            devices.read_partition(view, contents, partition, findings);
        }
        devices.read_boot(view, contents, findings);
        devices.check_streams(view, findings);
        devices
    }

    fn read_partition(&mut self, view: &View<'_>, contents: &Contents, partition: &Partition, findings: &mut Findings) {
        let name = partition.name();
        let is_device = |index: usize| partition.plan.pci().get(index).is_some_and(|one| one.kind == PCI_DEVICE);
        let has_devices = partition.plan.pci().iter().any(|function| function.kind == PCI_DEVICE)
            || partition.plan.windows().iter().any(|window| window.kind == WINDOW_VIRTIO);
        let place = contents.vcpus_of(partition.index).next().map_or(PhysicalAddress(0), |vcpu| vcpu.plan.devices);
        let agree = contents.vcpus_of(partition.index).all(|vcpu| vcpu.plan.devices == place);
        findings.require(agree && (place.0 != 0) == has_devices, Code::DevicePlan, || {
            format!("partition \"{name}\": its vCPUs name different device plans, or one without a device, or none")
        });
        if place.0 == 0 {
            return;
        }
        let plan = view.read::<DevicePlan>(place).filter(|_| in_plan(view, place));
        let good = plan.is_some_and(|plan| {
            plan.magic == DEVICE_PLAN_MAGIC
                && plan.step_count as usize <= MAX_STEPS
                && plan.silence_count <= plan.step_count
                && plan.events_are_faults <= 1
                && fronts::is_sound(&plan, partition, view.header.counter_hz)
                && plan.quiesce.iter().skip(plan.step_count as usize).all(|step| is_zero(step.as_bytes()))
                && plan
                    .functions
                    .iter()
                    .enumerate()
                    .all(|(index, function)| is_device(index) || is_zero(function.as_bytes()))
        });
        findings.require(good, Code::DevicePlan, || {
            format!("partition \"{name}\": at {place} is no device plan, or it has more than its counts say")
        });
        let Some(plan) = plan.filter(|_| good) else { return };
        plan.quiesce().iter().enumerate().for_each(|(index, step)| {
            check_step(step, &format!("step {index} of partition \"{name}\""), findings);
        });
        for (index, function) in plan.functions.iter().enumerate().filter(|(index, _)| is_device(*index)) {
            self.functions.push(Function { partition: partition.index, index, plan: *function });
        }
        self.plans.insert(partition.index, (place, plan));
    }

    fn read_boot(&mut self, view: &View<'_>, contents: &Contents, findings: &mut Findings) {
        let boot_core = view.header.boot_core as usize;
        for vcpu in contents.vcpus().filter(|vcpu| vcpu.plan.boot_devices.0 != 0) {
            let place = vcpu.plan.boot_devices;
            let scripts = view.read::<BootDevices>(place).filter(|_| in_plan(view, place));
            let good = vcpu.core == boot_core && vcpu.slot == 0 && scripts.as_ref().is_some_and(is_sound);
            findings.require(good, Code::DevicePlan, || {
                format!("core {}, slot {}: at {place} are no scripts of the boot core", vcpu.core, vcpu.slot)
            });
            self.boot = scripts.filter(|_| good).map(|scripts| (place, scripts));
        }
        findings.require(self.boot.is_none() == self.functions.is_empty(), Code::DevicePlan, || {
            String::from("there are functions without scripts of the boot core, or scripts without a function")
        });
        let Some((_, boot)) = &self.boot else { return };
        for (index, step) in boot.steps().iter().enumerate() {
            check_step(step, &format!("step {index} of the boot core"), findings);
        }
    }

    /// Functions are where their streams say, each once.
    fn check_streams(&mut self, view: &View<'_>, findings: &mut Findings) {
        let space = |function: &Function| {
            function.plan.configuration.0.checked_sub(u64::from(function.plan.stream) * CONFIGURATION_BYTES)
        };
        self.ecam = self.functions.first().and_then(space).unwrap_or(0);
        let range = self.configuration();
        for (place, function) in self.functions.iter().enumerate() {
            let stream = function.plan.stream;
            let good = stream < STREAMS
                && stream.is_multiple_of(8)
                && space(function) == Some(self.ecam)
                && self.ecam != 0
                && self.ecam.is_multiple_of(1 << 20)
                && !view.touches_ram(&range);
            findings.require(good, Code::DevicePlan, || {
                format!("{}: {} is not its configuration space", function.name(), function.plan.configuration)
            });
            let twice = self.functions.iter().take(place).find(|other| other.plan.stream == stream);
            if let Some(other) = twice {
                findings.add(Code::DevicePlan, format!("{} is {} as well", function.name(), other.name()));
            }
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Scripts lie behind each other and hold all steps; first those about everybody.
fn is_sound(boot: &BootDevices) -> bool {
    let counts = boot.script_count as usize <= MAX_BOOT_SCRIPTS && boot.step_count as usize <= MAX_BOOT_STEPS;
    let mut next = 0;
    let follows = |script: &BootScript| {
        let good = script.first == next && script.count as usize <= MAX_STEPS && script.reserved == 0;
        next = script.first.saturating_add(script.count);
        good
    };
    let follow = boot.scripts().iter().all(follows);
    let first_own = boot.scripts().iter().position(|script| script.partition != ALL_PARTITIONS);
    let own = boot.scripts().iter().skip(first_own.unwrap_or(usize::MAX));
    boot.magic == BOOT_DEVICES_MAGIC
        && counts
        && follow
        && next == boot.step_count
        && own.clone().all(|script| script.partition != ALL_PARTITIONS)
        && boot.scripts.iter().skip(boot.script_count as usize).all(|script| is_zero(script.as_bytes()))
        && boot.steps.iter().skip(boot.step_count as usize).all(|step| is_zero(step.as_bytes()))
}

/// Most reads of a wait: what a board file may say.
const MOST_READS: u32 = 1_000_000;

/// A step is one that the monitor knows, in the one form that it has.
fn check_step(step: &Step, place: &str, findings: &mut Findings) {
    let access = matches!(step.width, 1 | 2 | 4 | 8) && step.address.0.is_multiple_of(u64::from(step.width.max(1)));
    let bits = if step.width >= 8 { u64::MAX } else { (1_u64 << (step.width * 8)) - 1 };
    let fits = access && step.address.0 >= PAGE && (step.value | step.mask) & !bits == 0;
    let masked = fits && step.mask != 0 && step.value & !step.mask == 0;
    let good = match step.operation {
        STEP_WRITE => fits && step.mask == 0 && step.limit == 0,
        STEP_UPDATE => masked && step.limit == 0,
        // Without a bit that counts it is a read that pushes ahead what was written before.
        STEP_EXPECT => (masked || fits && (step.mask, step.value) == (0, 0)) && step.limit == 0,
        STEP_WAIT => masked && (1..=MOST_READS).contains(&step.limit),
        STEP_DELAY => step.width == 0 && step.address.0 == 0 && step.mask == 0 && step.limit == 0,
        _ => false,
    };
    findings.require(good, Code::DeviceScript, || {
        format!(
            "{place} (operation {}, {} bytes at {}) is none that the monitor knows",
            step.operation, step.width, step.address
        )
    });
}
