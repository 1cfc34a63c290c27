// SPDX-License-Identifier: Apache-2.0
// Where the buffers of each operation lie, and the calls themselves.
#include "coll_perf/coll_perf_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace perf {
namespace {

std::function<coll_status_t()> bind_call(const Session& session, const Point& point,
                                         const void* send, void* recv, coll_stream_t stream) {
  const std::size_t count = point.shape.count;
  const coll_dtype_t type = point.type;
  const coll_op_t op = point.redop;
  const int root = point.root;
  const coll_comm_t comm = session.comm();
  const auto counts = [list = std::vector<std::size_t>(static_cast<std::size_t>(session.size()),
                                                       count)] { return list.data(); };
  switch (point.operation) {
    case Operation::all_reduce:
      return [=] { return coll_all_reduce(send, recv, count, type, op, comm, stream); };
    case Operation::reduce:
      return [=] { return coll_reduce(send, recv, count, type, op, root, comm, stream); };
    case Operation::broadcast:
      return [=] { return coll_broadcast(send, recv, count, type, root, comm, stream); };
    case Operation::all_gather:
      return [=] { return coll_all_gather(send, recv, count, type, comm, stream); };
    case Operation::reduce_scatter:
      return [=] { return coll_reduce_scatter(send, recv, count, type, op, comm, stream); };
    case Operation::all_to_all:
      return [=] { return coll_all_to_all(send, recv, count, type, comm, stream); };
    case Operation::gather:
      return [=] { return coll_gather(send, recv, count, type, root, comm, stream); };
    case Operation::scatter:
      return [=] { return coll_scatter(send, recv, count, type, root, comm, stream); };
    case Operation::sendrecv:
    case Operation::sendrecv_tagged: {
      // A round trip between the ranks of each pair (0, 1), (2, 3)…; half of it is the time.
      const int peer = session.rank() ^ 1;
      if (peer >= session.size()) return [] { return COLL_SUCCESS; };
      constexpr int kTag = 1;
      const bool tagged = point.operation == Operation::sendrecv_tagged;
      const auto to_peer = [=] {
        return tagged ? coll_send_tagged(send, count, type, peer, kTag, comm, stream)
                      : coll_send(send, count, type, peer, comm, stream);
      };
      const auto from_peer = [=] {
        return tagged ? coll_recv_tagged(recv, count, type, peer, kTag, nullptr, comm, stream)
                      : coll_recv(recv, count, type, peer, comm, stream);
      };
      if (peer > session.rank())
        return [=] {
          const coll_status_t status = to_peer();
          return status != COLL_SUCCESS ? status : from_peer();
        };
      return [=] {
        const coll_status_t status = from_peer();
        return status != COLL_SUCCESS ? status : to_peer();
      };
    }
    case Operation::sendrecv_ring: {
      const int next = (session.rank() + 1) % session.size();
      const int before = (session.rank() + session.size() - 1) % session.size();
      return [=] {
        // A refused operation is coll_group_end's failure too.
        if (const coll_status_t begun = coll_group_start(); begun != COLL_SUCCESS) return begun;
        static_cast<void>(coll_send(send, count, type, next, comm, stream));
        static_cast<void>(coll_recv(recv, count, type, before, comm, stream));
        return coll_group_end();
      };
    }
    case Operation::all_gatherv:
      return [=] { return coll_all_gatherv(send, recv, counts(), nullptr, type, comm, stream); };
    case Operation::reduce_scatterv:
      return [=] {
        return coll_reduce_scatterv(send, recv, counts(), nullptr, type, op, comm, stream);
      };
    case Operation::all_to_allv:
      return [=] {
        return coll_all_to_allv(send, counts(), nullptr, recv, counts(), nullptr, type, comm,
                                stream);
      };
    case Operation::gatherv:
      return [=] {
        return coll_gatherv(send, count, recv, counts(), nullptr, type, root, comm, stream);
      };
    case Operation::scatterv:
      return [=] {
        return coll_scatterv(send, counts(), nullptr, recv, count, type, root, comm, stream);
      };
    case Operation::barrier:
      return [=] { return coll_barrier(comm, stream); };
  }
  return nullptr;
}

}  // namespace

Call::Call(const Session& session, const Point& point, bool in_place, Buffers& buffers,
           coll_stream_t stream)
    : session_(session),
      point_(point),
      input_(buffers.input),
      output_(buffers.output),
      consumes_(in_place && traits(point.operation).reads_recv),
      sent_(sent(point.operation, session.rank(), session.size(), point.root, point.shape.count)),
      received_(
          received(point.operation, session.rank(), session.size(), point.root, point.shape.count)),
      send_(input_.data()),
      recv_(output_.data()),
      name_(fmt::format("{} of {} x {}{}", traits(point.operation).name, point.shape.count,
                        dtype_name(point.type), in_place ? ", in place" : "")) {
  const std::size_t width = dtype_bytes(point.type);
  const std::size_t mine = static_cast<std::size_t>(session.rank()) * point.shape.count * width;
  const bool root = session.rank() == point.root;
  bool shared = in_place;  // both operands in `output`
  if (in_place) switch (equal_blocks(point.operation)) {
      case Operation::gather:
        shared = root;
        if (shared) send_ = recv_ + mine;
        break;
      case Operation::all_gather:
        send_ = recv_ + mine;
        break;
      case Operation::scatter:
        shared = root;
        [[fallthrough]];
      case Operation::reduce_scatter:
        if (shared) {
          send_ = output_.data();
          recv_ = output_.data() + mine;
        }
        break;
      default:
        send_ = recv_;
        break;
    }
  const std::size_t recv_end =
      static_cast<std::size_t>(recv_ - output_.data()) + elements(received_) * width;
  const std::size_t send_bytes = elements(sent_) * width;
  if (shared) {
    output_used_ =
        std::max(recv_end, static_cast<std::size_t>(send_ - output_.data()) + send_bytes);
  } else {
    output_used_ = recv_end;
    input_used_ = send_bytes;
  }
  keeps_input_ = !shared;
  run_ = bind_call(session, point, send_, recv_, stream);
}

void Call::prepare(std::uint64_t seed) {
  oracle_.emplace(point_.type, point_.redop, traits(point_.operation).reduces, session_.size(),
                  seed);
  oracle_->spoil(received_, received_on_host());
  oracle_->fill(sent_, sent_on_host());
  input_.guard(input_used_);
  output_.guard(output_used_);
  input_.push(input_used_);
  output_.push(output_used_);
}

std::uint64_t Call::verify() {
  input_.pull(input_used_);
  output_.pull(output_used_);
  std::uint64_t wrong = oracle_->wrong(received_, received_on_host());
  if (keeps_input_) wrong += oracle_->wrong(sent_, sent_on_host());
  return wrong + input_.broken(input_used_) + output_.broken(output_used_);
}

void Call::settle() {
  if (!consumes_) return;
  std::memset(output_.host(), 0, output_used_);
  output_.push(output_used_);
}

unsigned char* Call::sent_on_host() const {
  const Buffer& buffer = keeps_input_ ? input_ : output_;
  return buffer.host() + (send_ - buffer.data());
}

unsigned char* Call::received_on_host() const {
  return output_.host() + (recv_ - output_.data());
}

CallSet::CallSet(const Session& session, const Point& point, bool in_place,
                 std::vector<std::unique_ptr<Buffers>>& buffers, Together together)
    : together_(together), session_(session) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::size_t stream = together == Together::in_turn ? i : 0;
    calls_.push_back(
        std::make_unique<Call>(session, point, in_place, *buffers[i], session.stream(stream)));
    parts_.push_back(calls_.back()->part());
  }
  whole_.operation = traits(point.operation).api;
  whole_.type = point.type;
  whole_.op = point.redop;
  whole_.root = point.root;
  whole_.parts = parts_.data();
  whole_.part_count = parts_.size();
}

/// Blocks, unless the session has streams.
coll_status_t CallSet::run_parts() const {
  const coll_stream_t stream = session_.stream(0);
  if (stream != nullptr) return coll_start(&whole_, session_.comm(), stream, nullptr);
  return coll_run(&whole_, session_.comm());
}

coll_status_t CallSet::operator()() {
  if (together_ == Together::parts) return run_parts();
  if (together_ == Together::in_turn) {
    const Call& call = *calls_[next_];
    next_ = next_ + 1 == calls_.size() ? 0 : next_ + 1;
    return call();
  }
  if (const coll_status_t begun = coll_group_start(); begun != COLL_SUCCESS) return begun;
  for (const auto& call : calls_) static_cast<void>((*call)());  // a refusal fails the group's end
  return coll_group_end();
}

void CallSet::prepare(std::uint64_t seed) {
  for (const auto& call : calls_) call->prepare(seed++);
}

std::uint64_t CallSet::verify() {
  std::uint64_t wrong = 0;
  for (const auto& call : calls_) wrong += call->verify();
  return wrong;
}

void CallSet::settle() {
  for (const auto& call : calls_) call->settle();
}

}  // namespace perf
