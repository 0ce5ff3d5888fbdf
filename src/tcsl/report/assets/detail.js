// One sample, large: opened from the gallery or the map; arrows go to the one before and the next.
function makeDetail(samples) {
  const dialog = at("detail");
  let list = [], position = 0;

  function show() {
    const i = list[position];
    at("detail-look").replaceChildren(lookOf(samples, i, { full: true }));
    at("detail-title").replaceChildren(named(samples.className(i)));
    const rows = {
      id: samples.ids[i],
      index: String(samples.index(i)),
      TCSL_s: score(samples.s[i]),
      TCSL_c: score(samples.c[i]),
      cluster: samples.high[i] ? facts.words.high : facts.words.low,
      coreset: samples.chosen[i] ? "chosen" : "left out",
      ...(facts.groups && { "true group": samples.groupName(i) }),
    };
    at("detail-facts").replaceChildren(...Object.entries(rows).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, named(value))]));
    const near = facts.near[i];
    at("detail-near").replaceChildren(...(near ? [make("p", { className: "small" }, "Nearest in the coreset"), thumbs(samples, near, open)] : []));
    at("detail-before").disabled = position === 0;
    at("detail-after").disabled = position === list.length - 1;
    // A server may add what it knows of the sample, such as marks, in #detail-more.
    at("detail-more").replaceChildren();
    document.dispatchEvent(new CustomEvent("tcsl:sample", { detail: { position: i, index: samples.index(i), id: samples.ids[i], slot: at("detail-more") } }));
  }

  function step(by) {
    if (position + by < 0 || position + by >= list.length) return;
    position += by;
    show();
  }

  function open(i, among) {
    list = [...among];
    position = list.indexOf(i);
    show();
    if (!dialog.open) dialog.showModal();
  }

  at("detail-before").addEventListener("click", () => step(-1));
  at("detail-after").addEventListener("click", () => step(1));
  at("detail-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("keydown", (event) => {
    if (event.target.matches("input")) return; // arrows go along the text
    if (event.key === "ArrowLeft") step(-1);
    if (event.key === "ArrowRight") step(1);
  });
  return { open };
}

// A list of samples as buttons: picture or row, scores, id.
function thumbs(samples, list, open, { tabbable = true } = {}) {
  const items = [...list].map((i) => {
    const scores = `${short(samples.s[i])} · ${short(samples.c[i])}`;
    const caption = make("span", { className: "cap", data: { "aria-hidden": "true" } }, make("b", {}, named(samples.ids[i].split("/").at(-1))), scores);
    const button = make("button", { type: "button", className: `thumb${samples.high[i] ? " high" : ""}`, tabIndex: tabbable ? 0 : -1 }, lookOf(samples, i), caption);
    button.setAttribute("aria-label", saidOf(samples, i));
    button.addEventListener("click", () => open(i, list));
    const item = make("li", {}, button);
    // A server may add to it, such as a mark.
    document.dispatchEvent(new CustomEvent("tcsl:thumb", { detail: { position: i, index: samples.index(i), item } }));
    return item;
  });
  return make("ul", { className: samples.asRows ? "thumbs rows" : "thumbs" }, ...items);
}
