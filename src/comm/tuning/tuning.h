#pragma once
// The last part of making a communicator: it learns of its machine, and chooses algorithms by that, as its settings say. It sends
// messages, so it sees a communicator as any user does.
#include <memory>
#include <string>

#include "comm/communicator.h"

namespace horing {

// Communicator::create() and that. Collective.
Result<std::unique_ptr<Communicator>> createTuned(CommunicatorOptions options);

// Not while a call runs, and the same on every rank: from now on this table chooses. `found_at`: as in Choices.
void chooseBy(Communicator& communicator, SelectionTable table, std::string found_at = "");

}  // namespace horing
