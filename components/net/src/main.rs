//! Drives a virtio network card behind the SMMU, and sends every UDP datagram back from where it came.
//!
//! The queues are those of `virtio-drivers`, the protocols those of `smoltcp`; what the card may write are this component's own pages (`dma_bytes`), so the
//! worst that card and driver can do to others is to be silent. The card's interrupt comes by a line, and is done with when the frames are taken.
//!
//! The argument is how many datagrams it sends back before it ends; its address is 10.0.9.2, its port 7 (RFC 862).
#![no_std]
#![no_main]

use bulkhead_component::driver::interrupt_done;
use bulkhead_component::virtio::{Card, FRAME_BYTES};
use bulkhead_component::{Code, call, println};
use core::cell::RefCell;
use smoltcp::iface::{Config, Interface, SocketSet, SocketStorage};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::udp::{PacketBuffer, PacketMetadata, Socket};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};

bulkhead_component::entry!(main);

bulkhead_component::devices! {
    /// What is behind the card's register.
    card;
    /// Its configuration space.
    configuration;
}

bulkhead_component::dma!(memory);

bulkhead_component::slots! {
    /// Where the interrupt is signalled.
    events;
    /// The interrupt.
    line;
}

const ADDRESS: IpAddress = IpAddress::v4(10, 0, 9, 2);
/// The port of "echo".
const PORT: u16 = 7;
/// Bytes of an Ethernet frame without its check sequence.
const ETHERNET_BYTES: usize = 1514;
/// How often it looks at what has no interrupt, in a second.
const LOOKS: u64 = 10;
/// Most looks whether the last frame was sent.
const MOST_LOOKS: u64 = 50;

/// The card as `smoltcp` uses it: a frame is answered while it is taken.
struct Phy(RefCell<Card>);

struct Received {
    bytes: [u8; FRAME_BYTES],
    length: usize,
}

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(self.bytes.get(..self.length).unwrap_or_default())
    }
}

struct Sending<'a>(&'a RefCell<Card>);

impl TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        let mut bytes = [0; FRAME_BYTES];
        let frame = bytes.get_mut(..length).unwrap_or_default();
        let answer = fill(frame);
        // Whether there is room was asked before; what the card does not take is lost, as on any network.
        let _ = self.0.borrow_mut().send(length, |slot| slot.copy_from_slice(frame));
        answer
    }
}

impl Device for Phy {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Received, Sending<'_>)> {
        let card = self.0.get_mut();
        if !card.can_send() {
            return None;
        }
        let mut received = Received { bytes: [0; FRAME_BYTES], length: 0 };
        card.receive(|frame| {
            received.length = frame.len();
            received.bytes.iter_mut().zip(frame).for_each(|(slot, byte)| *slot = *byte);
        })?;
        Some((received, Sending(&self.0)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Sending<'_>> {
        self.0.get_mut().can_send().then_some(Sending(&self.0))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = ETHERNET_BYTES;
        capabilities
    }
}

fn main(last: u64) {
    let card = match Card::new(card::registers(), configuration::registers(), memory::place()) {
        Ok(card) => card,
        Err(error) => return println!("net: {error:?}"),
    };
    let hardware = EthernetAddress(card.address());
    // `Busy` in the first life: nothing came yet.
    let _ = interrupt_done(line());
    let hz = call::version().map_or(1, |version| version.counter_hz);
    let now = || Instant::from_micros((call::counter_ticks() / (hz / 1_000_000).max(1)) as i64);
    let mut phy = Phy(RefCell::new(card));
    let mut interface = Interface::new(Config::new(HardwareAddress::Ethernet(hardware)), &mut phy, now());
    interface.update_ip_addrs(|addresses| {
        let _ = addresses.push(IpCidr::new(ADDRESS, 24));
    });
    let (mut metadata, mut bytes) = ([[PacketMetadata::EMPTY; 4]; 2], [[0; 4096]; 2]);
    let [received, sent] = &mut metadata;
    let [received_bytes, sent_bytes] = &mut bytes;
    let mut socket = Socket::new(
        PacketBuffer::new(&mut received[..], &mut received_bytes[..]),
        PacketBuffer::new(&mut sent[..], &mut sent_bytes[..]),
    );
    if socket.bind(PORT).is_err() {
        return println!("net: no port");
    }
    let mut storage = [SocketStorage::EMPTY];
    let mut sockets = SocketSet::new(&mut storage[..]);
    let handle = sockets.add(socket);
    println!("net: {hardware} at {ADDRESS}");
    let (mut datagrams, mut octets, mut interrupts) = (0, 0, 0);
    while datagrams < last {
        match call::receive(events(), call::counter_ticks() + hz / LOOKS) {
            Ok(_) => {
                interrupts += 1;
                phy.0.get_mut().acknowledge();
            }
            Err(Code::TimedOut) => {}
            Err(code) => return println!("net: {code:?}"),
        }
        interface.poll(now(), &mut phy, &mut sockets);
        let socket = sockets.get_mut::<Socket>(handle);
        while let Ok((text, from)) = socket.recv() {
            let mut copy = [0; ETHERNET_BYTES];
            let copy = copy.get_mut(..text.len()).unwrap_or_default();
            copy.iter_mut().zip(text).for_each(|(slot, byte)| *slot = *byte);
            if socket.send_slice(copy, from.endpoint).is_ok() {
                (datagrams, octets) = (datagrams + 1, octets + copy.len());
            }
        }
        interface.poll(now(), &mut phy, &mut sockets);
        // `Busy` where there was none.
        let _ = interrupt_done(line());
    }
    // With the last thread the instance ends, and with it the card's mastering: what it has not read by then is lost.
    for _ in 0..MOST_LOOKS {
        if phy.0.get_mut().has_sent_all() {
            break;
        }
        let _ = call::receive(events(), call::counter_ticks() + hz / LOOKS);
        phy.0.get_mut().acknowledge();
        let _ = interrupt_done(line());
    }
    println!("net: {datagrams} datagrams with {octets} bytes, interrupts: {}", interrupts != 0);
}
