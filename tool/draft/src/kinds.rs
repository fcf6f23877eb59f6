//! What kinds of devices there are: which UARTs are known, and which devices read and write memory by themselves.
//!
//! Whether a device is a bus master decides whether a partition with it can reach everything, so nothing is taken for harmless because
//! of its name alone where some of the kind do have DMA (an SPI controller may). What is not known counts as a master.

use crate::tree::Node;

/// Kinds of UARTs by `compatible`, in the words of a board file.
const UARTS: [(&str, &str); 30] = [
    ("arm,pl011", "pl011"),
    ("arm,sbsa-uart", "pl011"),
    ("ns16550", "ns16550"),
    ("ns16550a", "ns16550"),
    ("snps,dw-apb-uart", "ns16550"),
    ("nvidia,tegra20-uart", "ns16550"),
    ("ti,am654-uart", "ns16550"),
    ("brcm,bcm2835-aux-uart", "ns16550"),
    ("mediatek,mt6577-uart", "ns16550"),
    ("intel,xscale-uart", "ns16550"),
    ("cdns,uart-r1p12", "cadence"),
    ("xlnx,xuartps", "cadence"),
    ("fsl,imx6q-uart", "imx"),
    ("fsl,imx21-uart", "imx"),
    ("fsl,vf610-lpuart", "lpuart"),
    ("fsl,ls1021a-lpuart", "lpuart"),
    ("fsl,ls1028a-lpuart", "lpuart"),
    ("fsl,imx7ulp-lpuart", "lpuart"),
    ("fsl,imx8qxp-lpuart", "lpuart"),
    ("amlogic,meson-gx-uart", "meson"),
    ("amlogic,meson-ao-uart", "meson"),
    ("qcom,msm-uartdm", "msm"),
    ("qcom,geni-uart", "geni"),
    ("qcom,geni-debug-uart", "geni"),
    ("samsung,exynos4210-uart", "exynos"),
    ("renesas,scif", "scif"),
    ("renesas,hscif", "scif"),
    ("marvell,armada-3700-uart", "mvebu"),
    ("marvell,armada-3700-uart-ext", "mvebu"),
    ("st,stm32h7-uart", "stm32"),
];

/// The kind of a UART.
#[must_use]
pub(crate) fn uart(node: Node<'_, '_>) -> Option<&'static str> {
    let kind = |text: &str| UARTS.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind);
    node.texts("compatible").find_map(kind)
}

/// SMMUs that can be programmed to confine a device, by `compatible`.
const SMMUS: [&str; 6] = ["arm,smmu-v1", "arm,smmu-v2", "arm,smmu-v3", "arm,mmu-400", "arm,mmu-401", "arm,mmu-500"];

/// States whether a node is an SMMU of Arm's architecture.
#[must_use]
pub(crate) fn is_smmu(node: Node<'_, '_>) -> bool {
    node.is_compatible(&SMMUS)
}

/// States whether a node translates addresses for devices: an SMMU or another IOMMU.
#[must_use]
pub(crate) fn is_iommu(node: Node<'_, '_>) -> bool {
    is_smmu(node) || node.has("#iommu-cells")
}

/// States whether a node is a PCI host bridge.
#[must_use]
pub(crate) fn is_pci(node: Node<'_, '_>) -> bool {
    node.text("device_type") == Some("pci")
}

/// What is known of a device's DMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dma {
    /// It has none.
    None,
    /// Nothing says that it has none.
    Assumed,
    /// It has.
    Known,
}

/// No device of these kinds reads or writes memory by itself; those that ask a DMA engine (`dmas`) leave the access to that.
const NO_MASTERS: [&str; 32] = [
    "arm,pl022",
    "arm,pl031",
    "arm,pl050",
    "arm,pl061",
    "arm,sp804",
    "arm,sp805",
    "arm,armv7-timer-mem",
    "arm,sbsa-gwdt",
    "cfi-flash",
    "snps,dw-apb-gpio",
    "snps,dw-apb-timer",
    "snps,dw-wdt",
    "snps,designware-i2c",
    "cdns,i2c-r1p10",
    "cdns,i2c-r1p14",
    "cdns,spi-r1p6",
    "cdns,ttc",
    "cdns,wdt-r1p2",
    "xlnx,zynqmp-rtc",
    "xlnx,zynqmp-gpio-1.0",
    "xlnx,versal-gpio-1.0",
    "xlnx,versal-efuse",
    "xlnx,pmc-efuse-cache",
    "xlnx,bbram-ctrl",
    "xlnx,versal-wwdt",
    "fsl,imx21-wdt",
    "fsl,imx21-i2c",
    "fsl,imx35-gpio",
    "fsl,imx6sx-gpt",
    "fsl,imx27-pwm",
    "mmio-sram",
    "rockchip,rk3399-i2c",
];

/// Generic names (Devicetree Specification 0.4, 2.2.2) of devices that answer a processor and never act on memory.
const PASSIVE: [&str; 14] = [
    "rtc",
    "watchdog",
    "timer",
    "pwm",
    "gpio",
    "clock-controller",
    "reset-controller",
    "pinctrl",
    "pinmux",
    "efuse",
    "thermal-sensor",
    "temperature-sensor",
    "hwspinlock",
    "rng",
];

/// Generic names of devices that move data by themselves.
const MASTERS: [&str; 22] = [
    "mmc",
    "sdhci",
    "ethernet",
    "usb",
    "gpu",
    "crypto",
    "dma",
    "dma-controller",
    "sata",
    "ahci",
    "ufs",
    "ufshc",
    "nand-controller",
    "display-controller",
    "video-codec",
    "camera",
    "dwc3",
    "virtio_mmio",
    "virtio",
    "fw-cfg",
    "lcd-controller",
    "vpu",
];

/// Finds out whether a device is a bus master.
#[must_use]
pub(crate) fn dma(node: Node<'_, '_>) -> Dma {
    // A wrapper that has an SMMU's stream has it for what is in it.
    if node.line().any(|one| one.has("iommus")) || node.has("dma-coherent") || node.has("dma-ranges") {
        return Dma::Known;
    }
    let name = node.base_name();
    if MASTERS.contains(&name) || node.texts("compatible").any(|kind| kind.starts_with("virtio,")) {
        return Dma::Known;
    }
    // These have DMA of their own in some modes; every other kind that is known leaves it to an engine.
    let is_simple_uart = uart(node).is_some_and(|kind| !matches!(kind, "geni" | "msm"));
    let answers =
        is_simple_uart || PASSIVE.contains(&name) || node.has("gpio-controller") || node.is_compatible(&NO_MASTERS);
    if answers || name == "i2c" && !node.has("dmas") { Dma::None } else { Dma::Assumed }
}
