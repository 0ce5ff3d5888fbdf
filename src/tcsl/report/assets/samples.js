// The samples: typed arrays, one place a sample; ids, thumbnails or texts.
async function loadSamples() {
  const columns = await columnsOf("columns", facts.columns);
  const ids = JSON.parse(await textOf("ids"));
  const texts = JSON.parse((await textOf("texts")) ?? "null");
  const pictures = bytesOf("thumbnails");
  const rows = columns.s.length;
  const looks = new Int32Array(rows).fill(-1);
  (columns.shown ?? []).forEach((i, k) => { looks[i] = k; });
  const urls = new Map();

  // The address of a thumbnail, made when it is first wanted.
  function picture(i) {
    const k = looks[i];
    if (k < 0 || !pictures) return null;
    if (!urls.has(k)) {
      const part = pictures.subarray(k ? columns.ends[k - 1] : 0, columns.ends[k]);
      urls.set(k, URL.createObjectURL(new Blob([part], { type: "image/webp" })));
    }
    return urls.get(k);
  }

  const index = (i) => (columns.index ? columns.index[i] : i);
  return {
    ...columns,
    ids,
    rows,
    index,
    picture,
    asRows: texts !== null,
    text: (i) => (texts && looks[i] >= 0 ? texts[looks[i]] : null),
    hasLook: (i) => looks[i] >= 0 || Boolean(served.image),
    looks: served.image ? rows : (columns.shown ?? []).length,
    marked: served.marks ? new Uint8Array(rows) : null,
    className: (i) => facts.classes[columns.label[i]],
    groupName: (i) => (columns.group ? facts.groups[columns.group[i]] : null),
    fullSize: (i) => (served.image ? served.image.replace("{index}", index(i)) : null),
  };
}

const score = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(value < 10 ? 3 : 2));

const short = (value) => (value >= 1000 ? value.toExponential(0) : value.toFixed(value < 10 ? 2 : 0));

// What a sample is, in words: alt texts and hover.
function saidOf(samples, i) {
  const cluster = samples.high[i] ? "G_high" : "G_low";
  return `class ${samples.className(i)}, TCSL_s ${score(samples.s[i])}, TCSL_c ${score(samples.c[i])}, ${cluster}, ${
    samples.chosen[i] ? "in the coreset" : "left out"}, id ${samples.ids[i]}`;
}

// An image, a row's values, or a word on why there is neither. Where one of thumbnail and full size fails, the other is shown.
function lookOf(samples, i, { full = false } = {}) {
  const urls = [samples.picture(i), samples.fullSize(i)].filter(Boolean);
  if (full) urls.reverse();
  if (urls.length) {
    const image = make("img", { src: urls[0], alt: saidOf(samples, i), decoding: "async", draggable: false });
    image.addEventListener("load", () => image.classList.toggle("pixels", image.naturalWidth <= 48));
    image.addEventListener("error", () => { if (urls.length > 1) image.src = urls[1]; }, { once: true });
    return image;
  }
  const text = samples.text(i);
  if (text !== null) return full ? make("pre", { tabIndex: 0 }, text) : make("span", { className: "row" }, text);
  return make("span", { className: "none" }, "no picture in this page");
}
