//! System registers by name or encoding.

/// Reads a system register.
macro_rules! read_register {
    ($name:literal) => {{
        let value: u64;
        // Neither `pure` nor `nomem`: what is read changes by itself, and the compiler leaves it in its place among
        // other accesses.
        // SAFETY: reading the named register has no side effect on memory; registers with other side effects are only
        // read by the functions that document them.
        unsafe { core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value, options(nostack, preserves_flags)) };
        value
    }};
}

/// Writes a system register.
macro_rules! write_register {
    ($name:literal, $value:expr) => {{
        let value: u64 = $value;
        // Not `nomem`: a store that an interrupt or a mode is about stays before the register. An ISB is up to the
        // caller.
        // SAFETY: the register controls the guest or this core's interrupt interface, not the memory that Rust code of the
        // monitor uses; the translation registers of EL2 are never written from Rust.
        unsafe { core::arch::asm!(concat!("msr ", $name, ", {}"), in(reg) value, options(nostack, preserves_flags)) };
    }};
}
