#include "targets.h"

namespace horing::fuzz {

namespace {
constexpr Target kTargets[] = {
    {"control_messages", controlMessages},
    {"rendezvous", rendezvous},
    {"handshake", handshake},
    {"control_channel", controlChannel},
    {"pmi1", pmi1},
    {"published", published},
    {"acceptor", acceptor},
    {"socket_link", socketLink},
    {"shm_address", shmAddress},
    {"shm_files", shmFiles},
    {"slot_queue", slotQueue},
    {"verbs_published", verbsPublished},
    {"verbs_devices", verbsDevices},
    {"verbs_link", verbsLink},
    {"unique_id", uniqueId},
    {"schedule_text", scheduleText},
    {"environment", environment},
    {"host_identity", hostIdentity},
    {"gpu_offer", gpuOffer},
    {"topology_text", topologyText},
    {"rank_place", rankPlace},
    {"slurm_topology", slurmTopology},
    {"selection_text", selectionText},
};
}  // namespace

std::span<const Target> targets() {
  return kTargets;
}

const Target* findTarget(std::string_view name) {
  for (const Target& target : kTargets)
    if (name == target.name) return &target;
  return nullptr;
}

}  // namespace horing::fuzz
