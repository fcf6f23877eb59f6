//! Reads a trace file back into a timeline.
//!
//! A trace is a row of packets, each with its length in front, so a file that was cut is whole up to the cut: what comes
//! before is read, and the cut becomes a warning. Packets of others, such as a merged trace of a host, are passed over.

use super::message::TracePacket;
use crate::timeline::Timeline;
use prost::Message;
use std::fmt;

/// Tag of a packet in a trace: field 1, with a length.
const PACKET_TAG: u8 = 0x0a;

/// Why a file cannot be read at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The file holds no packet.
    NoTrace,
    /// It is a trace, but not of Bulkhead.
    NotOurs,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoTrace => {
                "this is no Perfetto trace: it does not begin with a packet. Write one with `bulkhead run --trace FILE`"
            }
            Self::NotOurs => {
                "this trace does not say what system it is of, so it is not from Bulkhead or is cut in its first packet"
            }
        })
    }
}

impl std::error::Error for ReadError {}

/// Reads a trace file.
///
/// # Errors
/// When it is no trace of Bulkhead.
pub fn read(bytes: &[u8]) -> Result<Timeline, ReadError> {
    if bytes.first() != Some(&PACKET_TAG) {
        return Err(ReadError::NoTrace);
    }
    let mut rest = bytes;
    let mut timeline: Option<Timeline> = None;
    let (mut expected, mut found, mut unknown, mut end_ns) = (0_u64, 0_u64, 0_u64, 0);
    let mut is_cut = false;
    while !rest.is_empty() {
        let Some(packet) = next_packet(&mut rest) else {
            is_cut = true;
            break;
        };
        if let Some(layout) = packet.bulkhead_guest_abi {
            let mut fresh = Timeline::new(layout.layout());
            fresh.lost.clone_from(&layout.lost);
            fresh.warnings.clone_from(&layout.warnings);
            (expected, end_ns) = (layout.events, layout.to_ns);
            timeline.get_or_insert(fresh);
        }
        let (Some(timeline), Some(record)) = (&mut timeline, packet.bulkhead_event) else { continue };
        found += 1;
        match record.kind() {
            Some(kind) => timeline.push(packet.timestamp.unwrap_or(0), record.core as usize, kind),
            None => unknown += 1,
        }
    }
    let mut timeline = timeline.ok_or(ReadError::NotOurs)?;
    if is_cut || found < expected {
        timeline.warnings.push(format!("the trace file is cut: it holds {found} of {expected} events"));
        end_ns = 0;
    }
    if unknown > 0 {
        timeline.warnings.push(format!("{unknown} events of the trace file are of kinds that this tool does not know"));
    }
    timeline.finish(end_ns);
    Ok(timeline)
}

/// Takes the next packet; none if it is not whole.
fn next_packet(rest: &mut &[u8]) -> Option<TracePacket> {
    let (tag, mut after) = rest.split_first()?;
    if *tag != PACKET_TAG {
        return None;
    }
    let length = usize::try_from(prost::encoding::decode_varint(&mut after).ok()?).ok()?;
    let (packet, after) = after.split_at_checked(length)?;
    *rest = after;
    TracePacket::decode(packet).ok()
}
