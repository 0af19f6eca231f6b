#include "transport/verbs/path.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/auth.h"
#include "base/check.h"

namespace horing::verbs {

Result<std::unique_ptr<Path>> Path::make(Device& device, const PathOptions& options) {
  std::unique_ptr<Path> made(new Path(device, options));
  HORING_TRY(made->open());
  return made;
}

Path::~Path() {
  if (pair_) device_.library().destroyQp(pair_);
  if (queue_) queue_->free += entries();
}

Status Path::open() {
  HORING_ASSIGN(queue_, device_.reserve(entries()));
  ibv_qp_init_attr wanted{};
  wanted.send_cq = queue_->cq;
  wanted.recv_cq = queue_->cq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = options_.sends;
  wanted.cap.max_recv_wr = options_.receives + kReceiveBatch;
  wanted.cap.max_send_sge = 2;
  wanted.cap.max_recv_sge = 1;
  // Adapters do not report their inline limit, and some fail without setting errno.
  for (const uint32_t inline_bytes : {256, 96, 0}) {
    wanted.cap.max_inline_data = inline_bytes;
    errno = 0;
    pair_ = device_.library().createQp(device_.pd(), &wanted);
    if (pair_) break;
  }
  if (!pair_)
    return systemError(errno != 0 ? errno : EINVAL, "make a queue pair of %u sends and %u receives on %s",
                       wanted.cap.max_send_wr, wanted.cap.max_recv_wr, device_.port().label().c_str());
  inline_bytes_ = wanted.cap.max_inline_data;
  bytes_until_.resize(std::bit_ceil(options_.sends));
  randomBytes(std::as_writable_bytes(std::span(&first_packet_, 1)));
  first_packet_ &= 0xffffff;
  for (size_t i = 0; i < receives_.size(); ++i) {
    receives_[i].wr_id = uint64_t{options_.id} << 32 | kReceived;
    receives_[i].next = i + 1 < receives_.size() ? &receives_[i + 1] : nullptr;
  }
  HORING_TRY(toInit());
  return postReceives(options_.receives + kReceiveBatch);
}

Status Path::toInit() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = static_cast<uint8_t>(device_.port().number);
  if (device_.port().infiniband) attributes.pkey_index = static_cast<uint16_t>(options_.pkey_index);
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  const int error = device_.library().modifyQp(
      pair_, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error == 0) return {};
  return systemError(error, "prepare a queue pair on %s (HORING_IB_PKEY_INDEX=%d)",
                     device_.port().label().c_str(), attributes.pkey_index);
}

// Moves the end of the chain so that only `count` are posted.
Status Path::postReceives(uint32_t count) {
  while (count > 0) {
    const uint32_t now = std::min(count, kReceiveBatch);
    receives_[now - 1].next = nullptr;
    ibv_recv_wr* refused = nullptr;
    const int error = ::ibv_post_recv(pair_, receives_.data(), &refused);
    if (now < kReceiveBatch) receives_[now - 1].next = &receives_[now];
    if (error != 0) return systemError(error, "post receives on %s", device_.port().label().c_str());
    count -= now;
  }
  return {};
}

Status Path::connect(const PathHello& theirs, const PublishedPort& their_port, const PathTuning& tuning) {
  const Port& mine = device_.port();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  mtu_ = std::min(mine.mtu, static_cast<ibv_mtu>(their_port.mtu));
  attributes.path_mtu = mtu_;
  attributes.dest_qp_num = theirs.queue_pair;
  attributes.rq_psn = theirs.packet_number;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = 12;
  attributes.ah_attr.port_num = static_cast<uint8_t>(mine.number);
  attributes.ah_attr.sl = static_cast<uint8_t>(tuning.service_level);
  attributes.ah_attr.dlid = their_port.lid;
  if (!mine.infiniband || mine.needs_grh || their_port.needs_grh) {
    attributes.ah_attr.is_global = 1;
    std::memcpy(attributes.ah_attr.grh.dgid.raw, their_port.gid.data(), their_port.gid.size());
    attributes.ah_attr.grh.sgid_index = static_cast<uint8_t>(mine.gid.index);
    attributes.ah_attr.grh.hop_limit = 64;
    attributes.ah_attr.grh.traffic_class = static_cast<uint8_t>(tuning.traffic_class);
  }
  int error =
      device_.library().modifyQp(pair_, &attributes,
                                 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error != 0)
    return systemError(error, "connect %s to %s (no route between their addresses?)", mine.label().c_str(),
                       their_port.name.c_str());
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = first_packet_;
  attributes.timeout = static_cast<uint8_t>(tuning.timeout);
  attributes.retry_cnt = static_cast<uint8_t>(tuning.retries);
  // Receives are posted before the peer may send; this only bridges the time until they are reposted.
  attributes.rnr_retry = 6;
  attributes.max_rd_atomic = 1;
  error = device_.library().modifyQp(pair_, &attributes,
                                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                         IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  if (error == 0) return {};
  return systemError(error, "turn on the queue pair from %s to %s", mine.label().c_str(),
                     their_port.name.c_str());
}

// Also signalled when there is little room, so that a completion frees some.
Status Path::post(const Write& write) {
  const uint64_t bytes = unsignalled_bytes_ + write.bytes();
  return post(write, unsignalled_ + 1 >= kSignalEvery || bytes >= kSignalBytes ||
                         posted_ - completed_ >= options_.sends / 2);
}

Status Path::post(const Write& write, bool signalled) {
  HORING_CHECK_LT(posted_ - completed_, options_.sends);
  std::array<ibv_sge, 2> pieces;
  ibv_send_wr request{};
  request.sg_list = pieces.data();
  const uint64_t bytes = write.bytes();
  bool may_inline = true;  // the library copies the data then
  for (const Piece& piece : write.pieces) {
    if (piece.bytes == 0) continue;
    pieces[static_cast<size_t>(request.num_sge++)] = {
        .addr = reinterpret_cast<uintptr_t>(piece.from), .length = piece.bytes, .lkey = piece.local_key};
    may_inline = may_inline && !piece.of_gpu;
  }
  request.opcode = write.immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  request.imm_data = write.immediate.value_or(0);
  request.wr.rdma.remote_addr = write.to;
  request.wr.rdma.rkey = write.remote_key;
  request.send_flags = (signalled ? unsigned{IBV_SEND_SIGNALED} : 0u) |
                       (may_inline && bytes <= inline_bytes_ ? unsigned{IBV_SEND_INLINE} : 0u);
  request.wr_id = uint64_t{options_.id} << 32 | (posted_ & kCounterMask);
  ibv_send_wr* refused = nullptr;
  if (const int error = ::ibv_post_send(pair_, &request, &refused); error != 0)
    return systemError(error, "send by %s", device_.port().label().c_str());
  posted_bytes_ += bytes;
  bytes_until_[posted_++ % bytes_until_.size()] = posted_bytes_;
  unsignalled_ = signalled ? 0 : unsignalled_ + 1;
  unsignalled_bytes_ = signalled ? 0 : unsignalled_bytes_ + bytes;
  return {};
}

Status Path::settle() {
  return settled() || unsignalled_ == 0 ? Status() : probe({});
}

void Path::sendDone(const ibv_wc& done) {
  const uint32_t counter = static_cast<uint32_t>(done.wr_id) & kCounterMask;
  completed_ += (counter + 1 - completed_) & kCounterMask;
  completed_bytes_ = bytes_until_[(completed_ - 1) % bytes_until_.size()];
}

Status Path::receiveDone() {
  if (++receives_owed_ < kReceiveBatch) return {};
  receives_owed_ = 0;
  return postReceives(kReceiveBatch);
}

}  // namespace horing::verbs
