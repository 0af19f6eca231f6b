#pragma once
// The last part of making a communicator: it measures or looks up its machine and chooses algorithms accordingly, as its settings say.
// Tuning sends messages, so it uses a communicator as any user does.
#include <memory>
#include <string>

#include "comm/communicator.h"

namespace horing {

// Communicator::create(), then tuning. Collective.
Result<std::unique_ptr<Communicator>> createTuned(CommunicatorOptions options);

// From now on this table chooses. To be called while no call runs, with the same table on every rank. `found_at`: as in Choices.
void chooseBy(Communicator& communicator, SelectionTable table, std::string found_at = "");

}  // namespace horing
