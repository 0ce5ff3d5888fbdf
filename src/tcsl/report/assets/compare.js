// Runs side by side: accuracies in one chart, maps and loss curves each with the same axes.
const columns = await columnsOf("columns", facts.columns);
await loadCharts();
const { runs } = facts;
const most = (values) => Math.max(...values, 0) * 1.04 || 1;

function drawAccuracy() {
  const rows = runs.map((run, k) => ({ ...run, k })).filter((run) => run.accuracy);
  if (!rows.length) return at("accuracy-chart").append(make("p", {}, "No run has a test set."));
  const { holder, chart } = figure("Accuracy of the worst group, or class, and on average", "With 95 % intervals of Wilson.", { height: 110 + 64 * rows.length, heading: "h3" });
  at("accuracy-chart").append(holder);
  const points = (row, when, name, colour, symbol, shift) => {
    const shown = rows.map((run, k) => [run.accuracy[row][when], k]).filter(([one]) => one);
    return {
      type: "scatter", mode: "markers", name, x: shown.map(([one]) => 100 * one.value), y: shown.map(([, k]) => k + shift), marker: { color: colour, symbol, size: 10 },
      error_x: { type: "data", symmetric: false, array: shown.map(([one]) => 100 * (one.high - one.value)), arrayminus: shown.map(([one]) => 100 * (one.value - one.low)), color: colour, thickness: 1.5, width: 3 },
      hovertemplate: `${name}: %{x:.1f} %<extra></extra>`,
    };
  };
  draw(chart, () => [
    points(0, "before", "worst, before", meant("before"), "circle", -0.24), points(0, "after", "worst, after", meant("high"), "circle", -0.08),
    points(1, "before", "average, before", meant("before"), "diamond-open", 0.08), points(1, "after", "average, after", meant("after"), "diamond", 0.24),
  ], () => ({ xaxis: { range: [0, 102], ticksuffix: " %" }, yaxis: { tickvals: rows.map((_, k) => k), ticktext: rows.map((run) => label(run.name)), range: [rows.length - 0.5, -0.5], showgrid: false } }));
  return undefined;
}

function drawMaps() {
  const across = most(runs.map((run) => run.range[0])), up = most(runs.map((run) => run.range[1]));
  runs.forEach((run, k) => {
    const said = run.drawn < run.n ? `${count(run.drawn)} of ${count(run.n)} samples: G_high first, then a seeded sample.` : `All ${count(run.n)} samples.`;
    const { holder, chart } = figure("", said, { height: 300, heading: "h3" });
    holder.querySelector("h3").append(named(run.name));
    at("maps-grid").append(holder);
    chart.setAttribute("aria-label", `Map of ${run.name}`);
    const high = columns[`high${k}`];
    const part = (name, value, colour) => {
      const list = [...high.keys()].filter((i) => high[i] === value);
      // Drawn without WebGL: a browser has few such contexts, and there may be many runs.
      return { type: "scatter", mode: "markers", name, x: list.map((i) => columns[`s${k}`][i]), y: list.map((i) => columns[`c${k}`][i]), marker: { size: 5, opacity: 0.6, color: colour }, hoverinfo: "skip" };
    };
    draw(chart, () => [part("G_low", 0, meant("low")), part("G_high", 1, meant("high"))], () => ({ dragmode: false, xaxis: { title: { text: "TCSL<sub>s</sub>" }, range: [-across * 0.03, across] }, yaxis: { title: { text: "TCSL<sub>c</sub>" }, range: [-up * 0.03, up] } }));
  });
}

function drawCurves() {
  const epochs = most(runs.map((run) => Object.values(run.curves)[0][0].length)), loss = most(runs.flatMap((run) => Object.values(run.curves).flatMap((rows) => rows[4])));
  for (const run of runs) {
    const { holder, chart } = figure("", "", { height: 260, heading: "h3" });
    holder.querySelector("h3").append(named(run.name));
    at("curves-grid").append(holder);
    chart.setAttribute("aria-label", `Loss curves of ${run.name}`);
    draw(chart, () => curveTraces(run.curves), () => ({ dragmode: false, xaxis: { title: { text: "epoch" }, range: [0.9, epochs], dtick: epochs <= 13 ? 1 : undefined }, yaxis: { title: { text: "loss" }, range: [0, loss] } }));
  }
}

drawAccuracy();
drawMaps();
drawCurves();
document.documentElement.dataset.ready = "yes";
