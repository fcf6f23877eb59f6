//! Reads a flattened device tree: from bytes that nobody vouches for to nodes with properties.
//!
//! The format is that of the Devicetree Specification 0.4, chapter 5, version 17. Nothing here panics, recurses or goes back: each
//! token is read once, depth and names are limited, and what lies outside the file is an error with its offset. Overlapping
//! blocks are harmless, so they are not looked for. Record 0026 says why no crate is used.

use crate::error::{Looks, TreeError};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// Most bytes of a device tree: what Linux accepts on arm64 (Documentation/arm64/booting.rst, "Setup the device tree").
pub(crate) const MOST_BYTES: usize = 2 << 20;
/// Most nodes inside each other. Real trees have at most a dozen.
const MOST_DEPTH: usize = 64;
/// Most bytes of a name. The specification says 31 and real trees go beyond that.
const MOST_NAME_BYTES: usize = 255;

const MAGIC: u32 = 0xd00d_feed;
/// The version that is read; a tree says of which older version it is a superset.
pub(crate) const VERSION: u32 = 17;

const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOP: u32 = 4;
const END: u32 = 9;

/// A node as it is kept.
#[derive(Debug)]
struct Record<'a> {
    name: &'a str,
    parent: Option<usize>,
    children: Vec<usize>,
    /// Its properties, sorted by name.
    properties: Range<usize>,
}

/// A device tree.
#[derive(Debug)]
pub(crate) struct Tree<'a> {
    /// In the order of the file; the first is the root.
    records: Vec<Record<'a>>,
    properties: Vec<(&'a str, &'a [u8])>,
    reservations: Vec<(u64, u64)>,
    phandles: BTreeMap<u32, usize>,
}

/// A node of a tree.
#[derive(Clone, Copy)]
pub(crate) struct Node<'t, 'a> {
    tree: &'t Tree<'a>,
    record: &'t Record<'a>,
    index: usize,
}

impl<'a> Tree<'a> {
    /// Reads a tree. What follows it in the file is ignored, since boot loaders leave room behind.
    ///
    /// # Errors
    /// When it is damaged, or none at all.
    pub(crate) fn read(file: &'a [u8]) -> Result<Self, TreeError> {
        let header = |index: usize| word(file, index.checked_mul(4)?);
        if header(0) != Some(MAGIC) {
            return Err(TreeError::NotATree(looks(file)));
        }
        let field = |index| {
            let value = header(index).ok_or(TreeError::Truncated { stated: 40, found: file.len() })?;
            usize::try_from(value).map_err(|_| TreeError::TooLarge { stated: usize::MAX })
        };
        let stated = field(1)?;
        if stated > MOST_BYTES {
            return Err(TreeError::TooLarge { stated });
        }
        let bytes = file.get(..stated).ok_or(TreeError::Truncated { stated, found: file.len() })?;
        let (version, compatible) = (header(5).unwrap_or(0), header(6).unwrap_or(0));
        if version < VERSION || compatible > VERSION {
            return Err(TreeError::Version { version, compatible });
        }
        let block = |name, start: usize, length: usize| {
            let end = start.checked_add(length);
            end.and_then(|end| bytes.get(start..end)).ok_or(TreeError::Block { name, offset: start })
        };
        let (structure, strings) = (field(2)?, field(3)?);
        let structure_block = block("structure", structure, field(9)?)?;
        let strings_block = block("strings", strings, field(8)?)?;
        let reservations = field(4)?;
        let reservation_block =
            bytes.get(reservations..).ok_or(TreeError::Block { name: "reservations", offset: reservations })?;
        let mut tree = Self {
            records: Vec::new(),
            properties: Vec::new(),
            reservations: read_reservations(reservation_block, reservations)?,
            phandles: BTreeMap::new(),
        };
        tree.read_structure(&mut Cursor { bytes: structure_block, at: 0, start: structure }, strings_block)?;
        tree.index_phandles();
        Ok(tree)
    }

    fn read_structure(&mut self, cursor: &mut Cursor<'a>, strings: &'a [u8]) -> Result<(), TreeError> {
        let mut open: Vec<usize> = Vec::new();
        loop {
            let here = cursor.offset();
            let wrong = |what| TreeError::Structure { offset: here, what };
            match cursor.word().ok_or(wrong("it ends without the token that ends it"))? {
                BEGIN_NODE => {
                    if open.len() >= MOST_DEPTH {
                        return Err(wrong("nodes lie inside each other more than 64 deep"));
                    }
                    if open.is_empty() && !self.records.is_empty() {
                        return Err(wrong("a second root begins"));
                    }
                    let name = cursor.name().ok_or(wrong("a node has no readable name of at most 255 bytes"))?;
                    self.finish_properties(&open);
                    open.push(self.begin(name, open.last().copied()));
                }
                END_NODE => {
                    self.finish_properties(&open);
                    open.pop().ok_or(wrong("a node ends that did not begin"))?;
                }
                PROPERTY => {
                    let record = open.last().and_then(|index| self.records.get_mut(*index));
                    let record = record.ok_or(wrong("a property belongs to no node"))?;
                    if !record.children.is_empty() {
                        return Err(wrong("a property follows the nodes inside its node"));
                    }
                    let (name, value) = cursor.property(strings).map_err(wrong)?;
                    self.properties.push((name, value));
                    record.properties.end = self.properties.len();
                }
                NOP => {}
                END if open.is_empty() && !self.records.is_empty() => return Ok(()),
                END => return Err(wrong("it ends inside a node")),
                _ => return Err(wrong("there is no token")),
            }
        }
    }

    fn begin(&mut self, name: &'a str, parent: Option<usize>) -> usize {
        let index = self.records.len();
        if let Some(parent) = parent.and_then(|parent| self.records.get_mut(parent)) {
            parent.children.push(index);
        }
        let properties = self.properties.len()..self.properties.len();
        self.records.push(Record { name, parent, children: Vec::new(), properties });
        index
    }

    /// Sorts the properties of the innermost node when there can be no more; of equal names the first counts.
    fn finish_properties(&mut self, open: &[usize]) {
        let record = open.last().and_then(|index| self.records.get(*index));
        if let Some(record) = record.filter(|record| record.children.is_empty())
            && let Some(properties) = self.properties.get_mut(record.properties.clone())
        {
            properties.sort_by_key(|(name, _)| *name);
        }
    }

    fn index_phandles(&mut self) {
        let mut phandles = BTreeMap::new();
        for node in self.nodes() {
            if let Some(number) = node.word("phandle").or_else(|| node.word("linux,phandle")) {
                phandles.entry(number).or_insert(node.index);
            }
        }
        self.phandles = phandles;
    }

    /// Every node, in the order of the file; the first is the root.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Node<'_, 'a>> {
        self.records.iter().enumerate().map(|(index, record)| Node { tree: self, record, index })
    }

    fn node(&self, index: usize) -> Option<Node<'_, 'a>> {
        self.records.get(index).map(|record| Node { tree: self, record, index })
    }

    /// The root.
    #[must_use]
    pub(crate) fn root(&self) -> Option<Node<'_, 'a>> {
        self.node(0)
    }

    /// The node of an absolute path such as `/soc/serial@1000`; a component without an address finds the first of that name.
    #[must_use]
    pub(crate) fn at_path(&self, path: &str) -> Option<Node<'_, 'a>> {
        let mut node = self.root()?;
        for component in path.strip_prefix('/')?.split('/').filter(|component| !component.is_empty()) {
            let is_it = |child: &Node<'_, 'a>| child.name() == component || child.base_name() == component;
            node = node.children().find(is_it)?;
        }
        Some(node)
    }

    /// The node that a phandle names.
    #[must_use]
    pub(crate) fn by_phandle(&self, phandle: u32) -> Option<Node<'_, 'a>> {
        self.phandles.get(&phandle).and_then(|index| self.node(*index))
    }

    /// The memory reservation block: first byte and bytes of each.
    #[must_use]
    pub(crate) fn reservations(&self) -> &[(u64, u64)] {
        &self.reservations
    }
}

impl<'t, 'a> Node<'t, 'a> {
    /// Its place in the tree, which tells nodes apart.
    #[must_use]
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Its name with the unit address.
    #[must_use]
    pub(crate) fn name(&self) -> &'a str {
        self.record.name
    }

    /// Its name without the unit address.
    #[must_use]
    pub(crate) fn base_name(&self) -> &'a str {
        self.record.name.split('@').next().unwrap_or_default()
    }

    /// The node that it is in.
    #[must_use]
    pub(crate) fn parent(&self) -> Option<Self> {
        self.record.parent.and_then(|index| self.tree.node(index))
    }

    /// Itself and what it is in, the root last.
    pub(crate) fn line(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), Self::parent)
    }

    /// The nodes in it.
    pub(crate) fn children(self) -> impl Iterator<Item = Self> {
        self.record.children.iter().filter_map(move |index| self.tree.node(*index))
    }

    /// The value of a property.
    #[must_use]
    pub(crate) fn property(&self, name: &str) -> Option<&'a [u8]> {
        let properties = self.tree.properties.get(self.record.properties.clone())?;
        let place = properties.partition_point(|(other, _)| *other < name);
        properties.get(place).filter(|(other, _)| *other == name).map(|(_, value)| *value)
    }

    /// States whether a property is there.
    #[must_use]
    pub(crate) fn has(&self, name: &str) -> bool {
        self.property(name).is_some()
    }

    /// A property of one cell.
    #[must_use]
    pub(crate) fn word(&self, name: &str) -> Option<u32> {
        self.property(name).filter(|value| value.len() == 4).and_then(|value| word(value, 0))
    }

    /// A property of cells; what is left over behind the last whole cell is dropped.
    #[must_use]
    pub(crate) fn words(&self, name: &str) -> Option<Vec<u32>> {
        self.property(name).map(words)
    }

    /// A text, or the first of a list of texts.
    #[must_use]
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.texts(name).next()
    }

    /// A list of texts; those that are no UTF-8 are left out.
    pub(crate) fn texts(&self, name: &str) -> impl Iterator<Item = &'a str> {
        let value = self.property(name).unwrap_or_default();
        let value = value.strip_suffix(&[0]).unwrap_or(value);
        let texts = value.split(|byte| *byte == 0).filter_map(|text| std::str::from_utf8(text).ok());
        texts.filter(|text| !text.is_empty())
    }

    /// States whether `compatible` has one of these.
    #[must_use]
    pub(crate) fn is_compatible(&self, kinds: &[&str]) -> bool {
        self.texts("compatible").any(|kind| kinds.contains(&kind))
    }

    /// The absolute path.
    #[must_use]
    pub(crate) fn path(&self) -> String {
        let mut names: Vec<&str> = self.line().map(|node| node.name()).collect();
        names.reverse();
        match names.as_slice() {
            [_root] => String::from("/"),
            _ => names.join("/"),
        }
    }

    /// States whether `status` lets an operating system use it and everything that it is in.
    #[must_use]
    pub(crate) fn is_enabled(&self) -> bool {
        self.line().all(|node| matches!(node.text("status"), None | Some("okay" | "ok")))
    }
}

impl fmt::Debug for Node<'_, '_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.path())
    }
}

/// A place in the structure block.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the block begins in the file.
    start: usize,
}

impl<'a> Cursor<'a> {
    fn offset(&self) -> usize {
        self.start.saturating_add(self.at)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let taken = self.bytes.get(self.at..end)?;
        // Everything begins at a multiple of four; past the end nothing can be taken.
        self.at = end.checked_next_multiple_of(4)?;
        Some(taken)
    }

    fn word(&mut self) -> Option<u32> {
        self.take(4).and_then(|bytes| word(bytes, 0))
    }

    fn name(&mut self) -> Option<&'a str> {
        let name = name_at(self.bytes, self.at)?;
        self.take(name.len().checked_add(1)?)?;
        Some(name)
    }

    fn property(&mut self, strings: &'a [u8]) -> Result<(&'a str, &'a [u8]), &'static str> {
        let (length, name) = self.word().zip(self.word()).ok_or("a property is cut off")?;
        let length = usize::try_from(length).map_err(|_| "a property is larger than the file")?;
        let value = self.take(length).ok_or("a property is larger than the tree")?;
        let name = usize::try_from(name).ok().and_then(|name| name_at(strings, name));
        Ok((name.ok_or("a property has no readable name of at most 255 bytes")?, value))
    }
}

/// A text that ends with a zero byte, of printable ASCII characters.
fn name_at(bytes: &[u8], at: usize) -> Option<&str> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().take(MOST_NAME_BYTES.saturating_add(1)).position(|byte| *byte == 0)?;
    let name = rest.get(..end).filter(|name| name.iter().all(u8::is_ascii_graphic))?;
    std::str::from_utf8(name).ok()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*four))
}

/// The cells of a value.
#[must_use]
pub(crate) fn words(value: &[u8]) -> Vec<u32> {
    value.as_chunks().0.iter().map(|four| u32::from_be_bytes(*four)).collect()
}

fn read_reservations(block: &[u8], start: usize) -> Result<Vec<(u64, u64)>, TreeError> {
    let mut reservations = Vec::new();
    for entry in block.as_chunks::<16>().0 {
        let (address, bytes) = entry.split_at(8);
        let number = |half: &[u8]| half.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
        match (number(address), number(bytes)) {
            (0, 0) => return Ok(reservations),
            reservation => reservations.push(reservation),
        }
    }
    Err(TreeError::Structure { offset: start, what: "the memory reservations have no end" })
}

fn looks(file: &[u8]) -> Looks {
    let text = file.trim_ascii_start();
    match file {
        [] => Looks::Empty,
        [0xed, 0xfe, 0x0d, 0xd0, ..] => Looks::Swapped,
        [0x1f, 0x8b, ..] | [0xfd, b'7', b'z', b'X', ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [b'B', b'Z', b'h', ..] => {
            Looks::Compressed
        }
        _ if [&b"/dts-v1/"[..], b"/ {", b"/*", b"//", b"#include", b"/include/"]
            .iter()
            .any(|start| text.starts_with(start)) =>
        {
            Looks::Source
        }
        _ => Looks::Other,
    }
}
