//! The payload's translation tables: S-EL1 stage 1, identity, 4 KiB pages (Arm ARM D8.3).

use crate::program::{Program, Rights};
use crate::{Error, Parts};
use bulkhead_abi::{PAGE_BYTES, PhysicalAddress};
use bulkhead_plan::tables::{AddressBits, Attributes, Mapping, Tables};
use bulkhead_world::flash::{MOST_BYTES, PLAN_BYTES, secure_ram};

const ACCESS_FLAG: u64 = 1 << 10;
const INNER_SHAREABLE: u64 = 3 << 8;
/// NS: the memory is the other world's.
const NON_SECURE: u64 = 1 << 5;
/// AP\[2\].
const READ_ONLY: u64 = 1 << 7;
/// Index 1 of MAIR_EL1 is Normal write-back memory, index 0 is Device-nGnRnE, index 2 is Normal memory without caches.
const NORMAL: u64 = 1 << 2 | INNER_SHAREABLE;
const UNCACHED: u64 = 2 << 2 | INNER_SHAREABLE;
const PRIVILEGED_EXECUTE_NEVER: u64 = 1 << 53;
/// No task of the payload is at EL0.
const EXECUTE_NEVER: u64 = 1 << 54;
const DATA: Attributes = Attributes(ACCESS_FLAG | NORMAL | EXECUTE_NEVER | PRIVILEGED_EXECUTE_NEVER);
const CONSTANTS: Attributes = Attributes(DATA.0 | READ_ONLY);
const TEXT: Attributes = Attributes(ACCESS_FLAG | NORMAL | EXECUTE_NEVER | READ_ONLY);
const DEVICE: Attributes = Attributes(ACCESS_FLAG | EXECUTE_NEVER | PRIVILEGED_EXECUTE_NEVER);
const OTHER_WORLD: Attributes = Attributes(DATA.0 | NON_SECURE);
/// A channel, as programs of the other world reach it: it is memory of no kernel there, and two caching attributes would not agree.
const CHANNEL: Attributes = Attributes(DEVICE.0 | NON_SECURE);
/// A channel to a partition, or what EL2 says of one, uncached as in the map below. It is no device, because a start fills the whole window with zeros, by DC ZVA.
const CHANNEL_BELOW: Attributes =
    Attributes(ACCESS_FLAG | UNCACHED | EXECUTE_NEVER | PRIVILEGED_EXECUTE_NEVER | NON_SECURE);

/// Bits of an address: T0SZ and IPS of the payload's TCR_EL1.
const BITS: AddressBits = AddressBits { input: 39, output: 40 };

/// The payload as EL3 copies it: tables, then the program at [`secure_ram::PAYLOAD`].
pub(crate) fn with_tables(payload: &Program, parts: &Parts<'_>) -> Result<Vec<u8>, Error> {
    let mut mappings = Vec::new();
    let mut map = |address: u64, bytes: u64, attributes: Attributes| {
        if bytes == 0 {
            return;
        }
        mappings.push(Mapping { input: address, output: PhysicalAddress(address), bytes, attributes });
    };
    // Pristine images, read alone.
    map(0, MOST_BYTES, CONSTANTS);
    // Without stage 1 EL3's own accesses are to Device memory, so the payload's are too.
    map(secure_ram::CONTEXTS, 0x1000, DEVICE);
    map(secure_ram::STATE, 0x1000, DEVICE);
    map(secure_ram::PLAN, PLAN_BYTES, CONSTANTS);
    for (address, bytes, rights) in &payload.ranges {
        let attributes = match rights {
            Rights::Text => TEXT,
            Rights::Constants => CONSTANTS,
            Rights::Data => DATA,
        };
        map(*address, *bytes, attributes);
    }
    for (address, bytes) in parts.devices {
        map(*address, *bytes, DEVICE);
    }
    let mut pools = Vec::new();
    for channel in parts.channels {
        let bytes = channel.pool_bytes().ok_or(Error::Channel)?;
        pools.push((channel.address, channel.address.checked_add(bytes).ok_or(Error::Channel)?));
    }
    // A start fills these too, so they can be written.
    pools.extend(parts.partitions.iter().map(|page| (*page, page.saturating_add(PAGE_BYTES))));
    pools.sort_unstable();
    let (start, bytes) = parts.non_secure.as_ref().map_or((0, 0), |world| world.memory);
    let end = start.saturating_add(bytes);
    let mut next = start;
    for (pool, pool_end) in pools {
        // Those of partitions are in the memory of their monitor, others behind the world's.
        let is_below = (start..end).contains(&pool);
        map(pool, pool_end - pool, if is_below { CHANNEL_BELOW } else { CHANNEL });
        if is_below {
            map(next, pool.checked_sub(next).ok_or(Error::Channel)?, OTHER_WORLD);
            next = pool_end;
        }
    }
    map(next, end.checked_sub(next).ok_or(Error::Channel)?, OTHER_WORLD);
    if parts.wish.address != 0 {
        map(parts.wish.address, PAGE_BYTES, CHANNEL);
    }
    let tables = Tables::build(PhysicalAddress(secure_ram::TABLES), BITS, &mappings).map_err(Error::Map)?;
    let room = (secure_ram::PAYLOAD - secure_ram::TABLES) as usize;
    let mut bytes = tables.bytes();
    if bytes.len() > room {
        return Err(Error::Tables { pages: tables.page_count() });
    }
    bytes.resize(room, 0);
    bytes.extend_from_slice(&payload.bytes);
    Ok(bytes)
}
