// SPDX-License-Identifier: Apache-2.0
// Renames and removes folders, in an order that a kill cannot harm.
#include "checkpoint_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>

#include "stored_file.hpp"

namespace training {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kBegin = "step-";

std::optional<std::uint64_t> step_of(const std::string& name) {
  std::uint64_t step = 0;
  if (!name.starts_with(kBegin)) return std::nullopt;
  std::from_chars(name.data() + kBegin.size(), name.data() + name.size(), step);
  return checkpoint_name(step) == name ? std::optional(step) : std::nullopt;
}

bool is_there(const fs::path& path) {
  std::error_code error;
  const bool found = fs::exists(path, error);
  if (error) fail_on("find", path, error.value());
  return found;
}

fs::path replaced(const fs::path& folder, std::uint64_t step) {
  return folder / (checkpoint_name(step) + ".old");
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  fs::directory_iterator at(folder, error);
  if (error == std::errc::no_such_file_or_directory) return entries;
  for (; !error && at != fs::directory_iterator(); at.increment(error)) entries.push_back(*at);
  if (error) fail_on("list", folder, error.value());
  return entries;
}

}  // namespace

std::string checkpoint_name(std::uint64_t step) {
  return fmt::format("{}{:06}", kBegin, step);
}

fs::path unfinished_checkpoint(const fs::path& folder, std::uint64_t step) {
  return folder / (checkpoint_name(step) + ".tmp");
}

std::vector<std::uint64_t> checkpoint_steps(const fs::path& folder) {
  std::vector<std::uint64_t> steps;
  for (const fs::path& entry : entries_of(folder)) {
    if (const auto step = step_of(entry.filename())) steps.push_back(*step);
  }
  std::ranges::sort(steps, std::greater());
  return steps;
}

void put_checkpoint(const fs::path& folder, std::uint64_t step) {
  const fs::path place = folder / checkpoint_name(step), old = replaced(folder, step);
  const bool replaces = is_there(place);
  if (replaces) {
    remove_tree(old);
    rename_path(place, old);
  }
  rename_path(unfinished_checkpoint(folder, step), place);
  sync_folder(folder);
  if (replaces) remove_tree(old);
}

void remove_checkpoint(const fs::path& folder, std::uint64_t step) {
  const fs::path away = unfinished_checkpoint(folder, step);
  remove_tree(away);
  rename_path(folder / checkpoint_name(step), away);
  remove_tree(away);
}

void tidy_checkpoints(const fs::path& folder) {
  for (const fs::path& entry : entries_of(folder)) {
    const auto step = step_of(entry.stem());
    if (!step) continue;
    if (entry == unfinished_checkpoint(folder, *step)) remove_tree(entry);
    if (entry != replaced(folder, *step)) continue;
    if (const fs::path place = folder / checkpoint_name(*step); is_there(place)) {
      remove_tree(entry);
    } else {
      rename_path(entry, place);  // Killed before the new one was in place.
    }
  }
}

}  // namespace training
