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
// Paper has nothing to open.
for (const [event, open] of [["beforeprint", true], ["afterprint", false]]) {
  addEventListener(event, () => { for (const part of document.querySelectorAll("#how details")) part.open = open; });
}
window.tcsl = { facts, served, samples, filter, detail, gallery };
document.documentElement.dataset.ready = "yes";
document.dispatchEvent(new CustomEvent("tcsl:ready"));
