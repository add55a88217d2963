// The graph as a picture: operations of one module fold into a box; a click opens it. Drag, wheel and buttons move and zoom.

const picture = { graph: 0, opened: new Set([""]), view: null, items: [], boxes: [], selected: null };
const GAP = 22, HEIGHT = 40, LABEL = 20, MOST_SHOWN = 1500;

function drawPicture(section) {
  const chosen = h("select", { "aria-label": "Graph", onchange: event => { picture.graph = Number(event.target.value); fold(); } },
    data.graphs.map((graph, g) => h("option", { value: g }, `graph ${g}: ${plural(graph.nodes.length, "operation")}`)));
  put(section,
    h("div.bar", null, data.graphs.length ? chosen : h("span.soft", null, "no graph"),
      h("button", { onclick: fold, "data-act": "fold" }, "Fold"), h("button", { onclick: unfold, "data-act": "unfold" }, "Unfold one level"),
      h("span.grow"), h("span.faint", null, "warmer boxes take more time"),
      h("button", { onclick: () => zoom(1.25), "aria-label": "Zoom in" }, "+"), h("button", { onclick: () => zoom(0.8), "aria-label": "Zoom out" }, "−"), h("button", { onclick: fit }, "Fit")),
    h("div.canvas", { id: "canvas" }));
  prepare();
  fold();
}

// -- the tree of modules

function prepare() {
  for (const graph of data.graphs) {
    for (const node of graph.nodes) { node.path = pathOf(node.module); node.seconds = 0; }
    for (const program of graph.programs) for (const [node, spent] of program.kernels.flatMap(shares)) node.seconds += spent;
    graph.groups = new Set(graph.nodes.flatMap(node => node.path));
  }
}
function pathOf(module) {
  const parts = module ? module.split(".") : [], path = [""];
  for (let k = 1; k < parts.length; k++) path.push(parts.slice(0, k + 1).join("."));
  return path;
}
function fold() {
  const graph = data.graphs[picture.graph];
  picture.opened = new Set([""]);
  if (graph) for (let turn = 0; turn < 3 && itemsOf(graph).length < 4; turn++) deeper(graph);
  layout(true);
}
function unfold() { deeper(data.graphs[picture.graph]); layout(true); }
function deeper(graph) { if (graph) for (const item of itemsOf(graph)) if (item.group) picture.opened.add(item.group); }

function itemsOf(graph) {
  const items = new Map();
  for (const node of graph.nodes) {
    const closed = node.path.find(path => !picture.opened.has(path));
    const key = closed ?? node.id;
    if (!items.has(key)) items.set(key, { key, group: closed, nodes: [], around: node.path.filter(path => path && picture.opened.has(path) && path !== closed) });
    items.get(key).nodes.push(node);
    node.item = items.get(key);
  }
  return [...items.values()];
}

// -- layers: an item lies below everything that it reads

function layout(refit) {
  const graph = data.graphs[picture.graph], canvas = $("canvas");
  if (!graph) { canvas.replaceChildren(h("div.empty", null, "Nothing was captured.")); return; }
  const items = itemsOf(graph);
  if (items.length > MOST_SHOWN) { canvas.replaceChildren(h("div.empty", null, `${items.length} operations are too many for a picture: fold some modules.`)); return; }
  const order = new Map(items.map((item, k) => [item, k])), edges = new Map();
  for (const node of graph.nodes) for (const k of node.inputs) {
    const from = graph.nodes[k].item, to = node.item;
    if (from !== to) edges.set(order.get(from) + ">" + order.get(to), { from, to, back: order.get(from) > order.get(to) });
  }
  for (const item of items) { item.before = []; item.after = []; item.layer = 0; measure(item); }
  for (const edge of edges.values()) if (!edge.back) { edge.to.before.push(edge.from); edge.from.after.push(edge.to); }
  for (const item of items) item.layer = Math.max(0, ...item.before.map(other => other.layer + 1));
  for (const item of [...items].reverse()) if (item.after.length && !item.before.length) item.layer = Math.min(...item.after.map(other => other.layer)) - 1;
  for (const item of items) item.levels = item.around.length;
  picture.deep = Math.max(0, ...items.map(item => item.levels));
  place(items);
  picture.items = items;
  paint(graph, items, [...edges.values()], refit);
}

function measure(item) {
  const seconds_ = sum(item.nodes, node => node.seconds);
  item.seconds = seconds_;
  item.title = item.group ? item.group.split(".").slice(-2).join(".") : item.nodes[0].op;
  const shape = item.nodes[0].shape.split(" strides")[0], several = shape.startsWith("(");
  item.sub = item.group ? `${plural(item.nodes.length, "op")}${seconds_ ? " · " + seconds(seconds_) : ""}` : several ? shape.slice(1).split("]")[0] + "], …" : shape;
  item.width = Math.max(86, 7.5 * item.title.length + 26, 6.4 * item.sub.length + 24);
}

function place(items) {
  const layers = [];
  for (const item of items) (layers[item.layer] ||= []).push(item);
  for (let k = 0; k < layers.length; k++) layers[k] ||= [];
  for (const layer of layers) { let x = 0; for (const item of layer) { item.x = x; x += item.width + GAP + 18 * picture.deep; } const shift = x / 2; for (const item of layer) item.x -= shift; }
  const middle = item => item.x + item.width / 2;
  for (let turn = 0; turn < 6; turn++) {
    const down = turn % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      for (const item of layer) {
        const near_ = down ? item.before : item.after;
        item.want = near_.length ? sum(near_, middle) / near_.length : middle(item);
      }
      layer.sort((a, b) => a.want - b.want);
      spread(layer);
    }
  }
  const tops = heights(items, layers.length);
  for (const item of items) item.y = tops[item.layer];
}

// Layers lie further apart where open modules begin or end between them.
function heights(items, count) {
  const first = new Map(), last = new Map(), begin = new Array(count).fill(0), end = new Array(count).fill(0);
  for (const item of items) for (const name of item.around) {
    first.set(name, Math.min(first.get(name) ?? 1e9, item.layer));
    last.set(name, Math.max(last.get(name) ?? 0, item.layer));
  }
  for (const item of items) {
    begin[item.layer] = Math.max(begin[item.layer], item.around.filter(name => first.get(name) === item.layer).length);
    end[item.layer] = Math.max(end[item.layer], item.around.filter(name => last.get(name) === item.layer).length);
  }
  const tops = [];
  for (let k = 0, y = 0; k < count; k++) {
    y += begin[k] * LABEL;
    tops.push(y);
    y += HEIGHT + 30 + end[k] * 8;
  }
  return tops;
}

function spread(layer) {
  let x = -Infinity;
  for (const item of layer) { item.x = Math.max(item.want - item.width / 2, x); x = item.x + item.width + GAP + 18 * picture.deep; }
  const off = sum(layer, item => item.x + item.width / 2 - item.want) / (layer.length || 1);
  for (const item of layer) item.x -= off;
}

// -- drawing

function paint(graph, items, edges, refit) {
  const most = Math.max(...items.map(item => item.seconds)) || 1;
  const world = s("g", { id: "world" });
  picture.boxes = groupsShown(items);
  for (const box of picture.boxes) world.append(
    s("rect", { class: "g-box", x: box.x, y: box.y, width: box.width, height: box.height, rx: 12 }),
    s("text", { class: "g-label", x: box.x + 10, y: box.y + 15, onclick: () => { picture.opened.delete(box.name); layout(false); } }, `− ${box.name}`));
  for (const edge of edges) { edge.line = s("path", { class: "g-edge", d: curve(edge), "stroke-dasharray": edge.back ? "4 4" : null }); world.append(edge.line); }
  for (const item of items) {
    item.shape = s("g", { class: "g-item" + (item.group ? " group" : ""), transform: `translate(${item.x} ${item.y})`, "data-item": item.key,
      onclick: event => { event.stopPropagation(); if (item.group) { picture.opened.add(item.group); layout(false); } else choose(item, edges); } },
      s("rect", { class: "face", width: item.width, height: HEIGHT, rx: 8 }),
      s("rect", { width: item.width, height: HEIGHT, rx: 8, style: `fill:var(--warm);stroke:none;fill-opacity:${(0.4 * item.seconds / most).toFixed(3)};pointer-events:none` }),
      s("text", { x: item.width / 2, y: 17, "text-anchor": "middle" }, item.group ? "+ " + item.title : item.title),
      s("text", { class: "sub", x: item.width / 2, y: 31, "text-anchor": "middle" }, item.sub));
    tip(item.shape, item.group ? `${item.group}: ${item.sub}` : `${item.nodes[0].name} = ${item.nodes[0].op}(${item.nodes[0].args})\n${base(item.nodes[0].file)}:${item.nodes[0].line}`);
    world.append(item.shape);
  }
  const svg = s("svg", { id: "picture" }, world);
  $("canvas").replaceChildren(svg);
  movable(svg);
  if (refit || !picture.view) fit(); else look();
}

// An open module is drawn around its items, with room for the labels of those inside of it.
function groupsShown(items) {
  const found = new Map();
  for (const item of items) item.around.forEach((name, depth) => {
    const inside = item.around.length - 1 - depth, b = found.get(name) || { name, depth, inside: 0, left: 1e9, top: 1e9, right: -1e9, bottom: -1e9 };
    b.inside = Math.max(b.inside, inside);
    b.left = Math.min(b.left, item.x); b.right = Math.max(b.right, item.x + item.width);
    b.top = Math.min(b.top, item.y); b.bottom = Math.max(b.bottom, item.y + HEIGHT);
    found.set(name, b);
  });
  return [...found.values()].sort((a, b) => a.depth - b.depth).map(b => {
    const side = 8 * (b.inside + 1), top = LABEL * (b.inside + 1) + 2, low = 7 * (b.inside + 1);
    const width = Math.max(b.right - b.left + 2 * side, 7 * b.name.length + 40);
    return { name: b.name, x: (b.left + b.right - width) / 2, y: b.top - top, width, height: b.bottom - b.top + top + low };
  });
}

function curve({ from, to }) {
  const x1 = from.x + from.width / 2, y1 = from.y + HEIGHT, x2 = to.x + to.width / 2, y2 = to.y, bend = Math.max(18, (y2 - y1) / 2);
  return `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
}

function choose(item, edges) {
  for (const other of picture.items) other.shape.classList.toggle("sel", other === item);
  for (const edge of edges) edge.line.classList.toggle("on", edge.from === item || edge.to === item);
  const node = item.nodes[0], close = () => { document.querySelector(".side")?.remove(); };
  close();
  $("canvas").append(h("div.side", null, h("button.x", { onclick: close, "aria-label": "Close" }, "✕"), h("h3", null, `${node.name} = ${node.op}`),
    h("div.mono", null, node.shape), h("p.soft", null, node.module || "outside of modules"), h("div", null, h("span.soft", null, "arguments "), h("code", null, node.args)),
    h("p", null, h("code", null, `${base(node.file)}:${node.line}`)),
    node.kernels.map(([p, k]) => { const kernel = data.graphs[node.graph].programs[p].kernels[k]; return h("div", null, h("span.tag", { class: kernel.kind }, kernel.kind), " ", h("code", null, kernel.name), " ", h("span.soft", null, seconds(kernel.seconds))); }),
    h("p", null, h("button", { onclick: () => showNode(node) }, "Show in the code"))));
}

// -- moving

function look() { const v = picture.view; $("world").setAttribute("transform", `translate(${v.x} ${v.y}) scale(${v.k})`); }
function extent() {
  const spots = [...picture.items.map(i => ({ x: i.x, y: i.y, width: i.width, height: HEIGHT })), ...picture.boxes];
  return { left: Math.min(...spots.map(i => i.x)), right: Math.max(...spots.map(i => i.x + i.width)),
    top: Math.min(...spots.map(i => i.y)), bottom: Math.max(...spots.map(i => i.y + i.height)) };
}
// On paper the whole picture is shown.
window.addEventListener("beforeprint", () => {
  const svg = $("picture");
  if (!svg) return;
  const { left, right, top, bottom } = extent();
  svg.setAttribute("viewBox", `${left - 20} ${top - 20} ${right - left + 40} ${bottom - top + 40}`);
  $("world").removeAttribute("transform");
});
window.addEventListener("afterprint", () => { $("picture")?.removeAttribute("viewBox"); if (picture.view) look(); });
function fit() {
  const svg = $("picture");
  if (!svg || !picture.items.length) return;
  const { left, right, top, bottom } = extent();
  const width = svg.clientWidth || 900, height = svg.clientHeight || 600;
  const whole = Math.min((width - 60) / (right - left), (height - 60) / (bottom - top));
  const k = Math.min(1.3, Math.max(whole, Math.min(0.85, (width - 60) / (right - left))));
  picture.view = { k, x: width / 2 - k * (left + right) / 2, y: k > whole ? 34 - k * top : height / 2 - k * (top + bottom) / 2 };
  look();
}
function zoom(factor, x, y) {
  const svg = $("picture"), v = picture.view;
  if (!svg) return;
  x ??= svg.clientWidth / 2; y ??= svg.clientHeight / 2;
  const k = Math.min(4, Math.max(0.03, v.k * factor));
  picture.view = { k, x: x - (x - v.x) * k / v.k, y: y - (y - v.y) * k / v.k };
  look();
}
function movable(svg) {
  let from = null, moved = false;
  svg.addEventListener("wheel", event => { event.preventDefault(); zoom(Math.exp(-event.deltaY * 0.0015), event.offsetX, event.offsetY); }, { passive: false });
  svg.addEventListener("pointerdown", event => { from = { x: event.clientX - picture.view.x, y: event.clientY - picture.view.y, cx: event.clientX, cy: event.clientY }; moved = false; });
  svg.addEventListener("pointermove", event => {
    if (!from || !(event.buttons & 1)) return;
    if (!moved && Math.hypot(event.clientX - from.cx, event.clientY - from.cy) < 4) return;
    moved = true;
    svg.classList.add("drag");
    picture.view.x = event.clientX - from.x; picture.view.y = event.clientY - from.y;
    look();
  });
  svg.addEventListener("pointerup", () => { from = null; svg.classList.remove("drag"); });
  svg.addEventListener("click", event => { if (moved) event.stopPropagation(); }, true);
}
