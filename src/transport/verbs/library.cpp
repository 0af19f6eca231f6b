#include "transport/verbs/library.h"

#include <dlfcn.h>

namespace horing::verbs {

namespace {

constexpr const char* kFile = "libibverbs.so.1";

// dlsym() takes the newest version of a name, which is the one that the header declares.
template <typename Function>
Status bind(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function) return {};
  return makeStatus(Code::kSystemError, "%s has no %s: it is too old", kFile, name);
}

}  // namespace

Result<Library> loadLibrary() {
  // Never closed: its providers keep per-process state.
  void* const library = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) {
    const char* why = ::dlerror();
    return makeStatus(Code::kSystemError, "RDMA needs %s (Debian: libibverbs1 and ibverbs-providers): %s",
                      kFile, why ? why : "it cannot be loaded");
  }
  Library all;
  HORING_TRY(bind(library, "ibv_fork_init", all.forkInit));
  HORING_TRY(bind(library, "ibv_get_device_list", all.getDeviceList));
  HORING_TRY(bind(library, "ibv_free_device_list", all.freeDeviceList));
  HORING_TRY(bind(library, "ibv_get_device_name", all.deviceName));
  HORING_TRY(bind(library, "ibv_open_device", all.openDevice));
  HORING_TRY(bind(library, "ibv_close_device", all.closeDevice));
  HORING_TRY(bind(library, "ibv_query_device", all.queryDevice));
  HORING_TRY(bind(library, "ibv_query_port", all.queryPort));
  HORING_TRY(bind(library, "ibv_query_gid", all.queryGid));
  HORING_TRY(bind(library, "ibv_alloc_pd", all.allocPd));
  HORING_TRY(bind(library, "ibv_dealloc_pd", all.deallocPd));
  HORING_TRY(bind(library, "ibv_reg_mr", all.regMr));
  all.regMrIova2 = reinterpret_cast<decltype(all.regMrIova2)>(::dlsym(library, "ibv_reg_mr_iova2"));
  all.regDmabufMr = reinterpret_cast<decltype(all.regDmabufMr)>(::dlsym(library, "ibv_reg_dmabuf_mr"));
  HORING_TRY(bind(library, "ibv_dereg_mr", all.deregMr));
  HORING_TRY(bind(library, "ibv_create_comp_channel", all.createChannel));
  HORING_TRY(bind(library, "ibv_destroy_comp_channel", all.destroyChannel));
  HORING_TRY(bind(library, "ibv_create_cq", all.createCq));
  HORING_TRY(bind(library, "ibv_destroy_cq", all.destroyCq));
  HORING_TRY(bind(library, "ibv_get_cq_event", all.getCqEvent));
  HORING_TRY(bind(library, "ibv_ack_cq_events", all.ackCqEvents));
  HORING_TRY(bind(library, "ibv_create_qp", all.createQp));
  HORING_TRY(bind(library, "ibv_modify_qp", all.modifyQp));
  HORING_TRY(bind(library, "ibv_destroy_qp", all.destroyQp));
  HORING_TRY(bind(library, "ibv_get_async_event", all.getAsyncEvent));
  HORING_TRY(bind(library, "ibv_ack_async_event", all.ackAsyncEvent));
  HORING_TRY(bind(library, "ibv_wc_status_str", all.statusText));
  HORING_TRY(bind(library, "ibv_event_type_str", all.eventText));
  return all;
}

}  // namespace horing::verbs
