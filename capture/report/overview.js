// The first page: what happened, what is wrong, what takes the time.

function card(value, name, kind = "") { return h("div.card", { class: kind }, h("div.value", null, value), h("div.name", null, name)); }

function overview(section) {
  const programs = data.graphs.flatMap(graph => graph.programs);
  const once = sum(programs, p => p.measured != null ? p.measured : p.calls ? p.seconds / p.calls : 0);
  const recompiled = data.frames.filter(frame => frame.failed.length);
  const cached = data.frames.filter(frame => frame.cached).length;
  put(section,
    h("div.cards", null,
      card(data.graphs.length, word(data.graphs.length, "graph") + " captured"),
      card(breaks.length, word(breaks.length, "graph break"), breaks.length ? "bad" : ""),
      card(recompiled.length, word(recompiled.length, "recompile"), recompiled.length ? "warm" : ""),
      card(kernels.length, word(kernels.length, "kernel")),
      card(seconds(once) || "–", data.graphs.length > 1 ? "all kernels, once each" : programs.some(p => p.name !== "forward") ? "forward and backward" : "a call"),
      card(amount(data.memory.peak), "memory at the peak"),
      card(seconds(data.frames.reduce((t, f) => t + f.seconds, 0)), cached ? "to compile, " + cached + " from the cache" : "to compile")),
    h("p.note", null, `${data.backend} backend · ${plural(data.machine.threads, "thread")} · ${data.machine.isa} · this machine reaches ${amount(data.machine.flops, "FLOP/s")} and ${amount(data.machine.bandwidth, "B/s")} · flambeau ${data.version}`),
    data.notes.map(note => h("p.note", null, note)),
    data.findings.length > 0 && [h("h2", null, "What to do"), h("div", null, data.findings.map(finding))],
    h("div.columns", null,
      h("div", null, h("h2", null, "Lines that take the time"), byLine(), h("h2", null, "Kernels that take the time"), slowest()),
      h("div", null, h("h2", null, "Launches"), launches(), h("h2", null, "Kinds of kernels"), byKind(), h("h2", null, "Frames"), frames())));
}

const WARM = /was compiled again|compared with|called in eager/;
function finding(one) {
  const [file, line] = [one.place.replace(/:\d+$/, ""), Number(one.place.split(":").pop())];
  return h("div.event", { class: WARM.test(one.what) ? "warm" : "", onclick: () => showPlace(file, line) },
    h("div", null, one.place && h("b", null, one.place + " "), h("code", null, one.source)),
    h("div", null, one.what, one.why && ": ", one.why), one.fix && h("div.fix", null, h("b", null, "Fix: "), one.fix));
}

function slowest() {
  const timed = kernels.filter(k => k.seconds != null).sort((a, b) => b.seconds - a.seconds);
  if (!timed.length) return h("div.panel.empty", null, "No kernel was timed.");
  const total = sum(timed, k => k.seconds), most = timed[0].seconds;
  return h("div.panel", null, table(["kernel", "", "share", "time", "moves", "computes", "roofline"],
    timed.slice(0, 12).map(k => ({ go: () => showKernel(k.id), cells: [
      h("span", null, h("code", null, k.name), " ", h("span.tag", { class: k.kind }, k.stage === "forward" ? k.kind : `${k.kind}, ${k.stage}`)),
      h("div.meter", { style: "width:90px;margin-top:7px" }, h("i", { style: `width:${100 * k.seconds / most}%` })),
      percent(k.seconds / total), seconds(k.seconds), amount(k.bytes), amount(k.flops, "FLOP"), roofText(k).replace(" of roofline", "")] })), [2, 3, 4, 5, 6]));
}

// A kernel's time is shared by the operations that it computes.
function shares(kernel) {
  const nodes = kernel.nodes.map(k => data.graphs[kernel.graph].nodes[k]);
  return nodes.map(node => [node, (kernel.seconds || 0) / nodes.length]);
}

function ranked(totals, most) { return [...totals.values()].filter(one => one.seconds).sort((a, b) => b.seconds - a.seconds).slice(0, most); }

function byLine() {
  const totals = new Map(), all = sum(kernels, k => k.seconds) || 1;
  for (const [node, spent] of kernels.flatMap(shares)) {
    const key = `${node.file}:${node.line}`, known = totals.get(key) || { file: node.file, line: node.line, seconds: 0 };
    known.seconds += spent;
    totals.set(key, known);
  }
  const rows = ranked(totals, 8);
  if (!rows.length) return h("div.panel.empty", null, "No kernel was timed.");
  const text = one => data.sources.filter(source => source.file === one.file).flatMap(source => source.lines).find(line => line.number === one.line)?.text.trim() || "";
  return h("div.panel", null, table(["line", "", "share", "time"], rows.map(one => ({ go: () => showLine(one.file, one.line), cells: [
    h("span", null, h("span.soft", null, `${base(one.file)}:${one.line} `), h("code", null, colored(text(one), "python"))),
    h("div.meter", { style: "width:90px;margin-top:7px" }, h("i", { style: `width:${100 * one.seconds / rows[0].seconds}%` })),
    percent(one.seconds / all), seconds(one.seconds)] })), [2, 3]));
}

function byKind() {
  const totals = new Map(), all = sum(kernels, k => k.seconds) || 1;
  for (const kernel of kernels) {
    const known = totals.get(kernel.kind) || { kind: kernel.kind, seconds: 0, times: 0 };
    known.seconds += kernel.seconds || 0;
    known.times++;
    totals.set(kernel.kind, known);
  }
  const rows = ranked(totals, 8);
  if (!rows.length) return h("div.panel.empty", null, "No kernel was timed.");
  return h("div.panel", null, table(["", "kernels", "share", "time"], rows.map(one => [h("span.tag", { class: one.kind }, one.kind), one.times, percent(one.seconds / all), seconds(one.seconds)]), [1, 2, 3]));
}

function launches() {
  const rows = data.graphs.flatMap((graph, g) => graph.programs.map(p => [
    `graph ${g}, ${p.name}`, plural(p.kernels.length, "kernel"), p.calls ? `${p.calls} × ${seconds(p.seconds / p.calls)}` : "not called", seconds(p.measured)]));
  const told = data.graphs.filter(graph => graph.note).map(graph => h("p.note", null, `${graph.name}: ${graph.note}`));
  return h("div.panel", null, rows.length ? table(["", "", "real calls", "alone"], rows, [2, 3]) : h("div.empty", null, "Nothing was compiled."), told);
}

function frames() {
  return h("div.panel", null, table(["function", "graphs", "guards", "compiled in"], data.frames.map(frame => ({
    go: () => showLine(frame.file, frame.line),
    cells: [h("span", null, h("code", null, frame.function), frame.version > 0 && h("span.soft", null, ` version ${frame.version}`), h("div.faint", null, `${base(frame.file)}:${frame.line} · ${frame.kind}${frame.cached ? " · from the cache" : ""}`)),
      frame.graphs.join(", ") || "none", frame.guards.length, seconds(frame.seconds)] })), [2, 3]));
}
