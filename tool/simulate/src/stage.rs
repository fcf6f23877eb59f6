//! What the forms of the output have to know of a simulation: who can run where, and what they are called.

use bulkhead_trace::Layout;

/// A core of a simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lanes {
    /// What it is called.
    pub title: String,
    /// Its number in the JSON form.
    pub number: usize,
    /// Who can run there, by slot.
    pub names: Vec<String>,
    /// Time in which nobody ran so far.
    pub idle_ns: u64,
}

/// A simulation, as the forms of its output see it.
pub trait Stage {
    /// What those are that run: `vcpu` or `thread`.
    fn noun(&self) -> &'static str;

    /// Its cores.
    fn lanes(&self) -> Vec<Lanes>;

    /// Who is who in a timeline, and which of its cores each simulated one is.
    fn layout(&self) -> (Layout, Vec<usize>);

    /// What the text says at its end, beside events.
    fn remarks(&self) -> String {
        String::new()
    }

    /// What the JSON form says beside events: further keys with their values, each with a comma in front.
    fn facts(&self) -> String {
        String::new()
    }
}
