// Data that travels in the page: JSON, and bytes as base64, most of them squeezed.
const at = (id) => document.getElementById(id);
const facts = JSON.parse(at("tcsl-facts").textContent);
const served = JSON.parse(at("tcsl-served").textContent);

function bytesOf(name) {
  const holder = at(`tcsl-${name}`);
  if (!holder) return null;
  const text = holder.textContent;
  holder.remove(); // the text is not needed twice
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}

async function unsqueezed(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function textOf(name) {
  const bytes = bytesOf(name);
  return bytes && new TextDecoder().decode(await unsqueezed(bytes));
}

// Of each column first all lowest bytes, then all second ones, and so on.
async function columnsOf(name, about) {
  const bytes = await unsqueezed(bytesOf(name));
  const kinds = { Uint8Array, Uint16Array, Uint32Array, Float32Array };
  const out = {};
  let start = 0;
  for (const { name: column, kind, length } of about) {
    const values = new kinds[kind](length);
    const target = new Uint8Array(values.buffer);
    const size = values.BYTES_PER_ELEMENT;
    for (let plane = 0; plane < size; plane++) {
      const from = start + plane * length;
      for (let i = 0; i < length; i++) target[i * size + plane] = bytes[from + i];
    }
    start += size * length;
    out[column] = values;
  }
  return out;
}

// Elements are made with text, never with markup: names come from the data.
function make(tag, options = {}, ...children) {
  const { data, ...rest } = options;
  const element = Object.assign(document.createElement(tag), rest);
  for (const [name, value] of Object.entries(data ?? {})) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// A mark in place of what does not print, such as marks of direction; as tcsl.text.printable.
const printable = (text) => String(text).replace(/(?! )[\p{C}\p{Z}]/gu, "\ufffd");
const named = (text) => make("bdi", { className: "name", title: printable(text) }, printable(text));
const count = (value) => value.toLocaleString("en-US");
const percent = (part, whole) => `${(whole ? (100 * part) / whole : 0).toFixed(1)} %`;
