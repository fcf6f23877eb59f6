//! Calls about what is made at run time: processes from programs of the image, and memory from a quota.

use crate::Code;
use crate::call::{call, done};
use bulkhead_kernel_abi::call::{Call, CapabilityOperation, ComponentOperation, MemoryOperation};
use core::arch::asm;
use core::convert::Infallible;
use core::ops::Range;

/// Bits of a program's number in the word of `spawn`.
const PROGRAM_BITS: u32 = 16;

/// What a process is given of the quota that it is made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Pages of the pool, those that it begins with among them.
    pub pages: u32,
    /// Components that it may make; each takes a thread as well.
    pub components: u8,
    /// Threads.
    pub threads: u8,
    /// Regions of memory.
    pub regions: u8,
}

impl Share {
    const fn word(self) -> u64 {
        self.pages as u64 | (self.components as u64) << 32 | (self.threads as u64) << 40 | (self.regions as u64) << 48
    }
}

/// What of its maker's table a new process is made of, and where the maker has it: slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// The quota that pays.
    pub quota: u64,
    /// Server or scheduler that pays for its thread.
    pub payer: u64,
    /// An empty slot, which gets the process.
    pub to: u64,
}

fn component(arguments: [u64; 8]) -> Result<[u64; 8], Code> {
    done(call::<{ Call::Component.number() }>(arguments))
}

/// Makes a process of a program by its number, whose thread finds `argument` (48 bits) in x0, and gives it the capabilities of these slots, from slot 2
/// on. Returns the bits by which the caller's end point is told its end.
///
/// # Errors
/// `Full` when the quota, the kernel or the slot has no room; `Denied`; `BadArgument`.
pub fn spawn(program: u64, argument: u64, made: Made, given: Range<u64>, share: Share) -> Result<u64, Code> {
    let Made { quota, payer, to } = made;
    let program = program | argument << PROGRAM_BITS;
    let count = given.end.saturating_sub(given.start);
    let answer =
        component([ComponentOperation::Spawn.number(), program, quota, payer, given.start, count, to, share.word()])?;
    Ok(answer[1])
}

/// Which of two a thread is that comes back from [`fork`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// The new one.
    Child,
    /// The one that called, with the bits by which its end point is told the child's end.
    Parent(u64),
}

/// The call behind which two threads continue: floating-point registers are zeros for the new one.
fn forked(arguments: [u64; 8]) -> Result<[u64; 8], Code> {
    let [mut x0, mut x1, mut x2, mut x3, mut x4, mut x5, mut x6, mut x7] = arguments;
    // SAFETY: as in `call`; the new thread has a copy of this stack, and of x8 to x30.
    unsafe {
        asm!(
            "svc #{number}",
            number = const Call::Component.number(),
            inout("x0") x0, inout("x1") x1, inout("x2") x2, inout("x3") x3,
            inout("x4") x4, inout("x5") x5, inout("x6") x6, inout("x7") x7,
            #[cfg(target_feature = "neon")]
            out("v0") _,
            #[cfg(target_feature = "neon")]
            out("v1") _,
            #[cfg(target_feature = "neon")]
            out("v2") _,
            #[cfg(target_feature = "neon")]
            out("v3") _,
            #[cfg(target_feature = "neon")]
            out("v4") _,
            #[cfg(target_feature = "neon")]
            out("v5") _,
            #[cfg(target_feature = "neon")]
            out("v6") _,
            #[cfg(target_feature = "neon")]
            out("v7") _,
            #[cfg(target_feature = "neon")]
            out("v8") _,
            #[cfg(target_feature = "neon")]
            out("v9") _,
            #[cfg(target_feature = "neon")]
            out("v10") _,
            #[cfg(target_feature = "neon")]
            out("v11") _,
            #[cfg(target_feature = "neon")]
            out("v12") _,
            #[cfg(target_feature = "neon")]
            out("v13") _,
            #[cfg(target_feature = "neon")]
            out("v14") _,
            #[cfg(target_feature = "neon")]
            out("v15") _,
            #[cfg(target_feature = "neon")]
            out("v16") _,
            #[cfg(target_feature = "neon")]
            out("v17") _,
            #[cfg(target_feature = "neon")]
            out("v18") _,
            #[cfg(target_feature = "neon")]
            out("v19") _,
            #[cfg(target_feature = "neon")]
            out("v20") _,
            #[cfg(target_feature = "neon")]
            out("v21") _,
            #[cfg(target_feature = "neon")]
            out("v22") _,
            #[cfg(target_feature = "neon")]
            out("v23") _,
            #[cfg(target_feature = "neon")]
            out("v24") _,
            #[cfg(target_feature = "neon")]
            out("v25") _,
            #[cfg(target_feature = "neon")]
            out("v26") _,
            #[cfg(target_feature = "neon")]
            out("v27") _,
            #[cfg(target_feature = "neon")]
            out("v28") _,
            #[cfg(target_feature = "neon")]
            out("v29") _,
            #[cfg(target_feature = "neon")]
            out("v30") _,
            #[cfg(target_feature = "neon")]
            out("v31") _,
            options(nostack),
        );
    }
    done([x0, x1, x2, x3, x4, x5, x6, x7])
}

/// Makes a copy of the caller's process: what it may write is copied now, and both continue here.
///
/// # Errors
/// `Denied` for a component of the host, or inside a call; `Busy` with a second thread; otherwise as [`spawn`].
pub fn fork(made: Made, share: Share) -> Result<Fork, Code> {
    let Made { quota, payer, to } = made;
    let answer = forked([ComponentOperation::Fork.number(), quota, payer, to, share.word(), 0, 0, 0])?;
    Ok(if answer[1] == 0 { Fork::Child } else { Fork::Parent(answer[2]) })
}

/// Replaces the memory of the caller's process by a program's, whose thread finds `argument` in x0. Capabilities stay.
///
/// # Errors
/// As [`fork`]; it comes back with an error only.
pub fn exec(program: u64, argument: u64) -> Result<Infallible, Code> {
    match component([ComponentOperation::Exec.number(), program, argument, 0, 0, 0, 0, 0]) {
        Err(code) => Err(code),
        // Nobody comes back from there.
        Ok(_) => Err(Code::BadCall),
    }
}

/// Ends the caller's component; its maker is told, and finds the code in the record of its fault.
pub fn exit(code: u64) -> ! {
    loop {
        let _ = component([ComponentOperation::Exit.number(), code, 0, 0, 0, 0, 0, 0]);
    }
}

/// Takes the process of a slot apart, and first those that were made from its quota: what they had is in the quota above again. The slot is empty then.
///
/// # Errors
/// `BadCapability`; `Denied` for one that may only look; `Gone`.
pub fn destroy(slot: u64) -> Result<(), Code> {
    component([ComponentOperation::Destroy.number(), slot, 0, 0, 0, 0, 0, 0])?;
    delete_capability(slot)
}

/// Empties a slot.
///
/// # Errors
/// `BadArgument` for none.
pub fn delete_capability(slot: u64) -> Result<(), Code> {
    let arguments = [CapabilityOperation::Delete.number(), 0, slot, 0, 0, 0, 0, 0];
    done(call::<{ Call::Capability.number() }>(arguments)).map(|_| ())
}

/// Copies the capability of a slot into an empty one, with these rights at most.
///
/// # Errors
/// `BadCapability`, `Full`, `Denied`.
pub fn copy_capability(slot: u64, to: u64, rights: u8) -> Result<(), Code> {
    let arguments = [CapabilityOperation::Copy.number(), 0, slot, 0, to, rights.into(), 0, 0];
    done(call::<{ Call::Capability.number() }>(arguments)).map(|_| ())
}

fn memory(arguments: [u64; 8]) -> Result<u64, Code> {
    done(call::<{ Call::Memory.number() }>(arguments)).map(|answer| answer[1])
}

/// Makes a region of this number of pages, which are zeros when they are mapped first, and are the quota's until then.
///
/// # Errors
/// `Full`, `Denied`, `BadArgument`.
pub fn create_region(quota: u64, pages: u64, to: u64) -> Result<(), Code> {
    memory([MemoryOperation::Create.number(), quota, pages, to, 0, 0, 0, 0]).map(|_| ())
}

/// Maps pages of the region of a slot from its page `first` on at an address, with rights of `bulkhead_kernel_abi::capability::right`. Returns how many are mapped.
///
/// # Errors
/// `Full` without pages for them or for translation tables; `Busy` where something is; `Denied`. Nothing was mapped then.
pub fn map(slot: u64, first: u64, address: u64, pages: u64, rights: u8) -> Result<u64, Code> {
    memory([MemoryOperation::Map.number(), slot, first, address, pages, rights.into(), 0, 0])
}

/// Takes pages out of the map. Returns how many.
///
/// # Errors
/// `BadArgument` where nothing is; `Denied` for a component of the host.
pub fn unmap(address: u64, pages: u64) -> Result<u64, Code> {
    memory([MemoryOperation::Unmap.number(), 0, address, pages, 0, 0, 0, 0])
}

/// Leaves these rights of mapped pages. Returns of how many.
///
/// # Errors
/// As [`unmap`]; `Denied` for rights that they have not.
pub fn protect(address: u64, pages: u64, rights: u8) -> Result<u64, Code> {
    memory([MemoryOperation::Protect.number(), 0, address, pages, rights.into(), 0, 0, 0])
}

/// Puts a capability to a part of a region into an empty slot, with these rights at most.
///
/// # Errors
/// `BadArgument` outside the part that the caller has; `Full`, `Denied`.
pub fn share(slot: u64, first: u64, pages: u64, rights: u8, to: u64) -> Result<(), Code> {
    memory([MemoryOperation::Share.number(), slot, first, pages, rights.into(), to, 0, 0]).map(|_| ())
}
