//! Sizes of what runs in both worlds, beside the secure monitor's (SG-E2).

use crate::Failure;
use crate::lab::Lab;
use crate::outcome::Found;
use crate::symbols::section_sizes;

/// Text with constants, data, and what begins as zeros, of the payload of `systems/dual-world`.
pub(crate) fn payload(lab: &Lab) -> Result<Found, Failure> {
    let sizes = section_sizes(&lab.guest("dual-world.elf")?);
    let [text, data, zeros] = sizes.ok_or_else(|| Failure::wrong("the payload has no sections".to_owned()))?;
    let monitor = crate::secure::bytes(lab)?.value;
    let all = text + data + zeros;
    let details = [
        format!("text and constants {text}, data {data}, bss with heap and stacks {zeros}"),
        format!("{:.0} times the secure monitor", all as f64 / monitor),
    ];
    Ok(Found::new(all as f64, details))
}

/// An Image of Linux says how much memory it takes (Documentation/arch/arm64/booting.rst: image_size, at 16).
pub(crate) fn linux(lab: &Lab) -> Result<Found, Failure> {
    let image = lab.guest("linux/Image")?;
    let all = image.get(16..24).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    let all = all.filter(|all| *all >= image.len() as u64);
    let all = all.ok_or_else(|| Failure::wrong("linux/Image is no Image of arm64".to_owned()))?;
    let zeros = all - image.len() as u64;
    Ok(Found::new(all as f64, [format!("text, constants and data {}, bss {zeros}", image.len())]))
}
