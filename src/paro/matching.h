#pragma once
// Which parameter of a checkpoint is loaded into which of the model.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "paro/agreement.h"
#include "paro/checkpoint_format.h"

namespace horing::paro {

struct Matching {
  static constexpr size_t kNone = SIZE_MAX;
  std::vector<size_t> to;    // by parameter of the checkpoint: that of the model
  std::vector<size_t> from;  // by parameter of the model: that of the checkpoint
};

// All, by number. Error: another model, with the first difference.
Result<Matching> matchAll(const Manifest& manifest, const Description& mine);
// Those of the same name. Errors: other numbers of elements; names on one side only, if `strict`; no names at all.
Result<Matching> matchNames(const Manifest& manifest, const Description& mine, bool strict);

}  // namespace horing::paro
