// SPDX-License-Identifier: Apache-2.0
// What a coll_call_t says, as the library's own values.
#include "c_api/c_api_call.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "base/hash.hpp"
#include "c_api/c_api_requests.hpp"
#include "communicator/calls/call_check.hpp"
#include "communicator/calls/call_digest.hpp"

namespace coll {
namespace {

Status check_reduction(const char* function, const coll_reduction_t& reduction) {
  if (reduction.size < sizeof reduction || reduction.version == 0) {
    return failed(Code::invalid_argument,
                  std::string(function) + ": the reduction is not initialised",
                  "begin with coll_reduction_t reduction = COLL_REDUCTION_INIT");
  }
  if (reduction.combine != nullptr) return {};
  return failed(Code::invalid_argument, std::string(function) + ": the reduction has no function",
                "set `combine`");
}

/// The elements of the call, of all its parts together.
Result<std::size_t> count_of(const coll_call_t& call) {
  if (call.parts == nullptr) return call.count;
  std::size_t count = 0;
  for (const coll_part_t& part : std::span(call.parts, call.part_count)) {
    if (part.count > ~count) {
      return failed(Code::invalid_argument, "the parts have more elements than memory can hold");
    }
    count += part.count;
  }
  return count;
}

Result<Factor> factor_of(const std::string& name, const coll_call_t& call) {
  if (call.op != COLL_SUM || call.reduction != nullptr) {
    return failed(Code::invalid_argument, name + ": a factor belongs to a sum",
                  "use COLL_SUM, or leave `factor` null");
  }
  if (call.type == COLL_BOOL) {
    return failed(Code::invalid_argument, name + ": bool has no factors",
                  "use another type, or leave `factor` null");
  }
  COLL_TRY(check_host_memory(name + ": factor", call.factor));
  Factor factor;
  if (call.factor_late != 0) {
    factor.late = call.factor;
  } else if (call.type >= 0 && call.type < COLL_DTYPE_COUNT) {  // the door refuses the others
    std::memcpy(factor.value.data(), call.factor, size_of(static_cast<DataType>(call.type)));
  }
  return factor;
}

}  // namespace

Result<coll_call_t> read_call(const char* function, const coll_call_t* given) {
  if (given == nullptr) return null_argument(function, "call");
  coll_call_t call = COLL_CALL_INIT;
  if (given->size < offsetof(coll_call_t, send_counts) || given->version == 0) {
    return failed(Code::invalid_argument, std::string(function) + ": the call is not initialised",
                  "begin with coll_call_t call = COLL_CALL_INIT");
  }
  std::memcpy(&call, given, std::min(given->size, sizeof call));
  int operation = 0;  // C may pass any; to read it as one of the names would be undefined
  std::memcpy(&operation, &given->operation, sizeof operation);
  if (operation < 0 || operation >= COLL_OPERATION_COUNT) {
    return failed(Code::invalid_argument,
                  std::string(function) + ": unknown operation " + std::to_string(operation),
                  "see coll_operation_t");
  }
  if (std::isnan(call.deadline_s)) {
    return failed(Code::invalid_argument, std::string(function) + ": deadline_s is not a number",
                  "give seconds, 0 for ever, or a negative number for the communicator's");
  }
  return call;
}

Result<UnequalRequest> request_of(const char* function, const coll_call_t& call,
                                  const Communicator& communicator) {
  const auto what = static_cast<Collective>(call.operation);
  const auto bad = [&](const std::string& why, const char* hint) {
    return failed(Code::invalid_argument,
                  std::string(function) + ": " + std::string(name_of(what)) + " " + why, hint);
  };
  const bool pair = what == Collective::send || what == Collective::recv;
  if (call.tagged != 0 && !pair) return bad("has no tag", "leave `tagged` 0");
  const bool nothing = what == Collective::barrier;
  if (call.parts != nullptr && (pair || nothing || call.unequal != 0)) {
    return bad(call.unequal != 0 ? "of unequal blocks has no parts" : "has no parts",
               "leave `parts` null");
  }
  const bool own = reduces(what) && call.reduction != nullptr;
  if (own) COLL_TRY(check_reduction(function, *call.reduction));
  const coll_op_t op = reduces(what) && !own ? call.op : COLL_SUM;
  UnequalRequest made;
  if (call.unequal != 0) {
    if (whole_blocks(what, 2) == 1) return bad("has no block for each rank", "leave `unequal` 0");
    const UnequalCall given{unequal_call_of(what, call.type, op, has_root(what) ? call.root : 0),
                            call.send,
                            call.recv,
                            call.send_counts,
                            call.send_displs,
                            call.recv_counts,
                            call.recv_displs,
                            call.count};
    COLL_ASSIGN(made, unequal_request(given, communicator.rank(), communicator.size()));
  } else {
    COLL_ASSIGN(const std::size_t count, count_of(call));
    const bool buffers = !nothing && call.parts == nullptr;
    made.request =
        request_of(what, what == Collective::recv || !buffers ? nullptr : call.send,
                   what == Collective::send || !buffers ? nullptr : call.recv, nothing ? 0 : count,
                   nothing ? COLL_INT8 : call.type, op, has_root(what) ? call.root : 0);
    if (call.tagged != 0) made.request.call.form = CallForm::tagged;
    if (call.parts != nullptr) made.request.call.form = CallForm::parts;
  }
  if (own) {
    made.request.call.op =
        call.reduction->commutative != 0 ? ReduceOp::own : ReduceOp::own_in_order;
  }
  return made;
}

Result<Extras> extras_of(const char* function, const coll_call_t& call) {
  Extras extras;
  extras.tag = call.tag;
  if (call.operation == COLL_RECV) extras.message = call.message;
  const auto what = static_cast<Collective>(call.operation);
  std::uint64_t agreed = 0;
  if (call.parts != nullptr) {
    const auto parts = std::make_shared<CallParts>();
    parts->list.reserve(call.part_count);
    agreed = call.part_count + 1;
    for (const coll_part_t& part : std::span(call.parts, call.part_count)) {
      parts->list.push_back({part.send, part.recv, part.count});
      agreed = mix_digest(agreed, part.count);
    }
    extras.parts = parts;
  }
  if (reduces(what) && call.reduction != nullptr) {
    extras.own = {call.reduction->combine, call.reduction->context};
    const char* const name = call.reduction->name;
    agreed = mix_digest(agreed, Fnv1a().text(name == nullptr ? "" : name).value());
  }
  extras.agreed = agreed;
  if (call.factor != nullptr && reduces(what)) {
    COLL_ASSIGN(extras.factor,
                factor_of(std::string(function) + ": " + std::string(name_of(what)), call));
  }
  return extras;
}

}  // namespace coll
