// `nms`: of boxes that lie over each other the best one (greedy non-maximum suppression).
#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "penstock/ready/families.h"
#include "penstock/ready/picture.h"
#include "penstock/ready/settings.h"
#include "penstock/ready/values.h"
#include "penstock/ready/vectors.h"

namespace penstock::ready {
namespace {

struct Box {
  float left, top, right, bottom;

  [[nodiscard]] float area() const { return (right - left) * (bottom - top); }
};

struct Candidate {
  float score;
  std::int64_t label;
  std::size_t place;  // Among the boxes.
  Box box;
};

/// The area of both over the area of either. Of empty boxes not a number, which exceeds nothing.
float overlap_of(const Box& a, const Box& b) {
  const float wide = std::min(a.right, b.right) - std::max(a.left, b.left);
  const float high = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const float both = std::max(0.0F, wide) * std::max(0.0F, high);
  return both / (a.area() + b.area() - both);
}

/// Where a score is over the most so far, it is the most, and `own` its label.
PENSTOCK_VECTORISED void keep_most(const float* __restrict scores, std::int32_t own,
                                   float* __restrict most, std::int32_t* __restrict label,
                                   std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const bool more = scores[i] > most[i];
    most[i] = more ? scores[i] : most[i];
    label[i] = more ? own : label[i];
  }
}

enum class From { kPair, kColumns, kRows };

/// Reads candidates out of a network's outputs, in the three forms that these have.
struct Reader {
  From from;
  std::size_t count, classes;
  bool centred, all_labels;
  float score, wide, high;          // Boxes are multiplied by the last two.
  std::size_t background;           // The class that no box is of; over all: there is none.
  std::vector<float> best;          // Of each box, kColumns.
  std::vector<std::int32_t> label;  // The same.

  void read(Inputs in, std::vector<Candidate>& found) {
    const float* first = in[0]->as<float>().data();
    if (from == From::kColumns) return columns(first, found);
    for (std::size_t i = 0; i < count; ++i) {
      if (from == From::kPair) {
        row(first + i * 4, in[1]->as<float>().data() + i * classes, 1, i, found);
      } else if (const float* line = first + i * (5 + classes); line[4] >= score) {
        row(line, line + 5, line[4], i, found);
      }
    }
  }

  [[nodiscard]] Box box_of(float a, float b, float c, float d) const {
    if (!centred) return {a * wide, b * high, c * wide, d * high};
    return {(a - c / 2) * wide, (b - d / 2) * high, (a + c / 2) * wide, (b + d / 2) * high};
  }

  [[nodiscard]] std::size_t best_of(const float* scores) const {
    std::size_t winner = background == 0 ? 1 : 0;
    for (std::size_t c = winner + 1; c < classes; ++c) {
      if (c != background && scores[c] > scores[winner]) winner = c;
    }
    return winner;
  }

  void row(const float* box, const float* scores, float of_all, std::size_t place,
           std::vector<Candidate>& found) const {
    const auto add = [&](std::size_t c) {
      const float value = scores[c] * of_all;
      if (c == background || !(value >= score)) return;
      found.push_back(
          {value, static_cast<std::int64_t>(c), place, box_of(box[0], box[1], box[2], box[3])});
    };
    if (!all_labels) return add(best_of(scores));
    for (std::size_t c = 0; c < classes; ++c) add(c);
  }

  void add_column(const float* boxes, float value, std::int64_t of, std::size_t i,
                  std::vector<Candidate>& found) const {
    if (!(value >= score)) return;
    found.push_back(
        {value, of, i,
         box_of(boxes[i], boxes[count + i], boxes[2 * count + i], boxes[3 * count + i])});
  }

  /// The boxes' numbers stand side by side: so whole lines are compared at a time.
  void columns(const float* boxes, std::vector<Candidate>& found) {
    const float* scores = boxes + 4 * count;
    if (all_labels) {
      for (std::size_t i = 0; i < count * classes; ++i) {
        if (i / count == background) continue;
        add_column(boxes, scores[i], static_cast<std::int64_t>(i / count), i % count, found);
      }
      return;
    }
    best.assign(count, -std::numeric_limits<float>::infinity());
    label.assign(count, 0);
    for (std::size_t c = 0; c < classes; ++c) {
      if (c == background) continue;
      keep_most(scores + c * count, static_cast<std::int32_t>(c), best.data(), label.data(), count);
    }
    for (std::size_t i = 0; i < count; ++i) add_column(boxes, best[i], label[i], i, found);
  }
};

struct Nms {
  Reader reader;
  float overlap;
  std::size_t most, consider;
  bool per_class;
  std::vector<Candidate> found, kept;

  Status run(Inputs in, Outputs out) {
    found.clear();
    kept.clear();
    reader.read(in, found);
    const auto before = [](const Candidate& a, const Candidate& b) {
      if (a.score != b.score) return a.score > b.score;
      return a.place != b.place ? a.place < b.place : a.label < b.label;
    };
    const auto count = std::min(found.size(), consider);
    std::ranges::partial_sort(found, found.begin() + static_cast<std::ptrdiff_t>(count), before);
    for (std::size_t i = 0; i < count && kept.size() < most; ++i) {
      if (is_free(found[i])) kept.push_back(found[i]);
    }
    return write(out);
  }

  [[nodiscard]] bool is_free(const Candidate& candidate) const {
    return std::ranges::none_of(kept, [&](const Candidate& better) {
      return (!per_class || better.label == candidate.label) &&
             overlap_of(better.box, candidate.box) > overlap;
    });
  }

  [[nodiscard]] Status write(Outputs out) const {
    const auto n = static_cast<std::int64_t>(kept.size());
    PENSTOCK_CHECK_OK(shape(*out[0], {n, 4}));
    PENSTOCK_CHECK_OK(shape(*out[1], {n}));
    PENSTOCK_CHECK_OK(shape(*out[2], {n}));
    const auto boxes = out[0]->as<float>(), scores = out[1]->as<float>();
    const auto labels = out[2]->as<std::int64_t>();
    for (std::size_t i = 0; i < kept.size(); ++i) {
      std::memcpy(&boxes[4 * i], &kept[i].box, sizeof(Box));
      scores[i] = kept[i].score;
      labels[i] = kept[i].label;
    }
    return {};
  }
};

std::vector<backend::Port> inputs_of(From from, const Values& values) {
  const auto count = values.integer("count"), classes = values.integer("classes");
  if (from == From::kColumns) {
    return {f32("predictions", {sized(1), sized(4 + classes), sized(count)})};
  }
  if (from == From::kRows) {
    return {f32("predictions", {sized(1), sized(count), sized(5 + classes)})};
  }
  std::vector<Dim> boxes{sized(count), sized(4)}, scores{sized(count), sized(classes)};
  if (values.flag("batch")) {
    boxes.insert(boxes.begin(), sized(1));
    scores.insert(scores.begin(), sized(1));
  }
  return {f32("boxes", std::move(boxes)), f32("scores", std::move(scores))};
}

Status check_background(std::int64_t background, std::int64_t classes) {
  if (background >= classes) {
    return invalid_argument("setting 'background': expected at most ", classes - 1,
                            ", the last of the classes, found ", background);
  }
  if (background < 0 || classes > 1) return {};
  return invalid_argument("setting 'classes': expected another class than the background, found 1");
}

Result<function::Function> make_nms(const Values& values) {
  const auto count = values.integer("count"), classes = values.integer("classes");
  const auto background = values.integer("background");
  PENSTOCK_CHECK_OK(check_background(background, classes));
  const auto& word = values.word("layout");
  const auto from = word == "pair" ? From::kPair : word == "columns" ? From::kColumns : From::kRows;
  const auto& boxes = values.word("boxes");
  const auto [height, width] = values.size("scale");
  const auto n = open("n", values.integer("most"));
  Nms nms{{from,
           static_cast<std::size_t>(count),
           static_cast<std::size_t>(classes),
           boxes == "centre" || (boxes == "usual" && from != From::kPair),
           values.word("labels") == "all",
           static_cast<float>(values.number("score")),
           static_cast<float>(width),
           static_cast<float>(height),
           static_cast<std::size_t>(background),
           {},
           {}},
          static_cast<float>(values.number("overlap")),
          static_cast<std::size_t>(values.integer("most")),
          static_cast<std::size_t>(values.integer("consider")),
          values.flag("per_class"),
          {},
          {}};
  return made_of("nms", inputs_of(from, values),
                 {f32("boxes", {n, sized(4)}), f32("scores", {n}), i64("classes", {n})},
                 std::move(nms));
}

}  // namespace

std::vector<Declaration> nms_functions() {
  return {
      {.name = "nms",
       .says = "Of boxes that lie over each other the one of the highest score, as left, top, "
               "right, bottom with its score and class, the best first: behind detectors. "
               "YOLOv8 and later have `columns` [1, 4 + classes, count], YOLOv5 and v7 `rows` "
               "[1, count, 5 + classes] with a score of all classes, which are the input "
               "`predictions`; SSD, UltraFace and others a `pair` of `boxes` and `scores`, as a "
               "rule with `batch`, `background` and `scale`.",
       .settings =
           {shown_as("8400", whole("count", "", "How many boxes the network gives.", 1e7)),
            shown_as("80", whole("classes", "", "How many classes it knows.", 1e5)),
            word("layout", "pair", "How the network gives them.", "pair|columns|rows"),
            word("boxes", "usual",
                 "Whether boxes are left, top, right, bottom (`corners`), or the middle's x and y, "
                 "width and height (`centre`). Usual are corners of a `pair`, and the others "
                 "centred.",
                 "usual|corners|centre"),
            size_setting("scale",
                         "Where the network gives boxes as shares of its picture, 0 to 1: the "
                         "height and width of that.",
                         "1"),
            whole("background", "-1",
                  "The class that stands for nothing, of which no box is; -1: there is none. The "
                  "others keep their numbers.",
                  1e5, -1),
            flag("batch", "false",
                 "Whether a `pair` has a first dimension of 1: [1, count, 4] and [1, count, "
                 "classes]."),
            number("score", "0.25", "The least score of a box.", 0, 1),
            number("overlap", "0.45", "How much of two boxes' common area may be in both.", 0, 1),
            flag("per_class", "true", "Whether only boxes of one class suppress each other."),
            word("labels", "best",
                 "Whether a box is of its best class alone, or of all whose score is "
                 "high enough.",
                 "best|all"),
            whole("most", "300", "How many boxes are kept.", 1e5),
            whole("consider", "4096",
                  "How many of the highest scores are looked at, which bounds the time.", 1e6)},
       .make = &make_nms}};
}

}  // namespace penstock::ready
