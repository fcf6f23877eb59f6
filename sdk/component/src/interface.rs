//! Functions between components: exported and imported by name, and called without knowledge of how control moves (CH-4, CH-5, CH-7).
//!
//! A component exports a function, another one imports a function of that name; the description of an instance says whose it is. What it is bound to
//! can be another one in the next instance, or a notification: the caller's code stays the same (CH-6).
//!
//! ```text
//! bulkhead_component::export! {
//!     /// Adds; `token` is what the caller's capability says of it.
//!     fn add(_token, a, b) { a + b }
//! }
//! bulkhead_component::import! {
//!     /// Adds two numbers.
//!     fn add(a, b);
//! }
//! ```
//!
//! All arguments are words; [`crate::typed`] makes functions of types of them. Eight at most are taken, and one is answered. The caller's stub keeps x19 to x30 on its own stack and hands zeros over in their place;
//! the callee's stub answers zeros in x1 to x7. So neither sees a register of the other but the arguments and the answer, and a caller finds its own
//! registers even when the callee faulted and everything was cleared.

use crate::typed::Name;
use bulkhead_kernel_abi::Code;
use bulkhead_kernel_abi::image::{
    ACCOUNTS_SIGNATURE, DEVICE_SIGNATURE, DMA_SIGNATURE, LIMIT_SIGNATURE, NAME_BYTES, function_name, signature,
};
pub use bulkhead_kernel_abi::image::{Port, PortUse, limit_of};
use core::arch::asm;

/// [`bulkhead_kernel_abi::image::Function`], with an address that the linker fills in.
#[repr(C)]
pub struct Record {
    name: [u8; NAME_BYTES],
    signature: u64,
    address: *const (),
}

const _: () = assert!(size_of::<Record>() == size_of::<bulkhead_kernel_abi::image::Function>());

/// By number of parameters.
const SIGNATURES: [&str; 9] = [
    "() -> u64",
    "(u64) -> u64",
    "(u64, u64) -> u64",
    "(u64, u64, u64) -> u64",
    "(u64, u64, u64, u64) -> u64",
    "(u64, u64, u64, u64, u64) -> u64",
    "(u64, u64, u64, u64, u64, u64) -> u64",
    "(u64, u64, u64, u64, u64, u64, u64) -> u64",
    "(u64, u64, u64, u64, u64, u64, u64, u64) -> u64",
];

// SAFETY: constants that nobody reads at run time.
unsafe impl Sync for Record {}

impl Record {
    /// Says what a device is called that is no function, and where the word with the address of its registers is.
    #[must_use]
    pub const fn device(name: &str, address: *const ()) -> Self {
        assert!(name.len() < NAME_BYTES, "the name of the device is too long");
        Self { name: function_name(name), signature: DEVICE_SIGNATURE, address }
    }

    /// Says what the component's pages for DMA are called, and where the word with their address is.
    #[must_use]
    pub const fn dma(name: &str, address: *const ()) -> Self {
        assert!(name.len() < NAME_BYTES, "the name of the pages is too long");
        Self { name: function_name(name), signature: DMA_SIGNATURE, address }
    }

    /// Says what a limit is called, and where its word is.
    #[must_use]
    pub const fn limit(name: &str, address: *const ()) -> Self {
        assert!(name.len() < NAME_BYTES, "the name of the limit is too long");
        Self { name: function_name(name), signature: LIMIT_SIGNATURE, address }
    }

    /// Says what the accounts are called, and where the word with their address is.
    #[must_use]
    pub const fn accounts(name: &str, address: *const ()) -> Self {
        assert!(name.len() < NAME_BYTES, "the name of the accounts is too long");
        Self { name: function_name(name), signature: ACCOUNTS_SIGNATURE, address }
    }

    /// Says what a port is called, how it is used, and where the record is that the writer of the instance fills.
    #[must_use]
    pub const fn port(name: &str, does: PortUse, address: *const ()) -> Self {
        assert!(name.len() < NAME_BYTES, "the name of the port is too long");
        Self { name: function_name(name), signature: does.signature(), address }
    }

    /// Says what a number is called that the component keeps for the host, and where it is.
    #[must_use]
    pub const fn count(name: &str, address: *const ()) -> Self {
        assert!(name.len() < NAME_BYTES, "the name of the count is too long");
        Self { name: function_name(name), signature: 0, address }
    }

    /// Says what a function is called, what it takes, and where it is.
    #[must_use]
    pub const fn new(name: &str, parameters: usize, address: *const ()) -> Self {
        assert!(name.len() < NAME_BYTES, "the name of the function is too long");
        assert!(parameters < SIGNATURES.len(), "a function takes eight words at most");
        Self { name: function_name(name), signature: signature(SIGNATURES[parameters]), address }
    }

    /// The same of a function of types ([`crate::typed`]).
    #[must_use]
    pub const fn typed(name: &str, parameters: &[Name], answer: &Name, address: *const ()) -> Self {
        assert!(name.len() < NAME_BYTES, "the name of the function is too long");
        Self { name: function_name(name), signature: crate::typed::signature(parameters, answer), address }
    }
}

/// The words that a function of types answers, in the order of the registers.
#[repr(C)]
pub struct Answer(pub [u64; 8]);

/// Uses the capability of a slot, with these words: a Call comes back with the callee's, anything else with zeros.
///
/// # Errors
/// As `invoke` says: the callee is gone, has faulted, has no stack, or there is nothing in the slot.
#[inline]
pub fn invoke(slot: u64, words: [u64; 8]) -> Result<[u64; 8], Code> {
    let [mut x0, mut x1, mut x2, mut x3, mut x4, mut x5, mut x6, mut x7] = words;
    let code: u64;
    // SAFETY: the kernel touches no memory of this component; the callee has an address space of its own. All registers that it could change are
    // outputs, or kept on this stack, which the kernel gives back as it was: also when the callee faulted. Not `nomem`: memory that both
    // share may have been written before.
    unsafe {
        asm!(
            "stp x29, x30, [sp, #-96]!",
            "stp x19, x20, [sp, #16]",
            "stp x21, x22, [sp, #32]",
            "stp x23, x24, [sp, #48]",
            "stp x25, x26, [sp, #64]",
            "stp x27, x28, [sp, #80]",
            "mov x19, xzr",
            "mov x20, xzr",
            "mov x21, xzr",
            "mov x22, xzr",
            "mov x23, xzr",
            "mov x24, xzr",
            "mov x25, xzr",
            "mov x26, xzr",
            "mov x27, xzr",
            "mov x28, xzr",
            "mov x29, xzr",
            "mov x30, xzr",
            "svc #0",
            "ldp x19, x20, [sp, #16]",
            "ldp x21, x22, [sp, #32]",
            "ldp x23, x24, [sp, #48]",
            "ldp x25, x26, [sp, #64]",
            "ldp x27, x28, [sp, #80]",
            "ldp x29, x30, [sp], #96",
            inout("x0") x0, inout("x1") x1, inout("x2") x2, inout("x3") x3,
            inout("x4") x4, inout("x5") x5, inout("x6") x6, inout("x7") x7,
            inout("x8") slot => code,
            out("x9") _, out("x10") _, out("x11") _, out("x12") _, out("x13") _,
            out("x14") _, out("x15") _, out("x16") _, out("x17") _, out("x18") _,
            // Of a component with floating point: none of them passes through a call.
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
        );
    }
    match Code::from_number(code) {
        Some(Code::Ok) => Ok([x0, x1, x2, x3, x4, x5, x6, x7]),
        Some(other) => Err(other),
        None => Err(Code::BadCall),
    }
}

/// Notifies by the Send of a slot. As [`invoke`], without what that does because it may be a call: nothing is kept on the stack and no register is hidden, which is a tenth of a
/// notification.
///
/// # Errors
/// `BadCapability` when there is nothing in the slot, `Denied` when it may not be used.
///
/// # Safety
/// In the slot is a Send, or nothing, as long as the program runs: a callee could change the registers that are this component's.
#[inline]
pub unsafe fn signal(slot: u64) -> Result<(), Code> {
    let code: u64;
    // SAFETY: the caller's word that it is a Send: the kernel keeps x19 to x30 and floating-point registers, and touches no memory of this component.
    unsafe {
        asm!(
            "svc #0",
            inout("x8") slot => code,
            out("x0") _, out("x1") _, out("x2") _, out("x3") _, out("x4") _, out("x5") _, out("x6") _, out("x7") _,
            out("x9") _, out("x10") _, out("x11") _, out("x12") _, out("x13") _,
            out("x14") _, out("x15") _, out("x16") _, out("x17") _, out("x18") _,
            options(nostack),
        );
    }
    if code == Code::Ok.number() { Ok(()) } else { Err(Code::from_number(code).unwrap_or(Code::BadCall)) }
}

/// Reads a word that the writer of the instance has put into the program.
#[inline]
#[must_use]
pub fn slot(word: &'static u64) -> u64 {
    // SAFETY: a word of this program's constants; volatile, since its value is not the one that the compiler knows.
    unsafe { core::ptr::from_ref(word).read_volatile() }
}

/// Imports functions of other components: each becomes a function here that answers `Result<u64, Code>`.
#[macro_export]
macro_rules! import {
    ($($(#[$about:meta])* $visibility:vis fn $name:ident($($argument:ident),* $(,)?);)+) => {$(
        $(#[$about])*
        #[inline]
        #[allow(clippy::too_many_arguments)]
        $visibility fn $name($($argument: u64),*) -> ::core::result::Result<u64, $crate::Code> {
            let given: &[u64] = &[$($argument),*];
            let mut words = [0; 8];
            for (word, argument) in words.iter_mut().zip(given) {
                *word = *argument;
            }
            $crate::interface::invoke($name::slot(), words).map(|[answer, ..]| answer)
        }

        $(#[$about])*
        #[allow(dead_code)]
        $visibility mod $name {
            static SLOT: u64 = 0;
            #[used]
            #[unsafe(link_section = ".bulkhead.imports")]
            static RECORD: $crate::interface::Record = $crate::interface::Record::new(
                stringify!($name),
                { const NAMES: &[&str] = &[$(stringify!($argument)),*]; NAMES.len() },
                ::core::ptr::from_ref(&SLOT).cast(),
            );

            /// The slot that it is bound to.
            #[inline]
            pub fn slot() -> u64 {
                $crate::interface::slot(&SLOT)
            }
        }
    )+};
}

/// Names limits of notifications that the description may say: `NAME::limit()` is events and window in ticks, or `None` where it says nothing.
#[macro_export]
macro_rules! limits {
    ($($(#[$about:meta])* $visibility:vis $name:ident;)+) => {$(
        $(#[$about])*
        $visibility mod $name {
            static WORD: u64 = 0;
            #[used]
            #[unsafe(link_section = ".bulkhead.imports")]
            static RECORD: $crate::interface::Record =
                $crate::interface::Record::limit(stringify!($name), ::core::ptr::from_ref(&WORD).cast());

            /// Events and window.
            #[inline]
            pub fn limit() -> ::core::option::Option<(u16, u64)> {
                $crate::interface::limit_of($crate::interface::slot(&WORD))
            }
        }
    )+};
}

/// Names slots that the description fills with something that is no function: each becomes a function here that answers the slot's number.
#[macro_export]
macro_rules! slots {
    ($($(#[$about:meta])* $visibility:vis $name:ident;)+) => {$(
        $(#[$about])*
        #[inline]
        #[must_use]
        $visibility fn $name() -> u64 {
            static SLOT: u64 = 0;
            #[used]
            #[unsafe(link_section = ".bulkhead.imports")]
            static RECORD: $crate::interface::Record =
                $crate::interface::Record::new(stringify!($name), 0, ::core::ptr::from_ref(&SLOT).cast());
            $crate::interface::slot(&SLOT)
        }
    )+};
}

/// Exports functions: the first parameter is the token of the caller's capability, the others are words; each answers one.
#[macro_export]
macro_rules! export {
    ($($(#[$about:meta])* fn $name:ident($token:ident $(, $argument:ident)* $(,)?) $body:block)+) => {$(
        $(#[$about])*
        #[inline]
        #[allow(clippy::too_many_arguments)]
        fn $name($token: u64, $($argument: u64),*) -> u64 $body

        const _: () = {
            #[allow(clippy::too_many_arguments)]
            extern "C" fn body(
                x0: u64, x1: u64, x2: u64, x3: u64, x4: u64, x5: u64, x6: u64, x7: u64, token: u64,
            ) -> u64 {
                let [$($argument,)* ..] = [x0, x1, x2, x3, x4, x5, x6, x7];
                $name(token, $($argument),*)
            }

            // The kernel enters here on a stack of this component, with the token in x8.
            #[unsafe(naked)]
            extern "C" fn entry() {
                ::core::arch::naked_asm!(
                    "str x8, [sp, #-16]!",
                    "bl {body}",
                    "mov x1, #0",
                    "mov x2, #0",
                    "mov x3, #0",
                    "mov x4, #0",
                    "mov x5, #0",
                    "mov x6, #0",
                    "mov x7, #0",
                    "svc #1",
                    "brk #0",
                    body = sym body,
                )
            }

            #[used]
            #[unsafe(link_section = ".bulkhead.exports")]
            static RECORD: $crate::interface::Record = $crate::interface::Record::new(
                stringify!($name),
                { const NAMES: &[&str] = &[$(stringify!($argument)),*]; NAMES.len() },
                entry as *const (),
            );
        };
    )+};
}
