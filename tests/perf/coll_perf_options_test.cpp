// SPDX-License-Identifier: Apache-2.0
// Coll-perf's command line, sizes and factors.
#include "coll_perf/coll_perf_options.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace perf {
namespace {

std::optional<Ending> parse(std::vector<const char*> arguments, Options& options) {
  arguments.insert(arguments.begin(), "coll-perf");
  return parse_options(static_cast<int>(arguments.size()), arguments.data(), options);
}
std::string refusal(const std::vector<const char*>& arguments) {
  Options options;
  const auto ending = parse(arguments, options);
  if (!ending) return "accepted";
  EXPECT_EQ(ending->exit_code, 2);
  return ending->text;
}
using Sizes = std::vector<std::size_t>;

TEST(ParseSize, UnderstandsUnits) {
  EXPECT_EQ(parse_size("8"), 8U);
  EXPECT_EQ(parse_size("0"), 0U);
  EXPECT_EQ(parse_size("64K"), 65536U);
  EXPECT_EQ(parse_size("64k"), 65536U);
  EXPECT_EQ(parse_size("1.5M"), 1572864U);
  EXPECT_EQ(parse_size("2GiB"), std::size_t{2} << 30);
  EXPECT_EQ(parse_size("16kb"), 16384U);
  EXPECT_EQ(parse_size("7B"), 7U);
}

TEST(ParseSize, RefusesTheRest) {
  for (const char* text : {"", "K", "-1", "3x", "1.3", "0x10", "8 8", "inf", "nan", "9999999999T"})
    EXPECT_FALSE(parse_size(text)) << text;
}

TEST(Sweep, StepsAndFactors) {
  EXPECT_EQ(sweep(8, 64, 2, 0), (Sizes{8, 16, 32, 64}));
  EXPECT_EQ(sweep(8, 100, 4, 0), (Sizes{8, 32}));
  EXPECT_EQ(sweep(8, 24, 0, 8), (Sizes{8, 16, 24}));
  EXPECT_EQ(sweep(0, 3, 2, 0), (Sizes{0, 1, 2}));
  EXPECT_EQ(sweep(5, 5, 2, 0), (Sizes{5}));
  EXPECT_EQ(sweep(1, 4, 1.1, 0), (Sizes{1, 2, 3, 4}));  // it always goes on
  EXPECT_EQ(sweep(2, 3, 1.9, 0), (Sizes{2, 3}));
  EXPECT_EQ(sweep(8, 64, 1e300, 0), (Sizes{8}));
}

TEST(Options, NcclTestsLine) {
  Options options;
  ASSERT_FALSE(parse({"-b", "8", "-e", "32",  "-f", "2",    "-n", "20", "-w", "1",
                      "-c", "2", "-o", "max", "-d", "half", "-r", "1",  "-a", "1"},
                     options));
  EXPECT_EQ(options.sizes, (Sizes{8, 16, 32}));
  EXPECT_EQ(options.iterations, 20);
  EXPECT_EQ(options.warmup, 1);
  EXPECT_EQ(options.checks, 2);
  EXPECT_EQ(options.redops, std::vector<coll_op_t>{COLL_MAX});
  EXPECT_EQ(options.dtypes, std::vector<coll_dtype_t>{COLL_FLOAT16});
  EXPECT_EQ(options.root, 1);
  EXPECT_EQ(options.average, Average::mean);
}

TEST(Options, NcclTestsOptionsOfOtherNamesHere) {
  Options options;
  ASSERT_FALSE(parse({"-g", "1", "-z", "0", "-C", "1", "-m", "8"}, options));
  EXPECT_TRUE(options.stream && options.cpu);
  EXPECT_EQ(options.group, 8);
  Options defaults;
  ASSERT_FALSE(parse({"-z", "1", "-C", "0", "-m", "1", "--ngpus=1"}, defaults));
  EXPECT_FALSE(defaults.stream || defaults.cpu);
  EXPECT_EQ(defaults.group, 1);
  EXPECT_EQ(defaults.ngpus, 1);
  EXPECT_NE(refusal({"-z", "2"}).find("--blocking"), std::string::npos);
  EXPECT_NE(refusal({"-z", "1", "--stream"}).find("calls that block"), std::string::npos);
  EXPECT_NE(refusal({"-z", "1", "--inflight", "2"}).find("calls that block"), std::string::npos);
}

TEST(Options, NcclTestsOptionsComeInAnyOrder) {
  std::vector<std::vector<const char*>> given{
      {"-C", "1"}, {"-g", "3"}, {"-m", "8"}, {"-n", "20"}, {"-z", "0"}};
  do {
    std::vector<const char*> line;
    for (const auto& each : given) line.insert(line.end(), each.begin(), each.end());
    Options options;
    ASSERT_FALSE(parse(line, options));
    EXPECT_TRUE(options.stream && options.cpu);
    EXPECT_EQ(options.group, 8);
    EXPECT_EQ(options.iterations, 20);
    EXPECT_EQ(options.ngpus, 3);
  } while (
      std::ranges::next_permutation(given, {}, [](const auto& each) { return each[0][1]; }).found);
}

TEST(Options, AnOptionIsNoValueOfTheOneBeforeIt) {
  EXPECT_EQ(refusal({"-g", "1", "-z", "-C", "-m"}),
            "coll-perf: -z takes a value, and -C is none; --help says which\n");
  EXPECT_NE(refusal({"-g", "-z", "0"}).find("-g takes a value, and -z is none"), std::string::npos);
  EXPECT_NE(refusal({"--json", "--cpu"}).find("--json takes a value"), std::string::npos);
  Options options;
  ASSERT_FALSE(parse({"--json", "-", "--cpu", "-n", "1"}, options));
  EXPECT_EQ(options.json, "-");
}

TEST(Options, RanksOfAProcessAreANumber) {
  Options most;
  ASSERT_FALSE(parse({"-g", "1024"}, most));
  EXPECT_EQ(most.ngpus, 1024);
  for (const char* text : {"0", "-1", "1025", "two", "1.5", "", "99999999999"})
    EXPECT_NE(
        refusal({"-g", text})
            .find(std::string(text) + " is not a number of ranks of a process, from 1 to 1024"),
        std::string::npos)
        << text;
}

TEST(Options, BuffersLieOnTheHostOrOnADevice) {
  Options defaults;
  ASSERT_FALSE(parse({}, defaults));
  EXPECT_FALSE(defaults.device.cuda);
  for (const auto& [text, cuda, number] : {std::tuple{"host", false, -1},
                                           {"cuda", true, -1},
                                           {"cuda:0", true, 0},
                                           {"cuda:12", true, 12}}) {
    Options options;
    ASSERT_FALSE(parse({"--device", text, "-g", "1"}, options)) << text;
    EXPECT_EQ(options.device.cuda, cuda) << text;
    EXPECT_EQ(options.device.number, number) << text;
  }
  for (const char* text :
       {"gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda:12345", "cuda1", "CUDA", "0", ""})
    EXPECT_NE(refusal({"--device", text}).find("host, cuda or cuda:NUMBER"), std::string::npos)
        << text;
  EXPECT_NE(refusal({"--device", "cuda", "-R", "1"}).find("-R 1 is of the host's memory"),
            std::string::npos);
}

TEST(Options, AllAndLists) {
  Options options;
  ASSERT_FALSE(
      parse({"-t", "allreduce,all-gather", "-d", "all", "-o", "all", "-r", "all"}, options));
  EXPECT_EQ(options.operations, (std::vector{Operation::all_reduce, Operation::all_gather}));
  EXPECT_EQ(options.dtypes.size(), static_cast<std::size_t>(COLL_DTYPE_COUNT));
  EXPECT_EQ(options.redops.size(), static_cast<std::size_t>(COLL_OP_COUNT));
  EXPECT_EQ(options.root, -1);
  Options every;
  ASSERT_FALSE(parse({"-t", "all", "--in-place", "only"}, every));
  EXPECT_EQ(every.operations, all_operations());
  EXPECT_FALSE(every.out_of_place);
  EXPECT_TRUE(every.in_place);
}

TEST(Options, EightBitFloatsHaveTheNamesOfNcclTestsAndOurs) {
  for (const auto& names : {"fp8_e4m3,fp8_e5m2", "f8e4m3,f8e5m2", "FP8E4M3,FP8-E5M2"}) {
    Options options;
    ASSERT_FALSE(parse({"-d", names}, options)) << names;
    EXPECT_EQ(options.dtypes, (std::vector<coll_dtype_t>{COLL_FLOAT8_E4M3, COLL_FLOAT8_E5M2}));
  }
}

TEST(Options, ATypeThatTheReductionLacksIsLeftOutOrDoesNotMatter) {
  Options options;
  ASSERT_FALSE(parse({"-o", "lxor", "-d", "complex128,short"}, options));
  EXPECT_EQ(options.dtypes, (std::vector<coll_dtype_t>{COLL_COMPLEX128, COLL_INT16}));
  Options moved;
  ASSERT_FALSE(parse({"-t", "broadcast", "-o", "min", "-d", "c64"}, moved));
}

TEST(Meaning, IsTheLibrarys) {
  int pairs = 0;
  for (int op = 0; op < COLL_OP_COUNT; ++op)
    for (int type = 0; type < COLL_DTYPE_COUNT; ++type)
      pairs += has_meaning(static_cast<coll_op_t>(op), static_cast<coll_dtype_t>(type)) ? 1 : 0;
  EXPECT_EQ(pairs, 11 * 17 - 3 * 8 - 5 * 2 - 1);
  EXPECT_TRUE(has_meaning(COLL_BXOR, COLL_BOOL) && has_meaning(COLL_LAND, COLL_FLOAT8_E5M2));
  EXPECT_TRUE(has_meaning(COLL_AVG, COLL_COMPLEX64) && !has_meaning(COLL_AVG, COLL_BOOL));
  EXPECT_FALSE(has_meaning(COLL_MAX, COLL_COMPLEX128) || has_meaning(COLL_BOR, COLL_FLOAT16));
}

TEST(Options, PeersProtocol) {
  Options options;
  ASSERT_FALSE(
      parse({"--peers-csv", "--maxbytes", "64K", "--colls", "all_reduce,alltoall"}, options));
  EXPECT_EQ(options.target_s, 0.2);
  EXPECT_EQ(options.sizes, (Sizes{8, 64, 256, 1024, 4096, 16384, 65536}));
  EXPECT_EQ(options.operations, (std::vector{Operation::all_reduce, Operation::all_to_all}));
  Options seven;
  ASSERT_FALSE(parse({"--peers-csv", "--maxbytes=1M", "--target", "0.05"}, seven));
  EXPECT_EQ(seven.operations.size(), 7U);
  EXPECT_EQ(seven.sizes.back(), 1U << 20);
  EXPECT_EQ(seven.target_s, 0.05);
}

TEST(Options, OverlapTakesAStream) {
  Options options;
  ASSERT_FALSE(parse({"--cpu"}, options));
  EXPECT_TRUE(options.cpu);
  EXPECT_FALSE(options.stream);
  EXPECT_EQ(options.overlap, Compute::none);
  for (const auto& [text, kind] : {std::pair{"work", Compute::work}, {"sleep", Compute::sleep}}) {
    Options each;
    ASSERT_FALSE(parse({"--overlap", text}, each));
    EXPECT_EQ(each.overlap, kind);
    EXPECT_TRUE(each.stream);
  }
}

TEST(Options, RefusalsNameTheTrouble) {
  EXPECT_NE(refusal({"-b", "3x"}).find("'3x' is not a size"), std::string::npos);
  EXPECT_NE(refusal({"-o", "nand"}).find("'nand' is not a reduction"), std::string::npos);
  EXPECT_NE(refusal({"-d", "f8"}).find("'f8' is not an element type"), std::string::npos);
  EXPECT_NE(
      refusal({"-o", "min,band", "-d", "c64,c128"})
          .find("no reduction of -o min,band has a meaning for an element type of -d c64,c128"),
      std::string::npos);
  EXPECT_NE(refusal({"-t", "dance"}).find("'dance' is not an operation"), std::string::npos);
  EXPECT_NE(refusal({"-r", "-2"}).find("-2"), std::string::npos);
  EXPECT_NE(refusal({"-b", "2K", "-e", "1K"}).find("no sizes between"), std::string::npos);
  EXPECT_NE(refusal({"-i", "8", "-f", "2"}).find("not both"), std::string::npos);
  EXPECT_NE(refusal({"-f", "1"}).find("above 1"), std::string::npos);
  EXPECT_NE(refusal({"-i", "0"}).find("never end"), std::string::npos);
  EXPECT_NE(refusal({"--in-place", "maybe"}).find("both, only or never"), std::string::npos);
  EXPECT_NE(refusal({"--overlap", "dance"}).find("work or sleep"), std::string::npos);
  EXPECT_NE(refusal({"--sizes", ","}).find("no sizes"), std::string::npos);
  for (const char* none : {"nan", "-nan", "inf", "0", "-1", "1e300", "x"}) {
    EXPECT_NE(refusal({"--target", none}).find("not a number of seconds"), std::string::npos)
        << none;
  }
  EXPECT_NE(refusal({"--wat", "1", "-x"}).find("not understood: --wat 1 -x"), std::string::npos);
}

TEST(Options, HelpIsNoError) {
  Options options;
  const auto ending = parse({"--help"}, options);
  ASSERT_TRUE(ending);
  EXPECT_EQ(ending->exit_code, 0);
  EXPECT_NE(ending->text.find("--stepfactor"), std::string::npos);
}

// The factors of nccl-tests' doc/PERFORMANCE.md; gather's and scatter's of its sources.
TEST(BusFactor, IsNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Operation::all_reduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::reduce_scatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::all_gather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::all_to_all, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::gather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::scatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::broadcast, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::reduce, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::sendrecv, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::all_reduce, 1), 0);
}

TEST(Shape, SizeIsTheLargerBuffer) {
  const Shape gather = shape_of(Operation::all_gather, 1024, 3, 4);
  EXPECT_EQ(gather.count, 85U);  // of each rank
  EXPECT_EQ(gather.bytes, 85U * 3 * 4);
  const Shape reduce = shape_of(Operation::all_reduce, 1022, 3, 4);
  EXPECT_EQ(reduce.count, 255U);
  EXPECT_EQ(reduce.bytes, 1020U);
  EXPECT_EQ(shape_of(Operation::barrier, 1024, 3, 4).bytes, 0U);
}

}  // namespace
}  // namespace perf
