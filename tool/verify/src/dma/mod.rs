//! Devices with DMA: scripts of steps, executed on a model of the SMMU and of PCI functions ([`machine`]).

mod machine;
mod plans;
mod registers;
mod tests;
