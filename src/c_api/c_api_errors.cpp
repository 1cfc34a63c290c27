// SPDX-License-Identifier: Apache-2.0
// The C ABI's errors: names, lines for a person, fields for a program.
#include <algorithm>
#include <cstring>
#include <string>

#include "c_api/c_api_door.hpp"

using coll::Code;
using coll::guarded;
using coll::refuse_null;
using coll::Status;

coll::LastError& coll::last_error() {
  thread_local LastError last;
  return last;
}

namespace {

Status check_info(const char* function, const coll_error_info_t* info) {
  return coll::check_filled(function, "info", "COLL_ERROR_INFO_INIT", info);
}

/// The text as far as it fits, without half a character at the end (UTF-8).
void copy_text(const std::string& text, char (&into)[COLL_ERROR_TEXT_BYTES]) {
  std::size_t size = std::min(text.size(), sizeof into - 1);
  const auto continues = [&](std::size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  while (size > 0 && continues(size)) --size;
  std::memcpy(into, text.data(), size);
  into[size] = '\0';
}

void fill(coll_error_info_t& info, const Status& status, const std::string& text) {
  info.code = static_cast<coll_status_t>(status.code());
  info.rank = status.rank();
  info.system_error = 0;
  info.operation = COLL_BARRIER;
  info.sequence = 0;
  if (const coll::Failure* const failure = status.failure()) {
    info.system_error = failure->error;
    info.operation = static_cast<coll_operation_t>(failure->call.collective);
    info.sequence = failure->call.sequence;
  }
  copy_text(text, info.text);
}

void fill(coll_error_info_t& info, const Status& status) {
  fill(info, status, status.ok() ? std::string() : status.text());
}

}  // namespace

extern "C" {

const char* coll_status_name(coll_status_t status) {
  int number = 0;  // C may pass any; to read it as one of the names would be undefined
  std::memcpy(&number, &status, sizeof number);
  const bool known = number >= 0 && number <= COLL_INTERNAL;  // a Code has fewer bits
  return coll::name_of(known ? static_cast<Code>(number) : static_cast<Code>(0xff)).data();
}

const char* coll_last_error(void) {
  return coll::last_error().text.c_str();
}

coll_status_t coll_last_error_info(coll_error_info_t* info) {
  return guarded([&]() -> Status {
    COLL_TRY(check_info("coll_last_error_info", info));
    const coll::LastError& last = coll::last_error();
    fill(*info, last.status, last.text);
    return {};
  });
}

coll_status_t coll_comm_status(coll_comm_t comm, const char** text) {
  if (comm == nullptr) return refuse_null("coll_comm_status", "comm");
  return guarded([&]() -> Status {
    if (text != nullptr) *text = comm->communicator->status_text();
    return comm->communicator->status();
  });
}

coll_status_t coll_comm_error_info(coll_comm_t comm, coll_error_info_t* info) {
  if (comm == nullptr) return refuse_null("coll_comm_error_info", "comm");
  return guarded([&]() -> Status {
    COLL_TRY(check_info("coll_comm_error_info", info));
    fill(*info, comm->communicator->status());
    return {};
  });
}

coll_status_t coll_work_error_info(coll_work_t work, coll_error_info_t* info) {
  return guarded([&]() -> Status {
    COLL_TRY(coll::check_work("coll_work_error_info", work));
    COLL_TRY(check_info("coll_work_error_info", info));
    fill(*info, work->work->test());
    return {};
  });
}

}  // extern "C"
