// The gallery is there first; charts follow when their library is unpacked.
const samples = await loadSamples();
const filter = makeFilter(samples);
const detail = makeDetail(samples);
connectBounds(filter);
connectCounts(samples, filter);
connectExport(samples, filter);
const gallery = drawGallery(samples, filter, detail);
await loadCharts();
drawMap(samples, filter, detail);
drawWhy();
// Paper has nothing to open. What a reader had opened stays so.
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("#how details:not([open])")];
  for (const part of closed) part.open = true;
});
addEventListener("afterprint", () => { for (const part of closed) part.open = false; });
window.tcsl = { facts, served, samples, filter, detail, gallery };
document.documentElement.dataset.ready = "yes";
document.dispatchEvent(new CustomEvent("tcsl:ready"));
