//! What is shown of each requirement of the specification, in the requirement's own sense.
//!
//! The requirements themselves are in `docs/specification/requirements.md` and are not repeated here: a text of our own beside them
//! would be bent until a test fits. Every identifier there has one entry here.

mod chaos;
mod conflicts;
mod mips_vz;
mod quest_v;
mod safeg;
mod spumone;

/// How much of a requirement there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Tests show it.
    Shown,
    /// Tests show a part; the text says what is missing.
    InPart(&'static str),
    /// It is not built; the text says where it will be, what takes its place, or why it will not come.
    NotBuilt(&'static str),
}

/// Requirements of one paper.
pub struct Family {
    /// Heading.
    pub title: &'static str,
    /// How its identifiers begin.
    pub prefix: &'static str,
    /// Shown.
    pub shown: &'static [&'static str],
    /// Shown in part: identifier and what is missing.
    pub in_part: &'static [(&'static str, &'static str)],
    /// Not built: identifiers and where or why.
    pub not_built: &'static [(&'static [&'static str], &'static str)],
}

/// Every family, in the order of the specification.
pub const FAMILIES: &[Family] =
    &[quest_v::FAMILY, chaos::FAMILY, spumone::FAMILY, mips_vz::FAMILY, safeg::FAMILY, conflicts::FAMILY];

impl Family {
    /// Every entry.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, State)> {
        let shown = self.shown.iter().map(|id| (*id, State::Shown));
        let in_part = self.in_part.iter().map(|(id, missing)| (*id, State::InPart(missing)));
        let not_built = self.not_built.iter().flat_map(|(ids, why)| ids.iter().map(|id| (*id, State::NotBuilt(why))));
        shown.chain(in_part).chain(not_built)
    }
}

/// Every entry of every family.
pub fn entries() -> impl Iterator<Item = (&'static str, State)> {
    FAMILIES.iter().flat_map(Family::entries)
}
