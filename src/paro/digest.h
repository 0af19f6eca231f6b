#pragma once
// Checksums of sent and stored data.
#include <sodium.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace horing::paro {

using Digest = std::array<uint8_t, 32>;

class Hasher {
 public:
  Hasher() { (void)crypto_generichash_init(&state_, nullptr, 0, sizeof(Digest)); }
  void add(const void* data, size_t bytes) {
    (void)crypto_generichash_update(&state_, static_cast<const uint8_t*>(data), bytes);
  }
  Digest digest() {
    Digest digest{};
    (void)crypto_generichash_final(&state_, digest.data(), digest.size());
    return digest;
  }

 private:
  crypto_generichash_state state_;
};

inline Digest digestOf(const void* data, size_t bytes) {
  Hasher hasher;
  hasher.add(data, bytes);
  return hasher.digest();
}

}  // namespace horing::paro
