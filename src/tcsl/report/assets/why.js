// The charts that tell why: loss curves, densities, what the coreset is made of, accuracy by group.
function drawWhy() {
  const { curves, densities, composition } = facts.why;
  const place = at("charts");
  lossCurves(curves, place);
  place.append(make("h3", {}, "How the scores are spread"));
  scoreDensities(densities, place);
  place.append(make("h3", {}, "What the coreset is made of"));
  compositions(composition, place);
  if (facts.accuracy) {
    accuracies(facts.accuracy, place);
  }
}

function lossCurves(curves, place) {
  const epochs = Object.values(curves)[0][0].map((_, k) => k + 1);
  const { holder, chart } = figure("The biased model's loss in each epoch", "Median, the middle half and the middle 80 % of G_high and G_low. The biased model fits G_low within epochs; what it keeps getting wrong is G_high.", {
    height: 320,
    heading: "h3",
    table: { head: ["Epoch", ...Object.keys(curves).map((name) => `${name}, median`)], rows: () => epochs.map((epoch, k) => [epoch, ...Object.values(curves).map((rows) => rows[2][k].toFixed(4))]) },
  });
  place.append(holder);
  draw(chart, () => curveTraces(curves), () => ({ hovermode: "x unified", xaxis: { title: { text: "epoch" }, dtick: epochs.length <= 12 ? 1 : undefined }, yaxis: { title: { text: "loss" }, rangemode: "tozero" } }));
}

function scoreDensities(densities, place) {
  const ways = Object.keys(Object.values(densities)[0]);
  const choice = make("select", { id: "density-by" }, ...ways.map((way) => make("option", { value: way }, way === "group" ? "true group" : way)));
  if (ways.length > 1) place.append(make("div", { className: "controls" }, make("label", {}, "By ", choice)));
  const grid = make("div", { className: "grid" });
  place.append(grid);
  for (const [title, byWay] of Object.entries(densities)) {
    const { holder, chart } = figure(`Density of ${title}`, "On a logarithmic axis. Each curve is drawn to the same height, whatever its number of samples; where they are few, each is a point.", { height: 260 });
    grid.append(holder);
    const colour = (name, k) => ({ G_high: meant("high"), G_low: meant("low") }[name] ?? colourAt([1, 0][k] ?? k));
    const curve = (name, k) => ({ mode: "lines", fill: "tozeroy", line: { color: colour(name, k), width: 2, dash: ["solid", "dot", "dash", "dashdot"][k % 4] }, fillcolor: faded(colour(name, k), 0.12) });
    const points = (name, k) => ({ mode: "markers", marker: { color: colour(name, k), symbol: SYMBOLS[k % SYMBOLS.length], size: 7 }, cliponaxis: false });
    draw(chart, () => Object.entries(byWay[choice.value].parts).map(([name, { x, y }], k) => ({
      x, y: y ?? x.map(() => 0), name: label(name), hoverinfo: "skip", ...(y ? curve : points)(name, k),
    })), () => ({ xaxis: { title: { text: title }, ...logAxis(byWay[choice.value].ends) }, yaxis: { title: { text: "density" }, rangemode: "tozero", showticklabels: false } }));
    choice.addEventListener("change", drawings.at(-1));
  }
}

// Plain numbers at 1, 2 and 5, or at the powers of ten where those are too many; plotly's own where they are too few.
function logAxis([low, high]) {
  const pad = 0.08 * Math.log10(high / low) + 0.02, range = [Math.log10(low) - pad, Math.log10(high) + pad];
  const digits = high / low < 200 ? [1, 2, 5] : [1], values = [];
  for (let power = Math.floor(range[0]); power <= range[1]; power++) values.push(...digits.map((digit) => Number(`${digit}e${power}`)));
  const tickvals = values.filter((value) => Math.log10(value) >= range[0] && Math.log10(value) <= range[1]);
  const said = (value) => (value >= 0.001 && value <= 10000 ? String(value) : `10<sup>${Math.round(Math.log10(value))}</sup>`);
  return { type: "log", range, ...(tickvals.length > 1 ? { tickvals, ticktext: tickvals.map(said) } : {}) };
}

function compositions(composition, place) {
  const grid = make("div", { className: "masonry" });
  place.append(grid);
  for (const { by, names, all, coreset } of composition) {
    const sums = [all, coreset].map((counts) => counts.reduce((sum, one) => sum + one, 0));
    const shown = names.map((_, k) => k).filter((k) => all[k]).sort((a, b) => (names.length > 40 ? all[b] - all[a] : 0)).slice(0, 40);
    const rest = names.length > 40 ? " The 40 largest." : "";
    const { holder, chart } = figure(`By ${by}`, `Share of all ${count(sums[0])} samples, and of the ${count(sums[1])} in the coreset.${rest}`, {
      height: 90 + 26 * Math.max(shown.length, 2),
      table: { head: [by, "all", "coreset"], rows: () => names.map((name, k) => [name, count(all[k]), count(coreset[k])]) },
    });
    grid.append(holder);
    const bars = (counts, sum, name, colour) => ({
      type: "bar", orientation: "h", name, y: shown.map((_, k) => k), x: shown.map((k) => (100 * counts[k]) / (sum || 1)), marker: { color: colour },
      customdata: shown.map((k) => [label(names[k], 80), count(counts[k])]), hovertemplate: `%{customdata[0]}<br>${name}: %{customdata[1]} (%{x:.1f} %)<extra></extra>`,
    });
    draw(chart, () => [bars(all, sums[0], "all", meant("before")), bars(coreset, sums[1], "coreset", meant("chosen"))], () => ({
      barmode: "group", bargap: 0.25,
      xaxis: { ticksuffix: " %", rangemode: "tozero" },
      yaxis: { tickvals: shown.map((_, k) => k), ticktext: shown.map((k) => label(names[k], 22)), autorange: "reversed", showgrid: false },
    }));
  }
}

function accuracies({ parts, titles, kind, by_unit }, place) {
  const known = parts.filter((part) => part.after).slice(0, 60);
  const said = `With 95 % intervals of Wilson${by_unit ? "; samples of one unit count as what they tell together" : ""}. ${kind === "classes" ? "Groups are not known; these are the classes." : ""}`;
  const cell = (one) => (one ? `${(100 * one.value).toFixed(1)} [${(100 * one.low).toFixed(1)}, ${(100 * one.high).toFixed(1)}]` : "");
  const { holder, chart } = figure(kind === "groups" ? "Accuracy of every group, before and after" : "Accuracy of every class, before and after", said, {
    heading: "h3",
    height: 90 + 34 * Math.max(known.length, 2),
    table: { head: [kind === "groups" ? "Group" : "Class", "test samples", "before, %", "after, %"], rows: () => parts.map((part) => [part.name, count(part.n), cell(part.before), cell(part.after)]) },
  });
  place.append(holder);
  const bars = (when, name, colour) => ({
    type: "bar", orientation: "h", name, y: known.map((_, k) => k), x: known.map((part) => 100 * (part[when]?.value ?? 0)), marker: { color: colour },
    error_x: { type: "data", symmetric: false, array: known.map((part) => (part[when] ? 100 * (part[when].high - part[when].value) : 0)), arrayminus: known.map((part) => (part[when] ? 100 * (part[when].value - part[when].low) : 0)), color: colourOf("ink"), thickness: 1, width: 2 },
    customdata: known.map((part) => label(part.name, 80)), hovertemplate: `%{customdata}<br>${name}: %{x:.1f} %<extra></extra>`,
  });
  draw(chart, () => [...(titles.before ? [bars("before", `before: ${label(titles.before)}`, meant("before"))] : []), bars("after", `after: ${label(titles.after)}`, meant("after"))], () => ({
    barmode: "group", bargap: 0.3,
    xaxis: { range: [0, 102], ticksuffix: " %" },
    yaxis: { tickvals: known.map((_, k) => k), ticktext: known.map((part) => label(part.name)), autorange: "reversed", showgrid: false },
  }));
}
