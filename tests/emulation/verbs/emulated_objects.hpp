// SPDX-License-Identifier: Apache-2.0
// What the functions of the emulated table share: how they fail, and what they are given.
#pragma once
#include <cerrno>
#include <memory>
#include <set>

#include "emulation/verbs/emulated_fabric.hpp"

namespace coll::test {

template <class Made>
Made* null_for(int error) {
  errno = error;
  return nullptr;
}
inline int minus_one_for(int error) {
  errno = error;
  return -1;
}

/// Frees one of those.
template <class Kept>
void destroy(std::set<std::unique_ptr<Kept>>& all, const Kept& one) {
  std::erase_if(all, [&](const auto& each) { return each.get() == &one; });
}

/// Makes one more.
template <class Kept>
Kept& keep(std::set<std::unique_ptr<Kept>>& all) {
  return **all.insert(std::make_unique<Kept>()).first;
}

inline EmulatedContext& of(ibv_context* context) {
  return static_cast<EmulatedContext&>(*context);
}
inline EmulatedDomain& of(ibv_pd* domain) {
  return static_cast<EmulatedDomain&>(*domain);
}
inline EmulatedQueue& of(ibv_cq* queue) {
  return static_cast<EmulatedQueue&>(*queue);
}
inline EmulatedChannel& of(ibv_comp_channel* channel) {
  return static_cast<EmulatedChannel&>(*channel);
}
inline EmulatedPair& of(ibv_qp* pair) {
  return static_cast<EmulatedPair&>(*pair);
}

}  // namespace coll::test
