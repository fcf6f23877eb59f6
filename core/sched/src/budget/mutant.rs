//! Mistakes in the rule of sporadic servers.

/// A way to be wrong, for the tests that show that each of them is noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mutant {
    /// The rule as it should be.
    #[default]
    None,
    /// Waking leaves the date in the past: idle time becomes credit.
    NoReanchorOnWake,
    /// Consumed time comes back one period after the end of the run.
    DateAtEndOfRun,
    /// A part that finds the ring full is lost.
    DropWhenFull,
    /// A part that finds the ring full joins the last chunk at that chunk's date.
    MergeEarlyWhenFull,
    /// An overrun is forgiven.
    ClampOverrun,
    /// Moving the date merges chunks that are not due yet.
    MergeFutureChunks,
    /// Time comes back one tick early.
    PeriodOneShort,
    /// The lag clamp does nothing.
    NoLagClamp,
    /// Eligible and dispatch anchors are exchanged.
    WrongAnchor,
    /// Everything consumed comes back with its first part.
    WholeBudgetAtOnce,
}
