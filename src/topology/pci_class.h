#pragma once
// Classifies a PCI device by its IDs.

namespace horing {

struct PciIdentity {
  unsigned device_class = 0;  // 16 bits: 0x0302 is a 3D controller
  unsigned vendor = 0;
  bool computes = false;  // the system has a compute device for it
};

// Excludes console-only controllers (ASPEED, Matrox, ES1000).
inline bool isGpu(const PciIdentity& pci) {
  constexpr unsigned kNvidia = 0x10de;
  constexpr unsigned kVga = 0x0300;
  const unsigned base = pci.device_class >> 8;
  if (base == 0x12) return true;  // processing accelerators
  return base == 0x03 && (pci.device_class != kVga || pci.vendor == kNvidia || pci.computes);
}

}  // namespace horing
