// Whose work the page holds besides Penstock's own; tests compare with what the bundle is made of.
import { make } from "./dom.js";

const kMit = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions: The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software. THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`;

const kIsc = `Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted, provided that the above copyright notice and this permission notice appear in all copies. THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH REGARD TO THIS SOFTWARE INCLUDING ALL IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR ANY SPECIAL, DIRECT, INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER IN AN ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN CONNECTION WITH THE USE OR PERFORMANCE OF THIS SOFTWARE.`;
const kBsd = `Redistribution and use in source and binary forms, with or without modification, are permitted provided that the following conditions are met: 1. Redistributions of source code must retain the above copyright notice, this list of conditions and the following disclaimer. 2. Redistributions in binary form must reproduce the above copyright notice, this list of conditions and the following disclaimer in the documentation and/or other materials provided with the distribution. THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS" AND ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR CONTRIBUTORS BE LIABLE FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY, OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.`;

/** d3-dag comes as one file that holds what it uses; all but it and the first four are parts of stringify-object. */
const kLibraries = [
  ["MIT", "Copyright (c) 2018 Erik Brinkman", "d3-dag"],
  ["ISC", "Copyright 2010-2026 Mike Bostock", "d3-array"],
  ["ISC", "Copyright 2021 Mike Bostock", "internmap"],
  ["MIT", "Copyright (c) 2011 Alberto Santini", "quadprog"],
  ["Unlicense", "in the public domain", "javascript-lp-solver"],
  ["BSD-2-Clause", "Copyright (c) Sindre Sorhus, Copyright (c) Yeoman team", "stringify-object"],
  [
    "MIT",
    "Copyright (c) Sindre Sorhus",
    "convert-hrtime, function-timeout, get-own-enumerable-keys, identifier-regex, is-identifier, is-obj, is-regexp, make-asynchronous, p-event, p-timeout, reserved-identifiers, super-regex, time-span, type-fest",
  ],
  ["Apache-2.0", "Jason Miller and others", "web-worker"],
];

export function licences() {
  return make(
    "details",
    { class: "licences" },
    make("summary", {}, "Libraries in this page, and their licences"),
    make(
      "ul",
      {},
      kLibraries.map(([licence, holder, names]) => make("li", {}, `${names}: ${licence}, ${holder}`)),
    ),
    make("p", {}, make("b", {}, "MIT. "), kMit),
    make("p", {}, make("b", {}, "ISC. "), kIsc),
    make("p", {}, make("b", {}, "BSD-2-Clause. "), kBsd),
    make("p", {}, make("b", {}, "Apache-2.0. "), "The licence of Penstock itself."),
  );
}
