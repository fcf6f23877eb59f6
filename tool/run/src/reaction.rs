//! What a stock FreeRTOS waits for: the instructions that a monitor puts in front of its interrupt handlers, on their own core.
//!
//! They are counted by the plugin ([`crate::plugin`]) and not taken from clocks, because cores of an emulated machine share those of the host. Where
//! its handlers begin is known from the table of vectors: its port for this architecture asks for a symbol of that name, so every program
//! with that kernel has it.

use crate::error::RunError;
use crate::image_file::ImagePlan;
use crate::plugin::CountingOptions;
use bulkhead_abi::PhysicalAddress;
use elf::ElfBytes;
use elf::endian::LittleEndian;

/// The table of vectors.
const VECTORS: &str = "_freertos_vector_table";
/// Its places for interrupts at EL1: of tasks, which run on SP_EL0, and of handlers, on SP_EL1 (DDI 0487, D1.10.2).
const INTERRUPTS: [u64; 2] = [0x80, 0x280];

impl CountingOptions {
    /// As [`Self::for_monitor`], and the waits of a partition's FreeRTOS are counted, whose ELF file this is.
    ///
    /// # Errors
    /// When the file has no such table, or it is not in RAM of the partition.
    pub fn for_freertos(plan: &ImagePlan, partition: usize, program: &[u8]) -> Result<Self, RunError> {
        let missing =
            |what: &str| RunError::Plugin(format!("the interrupt handlers of FreeRTOS are not known: {what}"));
        let table =
            address_of(program, VECTORS).ok_or_else(|| missing(&format!("its program has no symbol `{VECTORS}`")))?;
        let found = plan.partitions.get(partition).ok_or_else(|| missing("there is no such partition"))?;
        let handlers = INTERRUPTS.map(|offset| {
            let address = table.saturating_add(offset);
            found.ram().iter().find_map(|ram| {
                let into = address.checked_sub(ram.guest.0).filter(|into| *into < ram.bytes)?;
                Some(PhysicalAddress(ram.physical.0.saturating_add(into)))
            })
        });
        let handlers: Option<Vec<_>> = handlers.into_iter().collect();
        let handlers = handlers.ok_or_else(|| missing("its table of vectors is outside the partition's RAM"))?;
        Ok(Self { handlers, ..Self::for_monitor(plan) })
    }
}

fn address_of(program: &[u8], name: &str) -> Option<u64> {
    let elf = ElfBytes::<LittleEndian>::minimal_parse(program).ok()?;
    let (symbols, names) = elf.symbol_table().ok()??;
    let mut all = symbols.iter();
    all.find(|symbol| names.get(symbol.st_name as usize).is_ok_and(|found| found == name)).map(|symbol| symbol.st_value)
}
