// Compile time as a flame chart, guards, symbols, and the texts of the stages.

const STAGE_COLOURS = { trace: "#4f86c6", bytecode: "#7d9db5", backend: "#5d6b82", functionalize: "#3f9e8f", "joint graph": "#8a6fc7", partition: "#b067b0", decompose: "#5f9e55", forward: "#c98a3a", backward: "#c0673c", lower: "#4aa3a8", schedule: "#b8873f", "C++ compiler": "#b5505c" };
const colourOf = name => STAGE_COLOURS[name] || "#7a8699";

function drawCompile(section) {
  const frames = data.frames.filter(frame => frame.spans.length);
  section.append(h("div.panel", null, frames.length ? flame(frames) : h("div.empty", null, "Nothing was compiled.")));
  const totals = new Map();
  for (const frame of frames) for (const span of frame.spans) {
    const known = totals.get(span.name) || { name: span.name, seconds: 0, times: 0 };
    known.seconds += span.seconds; known.times++;
    totals.set(span.name, known);
  }
  const whole = sum(data.frames, frame => frame.seconds) || 1;
  section.append(h("h2", null, "By stage"), h("div.panel", null, table(["stage", "", "times", "share", "time"], [...totals.values()].sort((a, b) => b.seconds - a.seconds).map(one => [
    h("span", null, h("i", { style: `display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:7px;background:${colourOf(one.name)}` }), one.name),
    h("div.meter", { style: "width:160px;margin-top:7px" }, h("i", { style: `width:${100 * one.seconds / whole}%;background:${colourOf(one.name)}` })), one.times, percent(one.seconds / whole), seconds(one.seconds)]), [2, 3, 4])),
    h("p.note", null, data.frames.some(f => f.cached) ? "Frames that were found in the cache skip the passes and the C++ compiler." : "A stage's time contains that of the stages inside of it. The C++ compiler works on the forward while the backward is being made."));
}

function flame(frames) {
  const total = sum(frames, f => f.seconds), deep = Math.max(...frames.flatMap(f => f.spans.map(x => x.depth))) + 2, W = 1200, row = 24;
  const svg = s("svg", { class: "chart flame", viewBox: `0 0 ${W} ${deep * row + 20}`, role: "img", "aria-label": "compile time" }), world = s("g", {}), axis = s("g", {});
  svg.append(world, axis);
  const rects = [];
  let start = 0;
  for (const frame of frames) {
    rects.push({ name: frame.version ? `${frame.function}, version ${frame.version}` : frame.function, start, seconds: frame.seconds, depth: 0, colour: "#3d4a5f" });
    for (const span of frame.spans) rects.push({ name: span.name, start: start + span.start, seconds: span.seconds, depth: span.depth + 1, colour: colourOf(span.name) });
    start += frame.seconds;
  }
  function draw(from, to) {
    world.replaceChildren(); axis.replaceChildren();
    const x = t => (t - from) / (to - from) * W;
    for (const r of rects) {
      const a = Math.max(0, x(r.start)), b = Math.min(W, x(r.start + r.seconds));
      if (b - a < .3) continue;
      world.append(tip(s("rect", { x: a, y: r.depth * row, width: b - a, height: row - 2, rx: 3, fill: r.colour, onclick: () => draw(r.start, r.start + r.seconds) }), `${r.name}: ${seconds(r.seconds)}, ${percent(r.seconds / total)} of everything`));
      if (b - a > 44) world.append(s("text", { class: "in", x: a + 7, y: r.depth * row + 15 }, `${r.name} ${seconds(r.seconds)}`.slice(0, Math.floor((b - a - 10) / 6.2))));
    }
    for (let k = 0; k <= 5; k++) axis.append(s("text", { x: W * k / 5, y: deep * row + 12, "text-anchor": k === 0 ? "start" : k === 5 ? "end" : "middle" }, seconds(from + (to - from) * k / 5) || "0"));
  }
  draw(0, total);
  return h("div", null, h("div.bar", { style: "border:0;padding:0 0 8px;background:none" }, h("span.soft", null, "click a stage to look closer"), h("span.grow"), h("button", { onclick: () => draw(0, total) }, "Everything")), svg);
}

// -- guards and symbols

function drawGuards(section) {
  const filter = h("input", { type: "search", placeholder: "Filter guards", style: "border:1px solid var(--line);background:var(--card);border-radius:8px;padding:6px 11px;width:320px;margin-bottom:14px", oninput: () => {
    const wanted = filter.value.toLowerCase();
    for (const row of section.querySelectorAll(".guard")) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  } });
  section.append(h("p.note", null, "A call may use a version only if all of its guards hold; otherwise the function is compiled again."), filter);
  for (const frame of data.frames) {
    section.append(h("details", { open: data.frames.length < 4 }, h("summary", null, h("code", null, frame.function), ` version ${frame.version} · ${plural(frame.guards.length, "guard")}`),
      h("div", null, frame.failed.map((text, k) => h("div.event.warm", null, `Made because a call did not fit version ${k}:`, h("pre.mono", null, readable(text)))),
        frame.guards.map((guard, k) => h("div.guard", { id: `guard-${frame.number}-${k}` }, h("span", null, readable(guard.text)), h("span", null, guard.line ? base(guard.line) : ""))))));
  }
  const symbols = data.graphs.flatMap((graph, g) => graph.symbols.map(one => [`graph ${g}`, h("code", null, one.name), h("code", null, one.places), one.hint, one.takes]));
  if (symbols.length) section.append(h("h2", null, "Sizes and numbers that may change"), h("div.panel", null, table(["", "symbol", "read from", "at the first call", "code for"], symbols)));
}

// -- the texts of the stages, unpacked when they are looked at

const STAGE_FILES = { "graph.py": "captured graph", "functional.py": "functional graph", "joint.py": "forward and backward together", "forward.py": "forward", "backward.py": "backward", "loops.txt": "loops", "kernels.cpp": "C++", "kernels.py": "Triton", "backward_kernels.py": "Triton, backward", "wrapper.txt": "calls and memory plan" };

function drawStages(section) {
  const graph = h("select", { "aria-label": "Graph", onchange: fresh }, data.graphs.map((one, g) => h("option", { value: g }, `graph ${g}`)));
  const file = h("select", { "aria-label": "Stage", onchange: display }), text = h("pre.text");
  put(section, h("div.bar", null, data.graphs.length ? [graph, file] : h("span.soft", null, "no graph"), h("span.grow"), h("button", { onclick: () => navigator.clipboard.writeText(text.textContent) }, "Copy")), text);
  let texts = {};
  async function fresh() {
    texts = await unpack($("texts-" + graph.value).textContent);
    const order = Object.keys(STAGE_FILES);
    file.replaceChildren(...Object.keys(texts).sort((a, b) => order.indexOf(a) - order.indexOf(b)).map(name => h("option", { value: name }, STAGE_FILES[name] ? `${name}: ${STAGE_FILES[name]}` : name)));
    display();
  }
  function display() {
    const whole = texts[file.value] || "";
    text.replaceChildren(whole.length > 300000 ? whole : colored(whole, file.value.endsWith(".cpp") ? "cpp" : "python"));
    text.scrollTop = 0;
  }
  if (data.graphs.length) fresh();
}

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text.trim()), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}
