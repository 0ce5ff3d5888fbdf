// The map: TCSL_s by TCSL_c. Points by WebGL; a rectangle that is drawn over them, so that nothing is redrawn while dragging.
const MOST_PARTS = 24, OTHERS = -1;

// Of hundreds of classes only the largest have a colour each.
function largest(way, rows) {
  const sizes = [...tally(way, rows, null)].map((size, k) => [size, k]).filter(([size]) => size);
  return new Set(sizes.sort((a, b) => b[0] - a[0]).slice(0, MOST_PARTS).map(([, k]) => k));
}

function waysToColour(samples) {
  const two = (of, names, colours) => ({ of, names, colours });
  const ways = {
    cluster: two((i) => 1 - samples.high[i], [facts.words.high, facts.words.low], ["high", "low"]),
    class: two((i) => samples.label[i], facts.classes),
    chosen: two((i) => 1 - samples.chosen[i], ["in the coreset", "left out"], ["chosen", "out"]),
  };
  if (facts.groups) ways["true group"] = two((i) => samples.group[i], facts.groups);
  if (samples.marked) ways.marked = two((i) => 1 - samples.marked[i], ["marked", "not marked"], ["high", "out"]);
  return ways;
}

function drawMap(samples, filter, detail) {
  const plot = at("map-plot"), hover = at("hover");
  const ways = waysToColour(samples);
  const colour = at("colour");
  colour.append(...Object.keys(ways).map((name) => make("option", { value: name }, name)));
  const drawn = samples.drawn ?? Uint32Array.from({ length: samples.rows }, (_, i) => i);
  let members = [];

  const kind = document.createElement("canvas").getContext("webgl") ? "scattergl" : "scatter";
  function traces() {
    const way = ways[colour.value];
    const buckets = new Map();
    const kept = largest(way, samples.rows);
    for (const i of drawn) {
      const k = kept.has(way.of(i)) ? way.of(i) : OTHERS;
      if (!buckets.has(k)) buckets.set(k, []);
      buckets.get(k).push(i);
    }
    // The smallest part is drawn last, on top of the others.
    const parts = [...buckets].sort((a, b) => b[1].length - a[1].length);
    members = parts.map(([, list]) => list);
    const points = parts.map(([k, list]) => ({
      type: kind,
      mode: "markers",
      name: k === OTHERS ? "others" : label(way.names[k]),
      x: Float32Array.from(list, (i) => samples.s[i]),
      y: Float32Array.from(list, (i) => samples.c[i]),
      marker: { size: facts.density ? 3 : drawn.length > 10000 ? 4 : 7, opacity: facts.density ? 0.5 : 0.75, color: k === OTHERS ? meant("out") : way.colours ? meant(way.colours[k]) : colourAt(k), symbol: symbolAt(k), line: { width: 0 } },
      hoverinfo: "none",
      legendrank: k === OTHERS ? way.names.length : k,
    }));
    return facts.density ? [densityTrace(samples), ...points] : points;
  }

  const dragged = () => document.querySelector("input[name=drag]:checked").value;
  const layout = () => ({
    dragmode: dragged() === "zoom" ? "zoom" : false,
    hovermode: "closest",
    uirevision: "map",
    margin: { l: 56, r: 12, t: 8, b: 48 },
    xaxis: { title: { text: "TCSL<sub>s</sub>: loss of the biased model" }, range: padded(filter.ranges.s) },
    yaxis: { title: { text: "TCSL<sub>c</sub>: loss of the core model" }, range: padded(filter.ranges.c) },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", itemsizing: "constant" },
  });
  draw(plot, traces, layout);
  const redraw = drawings.at(-1);
  colour.addEventListener("change", redraw);
  at("map-note").textContent = mapNote(samples, drawn.length);

  const first = facts.density ? 1 : 0;
  const sampleAt = (event) => members[event.points[0].curveNumber - first]?.[event.points[0].pointNumber];
  plot.on("plotly_hover", (event) => {
    const i = sampleAt(event);
    if (i !== undefined) showHover(samples, hover, i, event.event);
  });
  plot.on("plotly_unhover", () => { hover.hidden = true; });
  const rectangle = connectRectangle(plot, filter, dragged, redraw);
  plot.on("plotly_click", (event) => {
    const i = sampleAt(event);
    if (i !== undefined && !rectangle.drawn) detail.open(i, [i]);
  });
}

const padded = ([low, high]) => [low - 0.04 * (high - low || 1), high + 0.04 * (high - low || 1)];

function densityTrace(samples) {
  const { bins, s, c } = facts.density;
  const z = Array.from({ length: bins }, (_, row) => Array.from(samples.counts.subarray(row * bins, (row + 1) * bins), (value) => (value ? Math.log10(value) : null)));
  const step = ([low, high]) => (high - low) / bins;
  return {
    type: "heatmap", z, x0: s[0] + step(s) / 2, dx: step(s), y0: c[0] + step(c) / 2, dy: step(c), hoverinfo: "skip",
    colorscale: isDark() ? [[0, "#2b3038"], [1, "#d5d9df"]] : [[0, "#e3e6ea"], [1, "#4b5360"]],
    colorbar: { title: { text: "samples", side: "right" }, tickvals: [0, 1, 2, 3, 4, 5], ticktext: ["1", "10", "100", "1,000", "10,000", "100,000"], thickness: 10, len: 0.6, outlinewidth: 0 },
  };
}

function mapNote(samples, drawn) {
  if (!facts.density) return "Hover a point to see the sample; click to open it.";
  const rows = samples.rows < facts.n ? ` The page has the scores of ${count(samples.rows)} of them.` : "";
  return `Grey: how many of the ${count(facts.n)} samples lie there. Points: ${count(drawn)} of them, G_high and the extremes first, then a seeded sample.${rows}`;
}

function showHover(samples, hover, i, { clientX, clientY }) {
  const group = samples.groupName(i);
  hover.replaceChildren(
    ...(samples.hasLook(i) ? [lookOf(samples, i, { full: !samples.asRows })] : []),
    make("b", {}, named(samples.className(i))),
    make("span", {}, `TCSL_s ${short(samples.s[i])} · TCSL_c ${short(samples.c[i])}`),
    make("span", {}, `${samples.high[i] ? "G_high" : "G_low"}, ${samples.chosen[i] ? "chosen" : "left out"}`),
    ...(group ? [make("span", {}, named(group))] : []),
    make("span", {}, "id ", named(samples.ids[i])),
  );
  hover.hidden = false;
  const place = () => {
    const { width, height } = hover.getBoundingClientRect();
    const right = clientX + 18 + width < innerWidth ? clientX + 18 : clientX - width - 18;
    hover.style.left = `${Math.max(8, right)}px`;
    hover.style.top = `${Math.max(8, Math.min(clientY - height / 2, innerHeight - height - 8))}px`;
  };
  place();
  hover.querySelector("img")?.addEventListener("load", place); // only then its height is known
}

// The rectangle lies over the plot: in pixels while it is dragged, in the axes' units afterwards.
function connectRectangle(plot, filter, dragged, redraw) {
  const box = make("div"), frame = make("div", { className: "frame", hidden: true }, box);
  at("map-figure").append(frame);
  const axes = () => [plot._fullLayout.xaxis, plot._fullLayout.yaxis];

  function place() {
    const [x, y] = axes();
    frame.hidden = !filter.bounds;
    if (!filter.bounds) return;
    const inner = plot.getBoundingClientRect(), outer = at("map-figure").getBoundingClientRect();
    Object.assign(frame.style, { left: `${inner.left - outer.left + x._offset}px`, top: `${inner.top - outer.top + y._offset}px`, width: `${x._length}px`, height: `${y._length}px` });
    const [s0, s1, c0, c1] = filter.bounds.map((bound, k) => (Number.isFinite(bound) ? bound : padded(filter.ranges[k < 2 ? "s" : "c"])[k % 2]));
    const [left, right, top, bottom] = [x.d2p(s0), x.d2p(s1), y.d2p(c1), y.d2p(c0)];
    Object.assign(box.style, { left: `${left}px`, top: `${top}px`, width: `${Math.max(0, right - left)}px`, height: `${Math.max(0, bottom - top)}px` });
  }

  const state = { drawn: false }; // whether the pointer that is down, or was last, has drawn: then it did not click
  let start = null, asked = null, waiting = 0;
  const point = (event) => {
    const [x, y] = axes(), inner = plot.getBoundingClientRect();
    const within = (value, length) => Math.min(Math.max(value, 0), length);
    return [within(event.clientX - inner.left - x._offset, x._length), within(event.clientY - inner.top - y._offset, y._length)];
  };
  plot.addEventListener("pointerdown", (event) => {
    state.drawn = false;
    if (dragged() !== "select" || event.button !== 0 || !event.target.closest(".nsewdrag")) return;
    start = point(event);
  }, true);
  addEventListener("pointermove", (event) => {
    if (!start) return;
    const here = point(event);
    if (Math.abs(here[0] - start[0]) < 4 && Math.abs(here[1] - start[1]) < 4) return;
    state.drawn = true;
    at("hover").hidden = true;
    const [x, y] = axes();
    const across = [start[0], here[0]].sort((a, b) => a - b).map((pixel) => x.p2d(pixel));
    const up = [start[1], here[1]].sort((a, b) => b - a).map((pixel) => y.p2d(pixel));
    asked = [...across, ...up];
    if (!waiting) waiting = requestAnimationFrame(() => { waiting = 0; filter.set(asked); });
  });
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => { start = null; });

  for (const input of document.querySelectorAll("input[name=drag]")) {
    if (matchMedia("(pointer: coarse)").matches) input.checked = input.value === "none"; // a finger scrolls
    input.addEventListener("change", () => { touch(); redraw(); });
  }
  const touch = () => plot.classList.toggle("selecting", dragged() === "select");
  touch();
  filter.listeners.push(place);
  plot.on("plotly_afterplot", place);
  plot.on("plotly_relayout", place);
  return state;
}
