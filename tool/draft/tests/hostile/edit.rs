//! Takes a good tree apart for tests that change it. `dtoolkit` writes what comes out; it refuses names of more than 31 bytes when it
//! reads, and QEMU's own tree of a Versal has one.

use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use std::ops::Range;

/// A good tree, as nodes and as places in the file.
pub(crate) struct Parts {
    /// The nodes, to be changed and written again.
    pub(crate) tree: DeviceTree,
    /// Where the values of properties are in the file.
    pub(crate) values: Vec<Range<usize>>,
}

/// Reads a good tree.
pub(crate) fn parts(file: &[u8]) -> Parts {
    let word = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().expect("a cell"));
    let text = |at: usize| {
        let end = file[at..].iter().position(|byte| *byte == 0).expect("a name ends");
        String::from_utf8(file[at..at + end].to_vec()).expect("a name is text")
    };
    let (mut at, strings) = (word(8) as usize, word(12) as usize);
    let (mut open, mut values): (Vec<DeviceTreeNode>, _) = (Vec::new(), Vec::new());
    loop {
        let token = word(at);
        at += 4;
        match token {
            1 => {
                let name = text(at);
                at += (name.len() + 1).next_multiple_of(4);
                open.push(DeviceTreeNode::new_unchecked(name));
            }
            2 => {
                let node = open.pop().expect("a node is open");
                match open.last_mut() {
                    Some(parent) => parent.add_child(node),
                    None => {
                        let mut tree = DeviceTree::new();
                        tree.root = node;
                        return Parts { tree, values };
                    }
                }
            }
            3 => {
                let (length, name) = (word(at) as usize, text(strings + word(at + 4) as usize));
                let value = at + 8..at + 8 + length;
                at = value.end.next_multiple_of(4);
                let property = DeviceTreeProperty::new_unchecked(name, file[value.clone()].to_vec());
                open.last_mut().expect("a node is open").add_property(property);
                values.push(value);
            }
            _ => {}
        }
    }
}
