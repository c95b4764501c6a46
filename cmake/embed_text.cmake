# cmake -D IN=text -D OUT=source.cc -P embed_text.cmake: the ASCII text as penstock::tune::page_script().
# In pieces: compilers promise strings of 65,536 characters only.
file(READ ${IN} text)
string(LENGTH "${text}" length)
set(begin 0)
file(WRITE ${OUT}.new "#include \"penstock/tune/page_script.h\"\n\nnamespace penstock::tune {\n\n"
  "std::string page_script() {\n  std::string text;\n  text.reserve(${length});\n")
while(begin LESS length)
  string(SUBSTRING "${text}" ${begin} 16000 piece)
  file(APPEND ${OUT}.new "  text += R\"--page--(${piece})--page--\";\n")
  math(EXPR begin "${begin} + 16000")
endwhile()
file(APPEND ${OUT}.new "  return text;\n}\n\n}  // namespace penstock::tune\n")
file(RENAME ${OUT}.new ${OUT})
