// The selection: a rectangle in the plane of the two scores, what is marked, both, or everything. Counts and gallery follow it.
function makeFilter(samples) {
  const ranges = { s: rangeOf(samples.s), c: rangeOf(samples.c) };
  const filter = {
    bounds: null, // [s0, s1, c0, c1]
    only: null, // ones and zeros, such as which samples are marked
    get active() { return Boolean(filter.bounds || filter.only); },
    ranges,
    inside: new Uint8Array(samples.rows).fill(1),
    size: samples.rows,
    listeners: [],
    set(bounds, only = filter.only) {
      Object.assign(filter, { bounds, only });
      const [s0, s1, c0, c1] = bounds ?? [-Infinity, Infinity, -Infinity, Infinity];
      const { s, c } = samples;
      let size = 0;
      for (let i = 0; i < samples.rows; i++) {
        const within = s[i] >= s0 && s[i] <= s1 && c[i] >= c0 && c[i] <= c1 && (!only || only[i] === 1);
        filter.inside[i] = within;
        size += within;
      }
      filter.size = size;
      for (const listener of filter.listeners) listener();
    },
  };
  return filter;
}

function rangeOf(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

// Bounds by keyboard: an empty field is no bound.
function connectBounds(filter) {
  const fields = ["s0", "s1", "c0", "c1"].map(at);
  const none = [-Infinity, Infinity, -Infinity, Infinity];
  for (const field of fields) {
    field.addEventListener("change", () => {
      const typed = fields.map((one, k) => (one.value === "" ? none[k] : Number(one.value)));
      const [s, c] = [typed.slice(0, 2), typed.slice(2)].map((pair) => pair.sort((a, b) => a - b));
      filter.set(fields.every((one) => one.value === "") ? null : [...s, ...c]);
    });
  }
  at("controls").addEventListener("submit", (event) => event.preventDefault());
  at("clear").addEventListener("click", () => filter.set(null));
  filter.listeners.push(() => {
    fields.forEach((field, k) => {
      const bound = filter.bounds?.[k];
      field.value = Number.isFinite(bound) ? Number(bound.toPrecision(5)) : "";
    });
    at("clear").disabled = !filter.bounds;
  });
}

// How many of each class, cluster and group are selected; bars are made once and then only changed.
function connectCounts(samples, filter) {
  const ways = [
    { title: "Cluster", names: [facts.words.high, facts.words.low], of: (i) => 1 - samples.high[i] },
    { title: "Coreset", names: ["chosen", "left out"], of: (i) => 1 - samples.chosen[i] },
    { title: "Class", names: facts.classes, of: (i) => samples.label[i] },
    facts.groups && { title: "True group", names: facts.groups, of: (i) => samples.group[i] },
  ].filter(Boolean);
  for (const way of ways) {
    way.total = tally(way, samples.rows, null);
    way.lines = way.names.map((name, k) => {
      const number = make("span"), bar = make("i");
      const line = make("div", { className: "count" }, named(name), number, make("span", { className: "bar" }, bar));
      return { line, number, bar, total: way.total[k] };
    });
    const shown = way.lines.filter((line) => line.total).sort((a, b) => (way.names.length > 30 ? b.total - a.total : 0)).slice(0, 60);
    at("counts").append(make("h3", {}, way.title), ...shown.map((line) => line.line));
    if (way.lines.length > shown.length && shown.length === 60) at("counts").append(make("p", { className: "small" }, `and ${count(way.lines.length - 60)} smaller ones`));
  }
  const update = () => {
    const whole = samples.rows < facts.n ? `${count(samples.rows)} samples in this page (of ${count(facts.n)})` : `${count(samples.rows)} samples`;
    at("selected").textContent = filter.active ? `${count(filter.size)} of ${whole} selected (${percent(filter.size, samples.rows)})` : `All ${whole}`;
    for (const way of ways) {
      const selected = tally(way, samples.rows, filter.inside);
      way.lines.forEach(({ number, bar, total }, k) => {
        number.textContent = filter.active ? `${count(selected[k])} of ${count(total)}` : count(total);
        bar.style.width = `${total ? (100 * selected[k]) / (filter.active ? total : samples.rows) : 0}%`;
      });
    }
  };
  filter.listeners.push(update);
  update();
}

function tally({ names, of }, rows, inside) {
  const out = new Uint32Array(names.length);
  for (let i = 0; i < rows; i++) if (!inside || inside[i]) out[of(i)]++;
  return out;
}

function connectExport(samples, filter) {
  at("export").addEventListener("click", () => {
    const rows = [];
    for (let i = 0; i < samples.rows; i++) {
      if (!filter.inside[i]) continue;
      const [s, c] = [samples.s[i], samples.c[i]].map((value) => Number(value.toPrecision(4)));
      rows.push([samples.ids[i], samples.index(i), samples.className(i), s, c, samples.high[i], samples.chosen[i]]);
    }
    saveCsv("tcsl-selection.csv", ["id", "index", "class", "tcsl_s", "tcsl_c", "g_high", "chosen"], rows);
  });
}
