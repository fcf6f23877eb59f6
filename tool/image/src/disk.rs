//! A disk from which a boot loader starts an image: one bootable FAT partition with the image and `extlinux/extlinux.conf`.
//!
//! U-Boot's distro boot looks for that file on the first bootable partition of every disk. The file system is FAT16, because every
//! loader reads it. Two files that never change are all that is written, so this is a fill-in form and no driver. Rejected: a boot
//! script (`boot.scr`), which is a program in a form of U-Boot's own; `mkfs` and `mtools` of the host, which a user would
//! have to install; the crate `fatfs` 0.3.6, whose directories `fsck.fat` calls damaged. The tests read what this writes with
//! programs of others.
//!
//! Names of fields are those of Microsoft's "FAT: General Overview of On-Disk Format" 1.03; all numbers are little-endian.

use std::io::{Error, ErrorKind, Result};

/// Path of the image on the disk.
pub const IMAGE_PATH: &str = "/bulkhead.img";
/// Path of what tells the boot loader about it.
pub const CONFIGURATION_PATH: &str = "/extlinux/extlinux.conf";
/// What that file says.
pub const CONFIGURATION: &str = "\
# U-Boot finds this file by itself (distro boot), loads the image and enters it by `booti`.
DEFAULT bulkhead
LABEL bulkhead
    KERNEL /bulkhead.img
";

const SECTOR_BYTES: usize = 512;
/// Where the partition begins, by custom; some boards keep their boot loader in front.
const FRONT_SECTORS: usize = 2048;
/// So many clusters are surely FAT16: readers take fewer for FAT12, more for FAT32.
const CLUSTERS: std::ops::RangeInclusive<usize> = 4200..=65_000;
const ROOT_ENTRIES: usize = 512;
const ENTRY_BYTES: usize = 32;
const ROOT_SECTORS: usize = ROOT_ENTRIES * ENTRY_BYTES / SECTOR_BYTES;
const END_OF_CHAIN: u16 = 0xffff;
const DIRECTORY: u8 = 0x10;
const VOLUME_LABEL: u8 = 0x08;
const ARCHIVE: u8 = 0x20;
/// All of the attributes that mark a piece of a long name.
const LONG_NAME: u8 = 0x0f;
/// A short name's letters are small: of its first part, of both.
const SMALL_NAME: u8 = 0x08;
const SMALL: u8 = 0x18;
/// 1 January 1980, the first day that there is: the same image gives the same disk.
const DATE: u16 = 1 << 5 | 1;

/// Makes the disk of an image. The same image gives the same bytes.
///
/// # Errors
/// When the image is too large for the file system (about 2 GiB).
pub fn disk(image: &[u8]) -> Result<Vec<u8>> {
    let too_large = || Error::new(ErrorKind::InvalidInput, "the image is too large for FAT16");
    let sizes = [4, 8, 16, 32, 64].map(|sectors| sectors * SECTOR_BYTES);
    // The directory and the file in it take a cluster each.
    let needed = |cluster_bytes: usize| 2 + image.len().div_ceil(cluster_bytes);
    let cluster_bytes = sizes.into_iter().find(|bytes| needed(*bytes) <= *CLUSTERS.end()).ok_or_else(too_large)?;
    let volume = Volume { cluster_bytes, clusters: needed(cluster_bytes).max(*CLUSTERS.start()) };
    let mut disk = vec![0; (FRONT_SECTORS + volume.sectors()) * SECTOR_BYTES];
    let (front, partition) = disk.split_at_mut(FRONT_SECTORS * SECTOR_BYTES);
    write_partition_table(front, volume.sectors());
    volume.write(partition, image);
    Ok(disk)
}

/// Writes a partition table (MBR) with one bootable entry. Who counts in cylinders is told to use the numbers of sectors.
fn write_partition_table(front: &mut [u8], sectors: usize) {
    const BOOTABLE: u8 = 0x80;
    const FAT_16_BY_SECTORS: u8 = 0x0e;
    const BEYOND_CYLINDERS: [u8; 3] = [0xfe, 0xff, 0xff];
    put(front, 446, &[BOOTABLE]);
    put(front, 447, &BEYOND_CYLINDERS);
    put(front, 450, &[FAT_16_BY_SECTORS]);
    put(front, 451, &BEYOND_CYLINDERS);
    put(front, 454, &(FRONT_SECTORS as u32).to_le_bytes());
    put(front, 458, &(sectors as u32).to_le_bytes());
    put(front, 510, &[0x55, 0xaa]);
}

/// A FAT16 file system: boot sector, two equal tables, root directory, clusters, of which the first is number 2.
struct Volume {
    cluster_bytes: usize,
    clusters: usize,
}

impl Volume {
    fn table_sectors(&self) -> usize {
        ((self.clusters + 2) * 2).div_ceil(SECTOR_BYTES)
    }

    /// First byte of a table.
    fn table(&self, index: usize) -> usize {
        (1 + index * self.table_sectors()) * SECTOR_BYTES
    }

    /// First byte of a cluster.
    fn cluster(&self, number: u16) -> usize {
        self.table(2) + ROOT_SECTORS * SECTOR_BYTES + (usize::from(number) - 2) * self.cluster_bytes
    }

    fn sectors(&self) -> usize {
        1 + 2 * self.table_sectors() + ROOT_SECTORS + self.clusters * self.cluster_bytes / SECTOR_BYTES
    }

    fn write(&self, volume: &mut [u8], image: &[u8]) {
        const FOLDER: u16 = 2;
        const TEXT: u16 = 3;
        const IMAGE: u16 = 4;
        self.write_boot_sector(volume);
        let root = self.table(2);
        put(volume, root, &entry(b"BULKHEAD   ", VOLUME_LABEL, 0, 0, 0));
        put(volume, root + ENTRY_BYTES, &entry(b"EXTLINUX   ", DIRECTORY, SMALL_NAME, FOLDER, 0));
        put(volume, root + 2 * ENTRY_BYTES, &entry(b"BULKHEADIMG", ARCHIVE, SMALL, IMAGE, image.len()));
        let folder = self.cluster(FOLDER);
        let short = b"EXTLIN~1CON";
        // A directory below the root names the root as cluster 0.
        put(volume, folder, &entry(b".          ", DIRECTORY, 0, FOLDER, 0));
        put(volume, folder + ENTRY_BYTES, &entry(b"..         ", DIRECTORY, 0, 0, 0));
        put(volume, folder + 2 * ENTRY_BYTES, &long_name(b"extlinux.conf", short));
        put(volume, folder + 3 * ENTRY_BYTES, &entry(short, ARCHIVE, 0, TEXT, CONFIGURATION.len()));
        put(volume, self.cluster(TEXT), CONFIGURATION.as_bytes());
        put(volume, self.cluster(IMAGE), image);
        let mut chains = vec![0xfff8, END_OF_CHAIN, END_OF_CHAIN, END_OF_CHAIN];
        let last = IMAGE as usize + image.len().div_ceil(self.cluster_bytes);
        chains.extend((IMAGE as usize + 1..last).map(|next| next as u16));
        chains.push(END_OF_CHAIN);
        for table in 0..2 {
            let words: Vec<u8> = chains.iter().flat_map(|word| word.to_le_bytes()).collect();
            put(volume, self.table(table), &words);
        }
    }

    fn write_boot_sector(&self, volume: &mut [u8]) {
        const HARD_DISK: u8 = 0xf8;
        put(volume, 0, &[0xeb, 0x3c, 0x90]);
        put(volume, 3, b"BULKHEAD");
        put(volume, 11, &(SECTOR_BYTES as u16).to_le_bytes());
        put(volume, 13, &[(self.cluster_bytes / SECTOR_BYTES) as u8]);
        put(volume, 14, &1_u16.to_le_bytes()); // sectors in front of the tables
        put(volume, 16, &[2]); // tables
        put(volume, 17, &(ROOT_ENTRIES as u16).to_le_bytes());
        put(volume, 21, &[HARD_DISK]);
        put(volume, 22, &(self.table_sectors() as u16).to_le_bytes());
        put(volume, 24, &63_u16.to_le_bytes()); // sectors in a track
        put(volume, 26, &255_u16.to_le_bytes()); // heads
        put(volume, 28, &(FRONT_SECTORS as u32).to_le_bytes());
        // A number of sectors that fits in 16 bits has another place.
        match u16::try_from(self.sectors()) {
            Ok(sectors) => put(volume, 19, &sectors.to_le_bytes()),
            Err(_) => put(volume, 32, &(self.sectors() as u32).to_le_bytes()),
        }
        put(volume, 36, &[0x80, 0, 0x29]); // drive; label and type follow
        put(volume, 39, b"BHED"); // serial number
        put(volume, 43, b"BULKHEAD   ");
        put(volume, 54, b"FAT16   ");
        put(volume, 510, &[0x55, 0xaa]);
    }
}

fn put(bytes: &mut [u8], place: usize, content: &[u8]) {
    bytes[place..place + content.len()].copy_from_slice(content);
}

/// An entry of a directory.
fn entry(name: &[u8; 11], attributes: u8, small: u8, cluster: u16, bytes: usize) -> [u8; ENTRY_BYTES] {
    let mut entry = [0; ENTRY_BYTES];
    put(&mut entry, 0, name);
    put(&mut entry, 11, &[attributes, small]);
    for date in [16, 18, 24] {
        put(&mut entry, date, &DATE.to_le_bytes());
    }
    put(&mut entry, 26, &cluster.to_le_bytes());
    put(&mut entry, 28, &(bytes as u32).to_le_bytes());
    entry
}

/// The only piece of a long name of 13 letters, which goes in front of the entry with the short one.
fn long_name(name: &[u8; 13], short: &[u8; 11]) -> [u8; ENTRY_BYTES] {
    const LAST_PIECE: u8 = 0x40;
    let sum = short.iter().fold(0_u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte));
    let mut entry = [0; ENTRY_BYTES];
    put(&mut entry, 0, &[LAST_PIECE | 1]);
    put(&mut entry, 11, &[LONG_NAME, 0, sum]);
    let places = (1..11).step_by(2).chain((14..26).step_by(2)).chain((28..32).step_by(2));
    for (place, letter) in places.zip(name) {
        put(&mut entry, place, &[*letter, 0]);
    }
    entry
}
