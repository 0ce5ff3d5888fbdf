// Loss curves as median and bands.
const faded = (colour, opacity) => `rgba(${[1, 3, 5].map((k) => parseInt(colour.slice(k, k + 2), 16)).join(",")},${opacity})`;

function curveTraces(curves) {
  const colours = { G_high: meant("high"), G_low: meant("low") };
  const epochs = Object.values(curves)[0][0].map((_, k) => k + 1);
  const line = { x: epochs, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
  const band = (name, low, high, opacity) => [{ ...line, y: low }, { ...line, y: high, fill: "tonexty", fillcolor: faded(colours[name], opacity) }];
  return Object.entries(curves).flatMap(([name, [p10, p25, p50, p75, p90]]) => [
    ...band(name, p10, p90, 0.14),
    ...band(name, p25, p75, 0.24),
    {
      x: epochs, y: p50, name, mode: epochs.length < 3 ? "markers+lines" : "lines", hovertemplate: `${name}: %{y:.3f}<extra></extra>`,
      line: { color: colours[name], width: 2.5, dash: name === "G_low" ? "dot" : "solid" },
    },
  ]);
}
