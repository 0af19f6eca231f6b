#pragma once
// libibverbs, loaded at run time: horing also runs on machines without it.
#include <infiniband/verbs.h>

#include "base/status.h"

namespace horing::verbs {

// The functions of libibverbs.so.1 that are used. Data functions (ibv_post_send and similar) are inline in its header and call the device's
// own table. A value; the library stays loaded until the process ends.
struct Library {
  decltype(&::ibv_fork_init) forkInit = nullptr;
  decltype(&::ibv_get_device_list) getDeviceList = nullptr;
  decltype(&::ibv_free_device_list) freeDeviceList = nullptr;
  decltype(&::ibv_get_device_name) deviceName = nullptr;
  decltype(&::ibv_open_device) openDevice = nullptr;
  decltype(&::ibv_close_device) closeDevice = nullptr;
  decltype(&::ibv_query_device) queryDevice = nullptr;
  // Declared for an older, shorter ibv_port_attr: pass a zeroed struct.
  decltype(&::ibv_query_port) queryPort = nullptr;
  decltype(&::ibv_query_gid) queryGid = nullptr;
  decltype(&::ibv_alloc_pd) allocPd = nullptr;
  decltype(&::ibv_dealloc_pd) deallocPd = nullptr;
  decltype(&::ibv_reg_mr) regMr = nullptr;
  // Null: a library before rdma-core 28, without optional access flags.
  decltype(&::ibv_reg_mr_iova2) regMrIova2 = nullptr;
  // Null: a library before rdma-core 34.
  ibv_mr* (*regDmabufMr)(ibv_pd*, uint64_t offset, size_t bytes, uint64_t address, int fd,
                         int access) = nullptr;
  decltype(&::ibv_dereg_mr) deregMr = nullptr;
  decltype(&::ibv_create_comp_channel) createChannel = nullptr;
  decltype(&::ibv_destroy_comp_channel) destroyChannel = nullptr;
  decltype(&::ibv_create_cq) createCq = nullptr;
  decltype(&::ibv_destroy_cq) destroyCq = nullptr;
  decltype(&::ibv_get_cq_event) getCqEvent = nullptr;
  decltype(&::ibv_ack_cq_events) ackCqEvents = nullptr;
  decltype(&::ibv_create_qp) createQp = nullptr;
  decltype(&::ibv_modify_qp) modifyQp = nullptr;
  decltype(&::ibv_destroy_qp) destroyQp = nullptr;
  decltype(&::ibv_get_async_event) getAsyncEvent = nullptr;
  decltype(&::ibv_ack_async_event) ackAsyncEvent = nullptr;
  decltype(&::ibv_wc_status_str) statusText = nullptr;
  decltype(&::ibv_event_type_str) eventText = nullptr;
};

// Any thread. An error says which library or function is missing.
Result<Library> loadLibrary();

}  // namespace horing::verbs
