// Search, keys, and the order of the tabs.

function found(words) {
  const all = words.toLowerCase().split(/\s+/).filter(Boolean), fits = text => { const low = text.toLowerCase(); return all.every(word => low.includes(word)); };
  const groups = [
    ["Source", data.sources.flatMap(source => source.lines.filter(line => fits(line.text + " " + base(source.file))).map(line => ({ text: `${base(source.file)}:${line.number}  ${line.text.trim()}`, go: () => showLine(source.file, line.number) })))],
    ["Operations", data.graphs.flatMap(graph => graph.nodes.filter(node => fits(`${node.name} ${node.op} ${node.module} ${node.shape}`)).map(node => ({ text: `${node.name} = ${node.op}  ${node.shape}  ${node.module}`, go: () => showNode(node) })))],
    ["Kernels", kernels.filter(k => fits(`${k.name} ${k.kind} ${k.stage} ${k.headline}`)).map(k => ({ text: `${k.name}  ${k.kind}, ${k.stage}  ${seconds(k.seconds)}`, go: () => showKernel(k.id) }))],
    ["Guards", data.frames.flatMap(frame => frame.guards.map((guard, k) => ({ guard, k })).filter(x => fits(x.guard.text)).map(x => ({ text: x.guard.text, go: () => showGuard(frame.number, x.k) })))],
  ];
  return groups.filter(([, list]) => list.length);
}

function showGuard(frame, k) {
  open("guards");
  const row = $(`guard-${frame}-${k}`);
  row.closest("details").open = true;
  for (const other of document.querySelectorAll(".guard.hit")) other.classList.remove("hit");
  row.classList.add("hit");
  row.scrollIntoView({ block: "center" });
}

const MOST_FOUND = 8;
function search() {
  const box = $("results"), words = $("search").value.trim();
  box.replaceChildren();
  box.hidden = !words;
  if (!words) return;
  const groups = found(words);
  for (const [name, list] of groups) {
    box.append(h("div.group", null, `${name} · ${list.length}`));
    for (const one of list.slice(0, MOST_FOUND)) box.append(h("button", { onclick: () => { box.hidden = true; one.go(); } }, one.text));
  }
  if (!groups.length) box.append(h("div.empty", null, "Nothing has these words."));
  box.querySelector("button")?.classList.add("at");
}

$("search").addEventListener("input", search);
$("search").addEventListener("focus", search);
$("search").addEventListener("keydown", event => {
  const rows = [...$("results").querySelectorAll("button")], at = rows.findIndex(row => row.classList.contains("at"));
  if (event.key === "Enter" && at >= 0) rows[at].click();
  if (event.key === "Escape") { $("results").hidden = true; event.target.blur(); }
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && rows.length) {
    event.preventDefault();
    rows[at]?.classList.remove("at");
    const next = rows[(at + step + rows.length) % rows.length];
    next.classList.add("at");
    next.scrollIntoView({ block: "nearest" });
  }
});
document.addEventListener("click", event => { if (!event.target.closest(".search")) $("results").hidden = true; });
document.addEventListener("keydown", event => {
  if (event.key === "/" && document.activeElement.tagName !== "INPUT") { event.preventDefault(); $("search").focus(); $("search").select(); }
  if (event.key === "Escape") light([], [], []);
});

tab("overview", "Overview", overview);
tab("code", "Code", code, { wide: true });
tab("picture-tab", "Graph", drawPicture, { wide: true });
tab("memory", "Memory", drawMemory);
tab("compile", "Compile time", drawCompile);
tab("guards", "Guards", drawGuards);
tab("stages", "Stages", drawStages, { wide: true, screen: true });
open(tabs.some(one => "#" + one.name === location.hash) ? location.hash.slice(1) : "overview");
