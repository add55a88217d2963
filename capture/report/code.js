// Source beside operations beside kernels. A click on one shows what it became and what it came from.

const panes = { lines: new Map(), nodes: new Map(), kernels: new Map() };
let shownGraph = 0, drawnCode = false;

function code(section) {
  drawnCode = true;
  const chosen = h("select", { "aria-label": "Graph", onchange: event => pick(Number(event.target.value)) },
    data.graphs.map((graph, g) => h("option", { value: g }, `graph ${g}: ${plural(graph.nodes.length, "operation")}, ${plural(sum(graph.programs, p => p.kernels.length), "kernel")}`)));
  chosen.id = "graph-of-code";
  const colours = [["good", "captured"], ["bad", "graph break"], ["warm", "runs in Python"]].map(([colour, text]) => h("span", null, h("i", { style: `background:var(--${colour})` }), text));
  put(section,
    h("div.bar", null, data.graphs.length ? chosen : h("span.soft", null, "no graph"), h("div.legend", null, colours), h("span.grow"),
      h("span.faint", null, "click a line, an operation or a kernel"), h("button", { onclick: () => light([], [], []) }, "Clear")),
    h("div.panes", null, h("div.pane.source", { id: "pane-lines" }), h("div.pane", { id: "pane-nodes" }), h("div.pane", { id: "pane-kernels" })));
  drawSource();
  if (data.graphs.length) pick(0);
}

function drawSource() {
  const pane = $("pane-lines");
  pane.append(h("h3", null, "Source"));
  for (const source of data.sources) {
    pane.append(h("h4", { title: source.file }, `${source.function || "line"}  ·  ${base(source.file)}`));
    for (const line of source.lines) {
      const row = h("div.row", { class: line.status, onclick: () => pickLine(line) },
        h("span.n", null, line.number), h("span.t", { style: hanging(line.text) }, colored(line.text || " ", "python")), h("span.b", null, lineSays(line)));
      panes.lines.set(`${source.file}:${line.number}`, row);
      pane.append(row);
      for (const one of breaks.filter(one => line.breaks.length && one.file === source.file && one.line === line.number)) {
        pane.append(h("div.why", null, h("b", null, one.text), h("div", null, "What to do: " + one.fix)));
      }
    }
  }
  if (!data.sources.length) pane.append(h("div.empty", null, "No source."));
}

// Long lines go on further in than they began.
function hanging(text) { const deep = text.length - text.trimStart().length + 4; return `padding-left:${deep}ch;text-indent:-${deep}ch`; }

function lineSays(line) {
  if (line.breaks.length) return "break";
  if (line.status === "python") return "Python";
  const found = new Set(line.nodes.flatMap(([g, k]) => data.graphs[g].nodes[k].kernels.map(x => g + "/" + x.join("/"))));
  return line.nodes.length ? `${data.graphs.length > 1 ? "g" + [...new Set(line.nodes.map(n => n[0]))].join(",") + " · " : ""}${found.size ? plural(found.size, "kernel") : "no kernel"}` : "";
}

function pick(g) {
  shownGraph = g;
  $("graph-of-code").value = g;
  panes.nodes.clear();
  panes.kernels.clear();
  const graph = data.graphs[g], pane = $("pane-nodes");
  pane.replaceChildren(h("h3", null, "Operations", h("span.faint", null, `${graph.nodes.length} in graph ${g}`)));
  for (const input of graph.inputs) pane.append(h("div.node", { title: input.source }, h("span.t.soft", null, input.name), h("span.s", null, `${input.role} ${input.shape}`)));
  let module = null;
  for (const node of graph.nodes) {
    if (node.module !== module) pane.append(h("div.module", null, (module = node.module) || "—"));
    const row = h("div.node", { title: `${node.name} = ${node.op}(${node.args})\n${base(node.file)}:${node.line}`, onclick: () => pickNode(node) },
      h("span.t", null, h("span.f", null, node.op), `(${node.args})`), h("span.s", null, node.shape));
    panes.nodes.set(node.id, row);
    pane.append(row);
  }
  drawKernels(g);
}

function drawKernels(g) {
  const graph = data.graphs[g], pane = $("pane-kernels");
  pane.replaceChildren(h("h3", null, "Kernels", h("span.faint", null, graph.programs.map(p => `${p.kernels.length} ${p.name}`).join(" · "))));
  pane.classList.toggle("many", sum(graph.programs, p => p.kernels.length) > 120);       // not printed
  if (graph.note) pane.append(h("p.note", { style: "padding:0 14px" }, graph.note));
  for (const program of graph.programs) {
    if (graph.programs.length > 1) pane.append(h("div.module", null, program.name));
    const most = Math.max(...program.kernels.map(k => k.seconds || 0)) || 1;
    for (const kernel of program.kernels) {
      const box = kernelBox(kernel, most, program);
      panes.kernels.set(kernel.id, box);
      pane.append(box);
    }
  }
}

function kernelBox(kernel, most, program) {
  const head = h("div.head", { onclick: () => { toggle(box, kernel, program); pickKernel(kernel); } },
    h("div.top", null, h("b", { title: kernel.name }, kernel.name), h("span.tag", { class: kernel.kind }, kernel.kind), h("span.time", null, seconds(kernel.seconds))),
    kernel.seconds != null && h("div.meter", { style: "margin:4px 0" }, h("i", { style: `width:${100 * kernel.seconds / most}%` })),
    h("div.facts", null, h("span", null, amount(kernel.bytes)), kernel.flops != null && h("span", null, amount(kernel.flops, "FLOP")), roofText(kernel) && h("span", null, roofText(kernel)), h("span.faint", null, kernel.headline)));
  const box = h("div.kernel", null, head);
  return box;
}

function toggle(box, kernel, program, always = false) {
  const more = box.querySelector(".more");
  if (more) { if (!always) more.remove(); return; }
  const told = (name, list) => list.length > 0 && h("div", null, h("span.soft", null, name + " "), list.join(", "));
  const formula = e => typeof e === "string" ? [e] : [];                                  // a number where no size is symbolic
  const text = kernel.code == null ? null : program.functions[kernel.code];
  put(box, h("div.more", null, kernel.why.map(why => h("div", null, h("span.soft", null, "fused: "), why)), told("reads", kernel.reads), told("writes", kernel.writes),
    told("computes FLOP", formula(kernel.cost.work)), told("moves B", formula(kernel.cost.moved)),
    kernel.seconds != null && kernel.bound != null && h("div", null, h("span.soft", null, "this machine needs at least "), seconds(kernel.bound)),
    text ? h("pre.code", null, colored(text, text.includes("@triton.jit") ? "python" : "cpp")) : h("div.faint", null, "One call of a kernel that comes with flambeau; the arguments are in kernels.cpp under Stages.")));
  const pane = box.closest(".pane");
  if (box.offsetTop + box.offsetHeight > pane.scrollTop + pane.clientHeight) pane.scrollTop = box.offsetTop - 60;
}

// -- links

function pickLine(line) {
  if (!line.nodes.length) return;
  if (!line.nodes.some(([g]) => g === shownGraph)) pick(line.nodes[0][0]);
  const nodes = line.nodes.filter(([g]) => g === shownGraph).map(([g, k]) => data.graphs[g].nodes[k]);
  light([keyOfLine(line)], nodes.map(n => n.id), kernelsOf(nodes));
}
function pickNode(node) { light(linesOf([node]), [node.id], kernelsOf([node])); }
function pickKernel(kernel) {
  const nodes = [...kernel.nodes, ...kernel.inlined].map(k => data.graphs[kernel.graph].nodes[k]);
  light(linesOf(nodes), nodes.map(n => n.id), [kernel.id]);
}
const lineKeys = new Map();
data.sources.forEach(source => source.lines.forEach(line => lineKeys.set(line, `${source.file}:${line.number}`)));
const keyOfLine = line => lineKeys.get(line);
const linesOf = nodes => [...new Set(nodes.map(n => `${n.file}:${n.line}`))];
const kernelsOf = nodes => [...new Set(nodes.flatMap(n => n.kernels.map(([p, k]) => `${n.graph}/${p}/${k}`)))];

function light(lines, nodes, kernelIds) {
  for (const [name, ids] of [["lines", lines], ["nodes", nodes], ["kernels", kernelIds]]) {
    const wanted = new Set(ids);
    let first = null;
    for (const [id, row] of panes[name]) {
      const on = wanted.has(id);
      row.classList.toggle("hit", on);
      if (on && !first) first = row;
    }
    if (first) near(first);
  }
}

function near(row) {
  const pane = row.closest(".pane"), top = row.offsetTop - pane.scrollTop;
  if (top < 40 || top > pane.clientHeight - 60) pane.scrollTop = row.offsetTop - pane.clientHeight / 3;
}

function showKernel(id) {
  open("code");
  const kernel = kernelOf(id);
  if (shownGraph !== kernel.graph) pick(kernel.graph);
  toggle(panes.kernels.get(id), kernel, data.graphs[kernel.graph].programs[kernel.program], true);
  pickKernel(kernel);
}
function showNode(node) {
  open("code");
  if (shownGraph !== node.graph) pick(node.graph);
  pickNode(node);
}
function showPlace(name, number) {
  const source = data.sources.find(one => base(one.file) === name && one.lines.some(line => line.number === number));
  if (source) showLine(source.file, number);
}
function showLine(file, number) {
  open("code");
  const source = data.sources.find(one => one.file === file && one.lines.some(line => line.number === number));
  const line = source && source.lines.find(one => one.number === number);
  if (!line) return;
  light([keyOfLine(line)], [], []);
  if (line.nodes.length) pickLine(line);
}
