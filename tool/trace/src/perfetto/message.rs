//! The few protobuf messages of Perfetto that are written, with the field numbers of its public definition
//! (`protos/perfetto/trace/` of Perfetto: `trace_packet.proto`, `track_event/*.proto`), and our own two.

use prost::Message;

/// A trace: packets one after the other.
#[derive(Clone, PartialEq, Message)]
pub struct Trace {
    /// Packets.
    #[prost(message, repeated, tag = "1")]
    pub packets: Vec<TracePacket>,
}

/// A packet: what happened at a time, or the description of a track.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    /// Nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// Who wrote it; anything but zero.
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    /// An event.
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    /// [`SEQ_INCREMENTAL_STATE_CLEARED`] on the first packet.
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    /// A track.
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
    /// Nothing came before this packet.
    #[prost(bool, optional, tag = "87")]
    pub first_packet_on_sequence: Option<bool>,
    /// Ours: who is who. In a packet alone; Perfetto passes over fields that it does not know.
    #[prost(message, optional, tag = "960")]
    pub bulkhead_guest_abi: Option<super::record::LayoutRecord>,
    /// Ours: the event that this packet, and those after it without one, show.
    #[prost(message, optional, tag = "961")]
    pub bulkhead_event: Option<super::record::EventRecord>,
}

/// Nothing of an earlier packet is referred to.
pub const SEQ_INCREMENTAL_STATE_CLEARED: u32 = 1;

/// An event on a track.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    /// Details.
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    /// Kind.
    #[prost(enumeration = "EventType", optional, tag = "9")]
    pub r#type: Option<i32>,
    /// Its track.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    /// Groups that the UI can filter by.
    #[prost(string, repeated, tag = "22")]
    pub categories: Vec<String>,
    /// Name.
    #[prost(string, optional, tag = "23")]
    pub name: Option<String>,
    /// Value of a counter.
    #[prost(int64, optional, tag = "30")]
    pub counter_value: Option<i64>,
    /// Flows that begin or continue here.
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flow_ids: Vec<u64>,
    /// Flows that end here.
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub terminating_flow_ids: Vec<u64>,
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum EventType {
    /// None.
    Unspecified = 0,
    /// A slice begins.
    SliceBegin = 1,
    /// The slice ends that began last on the track.
    SliceEnd = 2,
    /// Something without length.
    Instant = 3,
    /// A new value of a counter.
    Counter = 4,
}

/// A detail of an event.
#[derive(Clone, PartialEq, Message)]
pub struct DebugAnnotation {
    /// Number.
    #[prost(uint64, optional, tag = "3")]
    pub uint_value: Option<u64>,
    /// Text.
    #[prost(string, optional, tag = "6")]
    pub string_value: Option<String>,
    /// Address or register, which the UI shows in hexadecimal digits.
    #[prost(uint64, optional, tag = "7")]
    pub pointer_value: Option<u64>,
    /// Name.
    #[prost(string, optional, tag = "10")]
    pub name: Option<String>,
}

/// A track.
#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    /// Its number, unique in the trace, not zero.
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    /// Its name.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// The track that it is shown below.
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    /// It shows a number over time.
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
    /// [`ORDER_EXPLICIT`]: children are shown by rank.
    #[prost(int32, optional, tag = "11")]
    pub child_ordering: Option<i32>,
    /// Rank among the children of the parent.
    #[prost(int32, optional, tag = "12")]
    pub sibling_order_rank: Option<i32>,
}

/// Children by rank.
pub const ORDER_EXPLICIT: i32 = 3;

/// What a counter counts.
#[derive(Clone, PartialEq, Message)]
pub struct CounterDescriptor {
    /// [`UNIT_TIME_NS`].
    #[prost(int32, optional, tag = "3")]
    pub unit: Option<i32>,
}

/// Nanoseconds.
pub const UNIT_TIME_NS: i32 = 1;
