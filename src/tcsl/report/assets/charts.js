// Charts by plotly.js, which the page carries; they follow the theme.
const drawings = [];

async function loadCharts() {
  const { nonce } = document.querySelector("script[type=module]"); // of a page that is served
  document.head.append(make("script", { textContent: await textOf("plotly"), nonce }));
  themeListeners.push(() => drawings.forEach((redraw) => redraw()));
}

// Okabe and Ito's colours, which eyes of every kind tell apart; yellow is too pale on white, black is no sight on black.
const LIGHT = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#7f7f7f"];
const DARK = ["#56b4e9", "#ff8a3c", "#2fc79b", "#e79bc4", "#f0b93a", "#2f8fd0", "#b79be0", "#a9a9a9"];
const SYMBOLS = ["circle", "diamond", "square", "triangle-up", "x", "cross", "triangle-down", "star"];
const colourAt = (k) => (isDark() ? DARK : LIGHT)[k % LIGHT.length];
const symbolAt = (k) => SYMBOLS[Math.max(0, Math.floor(k / LIGHT.length)) % SYMBOLS.length];
const COLOURS = { low: 0, after: 0, high: 1, chosen: 2, before: 7, out: 7 };
const meant = (what) => colourAt(COLOURS[what]);

// Plotly reads some markup in labels; names from the data are text, short enough for an axis.
function label(text, most = 28) {
  const clean = [...printable(text)];
  const cut = clean.length > most ? `${clean.slice(0, most - 1).join("")}…` : clean.join("");
  return cut.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function layoutOf(more = {}) {
  const axis = { gridcolor: colourOf("line"), zerolinecolor: colourOf("line"), linecolor: colourOf("line"), automargin: true };
  const { xaxis, yaxis, ...rest } = more;
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colourOf("ink") },
    margin: { l: 52, r: 12, t: 8, b: xaxis?.title ? 44 : 26 },
    hoverlabel: { bgcolor: colourOf("surface"), bordercolor: colourOf("line"), font: { color: colourOf("ink") } },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12 } },
    xaxis: { ...axis, ...xaxis },
    yaxis: { ...axis, ...yaxis },
    ...rest,
  };
}

const CONFIG = { displayModeBar: false, responsive: true };

// Draw now, and again when the theme changes; `traces` and `layout` are functions, since colours follow the theme.
function draw(place, traces, layout) {
  const redraw = () => Plotly.react(place, traces(), layoutOf(layout()), CONFIG);
  drawings.push(redraw);
  return redraw();
}

function figure(title, said, { height = 280, table, heading = "h4" } = {}) {
  const chart = make("div", { className: "chart", data: { role: "img", "aria-label": `${title}. ${said}` } });
  chart.style.height = `${height}px`;
  const holder = make("figure", {}, make(heading, {}, title), chart, make("figcaption", {}, said));
  if (table) holder.append(asTable(title, table));
  return { holder, chart };
}

// The numbers of a chart, for who cannot see it or wants them; made when opened.
function asTable(title, { head, rows }) {
  const details = make("details", {}, make("summary", {}, "As a table"));
  details.addEventListener("toggle", () => {
    if (details.children.length > 1) return;
    const cells = (row, tag) => row.map((cell, k) => make(k ? tag : "th", {}, typeof cell === "string" ? named(cell) : String(cell)));
    const body = rows().map((row) => make("tr", {}, ...cells(row, "td")));
    const table = make("table", {}, make("thead", {}, make("tr", {}, ...cells(head, "th"))), make("tbody", {}, ...body));
    details.append(make("div", { className: "scroll", tabIndex: 0, data: { role: "region", "aria-label": title } }, table));
  });
  return details;
}
