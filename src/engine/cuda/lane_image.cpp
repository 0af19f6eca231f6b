#include "engine/cuda/lane_image.h"

#ifdef HORING_LANE_IMAGES  // the folder with them
// Symbols of this file alone.
#define HORING_EMBED(name, file)                                                             \
  asm(".pushsection .rodata\n.balign 64\n" #name ":\n.incbin \"" HORING_LANE_IMAGES "/" file \
      "\"\n.popsection");                                                                    \
  extern "C" __attribute__((visibility("hidden"))) const unsigned char name[]
HORING_EMBED(horing_lane_image_floats, "lane_kernels_float.fatbin");
HORING_EMBED(horing_lane_image_integers, "lane_kernels_integer.fatbin");
HORING_EMBED(horing_lane_image_exchange, "exchange_kernel.fatbin");
HORING_EMBED(horing_lane_image_copy, "copy_kernel.fatbin");
HORING_EMBED(horing_lane_image_elements, "element_kernel.fatbin");
#undef HORING_EMBED
#else
static constexpr unsigned char horing_lane_image_floats[64] = {}, horing_lane_image_integers[64] = {},
                               horing_lane_image_exchange[64] = {}, horing_lane_image_copy[64] = {},
                               horing_lane_image_elements[64] = {};
#endif

namespace horing::cuda {

const void* laneImage(LaneImage image) {
  switch (image) {
    case LaneImage::kFloats:
      return horing_lane_image_floats;
    case LaneImage::kIntegers:
      return horing_lane_image_integers;
    case LaneImage::kExchange:
      return horing_lane_image_exchange;
    case LaneImage::kCopy:
      return horing_lane_image_copy;
    case LaneImage::kElements:
      return horing_lane_image_elements;
  }
  return nullptr;
}

const char* laneImageVersion() {
#ifdef HORING_LANE_IMAGES
  return HORING_CUDA_VERSION;
#else
  return nullptr;
#endif
}

}  // namespace horing::cuda
