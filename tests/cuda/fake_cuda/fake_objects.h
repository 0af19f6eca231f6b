#pragma once
// The fake driver's streams, events and memory.
#include <cstddef>

#include "fake_graph.h"
#include "fake_stream.h"
#include "fake_types.h"

namespace horing::fake {

struct Stream {
  Context* context;
  Queue queue;
  unsigned int flags = 0;
  GraphPlace recorded{};  // while it records a graph

  bool records() {
    if (recorded.graph && recorded.graph->number == 0)
      recorded = {};  // it was ended on the stream where it began
    return recorded.graph != nullptr;
  }
};
// Work recorded in a graph is known only there.
struct RecordableEvent : Event {
  explicit RecordableEvent(const Context* made_in) : Event{made_in} {}
  GraphPlace place{};
};
// What a device's memory is to a program: [begin, begin + bytes). `data`: where its bytes are, the same pages where the driver
// allocated them.
struct Range {
  size_t bytes;
  int device;
  bool is_managed;
  char* data;
  bool is_forbidden = false;  // to all but kernels
  int pages = -1;             // a file that holds it
  bool is_opened = false;     // another process's
  Context* context = nullptr;
};

}  // namespace horing::fake
