// What every part of the page uses: the data, elements, numbers, tabs, tooltips, the theme.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);

function h(tag, attributes, ...children) {
  const [name, ...classes] = tag.split(".");
  const node = document.createElement(name || "div");
  if (classes.length) node.className = classes.join(" ");
  fill(node, attributes, children);
  return node;
}

function s(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes || {}))
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value != null) node.setAttribute(key, value);
  node.append(...children.flat().filter(x => x != null));
  return node;
}

const put = (node, ...children) => fill(node, null, children);

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {}))
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "class") node.className += (node.className ? " " : "") + value;
    else if (value != null && value !== false) node.setAttribute(key, value === true ? "" : value);
  node.append(...children.flat(3).filter(x => x != null && x !== false));
}

// -- numbers

const three = v => v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2);
function amount(v, unit = "B") {
  if (v == null) return "";
  for (const [scale, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (v >= scale) return `${three(v / scale)} ${letter}${unit}`;
  return `${Math.round(v)} ${unit}`;
}
function seconds(v) {
  if (v == null) return "";
  for (const [scale, unit] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]) if (v >= scale) return `${three(v / scale)} ${unit}`;
  return `${Math.round(v * 1e9)} ns`;
}
const percent = v => v == null ? "" : `${Math.round(100 * v)}%`;
const word = (n, noun) => n === 1 ? noun : noun + "s";
const plural = (n, noun) => `${n} ${word(n, noun)}`;
const base = path => path.split("/").pop();
const sum = (list, of) => list.reduce((total, x) => total + (of(x) || 0), 0);
const roofline = kernel => !kernel.seconds || kernel.bound == null ? null : kernel.bound / kernel.seconds;
const roofText = kernel => { const share = roofline(kernel); return share == null ? "" : share > 1.05 ? "in cache" : percent(Math.min(1, share)) + " of roofline"; };

// -- what belongs together: "graph/program/kernel" and "graph/node" are names of kernels and nodes here

const kernels = [];
data.graphs.forEach((graph, g) => graph.programs.forEach((program, p) => program.kernels.forEach((kernel, k) => {
  kernel.id = `${g}/${p}/${k}`; kernel.graph = g; kernel.program = p; kernel.stage = program.name;
  kernels.push(kernel);
})));
data.graphs.forEach((graph, g) => graph.nodes.forEach((node, k) => { node.id = `${g}/${k}`; node.graph = g; node.index = k; }));
const kernelOf = id => { const [g, p, k] = id.split("/"); return data.graphs[g].programs[p].kernels[k]; };
const breaks = [];                  // each once, however many versions of a function have it
for (const frame of data.frames) for (const one of frame.breaks) {
  const known = breaks.find(other => other.file === one.file && other.line === one.line && other.code === one.code && other.plain === one.plain);
  if (known) known.times++; else breaks.push({ ...one, times: 1 });
}

// A guard with the short name of its file; a value that an unfinished expression of the frame holds, in words.
const readable = text => text.replace(/%stack_(\d+)/g, "the waiting value $1").replace(/(#\s+)\S*\/([^\/\s]+:\d+)/g, "$1$2");

// -- colours of code

const WORDS = {
  python: "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return True try while with yield self",
  cpp: "auto bool break case char const constexpr continue default do double else enum extern float for if inline int i64 long namespace new return short signed sizeof static struct switch template this true false typedef typename union unsigned using void while nullptr",
};
const KEYWORDS = Object.fromEntries(Object.entries(WORDS).map(([k, v]) => [k, new Set(v.split(" "))]));
const TOKENS = {
  python: /(#.*$)|("""[\s\S]*?"""|'''[\s\S]*?'''|[rbfu]*"(?:\\.|[^"\\])*"|[rbfu]*'(?:\\.|[^'\\])*')|(\b\d[\w.]*)|([A-Za-z_]\w*)(?=(\()?)/gm,
  cpp: /(\/\/.*$|\/\*[\s\S]*?\*\/)|("(?:\\.|[^"\\])*")|(\b\d[\w.]*)|([A-Za-z_]\w*)(?=(\()?)/gm,
};
function colored(text, language) {
  const out = document.createDocumentFragment();
  let at = 0;
  const piece_ = (piece, kind) => out.append(kind ? h("span." + kind, null, piece) : piece);
  for (const m of text.matchAll(TOKENS[language])) {
    const kind = m[1] ? "c" : m[2] ? "s1" : m[3] ? "d" : KEYWORDS[language].has(m[4]) ? "k" : m[5] ? "f" : null;
    if (!kind) continue;
    if (m.index > at) piece_(text.slice(at, m.index));
    piece_(m[0], kind);
    at = m.index + m[0].length;
  }
  piece_(text.slice(at));
  return out;
}

// -- tabs: a section is drawn when it is first shown, or when the page is printed

const tabs = [];
function tab(name, title, draw, options = {}) {
  const section = h("section", { id: name, class: options.wide ? "wide" : "", role: "tabpanel" }, h("h2.print-title", null, title));
  if (options.screen) section.classList.add("screen");
  const button = h("button", { role: "tab", "aria-selected": "false", "data-tab": name, onclick: () => open(name) }, title);
  $("main").append(section);
  $("tabs").append(button);
  tabs.push({ name, section, button, draw, drawn: false });
}
function open(name) {
  for (const one of tabs) {
    const on = one.name === name;
    one.section.classList.toggle("on", on);
    one.button.setAttribute("aria-selected", String(on));
    if (on && !one.drawn) { one.drawn = true; one.draw(one.section); }
  }
  if (location.protocol !== "about:") history.replaceState(null, "", "#" + name);         // in a notebook the page has no address
  document.dispatchEvent(new CustomEvent("shown", { detail: name }));
}
window.addEventListener("beforeprint", () => { for (const one of tabs) if (!one.drawn) { one.drawn = true; one.draw(one.section); } });

// -- tooltips

function tip(node, text) {
  node.addEventListener("mousemove", event => {
    const box = $("tip");
    box.textContent = typeof text === "function" ? text(event) : text;
    box.hidden = !box.textContent;
    box.style.left = Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8) + "px";
    box.style.top = Math.min(event.clientY + 16, innerHeight - box.offsetHeight - 8) + "px";
  });
  node.addEventListener("mouseleave", () => { $("tip").hidden = true; });
  return node;
}

// -- light and dark

const SUN = "☀", MOON = "☾";
function theme(dark) {
  document.documentElement.classList.toggle("dark", dark);
  $("theme").textContent = dark ? SUN : MOON;
}
theme(matchMedia("(prefers-color-scheme: dark)").matches);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", event => theme(event.matches));
$("theme").addEventListener("click", () => theme(!document.documentElement.classList.contains("dark")));
$("title").textContent = data.title;
$("title").title = data.title;

function table(headers, rows, numeric = []) {
  const cell = (tag, value, k) => h(tag, numeric.includes(k) ? { class: "num" } : null, value);
  return h("table", null,
    headers.some(x => x) && h("thead", null, h("tr", null, headers.map((x, k) => cell("th", x, k)))),
    h("tbody", null, rows.map(row => h("tr", row.go ? { class: "link", onclick: row.go } : null, (row.cells || row).map((x, k) => cell("td", x, k))))));
}
