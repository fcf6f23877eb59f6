//! One question to a flattened device tree: the value of a property of a node named by its path.
//!
//! Native guests have the information page and need no device tree. A guest that is started the Linux way (`kind =
//! "linux"`, its flat binary has the arm64 Image header) has no such page; its command line is in the tree alone.
//! The format is in the Devicetree Specification 0.4, chapter 5. Every length is checked against the bytes at hand.

const MAGIC: u32 = 0xd00d_feed;
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NO_OPERATION: u32 = 4;
/// Longest tree that is looked at.
const MAX_BYTES: usize = 2 << 20;

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    let field = bytes.get(offset..offset.checked_add(4)?)?;
    Some(u32::from_be_bytes(field.try_into().ok()?))
}

fn offset(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(word(bytes, at)?).ok()
}

/// Returns the tree's length if `header`, its first 8 bytes, is the head of a device tree of sensible size.
#[must_use]
pub fn total_bytes(header: &[u8]) -> Option<usize> {
    let total = offset(header, 4)?;
    (word(header, 0)? == MAGIC && (40..=MAX_BYTES).contains(&total)).then_some(total)
}

/// Returns text up to the first zero byte.
fn zero_terminated(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    bytes.get(..end)
}

/// States whether a node's name, without its unit address, is `wanted`.
fn is_named(name: &[u8], wanted: &str) -> bool {
    name.split(|byte| *byte == b'@').next() == Some(wanted.as_bytes())
}

/// Finds the value of `property` in the first node at `path`; the root has the empty path, names go without unit address.
#[must_use]
pub fn property<'a>(tree: &'a [u8], path: &[&str], property: &str) -> Option<&'a [u8]> {
    let structure = tree.get(offset(tree, 8)?..)?;
    let strings = tree.get(offset(tree, 12)?..)?;
    let mut at = 0;
    // Depth of the node being read (the root's is 0), and how many of its ancestors and itself follow `path`.
    let mut depth = None::<usize>;
    let mut matched = 0;
    loop {
        let token = word(structure, at)?;
        at = at.checked_add(4)?;
        match token {
            BEGIN_NODE => {
                let name = zero_terminated(structure.get(at..)?)?;
                at = at.checked_add(name.len() + 1)?.next_multiple_of(4);
                let new = depth.map_or(0, |depth| depth + 1);
                if new > 0 && matched == new - 1 && path.get(new - 1).is_some_and(|wanted| is_named(name, wanted)) {
                    matched = new;
                }
                depth = Some(new);
            }
            END_NODE => {
                depth = depth?.checked_sub(1);
                matched = matched.min(depth?);
            }
            PROPERTY => {
                let (bytes, name) = (offset(structure, at)?, offset(structure, at + 4)?);
                let value = structure.get(at + 8..(at + 8).checked_add(bytes)?)?;
                at = (at + 8).checked_add(bytes)?.next_multiple_of(4);
                let is_here = depth == Some(path.len()) && matched == path.len();
                if is_here && zero_terminated(strings.get(name..)?)? == property.as_bytes() {
                    return Some(value);
                }
            }
            NO_OPERATION => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::{property, total_bytes};
    use std::vec::Vec;

    enum Item {
        Begin(&'static str),
        Property(u32, &'static [u8]),
        End,
    }
    use Item::{Begin, End, Property};

    const STRINGS: &[u8] = b"compatible\0bootargs\0";
    const COMPATIBLE: u32 = 0;
    const BOOTARGS: u32 = 11;

    fn tree(items: &[Item]) -> Vec<u8> {
        let mut structure = Vec::new();
        let pad = |bytes: &mut Vec<u8>| bytes.resize(bytes.len().next_multiple_of(4), 0);
        for item in items {
            match item {
                Begin(name) => {
                    structure.extend(1u32.to_be_bytes());
                    structure.extend(name.as_bytes());
                    structure.push(0);
                    pad(&mut structure);
                }
                Property(name, value) => {
                    structure.extend(3u32.to_be_bytes());
                    structure.extend((value.len() as u32).to_be_bytes());
                    structure.extend(name.to_be_bytes());
                    structure.extend(*value);
                    pad(&mut structure);
                }
                End => structure.extend(2u32.to_be_bytes()),
            }
        }
        structure.extend(9u32.to_be_bytes());
        let total = 40 + structure.len() + STRINGS.len();
        let header = [0xd00d_feed, total as u32, 40, 40 + structure.len() as u32, 0, 17, 16, 0, 0, 0];
        let mut bytes: Vec<u8> = header.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
        bytes.extend(structure);
        bytes.extend(STRINGS);
        bytes
    }

    fn sample() -> Vec<u8> {
        tree(&[
            Begin(""),
            Property(COMPATIBLE, b"bulkhead,partition\0"),
            Begin("soc"),
            Begin("chosen"),
            Property(BOOTARGS, b"wrong\0"),
            End,
            End,
            Begin("chosen"),
            Property(BOOTARGS, b"attack=3\0"),
            End,
            Begin("pcie@3f000000"),
            Property(COMPATIBLE, b"x\0"),
            End,
            End,
        ])
    }

    #[test]
    fn finds_properties_by_path() {
        let tree = sample();
        assert_eq!(total_bytes(&tree), Some(tree.len()));
        assert_eq!(property(&tree, &[], "compatible"), Some(&b"bulkhead,partition\0"[..]));
        assert_eq!(
            property(&tree, &["chosen"], "bootargs"),
            Some(&b"attack=3\0"[..]),
            "not the deeper node of that name"
        );
        assert_eq!(property(&tree, &["soc", "chosen"], "bootargs"), Some(&b"wrong\0"[..]));
        assert_eq!(property(&tree, &["pcie"], "compatible"), Some(&b"x\0"[..]));
        assert_eq!(property(&tree, &["pcie"], "bootargs"), None);
        assert_eq!(property(&tree, &["absent"], "compatible"), None);
    }

    #[test]
    fn every_truncation_and_every_flipped_byte_ends() {
        let tree = sample();
        for length in 0..tree.len() {
            let _ = property(&tree[..length], &["chosen"], "bootargs");
        }
        for index in 0..tree.len() {
            let mut damaged = tree.clone();
            damaged[index] ^= 0xff;
            let _ = property(&damaged, &["chosen"], "bootargs");
        }
        assert_eq!(total_bytes(b"\xd0\x0d\xfe\xed\xff\xff\xff\xff"), None);
        assert_eq!(total_bytes(b"\0\0\0\0\0\0\x01\0"), None);
    }
}
