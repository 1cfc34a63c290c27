// SPDX-License-Identifier: Apache-2.0
// Whether this machine backs memory with huge pages. It is tried, since settings do not say it.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

/// For memory from coll_mem_alloc, and for the process's own memory where the program asks for huge
/// pages (MADV_HUGEPAGE): the kernel's `setting` ("" if it has none), `tried_bytes` of a block
/// whose pages were all touched (0 if there was no memory), and `had_bytes` of it in huge pages.
nlohmann::ordered_json huge_pages();

/// The same in a line.
std::string huge_pages_text(const nlohmann::ordered_json& pages);
