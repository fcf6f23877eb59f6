//! A hostile world below a payload (`guests/hostile-world`, `guests/freertos/attacked-world`), from the flash file to what both said.

use crate::secure::{BACKGROUND, OTHER, Payload, Worlds, flash_of, flash_of_cores};
use crate::system::guest;
use bulkhead_flash::{NonSecure, flat};
use bulkhead_world::context::EntryLevel;
use bulkhead_world::health::HealthPlan;

/// The world's memory: little, because each attack begins with all of it filled again.
const MEMORY: (u64, u64) = (0x4000_0000, 24 << 20);

/// Which attacks are tried, and on whom.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// Level of the world.
    pub level: EntryLevel,
    /// Of the random ones.
    pub seed: u64,
    /// Ticks of the payload in the world that each attack gets; 0 for the usual hundred.
    pub samples: u64,
    /// The secure monitor is that of several cores, of which the machine has one.
    pub has_cores: bool,
}

impl Attack {
    fn flash(&self) -> Vec<u8> {
        let world = flat(&guest("hostile-world.elf"), "the hostile world").unwrap_or_else(|error| panic!("{error}"));
        let segments = vec![(world.base, world.bytes.as_slice())];
        let other = NonSecure { memory: MEMORY, segments, entry: world.entry, argument: self.seed, level: self.level };
        if self.has_cores {
            return flash_of_cores(&guest("attacked-world.elf"), other);
        }
        let arguments = if self.samples == 0 { String::new() } else { format!("samples={}", self.samples) };
        let health = HealthPlan::nobody();
        let payload =
            Payload { file: "attacked-world.elf", servers: &BACKGROUND, urgent: &[], health, arguments: &arguments };
        flash_of(payload, other)
    }

    /// Runs all attacks with the device that does DMA, and returns what the payload said, and the other world.
    ///
    /// # Panics
    /// When a program was not built, or the payload does not come to its end.
    #[must_use]
    pub fn run(&self) -> (Vec<String>, Vec<String>) {
        let mut worlds = Worlds::start_with(self.flash(), |options| {
            options.icount_shift = Some(4);
            options.extra.extend(["-device", "edu,dma_mask=0xffffffffffff"].map(str::to_owned));
        });
        (worlds.end(), worlds.texts(OTHER))
    }
}
