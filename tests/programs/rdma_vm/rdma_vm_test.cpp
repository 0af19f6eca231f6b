// The virtual machine itself, on bare verbs. If these tests fail, results of the other RDMA tests mean nothing.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../../rdma_machine.h"

namespace {

constexpr int kGidIndex = 1;  // RoCE v2 over IPv4
constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr int kDepth = 8;  // pieces in flight
constexpr auto kDeadline = std::chrono::seconds(20);

struct Release {
  void operator()(ibv_context* context) const { ibv_close_device(context); }
  void operator()(ibv_pd* domain) const { ibv_dealloc_pd(domain); }
  void operator()(ibv_cq* queue) const { ibv_destroy_cq(queue); }
  void operator()(ibv_mr* region) const { ibv_dereg_mr(region); }
  void operator()(ibv_qp* pair) const { ibv_destroy_qp(pair); }
};
template <typename T>
using Owned = std::unique_ptr<T, Release>;

std::set<std::string> deviceNames() {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  std::set<std::string> names;
  for (int i = 0; i < count; ++i) names.insert(ibv_get_device_name(list[i]));
  if (list) ibv_free_device_list(list);
  return names;
}

Owned<ibv_context> open(const std::string& name) {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  Owned<ibv_context> context;
  for (int i = 0; i < count; ++i)
    if (name == ibv_get_device_name(list[i])) context.reset(ibv_open_device(list[i]));
  if (list) ibv_free_device_list(list);
  return context;
}

// One end of a connection: a device, registered words, a queue pair. Members are released last to first.
struct End {
  explicit End(const std::string& device, size_t bytes)
      : words(bytes / sizeof(uint64_t)), context(open(device)) {}

  bool make() {
    if (!context || ibv_query_port(context.get(), 1, &port) != 0) return false;
    if (ibv_query_gid(context.get(), 1, kGidIndex, &gid) != 0) return false;
    domain.reset(ibv_alloc_pd(context.get()));
    completions.reset(ibv_create_cq(context.get(), 4 * kDepth, nullptr, nullptr, 0));
    if (!domain || !completions) return false;
    region.reset(ibv_reg_mr(domain.get(), words.data(), words.size() * sizeof(uint64_t),
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = completions.get();
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {.max_send_wr = kDepth,
                  .max_recv_wr = 2 * kDepth,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = 0};
    pair.reset(ibv_create_qp(domain.get(), &wanted));
    return region && pair;
  }

  bool connect(const End& peer) const {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (ibv_modify_qp(pair.get(), &attributes,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
      return false;
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = port.active_mtu;
    attributes.dest_qp_num = peer.pair->qp_num;
    attributes.max_dest_rd_atomic = 1;
    attributes.min_rnr_timer = 12;
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.port_num = 1;
    attributes.ah_attr.grh = {
        .dgid = peer.gid, .flow_label = 0, .sgid_index = kGidIndex, .hop_limit = 64, .traffic_class = 0};
    if (ibv_modify_qp(pair.get(), &attributes,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0)
      return false;
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = 14;
    attributes.retry_cnt = 6;  // rxe takes 7 for "for ever"
    attributes.rnr_retry = 7;
    attributes.max_rd_atomic = 1;
    return ibv_modify_qp(pair.get(), &attributes,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC) == 0;
  }

  bool postReceive() const {
    ibv_recv_wr request{};  // no memory: a write brings its address, this only takes the immediate
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(pair.get(), &request, &bad) == 0;
  }

  bool postWrite(const End& peer, size_t piece) const {
    const size_t offset = piece * kPieceBytes;
    ibv_sge memory{.addr = reinterpret_cast<uintptr_t>(words.data()) + offset,
                   .length = kPieceBytes,
                   .lkey = region->lkey};
    ibv_send_wr request{};
    request.sg_list = &memory;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.send_flags = IBV_SEND_SIGNALED;
    request.imm_data = static_cast<uint32_t>(piece);
    request.wr.rdma = {.remote_addr = reinterpret_cast<uintptr_t>(peer.words.data()) + offset,
                       .rkey = peer.region->rkey};
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(pair.get(), &request, &bad) == 0;
  }

  // The next completion, or none before the deadline.
  bool next(ibv_wc& completion) const {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    do {
      if (ibv_poll_cq(completions.get(), 1, &completion) == 1) return true;
    } while (std::chrono::steady_clock::now() < deadline);
    return false;
  }

  std::vector<uint64_t> words;
  ibv_port_attr port{};
  ibv_gid gid{};
  Owned<ibv_context> context;
  Owned<ibv_pd> domain;
  Owned<ibv_cq> completions;
  Owned<ibv_mr> region;
  Owned<ibv_qp> pair;
};

uint64_t word(size_t i) {
  return i * 0x9E3779B97F4A7C15u + 1;
}

// Writes all pieces of `from` into `to`, with their numbers as immediates. Returns the first status that is no success.
ibv_wc_status writeAll(const End& from, const End& to, size_t pieces) {
  size_t posted = 0;
  for (size_t arrived = 0; arrived < pieces; ++arrived) {
    for (; posted < pieces && posted < arrived + kDepth; ++posted)
      if (!to.postReceive() || !from.postWrite(to, posted)) return IBV_WC_GENERAL_ERR;
    ibv_wc sent{}, received{};
    if (!from.next(sent)) return IBV_WC_RESP_TIMEOUT_ERR;
    if (sent.status != IBV_WC_SUCCESS) return sent.status;
    if (!to.next(received)) return IBV_WC_RESP_TIMEOUT_ERR;
    if (received.status != IBV_WC_SUCCESS) return received.status;
    if (received.opcode != IBV_WC_RECV_RDMA_WITH_IMM || received.imm_data != arrived)
      return IBV_WC_BAD_RESP_ERR;
  }
  return IBV_WC_SUCCESS;
}

void expectEveryWordArrives(const std::string& from_device, const std::string& to_device, size_t bytes) {
  End from(from_device, bytes), to(to_device, bytes);
  ASSERT_TRUE(from.make() && to.make()) << from_device << ", " << to_device;
  ASSERT_TRUE(from.connect(to) && to.connect(from)) << from_device << ", " << to_device;
  for (size_t i = 0; i < from.words.size(); ++i) from.words[i] = word(i);
  ASSERT_EQ(writeAll(from, to, bytes / kPieceBytes), IBV_WC_SUCCESS) << from_device << " -> " << to_device;
  for (size_t i = 0; i < to.words.size(); ++i)
    ASSERT_EQ(to.words[i], word(i)) << "word " << i << ", " << from_device << " -> " << to_device;
}

TEST(RdmaVm, HasFourDevices) {
  HORING_NEEDS_RDMA_MACHINE();
  EXPECT_EQ(deviceNames(), (std::set<std::string>{"rxe0", "rxe1", "rxe2", "rxe3"}));
}

TEST(RdmaVm, WritesWithImmediateArriveWordForWordOnBothWires) {
  HORING_NEEDS_RDMA_MACHINE();
  expectEveryWordArrives("rxe0", "rxe1", 16 * kPieceBytes);
  expectEveryWordArrives("rxe3", "rxe2", 4 * kPieceBytes);
}

// The event of a port that went down, before the deadline.
bool portErrorComes(ibv_context* context) {
  pollfd readable{.fd = context->async_fd, .events = POLLIN, .revents = 0};
  const int wait_ms = static_cast<int>(std::chrono::milliseconds(kDeadline).count());
  while (::poll(&readable, 1, wait_ms) == 1) {
    ibv_async_event event{};
    if (ibv_get_async_event(context, &event) != 0) return false;
    ibv_ack_async_event(&event);
    if (event.event_type == IBV_EVENT_PORT_ERR) return true;
  }
  return false;
}

TEST(RdmaVm, PulledWireIsAnErrorAndPluggedInItWorksAgain) {
  HORING_NEEDS_RDMA_MACHINE();
  {
    End from("rxe0", kPieceBytes), to("rxe1", kPieceBytes);
    ASSERT_TRUE(from.make() && to.make() && from.connect(to) && to.connect(from));
    ASSERT_EQ(writeAll(from, to, 1), IBV_WC_SUCCESS);
    ASSERT_TRUE(horing::testing::pullWire(0));
    EXPECT_TRUE(portErrorComes(from.context.get()));
    EXPECT_TRUE(portErrorComes(to.context.get()));
    ASSERT_TRUE(to.postReceive() && from.postWrite(to, 0));
    ibv_wc completion{};
    ASSERT_TRUE(from.next(completion)) << "nothing was reported for a write into a pulled wire";
    EXPECT_NE(completion.status, IBV_WC_SUCCESS);
    expectEveryWordArrives("rxe2", "rxe3", kPieceBytes);
  }
  ASSERT_TRUE(horing::testing::plugWire(0));
  expectEveryWordArrives("rxe0", "rxe1", kPieceBytes);
}

TEST(RdmaVm, LossIsRepaired) {
  HORING_NEEDS_RDMA_MACHINE();
  ASSERT_TRUE(horing::testing::shapeWire(1, "loss 1%"));
  expectEveryWordArrives("rxe2", "rxe3", 2 * kPieceBytes);
  EXPECT_TRUE(horing::testing::shapeWire(1, ""));
}

}  // namespace
