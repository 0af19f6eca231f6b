#pragma once
// Reads and forges the files of checkpoints.
#include <sodium.h>

#include <fstream>
#include <sstream>
#include <string>

inline std::string contentOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// As hexadecimal text.
inline std::string digestOf(const std::string& bytes) {
  unsigned char digest[32];
  char text[2 * sizeof digest + 1];
  crypto_generichash(digest, sizeof digest, reinterpret_cast<const unsigned char*>(bytes.data()),
                     bytes.size(), nullptr, 0);
  return sodium_bin2hex(text, sizeof text, digest, sizeof digest);
}

// With a digest that fits, as only a deliberate forger can.
inline void writeManifest(const std::string& path, const std::string& without_digest) {
  std::ofstream(path, std::ios::binary) << without_digest << "digest " << digestOf(without_digest) << "\n";
}
