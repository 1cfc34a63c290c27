// SPDX-License-Identifier: Apache-2.0
// What a coll_call_t says, as the library's own values.
#include "c_api/c_api_call.hpp"

#include <cmath>
#include <cstring>
#include <string>

#include "c_api/c_api_requests.hpp"
#include "communicator/calls/call_digest.hpp"

namespace coll {

Result<coll_call_t> read_call(const char* function, const coll_call_t* given) {
  if (given == nullptr) return null_argument(function, "call");
  coll_call_t call = COLL_CALL_INIT;
  if (given->size < sizeof call || given->version == 0) {
    return failed(Code::invalid_argument, std::string(function) + ": the call is not initialised",
                  "begin with coll_call_t call = COLL_CALL_INIT");
  }
  std::memcpy(&call, given, sizeof call);
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
  if (call.tagged != 0 && what != Collective::send && what != Collective::recv) {
    return failed(Code::invalid_argument,
                  std::string(function) + ": " + std::string(name_of(what)) + " has no tag",
                  "leave `tagged` 0");
  }
  if (call.unequal != 0) {
    if (whole_blocks(what, 2) == 1) {
      return failed(
          Code::invalid_argument,
          std::string(function) + ": " + std::string(name_of(what)) + " has no block for each rank",
          "leave `unequal` 0");
    }
    UnequalCall given{unequal_call_of(what, call.type, reduces(what) ? call.op : COLL_SUM,
                                      has_root(what) ? call.root : 0),
                      call.send,
                      call.recv,
                      call.send_counts,
                      call.send_displs,
                      call.recv_counts,
                      call.recv_displs,
                      call.count};
    return unequal_request(given, communicator.rank(), communicator.size());
  }
  const bool nothing = what == Collective::barrier;
  Request request = request_of(what, what == Collective::recv || nothing ? nullptr : call.send,
                               what == Collective::send || nothing ? nullptr : call.recv,
                               nothing ? 0 : call.count, nothing ? COLL_INT8 : call.type,
                               reduces(what) ? call.op : COLL_SUM, has_root(what) ? call.root : 0);
  if (call.tagged == 0) return UnequalRequest{request, nullptr};
  request.call.form = CallForm::tagged;
  return UnequalRequest{request, nullptr};
}

}  // namespace coll
