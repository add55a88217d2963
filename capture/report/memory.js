// Memory: the four parts, what is in use while each kernel runs, and where every buffer lies.

const PARTS = [["parameters", "parameters and buffers"], ["optimizer", "optimizer state"], ["gradients", "gradients"], ["activations", "activations"]];

function drawMemory(section) {
  const memory = data.memory, total = sum(PARTS, ([part]) => memory[part]) || 1;
  put(section,
    h("div.panel", null, h("div.soft", null, "Together ", h("b", { style: "color:var(--ink)" }, amount(memory.peak)), " at the peak"),
      h("div.parts", null, PARTS.map(([part, name]) => tip(h("i", { style: `background:var(--p-${part});flex:${memory[part] / total} 0 0` }), `${name}: ${amount(memory[part])}`))),
      h("div.legend", null, PARTS.map(([part, name]) => h("span", null, h("i", { style: `background:var(--p-${part})` }), `${name} ${amount(memory[part])}`)))),
    h("h2", null, "In use while each kernel runs"), h("div.panel", null, timeline()),
    data.graphs.flatMap((graph, g) => graph.programs.filter(p => p.blocks.length).map(p => [h("h2", null, `Where buffers lie: graph ${g}, ${p.name}`), h("div.panel", null, plan(p))])),
    h("h2", null, "Largest buffers"), h("div.panel", null, largest()),
    h("p.note", null, `The allocator in this process: ${Object.entries(memory.allocator).map(([k, v]) => `${k.replace("_", " ")} ${k === "blocks" || k.endsWith("calls") ? v : amount(v)}`).join(" · ")}`));
}

function timeline() {
  const moments = data.memory.timeline, memory = data.memory;
  if (!moments.length) return h("div.empty", null, "Nothing was planned.");
  const W = 1200, H = 260, left = 64, bottom = 22, top = 12;
  const kept = Math.max(0, memory.gradients - Math.max(0, ...moments.map(m => m.gradients)));
  const levels = moments.map(m => [memory.parameters, memory.optimizer, kept + m.gradients, m.activations]);
  const most = Math.max(...levels.map(l => l[0] + l[1] + l[2] + l[3])) || 1;
  const x = k => left + (W - left - 8) * k / moments.length, y = v => H - bottom - (H - bottom - top) * v / most;
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "memory in use" });
  for (let part = 3; part >= 0; part--) {
    const level = l => l.slice(0, part + 1).reduce((a, b) => a + b, 0);
    svg.append(s("path", { fill: `var(--p-${PARTS[part][0]})`, d: `M${x(0)} ${y(0)}` + levels.map((l, k) => `L${x(k)} ${y(level(l))}L${x(k + 1)} ${y(level(l))}`).join("") + `L${x(moments.length)} ${y(0)}Z` }));
  }
  for (const share of [0, .25, .5, .75, 1]) svg.append(s("line", { class: "axis", x1: left, x2: W - 8, y1: y(share * most), y2: y(share * most) }), s("text", { x: left - 8, y: y(share * most) + 4, "text-anchor": "end" }, amount(share * most)));
  let free = 0;                                       // names of launches stand side by side, or not at all
  moments.forEach((m, k) => {
    if (k && m.program === moments[k - 1].program && m.graph === moments[k - 1].graph) return;
    if (k) svg.append(s("line", { class: "mark", x1: x(k), x2: x(k), y1: top, y2: H - bottom }));
    const name = (data.graphs.length > 1 ? m.graph + " " : "") + data.graphs[m.graph].programs[m.program].name;
    if (x(k) < free) return;
    svg.append(s("text", { x: x(k) + 4, y: H - 7 }, name));
    free = x(k) + 4 + 6.5 * name.length;
  });
  const cursor = s("line", { class: "mark", y1: top, y2: H - bottom, visibility: "hidden" });
  svg.append(cursor);
  const at = event => { const box = svg.getBoundingClientRect(); return Math.min(moments.length - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width * W - left) / (W - left - 8) * moments.length))); };
  svg.addEventListener("mousemove", event => { const k = at(event); cursor.setAttribute("visibility", "visible"); cursor.setAttribute("x1", x(k + .5)); cursor.setAttribute("x2", x(k + .5)); });
  svg.addEventListener("click", event => { const m = moments[at(event)]; showKernel(`${m.graph}/${m.program}/${m.kernel}`); });
  return tip(svg, event => { const k = at(event), m = moments[k]; return `${data.graphs.length > 1 ? `graph ${m.graph}, ` : ""}${data.graphs[m.graph].programs[m.program].name}: ${m.label}\nactivations ${amount(m.activations)}\ngradients ${amount(kept + m.gradients)}\ntogether ${amount(levels[k].reduce((a, b) => a + b, 0))}\nallocated for this launch ${amount(m.held)}`; });
}

const BLOCK = { saved: "activations", output: "accent", gradient: "gradients", temp: "optimizer" };
function plan(program) {
  const own = program.blocks.filter(b => b.place === "own"), there = new Map();
  let height = program.arena;
  for (const b of own) { there.set(b.name, height); height += b.bytes; }
  const n = program.kernels.length, W = 1200, H = 240, left = 64;
  const x = k => left + (W - left - 8) * k / n, y = v => 8 + (H - 26) * v / (height || 1);
  const offset = b => b.place === "own" ? there.get(b.name) : b.place === "arena" ? b.offset : (there.get(b.place) ?? 0) + b.offset;
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "memory plan" });
  for (const b of program.blocks) {
    const colour = b.kind === "output" ? "var(--accent)" : `var(--p-${BLOCK[b.kind]})`;
    svg.append(tip(s("rect", { x: x(b.start), y: y(offset(b)), width: Math.max(1.5, x(b.end + 1) - x(b.start) - .5), height: Math.max(1, y(offset(b) + b.bytes) - y(offset(b)) - .4), fill: colour, "fill-opacity": .85 }),
      `${b.name} ${b.shape}\n${b.kind}, ${amount(b.bytes)}\n${b.place === "arena" ? `arena, byte ${b.offset}` : b.place === "own" ? "memory of its own" : `takes over ${b.place}`}\nkernels ${b.start} to ${b.end}`));
  }
  if (program.arena) svg.append(s("line", { class: "mark", x1: left, x2: W - 8, y1: y(program.arena), y2: y(program.arena) }));
  svg.append(s("text", { x: left - 8, y: 18, "text-anchor": "end" }, "arena"), s("text", { x: left, y: H - 4 }, `${plural(n, "kernel")} in order →`), s("text", { x: W - 8, y: H - 4, "text-anchor": "end" }, `arena ${amount(program.arena)}, all ${amount(height)}`));
  const kinds = ["temp", "saved", "output", "gradient"].filter(kind => program.blocks.some(b => b.kind === kind));
  return h("div", null, h("div.legend", null, kinds.map(kind => h("span", null, h("i", { style: `background:${kind === "output" ? "var(--accent)" : `var(--p-${BLOCK[kind]})`}` }), { temp: "temporary", saved: "saved for the backward", output: "result", gradient: "gradient" }[kind]))), svg);
}

function largest() {
  const all = data.graphs.flatMap((graph, g) => graph.programs.flatMap(p => p.blocks.map(b => ({ ...b, program: `graph ${g}, ${p.name}` }))));
  if (!all.length) return h("div.empty", null, "None.");
  return table(["buffer", "shape", "kind", "launch", "size"], all.sort((a, b) => b.bytes - a.bytes).slice(0, 12).map(b => [h("code", null, b.name), h("code", null, b.shape), b.kind, b.program, amount(b.bytes)]), [4]);
}
