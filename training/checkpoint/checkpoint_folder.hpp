// SPDX-License-Identifier: Apache-2.0
// The names in a folder of checkpoints, and how it comes back in order after a kill.
//
//   step-000123/        a checkpoint
//   step-000123.tmp/    one that is being written, or removed
//   step-000123.old/    one that is being replaced by another of the same step
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace training {

/// "step-000123"
std::string checkpoint_name(std::uint64_t step);

/// The steps of all checkpoints, valid or not, the newest first. None if there is no such folder.
std::vector<std::uint64_t> checkpoint_steps(const std::filesystem::path& folder);

/// Puts the new checkpoint of a step in place, and the entry on the disk. Whenever it is killed,
/// the old one is there or the new one, at least after tidy_checkpoints().
void put_checkpoint(const std::filesystem::path& folder, std::uint64_t step);

/// Removes a checkpoint. What is left if it is killed is never taken for one.
void remove_checkpoint(const std::filesystem::path& folder, std::uint64_t step);

/// At the start of a run, before anything is read or written, by one rank: removes what a killed
/// run left half done.
void tidy_checkpoints(const std::filesystem::path& folder);

/// Where a step's checkpoint is written until it is complete.
std::filesystem::path unfinished_checkpoint(const std::filesystem::path& folder,
                                            std::uint64_t step);

}  // namespace training
