// SPDX-License-Identifier: Apache-2.0
// Reads the command line, and checks what one option says of another.
#include "train_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <limits>
#include <map>

namespace training {
namespace {

const std::map<std::string, Format> kFormats = {
    {"f32", Format::f32}, {"bf16", Format::bf16}, {"f16", Format::f16}};
const std::map<std::string, PipelineKind> kSchedules = {
    {"gpipe", PipelineKind::gpipe}, {"1f1b", PipelineKind::one_forward_one_backward}};

/// CLI11's own way to choose by name prints the numbers of an enum as characters.
template <class T>
void add_choice(CLI::Option_group* group, const std::string& name, T& to,
                const std::map<std::string, T>& choices, const std::string& text) {
  std::vector<std::string> words;
  for (const auto& [word, value] : choices) words.push_back(word);
  group
      ->add_option_function<std::string>(
          name, [&to, &choices](const std::string& word) { to = choices.at(word); }, text)
      ->check(CLI::IsMember(words));
}

void add_model(CLI::App& app, TrainOptions& o) {
  const auto group = app.add_option_group("Model and data");
  group->add_option("--data", o.data, "bible, verses, text:FILE, fashion-mnist or markov[:STATES]")
      ->capture_default_str();
  group
      ->add_option("--model", o.model, "gpt for text, mlp for images (default: what fits the data)")
      ->check(CLI::IsMember({"gpt", "mlp"}));
  group->add_option("--layers", o.layers, "blocks of the GPT")->capture_default_str();
  group->add_option("--channels", o.channels, "width of the GPT")->capture_default_str();
  group->add_option("--heads", o.heads, "attention heads")->capture_default_str();
  group->add_option("--tokens", o.tokens, "tokens of a sequence")->capture_default_str();
  group->add_option("--hidden", o.hidden, "width of the MLP's hidden layer")->capture_default_str();
  group->add_flag("--batch-norm", o.batch_norm,
                  "the MLP's hidden layer normalises each micro-batch;\nvalidation uses running "
                  "statistics of rank 0's micro-batches");
  group
      ->add_option("--sequences", o.sequences,
                   "sequences of a micro-batch (default: 2), or images (default: 16)")
      ->check(CLI::PositiveNumber);
  group
      ->add_option("--micro-batches", o.trainer.leaves,
                   "micro-batches of a step, over all ranks (default: 8)")
      ->check(CLI::PositiveNumber);
  group->add_option("--seed", o.trainer.seed, "of weights and data")->capture_default_str();
  group->add_option("--init", o.init, "first weights: a safetensors file (default: by the seed)");
  group
      ->add_option("--compute", o.sleep_us,
                   "each unit sleeps US microseconds in place of a forward pass, twice\nthat "
                   "backward: shows overlap and bubbles of many ranks on few cores")
      ->transform(CLI::Validator(
          [](std::string& text) {
            constexpr std::string_view kSleep = "sleep:";
            if (!text.starts_with(kSleep)) return "use sleep:US, not " + text;
            text.erase(0, kSleep.size());
            return std::string();
          },
          "sleep:US", "sleep"))
      ->check(CLI::PositiveNumber);
  group
      ->add_option("--drop", o.trainer.drop,
                   "probability that a micro-batch leaves out a block (stochastic depth)")
      ->check(CLI::Range(0.0, 1.0));
}

void add_run(CLI::App& app, TrainOptions& o) {
  const auto group = app.add_option_group("Run");
  group->add_option("--steps", o.steps, "steps of the optimizer in all; 0: none")
      ->capture_default_str();
  group->add_option("--seconds", o.seconds, "ends after this time, whatever --steps says")
      ->check(CLI::NonNegativeNumber);
  group->add_option("--rate", o.trainer.rate.most, "learning rate")->capture_default_str();
  group->add_option("--last-rate", o.trainer.rate.least, "at the last step, along a cosine")
      ->capture_default_str();
  group->add_option("--warm-up", o.trainer.rate.warm_up, "steps in which the rate rises")
      ->capture_default_str();
  group->add_option("--decay", o.trainer.decay, "weight decay of matrices")->capture_default_str();
  group->add_option("--clip", o.trainer.clip, "most norm of the gradient; 0: any")
      ->capture_default_str();
  group->add_option("--validate-every", o.validate_every, "steps; 0: at the end only")
      ->capture_default_str();
  group->add_option("--validation-batches", o.validation_batches, "micro-batches of a validation")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

void add_parallel(CLI::App& app, TrainOptions& o) {
  const auto group = app.add_option_group("Ranks");
  group->add_option("--dp", o.mesh.data,
                    "data-parallel copies (default: what --tp and --pp leave)");
  group->add_option("--tp", o.mesh.tensor, "ranks that share each matrix")
      ->check(CLI::PositiveNumber);
  group->add_option("--pp", o.mesh.pipeline, "stages of the pipeline")->check(CLI::PositiveNumber);
  add_choice(group, "--schedule", o.trainer.pipeline, kSchedules,
             "order of a pipeline's passes (default: 1f1b)");
  group
      ->add_option("--zero", o.trainer.zero,
                   "ZeRO: what is spread over data-parallel ranks.\n1: optimizer states, 2: and "
                   "gradients, 3: and weights; 0: nothing")
      ->check(CLI::Range(0, 3));
  group->add_option("--hook", o.hook,
                    "fewer bytes of gradients, for data parallelism:\nbf16, f16, int8, "
                    "powersgd:R[:PLAIN steps before] or topk[:X%]");
  group
      ->add_option(
          "--staleness", o.staleness,
          "asynchronous: rank 0 serves weights, a worker is at most S clocks\nahead of the "
          "slowest; --steps counts clocks")
      ->type_name("S");
  group->add_flag(
      "--balance", o.trainer.balance,
      "deals micro-batches by their rows;\nthe order of sums then depends on the ranks");
  group->add_option("--prefetch", o.trainer.prefetch, "units gathered ahead in stage 3")
      ->capture_default_str();
  group->add_option("--first-bucket", o.trainer.buckets.first_bytes, "bytes of the first bucket")
      ->transform(CLI::AsSizeValue(false).description("BYTES"));
  group->add_option("--bucket", o.trainer.buckets.bytes, "bytes of the other buckets")
      ->transform(CLI::AsSizeValue(false).description("BYTES"));
  group->add_flag("--same-bits,!--any-order", o.same_bits,
                  "sums in the order of a tree:\nthe same bits on 1, 2, 4, 8 ... ranks (default)");
}

void add_memory(CLI::App& app, TrainOptions& o) {
  const auto group = app.add_option_group("Memory");
  add_choice(group, "--weights", o.trainer.weights, kFormats,
             "with 16 bits the optimizer keeps f32 (default: f32)");
  add_choice(group, "--gradients", o.trainer.gradients, kFormats, "(default: as --weights)");
  group
      ->add_option("--checkpoint-activations", o.trainer.checkpoint,
                   "keeps the input of every K units only, and computes them anew")
      ->type_name("K");
  group->add_flag("--offload-activations", o.offload_activations,
                  "those inputs lie in host memory");
  group
      ->add_option("--offload", o.offload,
                   "where the optimizer's states lie:\nnone (on the device), cpu (host memory), or "
                   "a folder on a disk")
      ->capture_default_str();
  group->add_option("--adam-threads", o.adam_threads, "threads of an optimizer off the device")
      ->check(CLI::PositiveNumber);
  group
      ->add_option(
          "--delay-updates", o.trainer.delay,
          "from this step on AdamW off the device overlaps the next step,\nwhich still has the "
          "weights from before; needs --offload (default: never)")
      ->type_name("STEP")
      ->check(CLI::Range(std::size_t{2}, std::numeric_limits<std::size_t>::max()));
  group->add_option("--device-memory", o.device_memory, "most bytes of a rank; 0: any")
      ->transform(CLI::AsSizeValue(false).description("BYTES"));
}

void add_files(CLI::App& app, TrainOptions& o) {
  const auto group = app.add_option_group("Files");
  group->add_option("--save", o.save,
                    "folder of checkpoints; a run goes on from the newest one that is there");
  group->add_option("--save-every", o.save_every, "steps between checkpoints; 0: at the end only");
  group->add_option("--keep", o.keep, "newest checkpoints that stay")->check(CLI::PositiveNumber);
  group->add_option(
      "--export", o.exported,
      "safetensors file of the weights at the end; with --steps 0, of the first weights");
  group->add_option("--report", o.report, "folder for report.html, report.json and loss.svg");
  group->add_option("--log", o.log, "JSON lines, one for each step");
  group->add_option("--tensorboard", o.tensorboard,
                    "folder for TensorBoard: each run adds a file of events");
  group->add_option("--prometheus", o.prometheus, "text file for Prometheus's node exporter");
  group->add_option("--trace", o.trace, "Chrome trace of all ranks");
}

}  // namespace

Parsed parse_train_options(int argc, const char* const* argv) {
  Parsed parsed;
  TrainOptions& o = parsed.options;
  CLI::App app(
      "Trains a small GPT or MLP over libcollectives: data-parallel, with ZeRO, tensor and "
      "pipeline\n"
      "parallelism. Start it once for each rank, by coll-run, torchrun, mpirun or srun:\n"
      "  coll-run -n 2 -- coll-train --data bible --steps 300\n"
      "  coll-run -n 8 -- coll-train --dp 2 --tp 2 --pp 2",
      "coll-train");
  add_model(app, o);
  add_run(app, o);
  add_parallel(app, o);
  add_memory(app, o);
  add_files(app, o);
  const auto group = app.add_option_group("Instead of a run");
  group->add_flag("--estimate", o.estimate, "prints memory and volume of a rank, and ends");
  group->add_flag("--checkpoints", o.list_checkpoints, "lists the checkpoints of --save, and ends");
  app.add_flag("--json", o.json, "prints the final report as JSON");
  app.add_flag("--quiet", o.quiet, "prints no progress");
  try {
    app.parse(argc, argv);
    if (app.count("--gradients") == 0) o.trainer.gradients = o.trainer.weights;
    if (o.list_checkpoints && o.save.empty())
      throw CLI::ValidationError("--checkpoints needs --save, the folder to list");
    if (o.save_every > 0 && o.save.empty())
      throw CLI::ValidationError("--save-every needs --save, the folder to write to");
    if (o.offload_activations && o.trainer.checkpoint == 0)
      throw CLI::ValidationError(
          "--offload-activations needs --checkpoint-activations K: it moves to host memory the "
          "inputs that are kept");
    if (o.trainer.delay > 0 && o.offload == "none")
      throw CLI::ValidationError("--delay-updates needs --offload, cpu or a folder");
    if (o.staleness) {
      for (const char* option :
           {"--save", "--export", "--init", "--hook", "--report", "--log", "--tensorboard",
            "--prometheus", "--trace", "--tp", "--pp", "--dp", "--balance", "--device-memory",
            "--validate-every", "--seconds", "--offload-activations", "--delay-updates"}) {
        if (app.count(option) > 0)
          throw CLI::ValidationError(fmt::format("--staleness has no {}", option));
      }
    }
    if (o.sequences == 0) o.sequences = o.data.starts_with("fashion-mnist") ? 16 : 2;
    o.trainer.rate.steps = o.steps;
  } catch (const CLI::ParseError& error) {
    parsed.helped = error.get_exit_code() == 0;
    if (parsed.helped) {
      app.exit(error);
    } else {
      parsed.refusal =
          Failure(fmt::format("{}; coll-train --help says more", error.what()), Failure::kBadUsage);
    }
  }
  return parsed;
}

}  // namespace training
