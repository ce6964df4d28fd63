// Charts: who points at a moment sees the values of that moment in the legend.

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const WORDS = {
  messages: (value) => Math.round(value).toLocaleString("en"),
  rate: (value) => `${value >= 100 || value === 0 ? WORDS.messages(value) : value.toFixed(1)}/s`,
  bytes: (value) => {
    const power = Math.min(Math.floor(Math.log2(Math.max(value, 1)) / 10), 5);
    const amount = value / 1024 ** power;
    return `${amount.toFixed(power === 0 || amount >= 100 ? 0 : 1)} ${BYTE_UNITS[power]}`;
  },
  "byte rate": (value) => `${WORDS.bytes(value)}/s`,
};
const newest = new WeakMap();

function legend(chart) {
  return [...chart.querySelectorAll("[data-line]")];
}

function leave(chart) {
  chart.querySelector(".cursor")?.remove();
  chart.querySelector(".moment").textContent = "";
  for (const place of legend(chart)) {
    if (newest.has(place)) {
      place.textContent = newest.get(place);
      newest.delete(place);
    }
  }
}

function point(chart, plot, event) {
  const { lines, unit, slots, seconds, last } = JSON.parse(chart.dataset.chart);
  const box = plot.getBoundingClientRect();
  const share = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
  let cursor = plot.querySelector(".cursor");
  if (!cursor) {
    cursor = document.createElement("div");
    cursor.className = "cursor";
    plot.append(cursor);
  }
  cursor.style.left = `${share * 100}%`;
  const step = seconds / slots;
  const back = Math.round((1 - share) * slots);
  const moment = new Date((last - back * step) * 1000).toISOString();
  chart.querySelector(".moment").textContent = `${moment.slice(11, 19)} UTC`;
  for (const place of legend(chart)) {
    const values = lines[place.dataset.line] ?? [];
    if (values.length === 0) {
      continue;
    }
    if (!newest.has(place)) {
      newest.set(place, place.textContent);
    }
    const at = values.length - 1 - back;
    place.textContent = at < 0 ? "–" : WORDS[unit](values[at]);
  }
}

let pointed = null;
document.addEventListener("pointermove", (event) => {
  const plot = event.target instanceof Element ? event.target.closest(".plot") : null;
  const chart = plot?.closest("[data-chart]") ?? null;
  if (pointed && pointed !== chart) {
    leave(pointed);
  }
  pointed = chart;
  if (chart) {
    point(chart, plot, event);
  }
});
