// The report as one HTML page: its JSON beside the program of web/ that draws it.
#include <string_view>

#include "penstock/base/markup.h"
#include "penstock/tune/page_script.h"
#include "penstock/tune/report.h"

namespace penstock::tune {
namespace {

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>)";
constexpr std::string_view kData = R"(: a build of Penstock</title></head><body>
<noscript>This page is drawn by a program in it, which this browser does not run. 'penstock explain' without
--html prints the same as text.</noscript>
<script type="application/json" id="report">)";

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

std::string to_html(const Report& report) {
  std::string page(kHead);
  page += escape_markup(report.model);
  page += kData;
  page += without_tags(to_json(report));
  page += "</script>\n<script>";
  page += page_script();
  page += "</script>\n</body></html>\n";
  return page;
}

}  // namespace penstock::tune
