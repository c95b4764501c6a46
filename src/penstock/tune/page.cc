// Data as one HTML page: its JSON beside the program of web/ that draws it.
#include "penstock/tune/page.h"

#include <string_view>

#include "penstock/base/markup.h"
#include "penstock/tune/page_script.h"
#include "penstock/tune/report.h"

namespace penstock::tune {
namespace {

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>)";

/// What may stand in a script element: there is no tag in it. In JSON, < is in strings only.
std::string without_tags(const std::string& json) {
  std::string text;
  text.reserve(json.size());
  for (const char letter : json) {
    if (letter == '<') {
      text += "\\u003c";
    } else {
      text += letter;
    }
  }
  return text;
}

}  // namespace

std::string make_page(const PageText& text) {
  std::string page(kHead);
  page += escape_markup(text.name + ": " + text.what);
  page += "</title></head><body>\n<noscript>" + escape_markup(text.without) + "</noscript>\n";
  page += R"(<script type="application/json" id=")" + text.id + "\">";
  page += without_tags(text.json);
  page += "</script>\n<script id=\"program\">";
  page += page_script();
  page += "</script>\n</body></html>\n";
  return page;
}

std::string to_html(const Report& report) {
  return make_page({.name = report.model,
                    .what = "a build of Penstock",
                    .without = "This page is drawn by a program in it, which this browser does not "
                               "run. 'penstock explain' without --html prints the same as text.",
                    .id = "report",
                    .json = to_json(report)});
}

}  // namespace penstock::tune
