#pragma once
// The last part of making a communicator: it learns of its machine, and chooses algorithms by that, as its settings say. It sends
// messages, so it sees a communicator as any user does.
#include <memory>

#include "comm/communicator.h"

namespace horing {

// Communicator::create() and that. Collective.
Result<std::unique_ptr<Communicator>> createTuned(CommunicatorOptions options);

}  // namespace horing
