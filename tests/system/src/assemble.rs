//! Guests of a few instructions, assembled here: no tool is needed, and each test says what its guest does.
//!
//! A program is position-independent, entered at its first word at EL1 with translation off. Encodings are those of the
//! Arm ARM, C6.2; registers are plain numbers, 31 is the zero register.

/// Instructions in order.
#[derive(Clone, Debug, Default)]
pub struct Program {
    words: Vec<u32>,
}

/// A place in a program to which a branch can go.
#[derive(Clone, Copy, Debug)]
pub struct Label(usize);

/// A branch whose target is not known yet.
#[derive(Clone, Copy, Debug)]
pub struct Forward(usize);

impl Program {
    /// Starts an empty program.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the program as little-endian bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Appends an encoded instruction.
    pub fn word(&mut self, word: u32) -> &mut Self {
        self.words.push(word);
        self
    }

    /// Returns the place of the next instruction.
    #[must_use]
    pub fn here(&self) -> Label {
        Label(self.words.len())
    }

    /// Returns how many bytes there are before the next instruction.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.words.len() as u64 * 4
    }

    /// Loads a constant into a register, by four instructions whatever its value.
    pub fn constant(&mut self, register: u32, value: u64) -> &mut Self {
        for part in 0..4 {
            let bits = ((value >> (16 * part)) & 0xffff) as u32;
            let opcode = if part == 0 { 0xd280_0000 } else { 0xf280_0000 }; // MOVZ, MOVK
            self.word(opcode | part << 21 | bits << 5 | register);
        }
        self
    }

    /// Copies a register.
    pub fn copy(&mut self, to: u32, from: u32) -> &mut Self {
        self.word(0xaa00_03e0 | from << 16 | to) // MOV (register)
    }

    /// Adds a constant below 4096.
    pub fn add(&mut self, to: u32, from: u32, value: u32) -> &mut Self {
        self.word(0x9100_0000 | value << 10 | from << 5 | to)
    }

    /// Subtracts a constant below 4096.
    pub fn subtract(&mut self, to: u32, from: u32, value: u32) -> &mut Self {
        self.word(0xd100_0000 | value << 10 | from << 5 | to)
    }

    /// Loads 64 bits from `[base + offset]`.
    pub fn load(&mut self, to: u32, base: u32, offset: u32) -> &mut Self {
        self.word(0xf940_0000 | (offset / 8) << 10 | base << 5 | to)
    }

    /// Stores 64 bits to `[base + offset]`.
    pub fn store(&mut self, from: u32, base: u32, offset: u32) -> &mut Self {
        self.word(0xf900_0000 | (offset / 8) << 10 | base << 5 | from)
    }

    /// Loads 32 bits from `[base + offset]`.
    pub fn load32(&mut self, to: u32, base: u32, offset: u32) -> &mut Self {
        self.word(0xb940_0000 | (offset / 4) << 10 | base << 5 | to)
    }

    /// Stores 32 bits to `[base + offset]`.
    pub fn store32(&mut self, from: u32, base: u32, offset: u32) -> &mut Self {
        self.word(0xb900_0000 | (offset / 4) << 10 | base << 5 | from)
    }

    /// HVC #0.
    pub fn call(&mut self) -> &mut Self {
        self.word(0xd400_0002)
    }

    /// DSB SY.
    pub fn barrier(&mut self) -> &mut Self {
        self.word(0xd503_3f9f)
    }

    /// WFI.
    pub fn wait(&mut self) -> &mut Self {
        self.word(0xd503_207f)
    }

    /// Reads CNTVCT_EL0.
    pub fn counter(&mut self, to: u32) -> &mut Self {
        self.word(0xd53b_e040 | to)
    }

    /// Branches to an address in a register.
    pub fn jump(&mut self, register: u32) -> &mut Self {
        self.word(0xd61f_0000 | register << 5)
    }

    /// Compares two registers.
    pub fn compare(&mut self, left: u32, right: u32) -> &mut Self {
        self.word(0xeb00_001f | right << 16 | left << 5)
    }

    fn distance(&self, target: Label) -> i32 {
        target.0 as i32 - self.words.len() as i32
    }

    /// Branches.
    pub fn branch(&mut self, target: Label) -> &mut Self {
        let distance = self.distance(target) as u32 & 0x3ff_ffff;
        self.word(0x1400_0000 | distance)
    }

    /// Branches if the compared values were equal.
    pub fn branch_equal(&mut self, target: Label) -> &mut Self {
        let distance = self.distance(target) as u32 & 0x7_ffff;
        self.word(0x5400_0000 | distance << 5)
    }

    /// Branches if the left value was below the right one (unsigned).
    pub fn branch_below(&mut self, target: Label) -> &mut Self {
        let distance = self.distance(target) as u32 & 0x7_ffff;
        self.word(0x5400_0003 | distance << 5)
    }

    /// Branches if a register is not zero.
    pub fn branch_not_zero(&mut self, register: u32, target: Label) -> &mut Self {
        let distance = self.distance(target) as u32 & 0x7_ffff;
        self.word(0xb500_0000 | distance << 5 | register)
    }

    /// Branches forward, to a place named later with [`Self::land`], if a register is not zero.
    pub fn skip_not_zero(&mut self, register: u32) -> Forward {
        self.word(0xb500_0000 | register);
        Forward(self.words.len() - 1)
    }

    /// Makes the next instruction the target of a forward branch.
    pub fn land(&mut self, branch: Forward) -> &mut Self {
        let distance = (self.words.len() - branch.0) as u32;
        self.words[branch.0] |= distance << 5;
        self
    }

    /// Waits for ever, an interrupt at a time.
    pub fn stay(&mut self) -> &mut Self {
        let here = self.here();
        self.wait().branch(here)
    }

    /// Computes for ever, without an exit.
    pub fn spin(&mut self) -> &mut Self {
        let here = self.here();
        self.branch(here)
    }
}
