//! Disks for boot loaders, read by programs of others: dosfstools judge the file system, mtools read the files.

use bulkhead_image::disk::{CONFIGURATION, CONFIGURATION_PATH, IMAGE_PATH, disk};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sectors in front of the partition.
const FIRST: usize = 2048;

fn run(program: &str, arguments: &[&str], volume: &Path) -> Vec<u8> {
    // They lie where only root's shell looks.
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let volume = volume.to_str().expect("UTF-8");
    let words = arguments.iter().map(|word| if *word == "VOLUME" { volume } else { word });
    let output = Command::new(program).args(words).env("PATH", path).output().unwrap_or_else(|error| {
        panic!("{program}: {error}; `./x test` installs it (Debian packages dosfstools and mtools)")
    });
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{program}: {text}{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn number(bytes: &[u8]) -> usize {
    u32::from_le_bytes(bytes.try_into().expect("four bytes")) as usize
}

fn check(image: &[u8]) {
    let disk = disk(image).expect("a disk");
    let entry = &disk[446..462];
    assert_eq!((entry[0], entry[4], &disk[510..512]), (0x80, 0x0e, &[0x55, 0xaa][..]), "bootable FAT16");
    let (first, sectors) = (number(&entry[8..12]), number(&entry[12..16]));
    assert_eq!((first, first + sectors), (FIRST, disk.len() / 512), "the partition ends with the disk");
    let volume = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.fat", image.len()));
    std::fs::write(&volume, &disk[FIRST * 512..]).expect("the volume is written");
    run("fsck.fat", &["-n", "-v", "VOLUME"], &volume);
    let file = |path: &str| run("mtype", &["-i", "VOLUME", &format!("::{path}")], &volume);
    assert!(file(IMAGE_PATH) == image, "{} bytes", image.len());
    assert_eq!(String::from_utf8_lossy(&file(CONFIGURATION_PATH)), CONFIGURATION);
    std::fs::remove_file(volume).expect("the volume is there");
}

#[test]
fn others_find_a_sound_file_system_with_both_files() {
    assert!(CONFIGURATION.contains(&format!("KERNEL {IMAGE_PATH}\n")));
    // Around the end of a cluster, of the smallest volume, of sector numbers with 16 bits, and of the smallest clusters.
    for bytes in [1, 2048, 2049, 4198 * 2048, 4199 * 2048, 32 << 20, 64_998 * 2048, 64_998 * 2048 + 1] {
        let image: Vec<u8> = (0..bytes).map(|index: u32| (index ^ index >> 11) as u8).collect();
        check(&image);
    }
}

#[test]
fn the_same_image_gives_the_same_disk() {
    assert!(disk(&[7; 5000]).expect("a disk") == disk(&[7; 5000]).expect("a disk"));
}
