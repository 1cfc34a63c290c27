// SPDX-License-Identifier: Apache-2.0
// Codes, exchanges, sums, codes again, gathers.
#include "int8_hook.hpp"

#include "int8_blocks.hpp"

namespace training {
namespace {

/// The codes of a bucket: those that this rank sends, then those that it receives.
struct Codes {
  Codes(const Hook::GradBucket& bucket, const Traffic& traffic)
      : part(bucket.data.size() / traffic.ranks()),
        part_bytes(int8_blocks::bytes_of(part)),
        all_bytes(part_bytes * traffic.ranks()) {}
  std::size_t part;  ///< elements of a rank
  std::size_t part_bytes, all_bytes;
};

}  // namespace

Pending Int8Hook::start(const GradBucket& bucket, Traffic& traffic) {
  const Codes codes(bucket, traffic);
  std::byte* sent = wire_.take(bucket.index, 2 * codes.all_bytes).data();
  feedback_.add_to(bucket.bucket(), bucket.data);
  for (std::size_t rank = 0; rank < traffic.ranks(); ++rank) {
    int8_blocks::encode(bucket.data.subspan(rank * codes.part, codes.part),
                        sent + rank * codes.part_bytes);
  }
  feedback_.keep(bucket.bucket(), bucket.data);
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_ALL_TO_ALL;
  call.send = sent;
  call.recv = sent + codes.all_bytes;
  call.count = codes.part_bytes;
  call.type = COLL_UINT8;
  return traffic.start(call, "all_to_all", codes.all_bytes);
}

void Int8Hook::finish(const GradBucket& bucket, Traffic& traffic) {
  const Codes codes(bucket, traffic);
  std::byte* sent = wire_.data(bucket.index);
  std::byte* received = sent + codes.all_bytes;
  const Range own{traffic.rank() * codes.part, codes.part};
  const auto sum = bucket.data.subspan(own.begin, own.count);
  int8_blocks::decode(received, sum);
  for (std::size_t rank = 1; rank < traffic.ranks(); ++rank)
    int8_blocks::add(received + rank * codes.part_bytes, sum);
  int8_blocks::encode(sum, sent);
  feedback_.add(bucket.bucket(), own, sum);
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_ALL_GATHER;
  call.send = sent;
  call.recv = received;
  call.count = codes.part_bytes;
  call.type = COLL_UINT8;
  Pending gathered = traffic.start(call, "all_gather", codes.all_bytes);
  traffic.wait(gathered);
  for (std::size_t rank = 0; rank < traffic.ranks(); ++rank) {
    int8_blocks::decode(received + rank * codes.part_bytes,
                        bucket.data.subspan(rank * codes.part, codes.part));
  }
}

}  // namespace training
