// Making communicators out of others.
#include "capi/group.h"
#include "capi/handle.h"
#include "capi/rendezvous_list.h"
#include "capi/settings.h"
#include "comm/split.h"

namespace horing {

namespace {

// Ranks that are threads of one process need no network.
Result<UniqueId> openForChild(const CommunicatorOptions& parent) {
  return openRendezvous(parent.config,
                        parent.hub ? RootOptions::Reach::kThisMachine : RootOptions::Reach::kNetwork);
}

// A child of `comm` as its options say; the rendezvous, if this process hosts it, is claimed before the ranks meet.
Status makeChild(CommunicatorOptions options, horingComm_t* newcomm) {
  std::shared_ptr<RootService> root = claimRendezvous(options.id);
  HORING_ASSIGN(const horingComm_t handle, makeHandle(std::move(options), std::move(root)));
  publishHandle(handle, newcomm);
  return {};
}

// What the caller sets for the child; kept, since in a group it is used after the call.
struct ChildSettings {
  std::string name;
  int64_t timeout_ms;
};

Result<ChildSettings> settingsOf(const Communicator& parent, const horingConfig_t* config) {
  CommunicatorOptions options = parent.options();
  HORING_TRY(applySettings(config, options));
  return ChildSettings{options.name, options.config.timeout_ms};
}

Status splitNow(horingComm_t comm, const SplitChoice& choice, horingComm_t* newcomm,
                const ChildSettings& settings) {
  HORING_TRY(checkHandle(comm));
  comm->queue->drain();
  HORING_ASSIGN(std::optional<CommunicatorOptions> child, split(*comm->communicator, choice, openForChild));
  if (!child) {
    *newcomm = nullptr;
    return {};
  }
  child->name = settings.name;
  child->config.timeout_ms = settings.timeout_ms;
  return makeChild(std::move(*child), newcomm);
}

Status checkSplit(horingComm_t comm, const SplitChoice& choice, const horingComm_t* newcomm) {
  HORING_TRY(checkHandle(comm));
  if (!newcomm)
    return makeStatus(Code::kInvalidArgument, "newcomm is NULL: expected where to put the communicator");
  if (choice.color < 0 && choice.color != HORING_SPLIT_NOCOLOR)
    return makeStatus(Code::kInvalidArgument, "color is %d: expected 0 or more, or HORING_SPLIT_NOCOLOR",
                      choice.color);
  return {};
}

Status splitOrKeep(horingComm_t comm, const SplitChoice& choice, horingComm_t* newcomm,
                   const horingConfig_t* config) {
  HORING_TRY(checkSplit(comm, choice, newcomm));
  HORING_ASSIGN(const ChildSettings settings, settingsOf(*comm->communicator, config));
  if (!groupIsOpen()) return splitNow(comm, choice, newcomm, settings);
  addInitToGroup([=] { return splitNow(comm, choice, newcomm, settings); }, comm);
  return {};
}

}  // namespace

}  // namespace horing

extern "C" {

horingResult_t horingCommSplit(horingComm_t comm, int color, int key, horingComm_t* newcomm,
                               horingConfig_t* config) {
  using namespace horing;
  static_assert(HORING_SPLIT_NOCOLOR == kNoColor);
  return guarded(comm, [&] {
    Status status = splitOrKeep(comm, {color, key}, newcomm, config);
    if (!status.ok()) refuseGroup(status);
    return status;
  });
}

}  // extern "C"
