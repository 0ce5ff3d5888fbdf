// Marks: samples that the reader picks out, kept by the server in the run folder. What is shown here is what it has kept.
const LONGEST_NOTE = 200;

async function connectMarks(samples, filter, gallery) {
  const marks = new Map(); // from index to note
  const bar = makeMarksBar();
  let waiting = Promise.resolve(), undo = null, opened = null;

  async function ask(body) {
    const how = { method: "POST", headers: { "Content-Type": "application/json", "X-Tcsl-Token": served.token }, body: JSON.stringify(body) };
    const answer = await fetch(served.marks, body && how).catch(() => null);
    if (!answer) throw new Error("tcsl explore does not answer; start it again, and open the address that it prints");
    if (!answer.ok) throw new Error((await answer.text()).trim());
    return answer.json();
  }

  // One change after another; `wanted` is asked when its turn comes: {mark: from index to note, unmark: indices}.
  function change(wanted) {
    waiting = waiting.then(async () => {
      const { mark = new Map(), unmark = [] } = wanted();
      if (!mark.size && !unmark.length) return;
      await ask({ mark: byNote(mark), unmark });
      undo = {
        mark: new Map([...mark.keys(), ...unmark].filter((index) => marks.has(index)).map((index) => [index, marks.get(index)])),
        unmark: [...mark.keys()].filter((index) => !marks.has(index)),
      };
      for (const [index, note] of mark) marks.set(index, note);
      for (const index of unmark) marks.delete(index);
      bar.said.textContent = "saved";
      show();
    }).catch((error) => { bar.said.textContent = `Not saved: ${error.message}`; });
    return waiting;
  }

  const toggle = (index) => change(() => (marks.has(index) ? { unmark: [index] } : { mark: new Map([[index, ""]]) }));
  const write = (index, note) => change(() => (marks.get(index) === note ? {} : { mark: new Map([[index, note]]) }));

  function selected() {
    const out = [];
    for (let i = 0; i < samples.rows; i++) if (filter.inside[i]) out.push(samples.index(i));
    return out;
  }

  function show() {
    for (let i = 0; i < samples.rows; i++) samples.marked[i] = marks.has(samples.index(i)) ? 1 : 0;
    bar.count.textContent = `${count(marks.size)} marked`;
    bar.undo.disabled = !undo;
    bar.save.disabled = bar.only.disabled = !marks.size && !bar.only.checked;
    for (const item of document.querySelectorAll(".thumbs > li")) showStar(item);
    if (opened) opened.show();
    if (at("colour").value === "marked") at("colour").dispatchEvent(new Event("change"));
    if (filter.only) filter.set(filter.bounds);
  }

  const items = new WeakMap(); // from what the gallery shows to an index
  function showStar(item) {
    const star = item.querySelector(".mark"), marked = marks.has(items.get(item));
    if (!star) return;
    star.textContent = marked ? "★" : "☆";
    star.setAttribute("aria-pressed", marked);
  }

  document.addEventListener("tcsl:thumb", ({ detail: { index, item, position } }) => {
    const star = make("button", { type: "button", className: "mark", tabIndex: -1, data: { "aria-label": `Mark id ${samples.ids[position]}` } });
    star.addEventListener("click", () => toggle(index));
    items.set(item, index);
    item.append(star);
    showStar(item);
  });

  document.addEventListener("tcsl:sample", ({ detail: { position, index, slot } }) => {
    const star = make("button", { type: "button", data: { "aria-label": "Mark this sample", "aria-keyshortcuts": "m" } });
    const note = make("input", { type: "text", maxLength: LONGEST_NOTE, autocomplete: "off", value: marks.get(index) ?? "" });
    star.addEventListener("click", () => toggle(index));
    // What is typed is saved when the typing rests, and at once when it ends.
    let timer = 0;
    const keep = () => { clearTimeout(timer); if (note.value.trim() || marks.has(index)) write(index, note.value.trim()); };
    note.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(keep, 400); });
    note.addEventListener("change", keep);
    opened = {
      index,
      show: () => {
        const marked = marks.has(index);
        star.textContent = `${marked ? "★" : "☆"} Mark (m)`;
        star.setAttribute("aria-pressed", marked);
        if (document.activeElement !== note) note.value = marks.get(index) ?? "";
      },
    };
    opened.show();
    slot.append(make("p", { className: "keys" }, star, make("label", { className: "note-of" }, "Note ", note)));
    const image = samples.fullSize(position);
    if (image) slot.append(make("p", { className: "small" }, make("a", { href: image, target: "_blank", rel: "noopener" }, "The image alone")));
  });
  at("detail").addEventListener("close", () => { opened = null; });
  at("detail-close").autofocus = true; // Enter opens a sample, and held down it must not mark it

  addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "m" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select")) return;
    const index = items.get(document.activeElement.closest(".thumbs > li")) ?? opened?.index;
    if (index !== undefined) toggle(index);
  });

  bar.mark.addEventListener("click", () => change(() => {
    const note = bar.note.value.trim();
    const wanted = selected().map((index) => [index, note || (marks.get(index) ?? "")]);
    return { mark: new Map(wanted.filter(([index, text]) => marks.get(index) !== text)) };
  }));
  bar.unmark.addEventListener("click", () => change(() => ({ unmark: selected().filter((index) => marks.has(index)) })));
  bar.undo.addEventListener("click", () => change(() => undo ?? {}));
  bar.only.addEventListener("change", () => { filter.set(filter.bounds, bar.only.checked ? samples.marked : null); show(); });
  bar.save.addEventListener("click", () => ask().then(({ rows }) => saveCsv("tcsl-marks.csv", ["id", "index", "class", "note", "time"], rows), (error) => { bar.said.textContent = error.message; }));
  const follow = () => {
    bar.mark.disabled = !filter.bounds || !filter.size;
    bar.unmark.disabled = !filter.active || !filter.size;
  };
  filter.listeners.push(follow);
  follow();

  try {
    for (const [, index, , note] of (await ask()).rows) marks.set(index, note);
  } catch (error) {
    bar.said.textContent = error.message;
  }
  show();
  gallery.draw(); // again, with its stars
}

// Samples by their notes, which names them once.
function byNote(mark) {
  const groups = new Map();
  for (const [index, note] of mark) {
    if (!groups.has(note)) groups.set(note, []);
    groups.get(note).push(index);
  }
  return Object.fromEntries(groups);
}

function makeMarksBar() {
  const button = (text) => make("button", { type: "button" }, text);
  const parts = {
    count: make("strong", { id: "marks-count", data: { role: "status" } }),
    only: make("input", { type: "checkbox", id: "marks-only" }),
    note: make("input", { type: "text", id: "marks-note", maxLength: LONGEST_NOTE, autocomplete: "off" }),
    mark: button("Mark the selection"),
    unmark: button("Unmark it"),
    undo: button("Undo"),
    save: button("Marks as CSV"),
    said: make("span", { id: "marks-said", className: "small", data: { role: "status" } }, "Mark by the star of a sample, or the key m."),
  };
  const line = make("div", { className: "controls" }, parts.count, make("label", {}, parts.only, " show only these"),
    make("label", {}, "Note ", parts.note), parts.mark, parts.unmark, parts.undo, parts.save, parts.said);
  const told = served.note ? [make("p", { className: "small", id: "marks-told" }, served.note)] : [];
  document.querySelector("main").append(make("section", { id: "marks", data: { "aria-label": "Marks" } }, line, ...told));
  return parts;
}

await connectMarks(samples, filter, gallery);
document.documentElement.dataset.marks = "yes";
