//! What a control loop asks of who smooths its measurements.

bulkhead_component::value! {
    /// A temperature above the room's.
    pub struct Kelvin(f64);
}

bulkhead_component::interface! {
    /// Who smooths measurements.
    pub trait Smoothing {
        /// A temperature that is smoothed by the one before.
        fn smooth(before: Kelvin, value: Kelvin) -> Kelvin;
    }
}
