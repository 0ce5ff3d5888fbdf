// The gallery: for each class the samples at the ends of the scores, among what is selected.
const CLASSES_FIRST = 12;

function kindsOf(samples) {
  const shown = samples.asRows ? "rows" : "pictures", underlined = "A coloured line: in G_high.";
  const kinds = {
    glance: { title: "Side by side", said: `${facts.words.glance} Under the ${shown}: id, TCSL_s · TCSL_c; a coloured line where G_high is.` },
    s: { title: facts.words.apart, said: "Of each class, the highest TCSL_s in G_high: the biased model is wrong about them for longest." },
    c: { title: "Hardest cores", said: `Of each class, the highest TCSL_c: hard even where the shortcut earns nothing. Wrong labels gather here, too. ${underlined}` },
    ease: { title: "Easiest of both", said: `Of each class, the lowest by both scores together: what most of the class looks like. ${underlined}` },
  };
  if (Object.keys(facts.near).length) {
    kinds.near = { title: "Left out, and what was kept instead", said: `Samples that are not in the coreset, from easy to hard cores, and the nearest of their class that are. Near by: ${facts.nearBy}.` };
  }
  return kinds;
}

function drawGallery(samples, filter, detail) {
  const kinds = kindsOf(samples);
  const pictured = samples.looks && samples.looks < samples.rows ? ` Among the ${count(samples.looks)} samples that this page has ${samples.asRows ? "values" : "pictures"} of; all are in tcsl explore.` : "";
  const orders = {};
  let kind = "glance", limit = innerWidth < 760 ? CLASSES_FIRST / 3 : CLASSES_FIRST;

  // All samples by a score, sorted once and when first wanted; filters walk along it.
  function order(name) {
    if (!orders[name]) {
      const key = { s: samples.s, c: samples.c, ease: samples.ease }[name], sign = name === "ease" ? 1 : -1;
      orders[name] = Uint32Array.from({ length: samples.rows }, (_, i) => i).sort((a, b) => sign * (key[a] - key[b]) || a - b);
    }
    return orders[name];
  }

  // The first `most` of each class along an order, with a picture where any has one; of one cluster, where told.
  function firstOf(name, classes, most, cluster = null) {
    const found = new Map(classes.map((k) => [k, []])), bare = new Map(classes.map((k) => [k, []]));
    let missing = classes.length;
    for (const i of order(name)) {
      if (!filter.inside[i] || !found.has(samples.label[i]) || (cluster !== null && samples.high[i] !== cluster)) continue;
      const list = (samples.hasLook(i) ? found : bare).get(samples.label[i]);
      if (list.length >= most) continue;
      list.push(i);
      if (list.length === most && samples.hasLook(i) && --missing === 0) break;
    }
    return (k) => (found.get(k).length ? found.get(k) : bare.get(k));
  }

  const strips = at("strips");
  function draw() {
    const only = at("only-class").value;
    const all = only === "" ? facts.classes.map((_, k) => k) : [Number(only)];
    const classes = all.slice(0, limit);
    at("kind-said").textContent = `${kinds[kind].said}${pictured}`;
    at("more").hidden = classes.length === all.length;
    const most = only === "" ? 10 : 60;
    const body = {
      glance: () => {
        const each = only === "" ? 5 : 30;
        const low = firstOf("ease", classes, each, 0), high = firstOf("s", classes, each, 1);
        return (k) => [make("div", { className: "sides" }, side("Easiest of both", low(k)), side(facts.words.apart, high(k)))];
      },
      s: () => plain("s", 1), c: () => plain("c"), ease: () => plain("ease"),
      near: () => {
        const pairs = Object.keys(facts.near).map(Number).filter((i) => filter.inside[i]).sort((a, b) => samples.c[a] - samples.c[b]);
        return (k) => {
          const every = only === "" && !filter.active ? 3 : 1; // some of each class, from easy to hard
          const mine = pairs.filter((i) => samples.label[i] === k).filter((_, place) => place % every === 0);
          return mine.length ? [make("ul", { className: "pairs-of" }, ...mine.map((i) => pair(i, mine)))] : [nothing()];
        };
      },
    }[kind]();
    function plain(name, cluster = null) {
      const list = firstOf(name, classes, most, cluster);
      return (k) => [list(k).length ? thumbs(samples, list(k), detail.open, { tabbable: false }) : nothing()];
    }
    const focused = [...strips.querySelectorAll(".thumb")].indexOf(document.activeElement);
    const inside = filter.active ? tally(byClass, samples.rows, filter.inside) : null;
    strips.replaceChildren(...classes.map((k) => strip(k, body(k), inside)));
    const buttons = strips.querySelectorAll(".thumb");
    const first = buttons[Math.min(Math.max(focused, 0), buttons.length - 1)];
    if (first) first.tabIndex = 0;
    if (focused >= 0) first?.focus(); // what had the focus is gone
  }

  const nothing = () => make("p", { className: "small" }, filter.active ? "None in the selection." : "None.");
  const side = (title, list) => make("div", {}, make("h4", {}, title), list.length ? thumbs(samples, list, detail.open, { tabbable: false }) : nothing());
  const pair = (i, mine) => make("li", {}, thumbs(samples, [i], () => detail.open(i, mine), { tabbable: false }), make("span", { className: "arrow", data: { "aria-hidden": "true" } }, "→"), thumbs(samples, facts.near[i], detail.open, { tabbable: false }));
  const byClass = { names: facts.classes, of: (i) => samples.label[i] };
  const sizes = tally(byClass, samples.rows, null);
  const strip = (k, parts, inside) => make("div", { className: "strip" }, make("div", {}, make("h3", {}, named(facts.classes[k])), make("p", {}, `${inside ? `${count(inside[k])} of ` : ""}${count(sizes[k])} samples`)), make("div", {}, ...parts));

  for (const [name, { title }] of Object.entries(kinds)) {
    const input = make("input", { type: "radio", name: "kind", value: name, checked: name === kind });
    input.addEventListener("change", () => { kind = name; draw(); });
    at("kinds").append(make("label", {}, input, title));
  }
  at("only-class").append(make("option", { value: "" }, "all"), ...facts.classes.map((name, k) => make("option", { value: k }, printable(name).slice(0, 60))));
  at("only-class").addEventListener("change", draw);
  at("more").addEventListener("click", () => { limit += CLASSES_FIRST; draw(); });
  strips.addEventListener("keydown", moveAmongThumbs);

  // A drag fires often: the gallery follows when it rests.
  let timer = 0;
  filter.listeners.push(() => { clearTimeout(timer); timer = setTimeout(draw, 60); });
  draw();
  return { draw };
}

// One stop for the tab key; arrows go from picture to picture, up and down to the strip above and below.
function moveAmongThumbs(event) {
  const all = [...event.currentTarget.querySelectorAll(".thumb")];
  const here = all.indexOf(document.activeElement);
  if (here < 0) return;
  const line = (button) => Math.round(button.getBoundingClientRect().top);
  const vertical = (by) => {
    const mine = document.activeElement.getBoundingClientRect();
    const others = all.filter((button) => (line(button) - line(all[here])) * by > 4);
    const nearest = others.reduce((best, button) => (best === null || Math.abs(line(button) - line(all[here])) < Math.abs(best - line(all[here])) ? line(button) : best), null);
    const row = others.filter((button) => Math.abs(line(button) - nearest) <= 4);
    return row.sort((a, b) => Math.abs(a.getBoundingClientRect().left - mine.left) - Math.abs(b.getBoundingClientRect().left - mine.left))[0];
  };
  const next = { ArrowRight: () => all[here + 1], ArrowLeft: () => all[here - 1], Home: () => all[0], End: () => all.at(-1), ArrowDown: () => vertical(1), ArrowUp: () => vertical(-1) }[event.key]?.();
  if (!next) return;
  event.preventDefault();
  all[here].tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
